"""How far a worker is confined, as measured, and whether that is enough."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Level(StrEnum):
    """From the strongest to none."""

    STRONG = "strong"
    """Sealed, with a network namespace, and a uid of its own or a mount namespace."""
    SEALED = "sealed"
    """Landlock and both seccomp filters."""
    PARTIAL = "partial"
    """Some of it."""
    PROCESS = "process"
    """A process of its own and ordinary limits: crashes are contained, a hostile MiniApp is not."""


_WEAKEST_FIRST: Final = (Level.PROCESS, Level.PARTIAL, Level.SEALED, Level.STRONG)


def meets(level: Level, minimum: Level) -> bool:
    return _WEAKEST_FIRST.index(level) >= _WEAKEST_FIRST.index(minimum)
