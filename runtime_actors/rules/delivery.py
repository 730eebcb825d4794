"""Credit: how far one side may run ahead of the other's acknowledgements. For inboxes and outboxes alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW: Final = 64
"""Messages, or requests, in flight in one direction of a worker channel."""
AGENT_WINDOW: Final = 256
"""Deliveries in flight to one attachment of an agent."""
WINDOW_BYTES: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class Feed:
    """What was sent to one peer of an ordered, numbered log and is not settled yet.

    New entries are offered as they are committed. One that finds no room, or that does not follow the last one, puts
    the feed behind: from then on entries are read from the store, a page at a time, until it has caught up. So a slow
    peer costs no memory, and an offer that got lost is noticed.
    """

    window: int = WINDOW
    window_bytes: int = WINDOW_BYTES
    through: int = 0
    """Every number up to this one was sent, or needs no sending."""
    behind: bool = True
    reading: bool = False
    """A page was asked for and has not come yet."""
    in_flight: dict[int, int] = field(default_factory=dict)
    """Number to size."""
    bytes_in_flight: int = 0

    def offer(self, number: int, size: int) -> bool:
        """Whether to send the new entry `number` now; if so it counts as sent."""
        if number <= self.through:
            return False  # a page that was read later had it
        if self.behind or number != self.through + 1 or not self._has_room(size):
            self.behind = True
            return False
        self._sent(number, size)
        self.through = number
        return True

    def skip(self, number: int) -> None:
        """The new entry `number` is not for this peer."""
        if not self.behind and number == self.through + 1:
            self.through = number

    def take(self, page: Sequence[tuple[int, int]], through: int, *, complete: bool) -> list[int]:
        """Which numbers of a page of (number, size), read in order from the store, to send now.

        Args:
            page: Unsettled entries, lowest number first.
            through: The highest number that existed when the page was read.
            complete: Nothing unsettled lies beyond the page.

        """
        self.reading = False
        chosen: list[int] = []
        for number, size in page:
            if number in self.in_flight:
                continue
            if not self._has_room(size):
                self.behind = True
                return chosen
            self._sent(number, size)
            chosen.append(number)
        self.behind = not complete
        if complete:
            self.through = max(self.through, through)
        return chosen

    def keep(self, still: frozenset[int], asked: frozenset[int]) -> None:
        """Of those in flight that were `asked` about, only these are not settled."""
        for number in asked - still:
            self.settle(number)

    def settle(self, number: int) -> None:
        """`number` was acknowledged or withdrawn."""
        self.bytes_in_flight -= self.in_flight.pop(number, 0)

    def wants_page(self) -> bool:
        """Whether to read from the store now: behind, and half of the window is free, so that a page is worth it."""
        # Half of both: a window full of few large entries would have the same page read again and again.
        half_free = len(self.in_flight) <= self.window // 2 and self.bytes_in_flight <= self.window_bytes // 2
        return self.behind and not self.reading and half_free

    def restart(self) -> None:
        """The peer may have lost everything that is not settled."""
        self.in_flight.clear()
        self.bytes_in_flight = 0
        self.behind = True
        self.reading = False

    def _sent(self, number: int, size: int) -> None:
        self.in_flight[number] = size
        self.bytes_in_flight += size

    def _has_room(self, size: int) -> bool:
        if not self.in_flight:
            return True  # one entry always fits, however big
        return len(self.in_flight) < self.window and self.bytes_in_flight + size <= self.window_bytes
