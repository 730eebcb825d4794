"""What is known about a run, as it was written down, and the parts of it that can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Row = Mapping[str, Any]
"""A JSON object: a line of a history, an audit entry, or a line of a listing."""

LISTINGS: Final = ("status", "calls", "inbox", "outbox", "ps", "focus")
"""In this order: all are of one moment if `status` names the same end of the log when it is read again at last."""
PEOPLE: Final = ("interactions", "surfaces", "grants")
"""Listings of what is open between apps and people: looked at where they were read."""


class Unreadable(Exception):
    """The evidence itself is not as docs/history.md says: nothing can be concluded from it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known about a run."""

    history: Sequence[Row]
    """What all clients wrote, in any order; `at` (CLOCK_MONOTONIC of one machine, seconds) orders it."""
    audit: Sequence[Row]
    """The audit log from its first entry, as the listing of that name shows it."""
    listings: Mapping[str, Sequence[Row]]
    """Of `LISTINGS`, and of `PEOPLE` if they are known, read when the run had drained."""
    once: frozenset[str] = frozenset()
    """Tools that must not be given twice (`on_interruption: fail`)."""
    echo: str | None = None
    """A field that every completed call's result repeats from its input, if the run's apps do that: it proves that the
    work was done, because no runtime could guess it."""
