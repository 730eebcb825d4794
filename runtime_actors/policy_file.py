"""Where policy is kept: one file in the state folder, written by a person and read by the daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from runtime_actors.errors import PolicyRefused
from runtime_actors.rules.policy import NO_RULES, Policy
from runtime_actors.rules.policy_text import MAX_BYTES, parse

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "policy.toml"


def of_state(state: Path) -> Policy:
    """What stands in a state folder; no rules if there is no file.

    Raises:
        PolicyRefused: It cannot be read, or says something that no rule can.

    """
    path = state / NAME
    return read(path) if path.exists() or path.is_symlink() else NO_RULES


def read(path: Path) -> Policy:
    """One file.

    Raises:
        PolicyRefused: With everything that is wrong with it.

    """
    try:
        if not path.is_file():  # a pipe would be waited for
            raise PolicyRefused(str(path), ["it is missing, or no regular file"])
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PolicyRefused(str(path), [f"it cannot be read: {error.strerror}"]) from None
    found = parse(text)
    if isinstance(found, Policy):
        return found
    raise PolicyRefused(str(path), [str(fault) for fault in found])
