from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.actor_fakes import Rig


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A store; afterwards it is looked at whether an actor failed that was not meant to."""
    made = Rig(tmp_path / "state")
    for module in ("actor", "requests"):
        monkeypatch.setattr(f"runtime_actors.channel.{module}.time", made.monotonic)
    yield made
    made.close()
    planted = {"gave_up": made.gave_up, "unusable": made.unusable}
    assert planted == {"gave_up": [], "unusable": []}
    assert [aside for aside in made.aside if "planted" not in aside.error] == []
