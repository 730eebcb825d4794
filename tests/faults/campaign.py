"""Every command, failed on purpose at every point: what happens, and what must hold afterwards."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runtime_actors import checker
from tests.e2e.agent import History
from tests.e2e.daemon import TooLong
from tests.faults.matrix import AT_BOOT, EARLY, ONCE, Cell, all_commands, columns, why_not
from tests.faults.rounds import Round
from tests.faults.world import APPS, OPTIONS, World, copy

STARTS: Final = AT_BOOT | {"expire_due"}
"""A start waits for their outcome."""
NATIVE: Final = frozenset({"kill-daemon", "kill-zygote", "kill-worker", "cut-worker", "drop"})
"""What failpoints do by themselves; for all else the daemon stands still there until the nemesis has done it."""
ROUNDS: Final = 4
"""At most: faults that did not strike get another chance."""
_LATER: Final = 8
"""The passing at which some worker lives, whatever the command."""
EXPECTED_ERRORS: Final = (
    "actor=supervisor kind=Listening",  # the spoiled instance is to be forked
    "a worker could not be forked",  # the zygote is gone, and its end not yet known
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned fault."""

    command: str
    point: str
    action: str
    hit: int = 1

    @property
    def planted(self) -> str:
        """What the failpoint does."""
        return self.action if self.action in NATIVE else "stop-daemon"

    @property
    def cell(self) -> Cell | None:
        """In the matrix; a dropped outcome has no place there."""
        kind, _, process = self.action.partition("-")
        return Cell(process, kind, self.command) if process else None  # type: ignore[arg-type] # our own words

    def option(self) -> str:
        return f"--failpoint={self.command}:{self.point}:{self.planted}@{self.hit}"

    def __str__(self) -> str:
        return f"{self.command}:{self.point}:{self.action}@{self.hit}"


@dataclass(frozen=True, slots=True)
class Case:
    """Faults planted in the same run: `lives[n]` in the n-th daemon of it."""

    name: str
    lives: tuple[tuple[Fault, ...], ...]
    kills: int = 0
    """Daemons that are killed between two rounds, to come to the next life."""

    @property
    def peers(self) -> frozenset[str]:
        """Who has to be a process of its own, to be struck."""
        return frozenset(one.cell.process for one in self.faults if one.cell) & {"agent", "host"}

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(itertools.chain.from_iterable(self.lives))


def cases(command: str, choose: random.Random | None = None) -> Iterator[Case]:
    """All faults of a command, as few runs as they fit in; `choose` varies at which passing they strike."""

    def fault(point: str, action: str) -> Fault:
        latest = 1 if choose is None or command in AT_BOOT | ONCE else choose.choice((1, 1, 2, 3))
        return Fault(command, point, action, latest)

    before, after = fault("before", "kill-daemon"), fault("after", "kill-daemon")
    yield Case(f"{command}-daemon", ((before,), (after,)))
    yield Case(f"{command}-zygote-worker", ((fault("before", "kill-zygote"), fault("after", "kill-worker")),))
    yield Case(f"{command}-worker-zygote", ((fault("before", "kill-worker"), fault("after", "kill-zygote")),))
    yield Case(f"{command}-drop", ((fault("outcome", "drop"),),))


def crowds(choose: random.Random) -> Iterator[Case]:
    """All faults of all commands, several commands in a run: what one fault left half done, the next one meets."""
    singles = {command: list(cases(command, choose)) for command in all_commands()}
    order = sorted(singles, key=lambda _: choose.random())
    yield from _together(singles, order, {"daemon": 3, "zygote-worker": 4, "worker-zygote": 4, "drop": 4})


def short_form() -> Iterator[Case]:
    """Every fault once, at the first passing, in as few runs as they fit in."""
    singles = {command: list(cases(command)) for command in all_commands()}
    yield from _together(singles, list(singles), {"daemon": 6, "zygote-worker": 15, "worker-zygote": 15, "drop": 12})
    yield from sieges(all_commands())


def _together(singles: Mapping[str, list[Case]], order: Sequence[str], sizes: Mapping[str, int]) -> Iterator[Case]:
    for kind, together in sizes.items():
        alone = set(ONCE)  # others would take its occasion
        if kind == "drop":
            alone |= STARTS
        for command in order:
            if command in alone:
                yield _case(singles[command], kind)
        rest = [_case(singles[command], kind) for command in order if command not in alone]
        for at in range(0, len(rest), together):
            yield _crowd(kind, rest[at : at + together])


def _case(of_command: list[Case], kind: str) -> Case:
    return next(case for case in of_command if case.name.endswith(f"-{kind}"))


def _crowd(kind: str, crowd: list[Case]) -> Case:
    name = "+".join(case.name.removesuffix(f"-{kind}") for case in crowd) + f"-{kind}"
    if kind == "daemon":  # a death each
        return Case(name, tuple(itertools.chain.from_iterable(case.lives for case in crowd)))
    return Case(name, (tuple(itertools.chain.from_iterable(case.faults for case in crowd)),))


def sieges(commands: Sequence[str], choose: random.Random | None = None) -> Iterator[Case]:
    """A column of the matrix each: everything that happens to one process in one way, at the commit of each command.

    The second daemon is for what a daemon does before it serves; those who are struck then have lived on.
    """
    for number, (process, kind) in enumerate(columns()):
        wanted = [command for command in commands if why_not(Cell(process, kind, command)) is None]
        lives: tuple[list[Fault], list[Fault]] = ([], [])
        for command in wanted:
            point = ("before", "after")[number % 2] if choose is None else choose.choice(("before", "after"))
            hit = _LATER if process == "worker" and command in EARLY else 1
            lives[command in AT_BOOT].append(Fault(command, point, f"{kind}-{process}", hit))
        yield Case(f"{process}-{kind}", tuple(map(tuple, lives)), kills=1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case."""

    violations: tuple[str, ...]
    missed: tuple[Fault, ...]
    """Faults that never struck."""
    figures: dict[str, int]
    deaths: int
    hit: frozenset[Cell] = frozenset()
    """Cells of the matrix whose fault struck."""


def run(case: Case, template: Path, history: History, state: Path, seed: int = 0) -> Outcome:
    """Play the rounds on a copy of the template, with the faults planted, until all has drained."""
    copy(template, state)
    choose = random.Random(seed)  # noqa: S311 - load and timing
    world = World(state, apps=APPS, options=OPTIONS)
    world.next_options = [tuple(fault.option() for fault in life) for life in case.lives]
    dropped = frozenset(fault.command for fault in case.faults if fault.action == "drop")
    world.drops = dropped & STARTS
    world.strikes = {(one.command, one.point): one.action for one in case.faults if one.action not in NATIVE}
    try:
        world.begin(case.peers)
        _play(world, case, history, choose)
        world.finish()
        faults = world.violations() + outcome_faults(world)
        figures = checker.figures(world.evidence())
        left = missed(world, case)
        hit = frozenset(one.cell for one in case.faults if one.cell is not None and one not in left)
        return Outcome(tuple(faults), left, figures, world.deaths, hit)
    except TooLong as late:
        raise TooLong(f"{late}\n{world.describe()}") from late
    finally:
        world.close()


def _play(world: World, case: Case, history: History, choose: random.Random) -> None:
    agent = world.agent()
    agent.adopt(history)
    for number in range(1, ROUNDS + 1):
        played = Round(world, agent, number, choose)
        played.play()
        if "suspend" in {fault.command for fault in case.faults}:
            played.rest()
        if number >= len(case.lives) - case.kills and not missed(world, case):
            return
        if number <= case.kills:
            held = agent.invoke("probe.hold", "held", conversation=f"held{number}")
            agent.until_running(held)
            world.next_options = [tuple(fault.option() for fault in missed(world, case))]
            world.daemon.kill()
            agent.cancel(held)


def missed(world: World, case: Case) -> tuple[Fault, ...]:
    return tuple(one for one in case.faults if not _has_struck(world, one))


def _has_struck(world: World, fault: Fault) -> bool:
    if fault.action in NATIVE:
        return world.daemon.passed(fault.command, fault.point, fault.action) > 0
    return (fault.command, fault.point) in world.nemesis.struck


def outcome_faults(world: World) -> list[str]:
    """What the daemon itself called an error, except the record that was spoiled on purpose."""
    lines = [line for line in world.daemon.said().splitlines() if " error " in line]
    return [line for line in lines if not any(mark in line for mark in EXPECTED_ERRORS)]


def describe(case: Case, seed: int, outcome: Outcome | TooLong) -> str:
    """One line for a failure: what, and how to see it again."""
    again = f"scripts/crash --only {case.name} --seed {seed}"
    if isinstance(outcome, TooLong):
        return f"{case.name}: {outcome} (again: {again})"
    first = "; ".join(outcome.violations[:5])
    return f"{case.name}: {first} (again: {again})"
