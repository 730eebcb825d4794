"""One run: a new state folder, the scenario, the faults; then calm, a drain, and the verdict."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from runtime_actors import checker, registry
from runtime_actors.chaos import judge
from runtime_actors.chaos.plan import STEP, Fault
from runtime_actors.chaos.recorder import Recorder
from runtime_actors.chaos.running import Watch
from runtime_actors.chaos.seen import Seen, Setting
from runtime_actors.chaos.world import World
from runtime_actors.checker import Evidence, Violation
from runtime_actors.checker.evidence import LISTINGS, PEOPLE
from runtime_actors.client import ClientError, DoorClient, Refused, door_of
from runtime_actors.errors import AppRefused
from runtime_actors.rules.lifecycle import CHAT
from runtime_actors.simulator import Player, Step, StepResult

LOCAL: Final = "local"
_PATIENCE_S: Final = 20.0
"""A step may take so much longer than it says: a daemon that was killed has to be started again meanwhile."""
_STEP_S: Final = 5.0
"""Longer than any strike takes."""
_LINGER_S: Final = 1.0
_DRAIN_S: Final = 30.0
_ORDER_S: Final = 30.0
_LOOK_S: Final = 0.02
_SETTLED: Final = frozenset({"foreground", "background", "suspended"})


@dataclass(slots=True)
class Played:
    """What became of a run."""

    seed: int
    faults: tuple[Fault, ...]
    steps: list[StepResult] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)
    evidence: Evidence | None = None
    violations: list[Violation] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    began: float = 0.0
    ended: float = 0.0
    """CLOCK_MONOTONIC, seconds."""
    log: str = ""

    @property
    def rules(self) -> list[str]:
        """Names of the rules that broke, each once."""
        return list(dict.fromkeys(one.rule for one in self.violations))

    @property
    def missed(self) -> list[Fault]:
        """Planned, and not struck."""
        return [one for one in self.faults if all(struck.fault is not one for struck in self.seen.struck)]

    def forget(self) -> None:
        """What takes memory: of many runs only a few are looked at closely."""
        self.evidence = None
        self.steps = []
        self.seen.commits, self.seen.words = [], []

    def why_missed(self, fault: Fault) -> str:
        """For a person."""
        if str(fault.point) in self.seen.hit:
            return f"{fault.point} was hit, and there was nothing that {fault.kind} could strike"
        return f"{fault.point} was never hit"


def play(
    steps: Sequence[Step],
    setting: Setting,
    faults: Sequence[Fault],
    *,
    seed: int,
    folder: Path,
    on_world: Callable[[World], None] | None = None,
) -> Played:
    """Play a scenario once in `folder`, which must not be there and is gone afterwards.

    `on_world` hears of the world before it starts, so that it can be closed from another thread.

    Raises:
        ChaosFailed: No daemon can be had here.

    """
    folder.mkdir()
    played = Played(seed, tuple(faults), began=time.monotonic())
    world = World(folder, setting, faults)
    played.seen = world.seen
    recorder = Recorder(world.observe)
    watch = Watch(world.state, world.observe) if any(one.point.name == "call.running" for one in faults) else None
    try:
        if on_world is not None:
            on_world(world)
        world.start()
        world.wait_serving()
        if watch is not None:
            watch.start()
        _play(steps, world, recorder, played)
        played.evidence = _evidence(world, recorder, setting)
    finally:
        if watch is not None:
            watch.stop()
        world.close()
        played.ended, played.log = time.monotonic(), world.last_words()
        shutil.rmtree(folder, ignore_errors=True)
    _judge(played)
    return played


def _play(steps: Sequence[Step], world: World, recorder: Recorder, played: Played) -> None:
    names = dict.fromkeys([LOCAL, *(step.as_ for step in steps if hasattr(step, "as_"))])
    with _Control(world) as control:
        for name in names:
            if name != LOCAL:
                control.register(name)
        with Player(world.state, connect=recorder.connect, patient=True) as player:
            played.steps += player.play(_told(steps, world))
            _linger(player, world)
            world.calm()
            recorder.note("invoke", "chaos", id="drain", kind="drain")
            drained = _wind_up(player) and control.wait_quiet(player)
        recorder.note("ok" if drained else "info", "chaos", id="drain")


def _told(steps: Sequence[Step], world: World) -> Iterator[Step]:
    for step in steps:
        world.observe(STEP).wait(_STEP_S)
        yield step.model_copy(update={"timeout_s": step.timeout_s + _PATIENCE_S})


def _linger(player: Player, world: World) -> None:
    """What the end of the scenario brings about may be a point, too."""
    deadline = time.monotonic() + _LINGER_S
    while world.waits_for and time.monotonic() < deadline:
        player.pump(_LOOK_S)


def _wind_up(player: Player) -> bool:
    try:
        return player.wind_up(_DRAIN_S)
    except ClientError:
        return False


def _evidence(world: World, recorder: Recorder, setting: Setting) -> Evidence:
    with _Control(world) as control:
        faults = [
            {
                "what": "fault",
                "at": one.at,
                "by": "chaos",
                "kind": str(one.fault.kind),
                "detail": {"point": str(one.fault.point), "target": one.target},
            }
            for one in world.seen.struck
        ]
        history = sorted([*recorder.rows, *faults], key=lambda row: float(row["at"]))
        listings, audit = control.listings()
        try:
            control.request("verify_audit", {})
        except ClientError as error:
            world.seen.violations.append(Violation("audit_unverified", "the audit log", str(error)))
    return Evidence(history, audit, listings, once=_once(setting))


def _once(setting: Setting) -> frozenset[str]:
    """Tools whose calls must not run twice (`on_interruption: fail`)."""
    catalogue, _ = registry.load(setting.apps)
    return frozenset(name for name, tool in catalogue.tools.items() if tool.fails_on_interruption)


def _judge(played: Played) -> None:
    assert played.evidence is not None  # noqa: S101 - it was read, or an exception is on its way
    try:
        played.violations = judge.verdict(played.evidence, played.seen, played.steps)
        played.figures = checker.figures(played.evidence)
    except checker.Unreadable as error:
        played.violations = [Violation("evidence_unreadable", "the history", str(error))]


class _Control:
    """An operator who goes on while daemons die."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._door = DoorClient(door_of(world.state, "control"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()

    def request(self, kind: str, body: dict[str, Any], within_s: float = _ORDER_S) -> dict[str, Any]:
        """Ask until it is answered.

        Raises:
            ClientError: It was refused, or not answered in time.

        """
        deadline = time.monotonic() + within_s
        while True:
            try:
                return self._door.request(f"lineup.v1.control.{kind}", body, timeout_s=2.0)[1]
            except Refused:
                raise
            except ClientError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_S)

    def register(self, name: str) -> None:
        """Make an agent identity."""
        token = secrets.token_urlsafe(32)
        path = self._world.state / "tokens" / name
        path.write_text(f"{token}\n", encoding="ascii")
        self.request("add_agent", {"name": name, "token_hash": hashlib.sha256(token.encode()).hexdigest()})

    def wait_quiet(self, player: Player) -> bool:
        """Wait until nothing is under way, while agents take what comes; whether that came."""
        deadline = time.monotonic() + _DRAIN_S
        while time.monotonic() < deadline:
            if self._is_quiet():
                return True
            with contextlib.suppress(ClientError):
                player.pump(_LOOK_S)
        return False

    def _is_quiet(self) -> bool:
        if any(row["app_scope"] == CHAT for row in self.rows("inbox")):
            return False  # it may become a delivery; other apps may leave for ever what they do not care for
        status = self.rows("status")[0]
        if status["open_calls"] or status["outbox_deliveries"]:
            return False
        return all(row["state"] in _SETTLED for row in self.rows("ps"))

    def listings(self) -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
        """Of one moment: read again if something was noted meanwhile."""
        while True:
            found = {what: self.rows(what) for what in (*LISTINGS, *PEOPLE)}
            audit = self.rows("audit")
            if found["status"][0]["audit"] == self.rows("status")[0]["audit"]:
                return found, audit

    def rows(self, what: str) -> list[dict[str, Any]]:
        """Every row of a listing."""
        found: list[dict[str, Any]] = []
        after: str | None = "0" if what == "audit" else None
        while True:
            answer = self.request("query", {"what": what} | ({"after": after} if after else {}))
            found += answer["rows"]
            after = answer.get("next")
            if after is None:
                return found


def check_apps(folders: Sequence[Path]) -> list[AppRefused]:
    """What is wrong with the apps that are to be tested."""
    return registry.load(folders)[1]
