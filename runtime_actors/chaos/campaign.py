"""Many runs of one scenario, and for what breaks the fewest faults that still break it."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from runtime_actors.chaos.lanes import OnWorld, in_order
from runtime_actors.chaos.plan import DEADLY, Fault, Kind, Point, planned
from runtime_actors.chaos.run import Played, play
from runtime_actors.chaos.seen import ChaosFailed, Setting, kinds_struck
from runtime_actors.contract.base import JsonObject
from runtime_actors.errors import ExitCode
from runtime_actors.simulator import Step
from runtime_actors.simulator.steps import KillStep, PersonStep

SEALED: Final = "sealed"
UNCONFINED: Final = "process"
"""The minimum of isolation where that cannot be had."""
_TRIES: Final = 8
"""Runs that are spent on one violation."""
_SHOWN: Final = 20
"""Violations of a run that are told one by one."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be played."""

    steps: tuple[Step, ...]
    apps: tuple[Path, ...]
    kinds: tuple[Kind, ...]
    at: tuple[Point, ...] = ()
    seed: int = 0
    """Of the first run; each further one has the next."""
    runs: int = 20
    jobs: int = 1
    """So many runs at a time."""

    def faults(self, seed: int) -> tuple[Fault, ...]:
        """The same seed plans the same."""
        kills = sum(isinstance(step, KillStep) and not step.daemon for step in self.steps)
        people = any(isinstance(step, PersonStep) for step in self.steps)
        return planned(seed, self.kinds, self.at, steps=len(self.steps), kills=kills, people=people)


@dataclass(slots=True)
class Run:
    """One run, and if it broke a rule, the same with the fewest faults that broke one of the same rules."""

    number: int
    played: Played
    demanded: bool
    """Whether its points were named by the user, who wants them hit."""
    min_isolation: str
    shortest: Played | None = None
    drawn: str = ""
    """Its picture, once the evidence for it is forgotten."""

    @property
    def never_hit(self) -> list[str]:
        """Why the run fails although no rule broke."""
        return [self.played.why_missed(one) for one in self.played.missed] if self.demanded else []

    @property
    def ok(self) -> bool:
        return not self.played.violations and not self.never_hit

    def to_json(self) -> JsonObject:
        """A line of `--json`."""
        played = self.played
        row: JsonObject = {
            "run": self.number,
            "seed": played.seed,
            "ok": self.ok,
            "faults": [one.to_json() for one in played.faults],
            "struck": [
                {"fault": str(one.fault), "at_s": round(one.at - played.began, 3), "target": one.target}
                for one in played.seen.struck
            ],
            "missed": [played.why_missed(one) for one in played.missed],
            "never_hit": self.never_hit,
            "rules": played.rules,
            "violations": _violations(played),
            "figures": played.figures,
            "took_s": round(played.ended - played.began, 3),
        }
        if self.shortest is not None:
            faults = [str(one) for one in self.shortest.faults]
            row["shortest"] = {"faults": faults, "violations": _violations(self.shortest)}
        return row


@dataclass(slots=True)
class Total:
    """All runs so far."""

    runs: list[Run] = field(default_factory=list)
    struck: Counter[Kind] = field(default_factory=Counter)
    planned: Counter[Kind] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)

    def add(self, run: Run) -> None:
        self.runs.append(run)
        self.struck += kinds_struck(run.played.seen.struck)
        self.planned.update(one.kind for one in run.played.faults)
        self.rules.update(run.played.rules)
        self.figures.update(run.played.figures)

    @property
    def proves_nothing(self) -> bool:
        """Faults were planned, and none of them struck."""
        return bool(self.planned) and not self.struck

    @property
    def ok(self) -> bool:
        return all(run.ok for run in self.runs) and not self.proves_nothing


def _violations(played: Played) -> list[JsonObject]:
    return [
        {
            "rule": one.rule,
            "subject": one.subject,
            "message": one.message,
            "shortest": [dict(row) for row in one.shortest],
        }
        for one in played.violations[:_SHOWN]
    ]


def campaign(wanted: Wanted, root: Path) -> Generator[Run]:
    """Play all runs, each in a folder of its own below `root`. What breaks for the first time is made shorter.

    To be closed by whoever does not want the rest.

    Raises:
        ChaosFailed: No daemon can be had here.

    """
    setting, first = _first(wanted, root)

    def one(number: int, on_world: OnWorld) -> Played:
        return _played(wanted, setting, number, root, on_world)

    others = in_order(range(1, wanted.runs), wanted.jobs, one)
    with contextlib.closing(others):
        yield from _judged(wanted, setting, itertools.chain([first], others), root)


def _first(wanted: Wanted, root: Path) -> tuple[Setting, Played]:
    """The first run, and which isolation can be had."""
    setting = Setting(wanted.apps, SEALED)
    try:
        return setting, _played(wanted, setting, 0, root)
    except ChaosFailed as failed:
        if failed.code != ExitCode.ISOLATION:
            raise
    setting = Setting(wanted.apps, UNCONFINED)
    return setting, _played(wanted, setting, 0, root)


def _played(wanted: Wanted, setting: Setting, number: int, root: Path, on_world: OnWorld | None = None) -> Played:
    seed = wanted.seed + number
    folder = root / f"r{number}"
    return play(wanted.steps, setting, wanted.faults(seed), seed=seed, folder=folder, on_world=on_world)


def _judged(wanted: Wanted, setting: Setting, runs: Iterable[Played], root: Path) -> Iterator[Run]:
    known: set[str] = set()
    for number, played in enumerate(runs):
        run = Run(number + 1, played, demanded=bool(wanted.at), min_isolation=setting.min_isolation)
        if set(played.rules) - known:
            known |= set(played.rules)
            run.shortest = _shortened(wanted, setting, played, root)
        yield run


def _shortened(wanted: Wanted, setting: Setting, broken: Played, root: Path) -> Played:
    """The same seed with fewer faults, the fewest first: the first that breaks one of the same rules."""
    subsets: Iterator[Sequence[Fault]] = itertools.chain.from_iterable(
        itertools.combinations(broken.faults, size) for size in range(len(broken.faults))
    )
    for number, faults in enumerate(itertools.islice(subsets, _TRIES)):
        folder = root / f"s{broken.seed}-{number}"
        played = play(wanted.steps, setting, faults, seed=broken.seed, folder=folder)
        if set(played.rules) & set(broken.rules):
            return played
    return broken


def exceeds_what_calls_bear(wanted: Wanted) -> bool:
    """Whether the points named can kill the workers of one call more often than it survives."""
    kills = sum(isinstance(step, KillStep) and not step.daemon for step in wanted.steps)
    deadly = len(wanted.at) if set(wanted.kinds) & DEADLY else 0
    return kills + deadly > 2  # noqa: PLR2004 - the third crash ends a call (docs/promises.md)
