"""One life of the daemon: the real store and the real actors, driven by hand, from the opening to a kill.

It mirrors `daemon.Daemon` without threads. A kill leaves the files as they are at that moment; whatever the code does
afterwards changes nothing that counts: no frame leaves, no mailbox takes anything, the files are another life's.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from runtime_actors.actor import Care, RuntimeActor
from runtime_actors.channel.actor import ChannelActor
from runtime_actors.channel.session import Verdict
from runtime_actors.commands import follow_ups, upkeep
from runtime_actors.contract.manifest import MOST_LIMITS
from runtime_actors.daemon import Daemon
from runtime_actors.gateway.actor import GatewayActor
from runtime_actors.gateway.control import Control
from runtime_actors.interaction.actor import InteractionActor
from runtime_actors.orchestrator.actor import OrchestratorActor
from runtime_actors.outbox.actor import OutboxActor
from runtime_actors.router.actor import RouterActor
from runtime_actors.rules.inventory import Catalogue
from runtime_actors.shell.actor import ShellActor
from runtime_actors.store import files
from runtime_actors.store.actor import StoreActor, StoreParts
from runtime_actors.store.client import Store
from runtime_actors.store.opening import open_store
from runtime_actors.supervisor.actor import SupervisorActor
from runtime_actors.supervisor.messages import ZygoteReady
from runtime_actors.supervisor.zygote import Offers
from tests.commands.people import CHAT, a_system_app
from tests.fakes import BOARD, NOTES, a_tool, an_app, some_settings
from tests.models.faults import Box, Faults, News, Points, StoreBox
from tests.models.wire import Observer, Timers, Wire

if TYPE_CHECKING:
    from runtime_actors.actor import SetAside
    from runtime_actors.channel.socket import SocketThread
    from runtime_actors.gateway.control import Machinery
    from runtime_actors.rules.inventory import Inventory
    from runtime_actors.supervisor.exits import ExitWatcher
    from runtime_actors.supervisor.logs import LogCapture
    from runtime_actors.supervisor.zygote import ZygoteProcess
    from tests.actor_fakes import HandMonotonic
    from tests.fakes import CountingIds, HandClock

_CONFIRM: Final = a_tool("chat.confirm", handling="interactive", input_schema={"type": "object"})
CATALOGUE: Final = Catalogue.of([a_system_app(CHAT | {"tools": [_CONFIRM]}), an_app(BOARD), an_app(NOTES)])
PING_S: Final = 1.0
SWEEP_S: Final = 5.0
START_TIMEOUT_S: Final = 10.0
STOP_GRACE_S: Final = 2.0
SUSPEND_AFTER_S: Final = 4.0
"""Short, so that instances sleep and wake all the time."""
NAMES: Final = ("store", "channel", "supervisor", "outbox", "shell", "interaction", "orchestrator", "router", "gateway")
LISTENERS: Final[Mapping[type, str]] = {
    follow_ups.Deliver: "channel",
    follow_ups.Settled: "channel",
    follow_ups.TellCallChanged: "channel",
    follow_ups.TellContext: "channel",
    follow_ups.TellInteraction: "channel",
    follow_ups.InteractionDueAt: "interaction",
    follow_ups.Post: "outbox",
    follow_ups.InstanceWanted: "orchestrator",
    follow_ups.InstanceDone: "orchestrator",
    follow_ups.DueAt: "router",
    follow_ups.InventoryChanged: "router",
    follow_ups.Shown: "shell",
}


OVERDUE: Final = (
    "select interaction_id from interactions where status in ('pending', 'presented') and expires_wall_s <= ?"
)


class Died(Exception):
    """The daemon was killed while it started."""


class Forks(Protocol):
    """What the zygote and its neighbours are to the supervisor."""

    def fork(self, attempt_id: str, spec: Mapping[str, object], **_: object) -> object:
        """A new process, which waits at its gate."""

    def open(self, instance_id: str, attempt_id: str) -> int:
        """A descriptor for its log."""

    def watch(self, key: str, process: object) -> None:
        """Its end is to be told."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What outlives a daemon."""

    clock: HandClock
    monotonic: HandMonotonic
    ids: CountingIds
    numbers: itertools.count[int]
    faults: Faults
    forks: Forks
    observer: Observer
    wrong: list[str]
    """What must not happen and did."""
    sealed: bool
    """Whether a worker can connect only once."""
    order: tuple[str, ...]
    """Who comes first when several actors have something to do."""


class Life:
    """A daemon on one state folder."""

    def __init__(self, state: Path, surroundings: Surroundings) -> None:
        self.state, self.surroundings = state, surroundings
        self.alive = True
        self._held = True
        self.left: Path | None = None
        """The folder as a kill left it."""
        self.wire = Wire(surroundings.numbers, surroundings.observer, self._pass)
        self.timers = Timers(surroundings.monotonic)
        self.actors: dict[str, RuntimeActor] = {}
        self.boxes = {name: StoreBox(self, name) if name == "store" else Box(self, name) for name in NAMES}
        self._acting: list[str] = []
        self._care = Care(set_aside=self._set_aside, give_up=self._give_up, born=lambda _: None)
        opened = open_store(state, "power", surroundings.clock)
        self.sql = opened.sql
        self.side = opened.side
        write = opened.side.write

        def write_and_pass(seq: int, head: bytes) -> None:
            write(seq, head)
            self._pass("after the side file")

        opened.side.write = write_and_pass  # type: ignore[method-assign]  # the boundary behind it
        self.store_actor = StoreActor(
            self._care,
            StoreParts(
                sql=opened.sql,
                chain=opened.chain,
                side=opened.side,
                ballast=opened.ballast,
                identity=opened.identity,
                settings=some_settings(CATALOGUE),
                clock=surroundings.clock,
                ids=surroundings.ids,
                listeners={kind: News(surroundings.faults, self.boxes[name]) for kind, name in LISTENERS.items()},
                failpoints=Points(self._pass),
                unusable=surroundings.wrong.append,
            ),
        )
        self.actors["store"] = self.store_actor
        self.store = Store(self.boxes["store"])

    def boot(self) -> None:
        """Recover, start the actors, open the doors.

        Raises:
            Died: It was killed on the way.

        """
        daemon = cast("Daemon", self)  # of which the two orders below need `_wait` alone
        inventory = Daemon._recover(daemon, self.store)
        self._start_actors(inventory)
        Daemon._recover_calls(daemon, self.store)
        now = self.surroundings.clock.now().boot_s
        late = self.sql.execute("select call_id, status from calls where due_boot_s <= ?", (now,)).fetchall()
        if late:
            self.surroundings.wrong.append(f"overdue when the doors were opened: {late}")
        wall_s = self.surroundings.clock.now().wall.timestamp()
        if overdue := self.sql.execute(OVERDUE, (wall_s,)).fetchall():
            self.surroundings.wrong.append(f"nobody may answer this any more when the doors are opened: {overdue}")
        for door in ("agent", "host", "control"):
            self.wire.doors[door] = self.boxes["gateway"]
        self.run()

    def _wait(self, store: Store, rule: Callable[..., Any], argument: object) -> Any:  # noqa: ANN401 - the rule's outcome
        outcomes: list[Any] = []
        store.run(rule, argument, outcomes.append)
        while self.alive and self._has_work("store"):
            self._act("store")
        if not self.alive:
            raise Died
        return outcomes[0]

    def _start_actors(self, inventory: Inventory) -> None:
        boxes, around, care, timers, store = self.boxes, self.surroundings, self._care, self.timers, self.store
        sockets = cast("SocketThread", self.wire)
        channel = ChannelActor(
            care,
            store=store,
            sockets=sockets,
            folder=self.state / "run" / "w",
            router=boxes["router"],
            supervisor=boxes["supervisor"],
            me=boxes["channel"],
            backlog=lambda: 0,
            measure=lambda _pid, _said: Verdict("process", enough=True, sealed=around.sealed),
            timers=timers,
            clock=around.clock,
            ping_s=PING_S,
            start_timeout_s=START_TIMEOUT_S,
            sweep_s=SWEEP_S,
        )
        supervisor = SupervisorActor(
            care,
            store=store,
            zygote=cast("ZygoteProcess", around.forks),
            watcher=cast("ExitWatcher", around.forks),
            logs=cast("LogCapture", around.forks),
            catalogue=CATALOGUE,
            channel=boxes["channel"],
            orchestrator=boxes["orchestrator"],
            me=boxes["supervisor"],
            timers=timers,
            groups=None,
            restart_zygote=lambda: None,
            reap_strangers=lambda _: None,
            most=MOST_LIMITS,
            stop_grace_s=STOP_GRACE_S,
            sweep_s=SWEEP_S,
        )
        outbox = OutboxActor(care, store=store, sockets=sockets, me=boxes["outbox"], timers=timers, sweep_s=SWEEP_S)
        shell = ShellActor(care, store=store, sockets=sockets, me=boxes["shell"], timers=timers, sweep_s=SWEEP_S)
        interaction = InteractionActor(
            care, store=store, me=boxes["interaction"], timers=timers, clock=around.clock, sweep_s=SWEEP_S
        )
        orchestrator = OrchestratorActor(
            care,
            store=store,
            supervisor=boxes["supervisor"],
            me=boxes["orchestrator"],
            timers=timers,
            clock=around.clock,
            live_processes=5,  # as many as there can be, and so one that is closing is waited for
            suspend_after_s=SUSPEND_AFTER_S,
            sweep_s=SWEEP_S,
        )
        router = RouterActor(
            care,
            store=store,
            channel=boxes["channel"],
            supervisor=boxes["supervisor"],
            gateway=boxes["gateway"],
            me=boxes["router"],
            timers=timers,
            clock=around.clock,
            catalogue=CATALOGUE,
            inventory=inventory,
            sweep_s=SWEEP_S,
        )
        gateway = GatewayActor(
            care,
            store=store,
            store_backlog=lambda: 0,
            most_backlog=1000,
            sockets=sockets,
            router=boxes["router"],
            outbox=boxes["outbox"],
            shell=boxes["shell"],
            me=boxes["gateway"],
            control=Control(store, boxes["supervisor"], cast("Machinery", None)),
            clock=around.clock,
            inventory=inventory,
            relay_secret="",
        )
        for actor in (channel, supervisor, outbox, shell, interaction, orchestrator, router, gateway):
            self.actors[actor.name] = actor
            actor.on_start()
        boxes["supervisor"].tell(ZygoteReady(Offers()))

    # --- the hand that drives ---

    def run(self, steps: int | None = None) -> None:
        """Until nobody has anything left to do, or the daemon is dead, or so many messages were handled."""
        done = 0
        while self.alive and done != steps and (name := self._next(self.surroundings.order)) is not None:
            self._act(name)
            done += 1

    def tell_due(self) -> None:
        """Whatever was asked for by now; what that brings about follows."""
        for mailbox, message in self.timers.due():
            mailbox.tell(message)
            self.run()

    def _next(self, names: tuple[str, ...]) -> str | None:
        return next((name for name in names if self._has_work(name)), None)

    def _has_work(self, name: str) -> bool:
        if name not in self.actors:
            return False
        return not self.store_actor.actor_inbox.empty() if name == "store" else bool(self.boxes[name].waiting)

    def _act(self, name: str) -> None:
        self._acting.append(name)
        self.actors[name].on_receive(self.boxes[name].take())
        self._acting.pop()

    def note_told(self, name: str, message: object) -> None:
        """Between actors: what a transaction decides is not known to anybody before it is committed."""
        if self.sql.in_transaction and self._acting[-1:] == ["store"]:
            self.surroundings.wrong.append(f"{type(message).__name__} was told to the {name} before the COMMIT")

    # --- the end ---

    def _pass(self, _where: str) -> bool:
        """A boundary; whether the daemon lives on the other side of it."""
        if self.alive and self.surroundings.faults.is_time():
            self.kill()
        return self.alive

    def kill(self) -> None:
        """`kill -9`, now."""
        self.left = self.state.with_name(f"{self.state.name}+")
        copy_state(self.state, self.left)
        if self.surroundings.faults.others_go_on:
            others = tuple(name for name in self.surroundings.order if name not in {"store", *self._acting})
            while (name := self._next(others)) is not None:
                self._act(name)
        self.alive = False

    def forget(self) -> None:
        """Give back what a dead daemon held."""
        if self._held:
            self._held = False
            self.actors["store"].on_stop()
            shutil.rmtree(self.state)

    def _set_aside(self, aside: SetAside) -> None:
        if self.alive:
            self.surroundings.wrong.append(repr(aside))
            self.store.run(upkeep.set_aside, aside)

    def _give_up(self, name: str, error: BaseException) -> None:
        if self.alive:
            self.surroundings.wrong.append(f"the {name} gave up: {error!r}")


def copy_state(source: Path, target: Path) -> None:
    """The files as they are: what a killed process leaves."""
    (target / "tokens").mkdir(parents=True)
    (target / "run" / "w").mkdir(parents=True)
    for name in (files.DATABASE, files.WAL, files.SIDE_FILE, "tokens/local"):
        if (source / name).exists():
            shutil.copyfile(source / name, target / name)
    with (target / files.BALLAST).open("wb") as ballast:
        ballast.truncate(files.BALLAST_BYTES)
