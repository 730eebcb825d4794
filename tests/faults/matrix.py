"""The crash matrix: whom something happens to, what, and at the commit of which command; and what is left out, and why.

A cell is hit when its fault struck in a run in which every promise was kept.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import runtime_actors.daemon  # noqa: F401 - loads every command
from runtime_actors.commands.command import COMMANDS

Kind = Literal["kill", "stop", "cut"]

PROCESSES: Final = ("worker", "zygote", "daemon", "agent", "host")
KINDS: Final[tuple[Kind, ...]] = ("kill", "stop", "cut")
AT_BOOT: Final = frozenset(
    {"note_policy", "retire_missing_apps", "recover", "recover_call", "fail_unreadable", "expire_interactions"}
)
"""Commands that run before anybody is served."""
BEFORE_ANYBODY: Final = AT_BOOT - {"expire_interactions"}
"""Of these, those that run at no other time: no worker lives."""
EARLY: Final = frozenset({"begin_attempt", "note_spawned", "attach", "expire_due", "expire_interactions"})
"""Commands that are passed before any worker lives, and often afterwards."""
INSIDE: Final = frozenset({"give_up_call"})
"""Run inside other commands only, so no failpoint of their name is ever passed."""
UNREACHED: Final = frozenset({"wake_debtor"})
"""It mends what nothing brings about any more: whatever puts something into an inbox wakes its owner in the same
transaction, and so does the boot. `tests/commands/test_suspension.py` runs it."""
ONCE: Final = frozenset({"set_aside"})
"""Commands that happen once in a run: their faults strike at the first passing."""


class Cell(NamedTuple):
    """One cell."""

    process: str
    kind: Kind
    command: str


def all_commands() -> list[str]:
    """Those that a daemon can be made to run by itself."""
    return sorted(COMMANDS.keys() - INSIDE - UNREACHED)


def why_not(cell: Cell) -> str | None:
    """Why a cell is left out; None if it must be hit."""
    match cell:
        case Cell("daemon", "cut", _):
            return "it has no channel of its own: each of its channels is somebody else's, whose cells those are"
        case Cell("zygote", "cut", _):
            return "its channel is a pair of descriptors that nobody else holds: it ends with one of the two"
        case Cell("worker", "stop" | "cut", command) if command in BEFORE_ANYBODY:
            return "no worker lives when it runs"
        case _:
            return None


def promised() -> set[Cell]:
    """All cells that must be hit."""
    every = {Cell(process, kind, command) for process in PROCESSES for kind in KINDS for command in all_commands()}
    return {cell for cell in every if why_not(cell) is None}


def columns() -> list[tuple[str, Kind]]:
    """Whom and what, as far as there is anything to hit, without what failpoints do by themselves."""
    found = [(process, kind) for process in PROCESSES for kind in KINDS]
    own = {("worker", "kill"), ("zygote", "kill"), ("daemon", "kill"), ("daemon", "cut"), ("zygote", "cut")}
    return [one for one in found if one not in own]
