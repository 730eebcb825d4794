"""Actors on a test's own thread: a real store in a folder, mailboxes that keep what they get, and hands that move time.

What is told waits in its `Box`. `Rig.settle` lets the plugged actors take it, one message at a time, until all is
quiet; a box without an actor only keeps. An actor that is held takes nothing until it is let go.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from runtime_actors import state_folder
from runtime_actors.actor import Care, RuntimeActor, SetAside
from runtime_actors.channel import messages as channel
from runtime_actors.channel.actor import ChannelActor
from runtime_actors.channel.events import CloseReason, PeerClosed, PeerMessage, PeerOpened
from runtime_actors.channel.session import Verdict
from runtime_actors.commands import agents, calls, follow_ups, instances
from runtime_actors.commands import upkeep as upkeep_commands
from runtime_actors.commands.apps import current_inventory
from runtime_actors.contract import envelope
from runtime_actors.contract import session as wire
from runtime_actors.contract.base import WireModel
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.session import CORE_CAPABILITIES, MiniAppContextModel, SdkCapability
from runtime_actors.mailbox import Mailbox
from runtime_actors.records.transaction import Transaction
from runtime_actors.router.actor import RouterActor
from runtime_actors.store.actor import StoreActor, StoreParts
from runtime_actors.store.client import Store
from runtime_actors.store.failpoints import Failpoints
from runtime_actors.store.opening import open_store
from tests.fakes import CATALOGUE, START, CountingIds, HandClock, an_invoke, some_settings

if TYPE_CHECKING:
    from runtime_actors.channel.door import Door
    from runtime_actors.channel.socket import SocketThread
    from runtime_actors.records.transaction import Settings

M = TypeVar("M")
A = TypeVar("A")
O = TypeVar("O")  # noqa: E741 - an outcome

LIMIT_S: Final = 5.0
SENT_AT: Final = START.isoformat().replace("+00:00", "Z")
PING_S: Final = 1.0
START_TIMEOUT_S: Final = 10.0
SWEEP_S: Final = 5.0
NAMES: Final = ("store", "channel", "supervisor", "outbox", "shell", "interaction", "orchestrator", "router", "gateway")


class Box:
    """An actor's mailbox. From any thread."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self.waiting: deque[object] = deque()
        self.seen: list[object] = []
        """All that was ever told."""

    def tell(self, message: object) -> None:
        with self._changed:
            self.seen.append(message)
            self.waiting.append(message)
            self._changed.notify_all()

    def of(self, kind: type[M]) -> list[M]:
        """Every message of one kind, in order."""
        return [one for one in self.seen if isinstance(one, kind)]

    def forget(self) -> None:
        """Look only at what comes from now on."""
        self.seen.clear()


@dataclass(frozen=True, slots=True)
class Timer:
    """Something that was asked for later."""

    after_s: float
    mailbox: Mailbox[Any]
    message: object


class HandTimers:
    """Tells nothing before a test says that it is due."""

    def __init__(self) -> None:
        self.asked: list[Timer] = []

    def tell_after(self, seconds: float, mailbox: Mailbox[M], message: M) -> None:
        self.asked.append(Timer(seconds, mailbox, message))

    def of(self, kind: type) -> list[Timer]:
        return [one for one in self.asked if isinstance(one.message, kind)]

    def due(self, kind: type) -> None:
        """The oldest timer of one kind has run out."""
        first = self.of(kind)[0]
        self.asked.remove(first)
        first.mailbox.tell(first.message)


class HandMonotonic:
    """Stands for the module `time` where an actor looks at the monotonic clock."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class RecordingSockets:
    """What the socket thread was asked to do."""

    def __init__(self) -> None:
        self.doors: dict[str, Door] = {}
        self.sent: list[tuple[int, bytes]] = []
        self.closed: list[int] = []
        self.doors_closed: list[tuple[str, bool]] = []
        """Name, and whether its peers stay."""
        self.fails_to_listen = False

    def listen(self, door: Door) -> None:
        if self.fails_to_listen:
            raise OSError("no descriptors")
        self.doors[door.name] = door

    def send(self, peer: int, message: bytes) -> None:
        self.sent.append((peer, message))

    def close(self, peer: int) -> None:
        self.closed.append(peer)

    def close_door(self, name: str, *, keep_peers: bool) -> None:
        assert name in self.doors or not keep_peers
        self.doors.pop(name, None)
        self.doors_closed.append((name, keep_peers))


@dataclass(slots=True)
class Ear(Generic[M]):
    """What one peer was sent and has not listened to yet."""

    sockets: RecordingSockets
    peer: int
    _heard: int = 0

    def hear(self) -> list[envelope.Envelope]:
        """Everything new."""
        mine = [frame for peer, frame in self.sockets.sent if peer == self.peer]
        new = mine[self._heard :]
        self._heard = len(mine)
        return [envelope.decode(frame) for frame in new]


@dataclass(frozen=True, slots=True)
class Heard:
    """A frame without what nobody decides by."""

    type: str
    body: dict[str, Any]


class Rig:
    """A store and whichever actors a test plugs in."""

    def __init__(
        self, state: Path, settings: Settings | None = None, listeners: Mapping[type, str] | None = None
    ) -> None:
        self.state = state
        self.clock = HandClock()
        self.monotonic = HandMonotonic()
        self.timers = HandTimers()
        self.sockets = RecordingSockets()
        self.changed = threading.Condition()
        self.boxes = {name: Box(self.changed) for name in NAMES}
        self.actors: dict[str, RuntimeActor] = {}
        self.held: set[str] = set()
        self.verdict = Verdict("process", enough=True, sealed=False)
        """On every process that reports how it is confined."""
        self.measured: list[tuple[int, wire.Confined]] = []
        """What was measured: pid, and what the process said of itself."""
        self.lost: Callable[[object], bool] = lambda _: False
        """Which follow-ups get lost between the COMMIT and their receiver."""
        self.aside: list[SetAside] = []
        self.gave_up: list[str] = []
        self.unusable: list[str] = []
        self.store = Store(self.boxes["store"])
        self.care = Care(set_aside=self._set_aside, give_up=self._give_up, born=lambda _: None)
        state_folder.prepare(state)
        opened = open_store(state, "process", self.clock)
        heads = _LISTENERS | dict(listeners or {})
        parts = StoreParts(
            sql=opened.sql,
            chain=opened.chain,
            side=opened.side,
            ballast=opened.ballast,
            identity=opened.identity,
            settings=settings or some_settings(),
            clock=self.clock,
            ids=CountingIds(),
            listeners={kind: _Lossy(self, name) for kind, name in heads.items()},
            failpoints=Failpoints((), lambda _: None),
            unusable=self.unusable.append,
        )
        self.sql = opened.sql
        self.plug("store", StoreActor(self.care, parts))
        self.run(agents.add_agent, agents.NewAgent("other", hashlib.sha256(b"other's token").digest(), None))

    @property
    def socket_thread(self) -> SocketThread:
        return cast("SocketThread", self.sockets)

    @property
    def token(self) -> str:
        """Of the agent `local`."""
        return (self.state / "tokens" / "local").read_text().strip()

    def plug(self, name: str, actor: RuntimeActor) -> None:
        """From now on this actor takes what its box holds."""
        self.actors[name] = actor
        actor.on_start()

    def settle(self) -> None:
        """Until nobody has anything left to take."""
        while (name := self._next()) is not None:
            self.actors[name].on_receive(self.boxes[name].waiting.popleft())

    def settle_until(self, holds: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        """Go on while other threads tell, until something holds."""
        deadline = time.monotonic() + limit_s
        while True:
            self.settle()
            if holds():
                return
            with self.changed:
                left = deadline - time.monotonic()
                assert left > 0, "it did not happen within the limit"
                self.changed.wait_for(lambda: self._next() is not None, left)

    def tell(self, name: str, *messages: object) -> None:
        """Leave messages, and settle."""
        for message in messages:
            self.boxes[name].tell(message)
        self.settle()

    def hold(self, name: str) -> None:
        """This actor takes nothing for now."""
        self.held.add(name)

    def let_go(self, name: str) -> None:
        self.held.discard(name)
        self.settle()

    def measure(self, pid: int, said: wire.Confined) -> Verdict:
        """The verdict that the test has given."""
        self.measured.append((pid, said))
        return self.verdict

    def run(self, rule: Callable[[Transaction, A], O], argument: A) -> O:
        """A command, and what follows from it."""
        outcomes: list[O | Rejection] = []
        self.store.run(rule, argument, outcomes.append)
        self.settle()
        return cast("O", outcomes[0])

    def rows(self, sql: str, *arguments: object) -> list[tuple[Any, ...]]:
        return self.sql.execute(sql, arguments).fetchall()

    def events(self) -> list[str]:
        """What the audit log has, oldest first."""
        return [str(event) for (event,) in self.rows("select event from audit order by seq")]

    def status(self, call_id: str = "c1") -> str:
        """How a call stands."""
        [(status,)] = self.rows("select status from calls where call_id = ?", call_id)
        return str(status)

    def due(self, kind: type) -> None:
        """A timer runs out; settle."""
        self.timers.due(kind)
        self.settle()

    def close(self) -> None:
        self.actors["store"].on_stop()

    def _next(self) -> str | None:
        return next((name for name in self.actors if name not in self.held and self.boxes[name].waiting), None)

    def _set_aside(self, aside: SetAside) -> None:
        self.aside.append(aside)
        self.store.run(upkeep_commands.set_aside, aside)

    def _give_up(self, name: str, _error: BaseException) -> None:
        self.gave_up.append(name)


_LISTENERS: Final[dict[type, str]] = {
    follow_ups.Deliver: "channel",
    follow_ups.Settled: "channel",
    follow_ups.TellCallChanged: "channel",
    follow_ups.TellContext: "channel",
    follow_ups.Post: "outbox",
    follow_ups.InstanceWanted: "orchestrator",
    follow_ups.InstanceDone: "orchestrator",
    follow_ups.DueAt: "router",
    follow_ups.InventoryChanged: "router",
    follow_ups.Shown: "shell",
    follow_ups.TellInteraction: "channel",
    follow_ups.InteractionDueAt: "interaction",
}


class _Lossy:
    def __init__(self, rig: Rig, name: str) -> None:
        self._rig, self._name = rig, name

    def tell(self, message: object) -> None:
        if not self._rig.lost(message):
            self._rig.boxes[self._name].tell(message)


# --- the channel, and a worker at its other end ---


def a_channel(rig: Rig) -> ChannelActor:
    """Plugged in."""
    actor = ChannelActor(
        rig.care,
        store=rig.store,
        sockets=rig.socket_thread,
        folder=rig.state / "run" / "w",
        router=rig.boxes["router"],
        supervisor=rig.boxes["supervisor"],
        me=rig.boxes["channel"],
        backlog=lambda: 0,
        measure=rig.measure,
        timers=rig.timers,
        clock=rig.clock,
        ping_s=PING_S,
        start_timeout_s=START_TIMEOUT_S,
        sweep_s=SWEEP_S,
    )
    rig.plug("channel", actor)
    return actor


TOKEN: Final = "t" * 32


@dataclass(slots=True)
class Worker:
    """The process at the other end of a channel, as the socket thread tells of it."""

    rig: Rig
    instance_id: str
    attempt_id: str
    pid: int = 4242
    peer: int = 1
    said: int = 0
    ear: Ear[object] = field(init=False)

    def __post_init__(self) -> None:
        self.ear = Ear(self.rig.sockets, self.peer)

    @property
    def door(self) -> str:
        return f"w-{self.attempt_id}"

    def connect(self, peer: int | None = None, *, pid: int | None = None) -> None:
        if peer is not None:
            self.peer, self.ear = peer, Ear(self.rig.sockets, peer)
        self.rig.tell("channel", PeerOpened(self.door, self.peer, self.pid if pid is None else pid, 0))

    def disconnect(self, reason: CloseReason = CloseReason.PEER_GONE) -> None:
        self.rig.tell("channel", PeerClosed(self.door, self.peer, reason))

    def raw(self, frame: bytes) -> None:
        self.rig.tell("channel", PeerMessage(self.door, self.peer, frame))

    def say(self, kind: str, body: WireModel | Mapping[str, Any] | None = None, *, id: str | None = None) -> str:  # noqa: A002
        """One frame; its id."""
        self.said += 1
        said_as = id or f"{self.attempt_id}/{self.said}"
        self.raw(envelope.encode(f"lineup.v1.{kind}", body or {}, id=said_as, sent_at=SENT_AT))
        return said_as

    def hello(
        self,
        *,
        token: str = TOKEN,
        ready: bool = False,
        capabilities: tuple[SdkCapability, ...] = CORE_CAPABILITIES,
    ) -> None:
        body = wire.Hello(
            attempt_id=self.attempt_id, token=token, sdk_version="1.0.0", sdkCapabilities=capabilities, ready=ready
        )
        self.say("session.hello", body)

    def resume(self, session: int, *, capabilities: tuple[SdkCapability, ...] = CORE_CAPABILITIES) -> None:
        body = wire.Resume(
            attempt_id=self.attempt_id,
            session=session,
            snapshot_digest=wire.snapshot_digest(wire.effective(CORE_CAPABILITIES, CORE_CAPABILITIES)),
            sdkCapabilities=capabilities,
            last_number=0,
            ready=True,
        )
        self.say("session.resume", body)

    def pong(self) -> None:
        self.say("session.pong", wire.Ping(beat=0))

    def hear(self) -> list[Heard]:
        """What is new, with short types."""
        return [Heard(one.type.removeprefix("lineup.v1."), one.body) for one in self.ear.hear()]

    def hear_types(self) -> list[str]:
        return [one.type for one in self.hear()]

    def confined(self) -> None:
        self.say("session.confined", wire.Confined(namespaces=(), landlock_abi=0, canaries={}))

    def open(self) -> None:
        """From the connection to the first page; what was heard on the way is forgotten."""
        self.connect()
        self.hello()
        self.confined()
        self.say("session.ready")
        self.hear()


def an_instance(rig: Rig, tool_id: str = "notes.write", call_id: str = "c1", **changes: Any) -> str:  # noqa: ANN401
    """The instance that a newly admitted call was given to."""
    answer = rig.run(calls.admit, an_invoke(tool_id, call_id, **changes))
    assert isinstance(answer, calls.CallAnswer), answer
    assert answer.call.instance_id is not None
    return answer.call.instance_id


def expected(rig: Rig, instance_id: str, *, forked: bool = True) -> Worker:
    """An attempt whose process has not connected."""
    begun = rig.run(instances.begin_attempt, instance_id)
    assert isinstance(begun, instances.AttemptBegun), begun
    worker = Worker(rig, instance_id, begun.attempt_id)
    context = MiniAppContextModel(
        app_scope=begun.instance.app_scope,
        instance_id=instance_id,
        conversation_id=begun.instance.conversation_id,
        app_version=begun.instance.app_version,
        state="starting",
    )
    rig.tell("channel", channel.Expect(begun.attempt_id, TOKEN, context))
    if forked:
        rig.tell("channel", channel.Forked(begun.attempt_id, worker.pid))
    return worker


def an_open_worker(rig: Rig, instance_id: str) -> Worker:
    """An attempt whose session is open."""
    worker = expected(rig, instance_id)
    worker.open()
    return worker


# --- the router ---


def a_router(rig: Rig) -> RouterActor:
    """Plugged in."""
    actor = RouterActor(
        rig.care,
        store=rig.store,
        channel=rig.boxes["channel"],
        supervisor=rig.boxes["supervisor"],
        gateway=rig.boxes["gateway"],
        me=rig.boxes["router"],
        timers=rig.timers,
        clock=rig.clock,
        catalogue=CATALOGUE,
        inventory=rig.run(current_inventory, None),
        sweep_s=SWEEP_S,
    )
    rig.plug("router", actor)
    return actor
