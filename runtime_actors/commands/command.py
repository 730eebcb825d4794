"""What makes a function a command: a name under which it is run, failed on purpose, and counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

C = TypeVar("C", bound="Callable[..., Any]")

COMMANDS: Final[dict[str, Callable[..., Any]]] = {}
"""Every command by name: the tests fail each of them at each point."""

GROWING: Final[set[str]] = set()
"""Commands that take on new work: refused while the disk is full."""


def command(*, growing: bool = False) -> Callable[[C], C]:
    """Register a rule that changes records. It runs inside the store's transaction and touches nothing else."""

    def register(rule: C) -> C:
        COMMANDS[rule.__name__] = rule
        if growing:
            GROWING.add(rule.__name__)
        return rule

    return register


@dataclass(frozen=True, slots=True)
class Nothing:
    """The argument of commands that need none."""


NOTHING: Final = Nothing()
