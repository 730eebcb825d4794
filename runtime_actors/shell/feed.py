"""How far one host is with the events it is sent."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from runtime_actors.rules.delivery import WINDOW_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

WINDOW: Final = 64
"""Events sent ahead of their acknowledgement."""


@dataclass(slots=True)
class EventFeed:
    """What was sent to a host and is not acknowledged yet. All events are read from the store, a page at a time.

    Numbers have gaps, so that an event which got lost on the way could not be told from one that never was: what there
    is to send is always what the rows say.
    """

    through: int
    """Every event up to this one was sent, or is not for this host."""
    acknowledged: int
    newest: int = 0
    """There are events up to this one, as far as is known."""
    reading: bool = False
    """A page was asked for and has not come yet."""
    in_flight: deque[tuple[int, int]] = field(default_factory=deque)
    """Number and size, in order."""
    bytes_in_flight: int = 0

    @property
    def room(self) -> int:
        """How many events may be sent now; bytes count as well, but one event always fits."""
        return WINDOW - len(self.in_flight) if self.bytes_in_flight < WINDOW_BYTES else 0

    @property
    def room_bytes(self) -> int:
        """How much may be sent now."""
        return WINDOW_BYTES - self.bytes_in_flight

    def note(self, number: int) -> None:
        """There is an event of this number."""
        self.newest = max(self.newest, number)

    def wants_page(self) -> bool:
        """Whether there is something to read, and room for it."""
        return not self.reading and self.newest > self.through and self.room > 0

    def take(self, sent: Iterable[tuple[int, int]], through: int) -> None:
        """A page was sent: its events as (number, size), and how far it reached."""
        self.reading = False
        for number, size in sent:
            self.in_flight.append((number, size))
            self.bytes_in_flight += size
        self.through = max(self.through, through)

    def ack(self, number: int) -> None:
        """Every event up to this one was taken over; one that was not sent cannot be."""
        self.acknowledged = max(self.acknowledged, min(number, self.through))
        while self.in_flight and self.in_flight[0][0] <= number:
            self.bytes_in_flight -= self.in_flight.popleft()[1]

    def restart(self) -> None:
        """What was not acknowledged may not have been sent."""
        self.newest = max(self.newest, self.through)
        self.through = self.acknowledged
        self.in_flight.clear()
        self.bytes_in_flight = 0
        self.reading = False
