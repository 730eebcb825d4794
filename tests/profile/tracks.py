"""What is noted while one call travels: when, where, and what, on the clock that all processes share."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple


class Mark(NamedTuple):
    """Something that happened."""

    at_ns: int
    """CLOCK_MONOTONIC."""
    lane: str
    """Who did it: an actor, the socket thread, the worker, the agent."""
    what: str


noted: list[Mark] = []
"""Of this process. Appending is atomic, so all threads use the one list."""


def note(what: str, lane: str | None = None) -> None:
    """Note that this happened now; on this thread's lane, if no other is named."""
    noted.append(Mark(time.monotonic_ns(), lane or _lane(), what))


def _lane() -> str:
    """An actor's thread is named by pykka: `StoreActor-0`."""
    return threading.current_thread().name.partition("Actor")[0].lower()
