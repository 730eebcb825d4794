"""The injected transport: what the daemon and its peers say to each other waits in lists until a rule delivers it."""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgpack

from runtime_actors.channel.events import CloseReason, PeerClosed, PeerMessage, PeerOpened
from runtime_actors.mailbox import Mailbox

if TYPE_CHECKING:
    from runtime_actors.channel.door import Door
    from tests.actor_fakes import HandMonotonic

M = TypeVar("M")


_SHORT: Final = "lineup.v1."


@dataclass(frozen=True, slots=True)
class Said:
    """A frame that is known to be well made."""

    kind: str
    """The type, without what all types begin with."""
    id: str
    body: Mapping[str, Any]
    talk: str | None


@functools.lru_cache(2048)
def read(frame: bytes) -> Said:
    tree = msgpack.unpackb(frame)
    return Said(tree["type"].removeprefix(_SHORT), tree["id"], tree["body"], tree.get("conversation_id"))


@dataclass(slots=True, eq=False)
class Connection:
    """One connection to a door, and what is on its way over it."""

    number: int
    door: str
    pid: int
    reader: Mailbox[Any]
    up: list[bytes] = field(default_factory=list)
    """Said by the peer, and not heard by the daemon yet."""
    down: list[bytes] = field(default_factory=list)
    """Sent by the daemon, and not read by the peer yet."""
    is_open: bool = True
    greeted: bool = False
    """The peer's first word was heard on it ..."""
    proven: bool = False
    """... and the daemon has welcomed it."""
    resets: set[int] = field(default_factory=set)
    """Sessions that the daemon has asked to be resumed."""
    welcomes: int = 0
    """That are due: one for the first hello, one for each resume that was asked for."""


class Observer(Protocol):
    """Who sees every frame at the moment at which it leaves or reaches the daemon."""

    def sent(self, to: Connection, frame: bytes) -> None:
        """The daemon said something: from now on the world may know it."""

    def heard(self, by: Connection, frame: bytes) -> None:
        """Something reaches the daemon."""


class Wire:
    """Stands for the socket thread of one life of the daemon."""

    def __init__(self, numbers: itertools.count[int], observer: Observer, step: Callable[[str], bool]) -> None:
        self._numbers, self._observer, self._step = numbers, observer, step
        self.doors: dict[str, Mailbox[Any]] = {}
        self.connections: dict[int, Connection] = {}
        self.ended: list[Connection] = []
        self.sends = 0

    # --- what actors ask of the socket thread ---

    def listen(self, door: Door) -> None:
        self.doors[door.name] = door.mailbox

    def send(self, peer: int, message: bytes) -> None:
        """Nothing leaves a daemon that is dead, or dies just now."""
        if not self._step("send"):
            return
        self.sends += 1
        connection = self.connections.get(peer)
        if connection is not None:
            self._observer.sent(connection, message)
            connection.down.append(message)

    def close(self, peer: int) -> None:
        connection = self.connections.get(peer)
        if connection is not None:
            self._end(connection, CloseReason.CLOSED)

    def close_door(self, name: str, *, keep_peers: bool) -> None:
        for one in [] if keep_peers else list(self.connections.values()):
            if one.door == name:
                self._end(one, CloseReason.CLOSED)
        self.doors.pop(name, None)

    # --- what peers do ---

    def connect(self, door: str, pid: int) -> Connection | None:
        """None while nobody listens there."""
        mailbox = self.doors.get(door)
        if mailbox is None:
            return None
        connection = Connection(next(self._numbers), door, pid, mailbox)
        self.connections[connection.number] = connection
        mailbox.tell(PeerOpened(door, connection.number, pid, 0))
        return connection

    def hear(self, connection: Connection, frame: bytes) -> None:
        """One frame reaches the daemon, also over a connection that is gone: late, or played again."""
        self._observer.heard(connection, frame)
        connection.reader.tell(PeerMessage(connection.door, connection.number, frame))

    def hang_up(self, connection: Connection, *, read: bool = True) -> None:
        """The peer closes; what it had said before is heard first, unless it gets lost."""
        for frame in connection.up if read and connection.is_open else []:
            self.hear(connection, frame)
        self._end(connection, CloseReason.PEER_GONE)

    def _end(self, connection: Connection, reason: CloseReason) -> None:
        if self.connections.pop(connection.number, None) is None:
            return
        connection.is_open = False
        self.ended.append(connection)
        connection.up.clear()
        connection.reader.tell(PeerClosed(connection.door, connection.number, reason))


class Timers:
    """Tells what is due when the hand that moves the clock says so."""

    def __init__(self, monotonic: HandMonotonic) -> None:
        self._monotonic = monotonic
        self._order = itertools.count()
        self._heap: list[tuple[float, int, Mailbox[Any], object]] = []

    def tell_after(self, seconds: float, mailbox: Mailbox[M], message: M) -> None:
        due = self._monotonic.now_s + max(0.0, seconds)
        heapq.heappush(self._heap, (due, next(self._order), mailbox, message))

    def due(self) -> list[tuple[Mailbox[Any], object]]:
        """Everything that is due now, taken out: what is asked for meanwhile counts from now on."""
        found = []
        while self._heap and self._heap[0][0] <= self._monotonic.now_s:
            _, _, mailbox, message = heapq.heappop(self._heap)
            found.append((mailbox, message))
        return found
