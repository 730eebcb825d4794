"""The effects an actor is handed: other actors' mailboxes, the clock, and names for new things."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

M_contra = TypeVar("M_contra", contravariant=True)


class Mailbox(Protocol[M_contra]):
    """Where to leave messages of one kind. Never blocks, never raises for the receiver's faults."""

    def tell(self, message: M_contra) -> None:
        """Leave `message`."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One reading of the clocks."""

    wall: datetime
    """Aware, UTC."""
    boot_s: float
    """CLOCK_BOOTTIME in seconds: goes on during suspend and across restarts of the daemon."""
    boot_id: str
    """Names the boot of the machine that `boot_s` belongs to."""


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> Moment:
        """Read all clocks at once."""


class Ids(Protocol):
    """Where names for new records come from."""

    def new(self, prefix: str) -> str:
        """A name that was never given before, such as `ins-01hzy...`."""
