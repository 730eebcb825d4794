"""What strikes where: named by the user, or drawn from a seed, so that the same seed draws the same again."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from runtime_actors.contract.base import JsonObject


class Kind(StrEnum):
    """What can happen to a runtime."""

    KILL_WORKER = "kill-worker"
    KILL_DAEMON = "kill-daemon"
    STOP_WORKER = "stop-worker"
    """SIGSTOP, and SIGCONT a little later."""
    CLOSE_CHANNEL = "close-channel"
    """The connection of a worker ends, as if its other side had died."""
    FULL_DISK = "full-disk"
    """For a moment no file of the daemon may grow (RLIMIT_FSIZE), as on a full disk or under a quota."""
    CLOCK = "clock"
    """For a moment the wall clock is another, or the machine seems to have slept for 2 s."""
    DROP_OUTCOME = "drop-outcome"
    """Nobody is told what came of a command. Only at points that end in `:outcome`, and nothing else strikes there."""


FAULTS: Final = tuple(kind for kind in Kind if kind is not Kind.DROP_OUTCOME)
"""What may be asked for."""
DEADLY: Final = frozenset({Kind.KILL_WORKER, Kind.CLOSE_CHANNEL})
"""Kinds that count as a crash of the calls that run: after three of them a call fails with `app_crashed`."""
BEARABLE: Final = 2
"""Crashes that every call must survive."""
STEP: Final = "step"
OBSERVED: Final = (STEP, "call.running", "progress", "result")
"""Points that are seen from outside: a step of the scenario begins, a call runs, an agent is told."""
FAILPOINTS: Final = ("before", "after", "outcome")
OFTEN: Final = ("admit", "acknowledge", "report_progress", "finish", "settle_deliveries")
"""Commands that each call passes: points are drawn from them ..."""
WITH_PEOPLE: Final = (
    "request_interaction",
    "present",
    "answer",
    "act",
    "open_surface",
    "update_surface",
    "bridge",
    "put_persons_text",
    "send_text",
    "suspend",
)
"""... as often from these, if a person takes part ..."""
SELDOM: Final = ("begin_attempt", "note_spawned", "attach")
"""... and from these, which each process passes once."""

_MOST_FAULTS: Final = (1, 1, 2, 2, 3)
_HITS: Final = (1, 1, 1, 2, 3)
_WHERE: Final = ("often", "often", "often", "seldom", "observed", "observed", "step", "step")
_LATEST_S: Final = 0.15
_LASTS_S: Final = (0.05, 0.6)
_POINT: Final = re.compile(r"(?P<name>[a-z_.]+(?::(?:before|after|outcome))?)(?::(?P<hit>[1-9][0-9]{0,5}))?")


class PointInvalid(ValueError):
    """What was named is no point; the message says which there are."""


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a run: the `hit`-th time that `name` is passed. Failpoints are counted anew in each daemon."""

    name: str
    hit: int = 1

    def __str__(self) -> str:
        return self.name if self.hit == 1 else f"{self.name}:{self.hit}"

    @property
    def is_failpoint(self) -> bool:
        return ":" in self.name

    @property
    def is_exact(self) -> bool:
        """Everything waits there until it was struck."""
        return self.is_failpoint or self.name == STEP

    @property
    def drops(self) -> bool:
        return self.name.endswith(":outcome")


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned fault."""

    kind: Kind
    point: Point
    delay_s: float = 0.0
    """After a point that is only seen from outside; short ones are likelier."""
    lasts_s: float = 0.3
    """Until it is undone, for kinds that can be."""
    chance: float = 0.0
    """From 0 to below 1: which worker, how much room on the disk, which time."""

    def __str__(self) -> str:
        return f"{self.kind} at {self.point}"

    def to_json(self) -> JsonObject:
        numbers = {name: round(getattr(self, name), 3) for name in ("delay_s", "lasts_s", "chance")}
        return {"kind": str(self.kind), "point": str(self.point), **numbers}


def read_point(text: str, commands: Collection[str]) -> Point:
    """`COMMAND:before`, `COMMAND:after`, `COMMAND:outcome` or one of `OBSERVED`, each perhaps with `:HIT` behind it.

    Raises:
        PointInvalid: It is none, or there is no such command.

    """
    match = _POINT.fullmatch(text)
    name = match["name"] if match else text
    command, _, place = name.partition(":")
    if match is not None and not place and name in OBSERVED:
        return Point(name, int(match["hit"] or 1))
    if match is None or not place:
        raise PointInvalid(
            f"{text!r} is no point; write {', '.join(OBSERVED)} or COMMAND:{'|'.join(FAILPOINTS)},"
            " and :HIT behind it for a later passing than the first"
        )
    if command not in commands:
        raise PointInvalid(f"there is no command {command!r}; there are {', '.join(sorted(commands))}")
    return Point(name, int(match["hit"] or 1))


def planned(
    seed: int,
    kinds: Sequence[Kind],
    at: Sequence[Point],
    *,
    steps: int,
    kills: int = 0,
    people: bool = False,
) -> tuple[Fault, ...]:
    """The faults of one run: one at each point of `at`, or without any, one to three at points that are drawn.

    A scenario of so many `steps` that kills workers `kills` times itself leaves less to be drawn: no call may meet more
    crashes than it must survive. `people` says whether a person takes part.
    """
    chance = random.Random(f"{seed}/chaos")  # noqa: S311 - to be drawn again
    points = list(at) or [_drawn(chance, steps, people=people) for _ in range(chance.choice(_MOST_FAULTS))]
    faults: list[Fault] = []
    for point in points:
        allowed = list(kinds)
        deaths = kills + sum(one.kind in DEADLY for one in faults)
        if not at and deaths >= max(BEARABLE, kills + 1):
            allowed = [kind for kind in kinds if kind not in DEADLY]
        drawn = (chance.random(), _LATEST_S * chance.random() ** 3, chance.uniform(*_LASTS_S), chance.random())
        if point.drops:
            faults.append(Fault(Kind.DROP_OUTCOME, point))
        elif allowed:
            kind = allowed[int(drawn[0] * len(allowed))]
            faults.append(Fault(kind, point, 0.0 if point.is_exact else drawn[1], drawn[2], drawn[3]))
    return tuple(faults)


def _drawn(chance: random.Random, steps: int, *, people: bool) -> Point:
    """Half of the points lie in the store, where nothing is left to chance; the others are seen from outside."""
    place = chance.choice(FAILPOINTS[:2])
    match chance.choice(_WHERE):
        case "often":
            commands = chance.choice((OFTEN, WITH_PEOPLE)) if people else OFTEN
            return Point(f"{chance.choice(commands)}:{place}", chance.choice(_HITS))
        case "seldom":
            return Point(f"{chance.choice(SELDOM)}:{place}")
        case "observed":
            return Point(chance.choice(OBSERVED[1:]), chance.choice(_HITS))
        case _:
            return Point(STEP, chance.randint(1, max(1, steps)))
