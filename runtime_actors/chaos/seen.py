"""What is known of a run while it is played, but for what clients wrote down."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime_actors.chaos.plan import Fault, Kind
from runtime_actors.checker import Violation


class ChaosFailed(Exception):
    """It cannot be played here: says why, for a person."""

    def __init__(self, why: str, code: int | None = None) -> None:
        super().__init__(why)
        self.code = code
        """Of the first daemon, if it ended instead of serving."""


@dataclass(slots=True)
class Life:
    """One daemon, in CLOCK_MONOTONIC seconds."""

    pid: int
    began: float
    served: float | None = None
    ended: float | None = None
    code: int | None = None


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault that happened."""

    fault: Fault
    at: float
    target: str


@dataclass(frozen=True, slots=True)
class Setting:
    """What does not change from run to run."""

    apps: tuple[Path, ...]
    min_isolation: str


@dataclass(slots=True)
class Seen:
    """What the world knows of a run."""

    lives: list[Life] = field(default_factory=list)
    struck: list[Struck] = field(default_factory=list)
    hit: set[str] = field(default_factory=set)
    """Points that were passed as often as planned, by name and hit, whether or not there was anybody to strike."""
    words: list[dict[str, Any]] = field(default_factory=list)
    """The last words of apps about calls, as they were committed."""
    commits: list[tuple[int, float]] = field(default_factory=list)
    """The newest entry of the audit log, and when it was committed."""
    pids: dict[str, int] = field(default_factory=dict)
    """By attempt."""
    violations: list[Violation] = field(default_factory=list)

    def committed_at(self, seq: int) -> float:
        """When an entry of the audit log was: its own time is the wall clock's, which may jump. Never, if unknown."""
        found = bisect_left(self.commits, (seq, 0.0))
        return self.commits[found][1] if found < len(self.commits) else math.inf

    def life_ends_after(self, at: float) -> float:
        """When the daemon ended that was there then."""
        return min((life.ended for life in self.lives if life.ended is not None and life.ended > at), default=math.inf)


def kinds_struck(struck: Sequence[Struck]) -> Counter[Kind]:
    """How often each kind happened."""
    return Counter(one.fault.kind for one in struck)
