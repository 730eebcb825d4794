"""What may happen often is audited one by one until it becomes a flood; then one entry says how many were not.

Refusals, the progress of a call, and the changes of a surface.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

FloodKey = tuple[str, str]
"""Who is refused and with what code; or which call or surface, and its event."""

PROGRESSED: Final = "call.progressed"
SURFACE_CHANGED: Final = "surface.changed"
PLAIN: Final = 20
"""Of one key within a period: they get an entry each."""
PERIOD_S: Final = 10.0
MAX_KEYS: Final = 4096


@dataclass(slots=True)
class _Count:
    since_s: float
    seen: int = 0


@dataclass(slots=True)
class FloodMeter:
    """What happened lately. Only counts are lost when it is."""

    counts: dict[FloodKey, _Count] = field(default_factory=dict)
    _counted: list[_Count] = field(default_factory=list)
    """Since `keep`: what `undo` takes back."""

    def keep(self) -> None:
        """What was counted so far counts for good."""
        self._counted.clear()

    def undo(self) -> None:
        """Nothing that was counted since `keep` has happened."""
        for count in self._counted:
            count.seen -= 1
        self._counted.clear()

    def wants_entry(self, key: FloodKey, now_s: float) -> bool:
        """Count one; True if it gets an entry of its own."""
        if key not in self.counts and len(self.counts) >= MAX_KEYS:
            key = ("*", key[1])
        count = self.counts.setdefault(key, _Count(now_s))
        count.seen += 1
        self._counted.append(count)
        return count.seen <= PLAIN

    def over(self, now_s: float) -> list[tuple[FloodKey, int]]:
        """Forget periods that are over; those that were floods, with the number that got no entry."""
        ended = [key for key, count in self.counts.items() if now_s - count.since_s >= PERIOD_S]
        floods = [(key, self.counts[key].seen - PLAIN) for key in ended if self.counts[key].seen > PLAIN]
        for key in ended:
            del self.counts[key]
        return floods
