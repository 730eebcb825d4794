"""How many examples the models run: few for each change, many at night."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import settings

NIGHTLY: Final = "nightly"
_LONGER: Final = 10
"""What ten times as many stories take is some ten minutes on two cores."""


def is_night() -> bool:
    """Whether it runs with `--hypothesis-profile=nightly`: more examples, and others each time."""
    return settings.get_current_profile_name() == NIGHTLY


def examples(few: int, *, steps: int) -> settings:
    """So many stories of at most so many steps; at night more of them."""
    return settings(max_examples=few * (_LONGER if is_night() else 1), stateful_step_count=steps)


def limit() -> pytest.MarkDecorator:
    """What a busy machine may take at most."""
    return pytest.mark.timeout(4 * 3600 if is_night() else 600)
