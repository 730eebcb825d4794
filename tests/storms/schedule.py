"""What strikes when: drawn from a seed, so that the same seed draws the same again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a storm can do to a runtime."""

    KILL_DAEMON = "kill-daemon"
    KILL_WORKER = "kill-worker"
    KILL_ZYGOTE = "kill-zygote"
    KILL_AGENT = "kill-agent"
    STOP_DAEMON = "stop-daemon"
    STOP_WORKER = "stop-worker"
    STOP_ZYGOTE = "stop-zygote"
    CUT = "cut"
    """An agent's connection ends in the middle of what it carries."""
    DELAY = "delay"
    """An agent's connection carries nothing for a while."""
    HALF_CLOSE = "half-close"
    """One direction of an agent's connection ends; the other stays open for a while."""
    FULL_DISK = "full-disk"
    FILE_LIMIT = "file-limit"
    """No file of the daemon may grow beyond a size (RLIMIT_FSIZE), as under a quota."""
    CLOCK = "clock"
    """The wall clock jumps, or the machine seems to have slept."""
    DESCRIPTORS = "descriptors"
    """The daemon may open next to nothing more, and many connect."""


KILLS: Final = (Kind.KILL_DAEMON, Kind.KILL_WORKER, Kind.KILL_ZYGOTE, Kind.KILL_AGENT)

A_SECOND: Final = {
    Kind.KILL_DAEMON: 0.4,
    Kind.KILL_WORKER: 3.0,
    Kind.KILL_ZYGOTE: 0.25,  # more than 20 within 30 s are more than a daemon puts up with
    Kind.KILL_AGENT: 0.15,
    Kind.STOP_DAEMON: 0.12,
    Kind.STOP_WORKER: 0.3,
    Kind.STOP_ZYGOTE: 0.1,
    Kind.CUT: 0.5,
    Kind.DELAY: 0.2,
    Kind.HALF_CLOSE: 0.2,
    Kind.FULL_DISK: 0.1,
    Kind.FILE_LIMIT: 0.1,
    Kind.CLOCK: 0.2,
    Kind.DESCRIPTORS: 0.1,
}
"""How often each strikes."""

LEAST: Final = 2
"""How often each kind must strike in a storm, however short: one that never did proves nothing about it."""
_LONGEST_S: Final = 2.0
_SHORTEST_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Strike:
    """One planned fault."""

    at_s: float
    """Since the storm began."""
    kind: Kind
    lasts_s: float
    chance: float
    """From 0 to below 1: which of several targets, and how hard."""


def planned(seed: int, seconds: float, kinds: tuple[Kind, ...] = tuple(Kind)) -> list[Strike]:
    """Everything that will strike within so many seconds, in order."""
    chance = random.Random(f"{seed}/strikes")  # noqa: S311 - to be drawn again
    strikes = []
    for kind in kinds:
        for _ in range(max(LEAST, round(A_SECOND[kind] * seconds))):
            lasts_s = chance.uniform(_SHORTEST_S, _LONGEST_S)
            strikes.append(Strike(chance.uniform(0.0, seconds), kind, lasts_s, chance.random()))
    return sorted(strikes, key=lambda strike: strike.at_s)
