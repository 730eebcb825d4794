"""Every command, failed on purpose at every point: what happens, and what must hold afterwards."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import runtime_actors.daemon  # noqa: F401 - loads every command
from runtime_actors import checker
from runtime_actors.commands.command import COMMANDS
from tests.e2e.agent import Agent, History
from tests.e2e.daemon import TooLong, wait_until
from tests.faults.world import SPOILED, World, copy

AT_BOOT: Final = frozenset({"retire_missing_apps", "recover", "recover_call"})
"""Commands that run before anybody is served."""
ONCE: Final = frozenset({"set_aside"})
"""Commands that happen once in a run: their faults strike at the first passing."""
INSIDE: Final = frozenset({"give_up_call"})
"""Run inside other commands only, so no failpoint of their name is ever passed."""
_PROGRESS_S: Final = 60.0
"""Six daemons may have to die on the way there."""
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

    def option(self) -> str:
        return f"--failpoint={self.command}:{self.point}:{self.action}@{self.hit}"

    def __str__(self) -> str:
        return f"{self.command}:{self.point}:{self.action}@{self.hit}"


@dataclass(frozen=True, slots=True)
class Case:
    """Faults planted in the same run: `lives[n]` in the n-th daemon of it."""

    name: str
    lives: tuple[tuple[Fault, ...], ...]

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
    for kind, together in (("daemon", 3), ("zygote-worker", 4), ("worker-zygote", 4), ("drop", 4)):
        alone = set(ONCE)  # others would take its occasion
        if kind == "drop":
            alone |= AT_BOOT | {"expire_due"}  # these stop a start
        commands = sorted(singles, key=lambda _: choose.random())
        for command in commands:
            if command in alone:
                yield _case(singles[command], kind)
        rest = [_case(singles[command], kind) for command in commands if command not in alone]
        for at in range(0, len(rest), together):
            yield _crowd(kind, rest[at : at + together])


def _case(of_command: list[Case], kind: str) -> Case:
    return next(case for case in of_command if case.name.endswith(f"-{kind}"))


def _crowd(kind: str, crowd: list[Case]) -> Case:
    name = "+".join(case.name.removesuffix(f"-{kind}") for case in crowd) + f"-{kind}"
    if kind == "daemon":  # a death each
        return Case(name, tuple(itertools.chain.from_iterable(case.lives for case in crowd)))
    return Case(name, (tuple(itertools.chain.from_iterable(case.faults for case in crowd)),))


def all_commands() -> list[str]:
    return sorted(COMMANDS.keys() - INSIDE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case."""

    violations: tuple[str, ...]
    missed: tuple[Fault, ...]
    """Faults that never struck."""
    figures: dict[str, int]
    deaths: int


def run(case: Case, template: Path, history: History, state: Path, seed: int = 0) -> Outcome:
    """Play the rounds on a copy of the template, with the faults planted, until all has drained."""
    copy(template, state)
    choose = random.Random(seed)  # noqa: S311 - load and timing
    world = World(state)
    world.next_options = [tuple(fault.option() for fault in life) for life in case.lives]
    dropped = frozenset(fault.command for fault in case.faults if fault.action == "drop")
    world.drops = dropped & (AT_BOOT | {"expire_due"})
    try:
        world.start()
        agent = world.agent()
        agent.adopt(history)
        for number in range(1, 4):
            Round(world, agent, number, choose).play()
            if number >= len(case.lives) and not missed(world, case):
                break
        faults = world.violations() + outcome_faults(world)
        figures = checker.figures(world.evidence())
        return Outcome(tuple(faults), missed(world, case), figures, world.deaths)
    except TooLong as late:
        raise TooLong(f"{late}\n{world.describe()}") from late
    finally:
        world.close()


def missed(world: World, case: Case) -> tuple[Fault, ...]:
    return tuple(one for one in case.faults if not world.daemon.passed(one.command, one.point, one.action))


def outcome_faults(world: World) -> list[str]:
    """What the daemon itself called an error, except the record that was spoiled on purpose."""
    lines = [line for line in world.daemon.said().splitlines() if " error " in line]
    return [line for line in lines if not any(mark in line for mark in EXPECTED_ERRORS)]


class Round:
    """Everything that makes commands happen, once, with fresh names; ends drained."""

    def __init__(self, world: World, agent: Agent, number: int, choose: random.Random) -> None:
        self.world, self.agent, self.number, self.choose = world, agent, number, choose
        self.here = f"c{number}"

    def play(self) -> None:
        agent, here = self.agent, self.here
        agent.attached()
        self._operate()
        held = self._taken("probe.hold", {"text": "held"}, here)
        killed = self._taken("probe.slow", {"text": "killed", "steps": 8, "step_ms": 40}, f"{here}-launch")
        agent.invoke("probe.once", "once", conversation=here, steps=2, step_ms=20)
        for tool in ("brief", "fail", "bad", "exact"):
            agent.invoke(f"probe.{tool}", tool, conversation=here)
        for number in range(self.choose.choice((3, 3, 10, 40))):
            agent.invoke("probe.echo", f"echo {number}", conversation=here)
        agent.invoke("probe.nothing", "unknown", conversation=here)
        agent.say("hello", conversation=here)
        self._cancel(held)
        self._kill_worker(killed)
        if self.number == 1:
            self._end_kept()
        self.world.drain()

    def _taken(self, tool: str, given: dict[str, Any], conversation: str) -> tuple[str, str]:
        """A call that is taken: the switches of a moment ago may be news to the agent just now."""
        while True:
            key = self.agent.invoke_with(tool, given, conversation=conversation)
            if self.agent.accepted(key, _PROGRESS_S).get("code") != "inventory_revision_mismatch":
                return key

    def _operate(self) -> None:
        world, number = self.world, self.number
        world.order("add_agent", {"name": f"other{number}", "token_hash": f"{number:064x}"})
        for enabled in (False, True):
            world.order("switch", {"kind": "tool", "name": "probe.operate", "enabled": enabled})
        self.agent.send("no.such.type", {})  # refused, and noted

    def _cancel(self, key: tuple[str, str]) -> None:
        self.agent.accepted(key)
        self.agent.cancel(key)

    def _kill_worker(self, key: tuple[str, str]) -> None:
        """In the middle of its work, as far as can be seen."""
        agent = self.agent
        agent.wait("progress", lambda: agent.progress.get(key[1]) or key in agent.finals, _PROGRESS_S)
        found = self.world.ask(lambda: self.world.daemon.instance(key[0]))
        if found is not None and found["pid"]:
            self.world.ask(
                lambda: self.world.daemon.control("kill", {"instance_id": found["instance_id"]}, timeout_s=1.0)
            )

    def _end_kept(self) -> None:
        """The calls that the template left open."""
        agent = self.agent
        for conversation, call_id in agent.open_calls():
            if conversation == "kept":
                # Again and again: a word can come before the call that it would release.
                self._release((conversation, call_id))
            elif conversation == SPOILED:
                wait_until("the poison was set aside", self._set_aside, 20.0)
                agent.cancel((conversation, call_id))

    def _release(self, key: tuple[str, str]) -> None:
        def released() -> bool:
            self.agent.say("release", conversation=key[0])
            self.agent.pump(0.05)
            return key in self.agent.finals

        self.agent.wait("the kept call ends", released)

    def _set_aside(self) -> bool:
        self.agent.pump(0.01)
        return bool(self.world.ask(lambda: self.world.daemon.listed("status")[0]["set_aside"]))


def describe(case: Case, seed: int, outcome: Outcome | TooLong) -> str:
    """One line for a failure: what, and how to see it again."""
    again = f"scripts/crash --only {case.name} --seed {seed}"
    if isinstance(outcome, TooLong):
        return f"{case.name}: {outcome} (again: {again})"
    first = "; ".join(outcome.violations[:5])
    return f"{case.name}: {first} (again: {again})"
