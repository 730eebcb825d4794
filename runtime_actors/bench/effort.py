"""How much is measured: in full, or quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Effort:
    """Counts of turns and of what happens in one."""

    turns: int
    calls: int
    """Durable calls, floors and calls of the peer in one turn."""
    flow_turns: int
    flow_calls: int
    """Calls in one turn of those in flight."""
    starts: int
    """Workers started for a first word, and as many killed."""
    idle: int
    """Instances alive when memory is looked at."""
    boots: int
    open_calls: int
    finished: tuple[int, ...]
    """Sizes of history; the first one is what the others are compared with."""
    paced_s: float
    """How long calls come at a fixed rate."""
    crowd: int
    """Conversations with three apps each."""
    wakes: int


FULL: Final = Effort(
    turns=20,
    calls=50,
    flow_turns=5,
    flow_calls=3000,
    starts=50,
    idle=50,
    boots=5,
    open_calls=10_000,
    finished=(1_000, 100_000, 1_000_000),
    paced_s=20.0,
    crowd=200,
    wakes=15,
)
QUICK: Final = Effort(
    turns=6,
    calls=25,
    flow_turns=2,
    flow_calls=500,
    starts=8,
    idle=8,
    boots=2,
    open_calls=1_000,
    finished=(1_000, 20_000),
    paced_s=2.0,
    crowd=30,
    wakes=3,
)
