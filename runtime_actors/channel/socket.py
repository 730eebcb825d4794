"""The one thread that owns every socket of the daemon.

Actors call `listen`, `send`, `close` and so on from any thread: these leave an order and wake the thread, which alone
touches the sockets. Only a frame that nothing waits before is written at once, by whoever sends it: that spares a
hand-over. What peers do comes back as events (`channel.events`) in the mailbox of their door.

Nothing a peer does can cost more than its limits: each gets one frame a turn, and is not read while its reader has not
come to what it said before, or while it does not read what it was sent; what is kept, read or to be written, is bounded
for each and for all of them; handshakes are bounded in number and time; and no connection is accepted for which there
is no descriptor to spare.
"""

from __future__ import annotations

import functools
import itertools
import logging
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from runtime_actors.actor import Beat
from runtime_actors.channel import door as doors
from runtime_actors.channel.door import Door, OpenDoor, SocketLimits
from runtime_actors.channel.events import CloseReason, PeerClosed, PeerMessage, PeerOpened, PeerOversized
from runtime_actors.channel.listeners import Listeners
from runtime_actors.channel.orders import Orders
from runtime_actors.channel.peer import Peer, Read
from runtime_actors.channel.seldom import Seldom
from runtime_actors.channel.window import Window
from runtime_actors.contract import zmtp

logger = logging.getLogger(__name__)
seldom = Seldom(logger)

_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE
_ROUNDS: Final = 8  # rounds through peers that have frames left, between two looks at the sockets
_PAUSE_S: Final = 0.005
_FLUSH_S: Final = 1.0
_SLOW_S: Final = 0.5
_MUCH: Final = 64 * 1024  # waits for one peer: time to look at what waits for all

_Order = Peer | Callable[[], None]


class SocketThread(threading.Thread):
    """Owns all doors and their peers. `on_crash` is called on this thread if a bug ends it, with everything lost."""

    def __init__(self, *, on_crash: Callable[[], None], limits: SocketLimits | None = None) -> None:
        super().__init__(name="sockets", daemon=True)
        self._on_crash = on_crash
        self._limits = limits or SocketLimits()
        self._orders: Orders[_Order] = Orders()
        self._paths: dict[str, Path] = {}
        self._lock = threading.Lock()  # of `_paths`; everything below is this thread's alone
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._orders, _READ, None)
        self._numbers = itertools.count(1)
        self._doors: dict[str, OpenDoor] = {}
        self._peers: dict[int, Peer] = {}
        self._ready: dict[Peer, None] = {}  # peers with something whole left of what was read
        self._unfinished: dict[Peer, None] = {}  # in the order of their deadlines
        self._leaving: dict[Peer, None] = {}  # as well
        self._paused: set[OpenDoor] = set()
        self._ahead = 0  # bytes told that no reader has come to, as far as marks say
        self._halves: dict[Peer, None] = {}  # peers with an unfinished frame, the oldest frame first
        self._unfinished_bytes = 0
        self._listeners = Listeners(self._selector, self._limits)
        self._stopping = False

    # What other threads call.

    def listen(self, door: Door) -> None:
        """Bind on the calling thread; when this returns, peers can connect.

        Raises:
            ValueError: a door of this name is open.
            PathTooLong, FolderNotPrivate, OSError: as `channel.door.bind`.

        """
        with self._lock:
            if door.name in self._paths:
                raise ValueError(f"door {door.name} is open already")
            listener = doors.bind(door.path)
            self._paths[door.name] = door.path
        self._orders.put(functools.partial(self._open, OpenDoor(door, listener)))

    def send(self, peer: int, message: bytes) -> None:
        """Write one frame, or queue it. It is dropped if the peer is closed, or closes before it is written."""
        known = self._peers.get(peer)  # a look into it is all that other threads take of what is this thread's
        if known is not None and known.write_now(zmtp.pack(message)):
            self._orders.put(known)

    def close(self, peer: int) -> None:
        """Write what is queued for it, for at most 1 s, and close it. From now on it is not read, and told nothing."""
        known = self._peers.get(peer)
        if known is not None:
            known.muted = True
        self._orders.put(functools.partial(self._close_number, peer))

    def close_door(self, name: str, *, keep_peers: bool) -> None:
        """Remove its path and listen no more; its peers are closed as by `close`, or kept. The name is free again."""
        with self._lock:
            path = self._paths.pop(name, None)
        if path is None:
            return
        path.unlink(missing_ok=True)
        self._orders.put(functools.partial(self._close_door, name, keep_peers=keep_peers))

    def stop(self) -> None:
        """Close all doors and, as `close` does, all peers; then the thread ends. `join` it with a limit above 1 s."""
        with self._lock:
            names = list(self._paths)
        for name in names:
            self.close_door(name, keep_peers=True)
        self._orders.put(self._end)

    # From here on: this thread alone.

    def run(self) -> None:
        try:
            while not self._stopping or self._peers:
                self._turn()
        except Exception:
            logger.exception("the socket thread failed")
            self._on_crash()
        finally:
            self._orders.close()
            self._selector.close()
            for left in self._peers.values():
                with left.writing:
                    left.sock.close()
            for door in self._doors.values():
                door.sock.close()

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._timeout()):
            data = key.data
            if isinstance(data, Peer):
                self._on_peer(data)
            elif data is None:
                self._take_orders()
            else:
                self._accept(data)
        for _ in range(_ROUNDS):
            if not self._ready:
                break
            for peer in list(self._ready):
                self._next(peer)
        if self._unfinished or self._leaving or self._paused or self._listeners.due() is not None:
            self._on_time(time.monotonic())

    def _timeout(self) -> float | None:
        if self._ready:
            return 0
        if self._paused:
            return _PAUSE_S
        due = [next(iter(peers)).deadline for peers in (self._unfinished, self._leaving) if peers]
        if (rested := self._listeners.due()) is not None:
            due.append(rested)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _on_time(self, now: float) -> None:
        for waiting in (self._unfinished, self._leaving):
            while waiting and (peer := next(iter(waiting))).deadline <= now:
                seldom.info("a peer took too long", peer.door.door.name, pid=peer.pid)
                self._drop(peer, peer.closing or CloseReason.PROTOCOL_ERROR)
        for door in [door for door in self._paused if not self._is_behind(door)]:
            self._resume(door)
        self._listeners.on_time(now)

    def _take_orders(self) -> None:
        written: dict[Peer, None] = {}
        for order in self._orders.take():
            if isinstance(order, Peer):
                written[order] = None
            else:
                order()
        for peer in written:
            if peer.number in self._peers:
                self._write(peer)

    # Doors.

    def _open(self, door: OpenDoor) -> None:
        self._doors[door.door.name] = door
        self._listeners.add(door)

    def _close_door(self, name: str, *, keep_peers: bool) -> None:
        door = self._doors.pop(name)
        self._listeners.remove(door)
        if not keep_peers:
            for peer in list(door.peers.values()):
                self._close(peer)

    def _end(self) -> None:
        self._stopping = True
        for peer in list(self._peers.values()):
            self._close(peer)

    def _accept(self, door: OpenDoor) -> None:
        for sock in self._listeners.accept(door):
            self._welcome(door, sock)

    def _welcome(self, door: OpenDoor, sock: socket.socket) -> None:
        try:
            sock.settimeout(0)
            pid, uid = doors.credentials(sock)
        except OSError:
            sock.close()
            return
        wanted = door.door
        may_come = not pid or self._listeners.may_connect(pid)
        if not may_come or not self._has_room(door, pid):
            seldom.info("a connection was refused", wanted.name, pid=pid)
            sock.close()
            return
        if len(self._unfinished) >= self._limits.handshakes:
            self._drop(_oldest_of_most(self._unfinished)[0], CloseReason.PROTOCOL_ERROR)
        number = next(self._numbers)
        peer = Peer(number, sock, door, (pid, uid), self._window(door, pid or -number))
        peer.deadline = time.monotonic() + self._limits.handshake_s
        self._peers[peer.number] = door.peers[peer.number] = peer
        self._unfinished[peer] = None
        peer.put(peer.connection.greeting())
        self._write(peer)

    def _window(self, door: OpenDoor, process: int) -> Window:
        """Where the kernel names no process, each connection stands for one."""
        window = door.windows.get(process)
        if window is None:
            window = Window(process, self._limits.frames_ahead, self._limits.bytes_ahead)
            door.windows[process] = window
        window.peers += 1
        return window

    def _forget_window(self, door: OpenDoor, window: Window) -> None:
        """Not before its marks are answered: who connects again gets no other."""
        if not window.peers and window.is_empty:
            door.windows.pop(window.process, None)

    def _has_room(self, door: OpenDoor, pid: int) -> bool:
        """Whether a process may have one more; one that has most of them makes room for one that has fewer."""
        if len(door.peers) < door.door.max_peers:
            return True
        oldest, of_most = _oldest_of_most(door.peers.values())
        if sum(peer.pid == pid for peer in door.peers.values()) >= of_most - 1:
            return False
        seldom.info("a connection makes room", door.door.name, pid=oldest.pid)
        self._drop(oldest, CloseReason.CLOSED)
        return True

    def _is_behind(self, door: OpenDoor) -> bool:
        return door.door.backlog() > self._limits.backlog or self._ahead > self._limits.all_bytes_ahead

    def _resume(self, door: OpenDoor) -> None:
        door.paused = False
        self._paused.discard(door)
        for peer in door.peers.values():
            self._go_on(peer)

    # Peers.

    def _on_peer(self, peer: Peer) -> None:
        if peer.pending:
            self._write(peer)
        # What was read must be used up first. `watched` is 0 once it was dropped, perhaps in this very turn.
        if peer.watched & _READ and peer not in self._ready:
            outcome = peer.read()
            if outcome is Read.DATA:
                self._ready[peer] = None
            elif outcome is Read.END:
                self._drop(peer, CloseReason.PEER_GONE)

    def _next(self, peer: Peer) -> None:
        """Take one thing out of what was read from `peer`."""
        door = peer.door
        if peer not in self._ready:
            return  # dropped in this very round
        if peer.opened and (door.paused or self._is_behind(door)):
            self._pause(door)
            return
        if self._must_wait(peer):
            del self._ready[peer]
            peer.window.waiting[peer] = None  # `_watch` leaves out those that cannot be written to any more
            self._watch(peer)
            return
        try:
            event = peer.connection.next_event()
        except zmtp.PeerProtocolError as error:
            seldom.info("a peer broke the protocol", door.door.name, pid=peer.pid, why=error.reason)
            self._drop(peer, CloseReason.PROTOCOL_ERROR)
            return
        if isinstance(event, bytes):
            self._finished(peer)
            self._tell(peer, PeerMessage(door.door.name, peer.number, event), len(event))
        elif event is zmtp.NEED_DATA:
            self._used_up(peer)
        elif event is zmtp.IGNORED or isinstance(event, zmtp.Reply):
            self._on_command(peer, event)
        elif isinstance(event, zmtp.Oversized):
            self._tell(peer, PeerOversized(door.door.name, peer.number, event.length), 0)
        elif isinstance(event, zmtp.Ready):
            peer.opened = True
            del self._unfinished[peer]
            door.door.mailbox.tell(PeerOpened(door.door.name, peer.number, peer.pid, peer.uid))
            self._watch(peer)

    def _tell(self, peer: Peer, event: PeerMessage | PeerOversized, size: int) -> None:
        mailbox = peer.door.door.mailbox
        mailbox.tell(event)
        marked = peer.window.told(size)
        if marked is not None:
            self._ahead += marked
            window, door = peer.window, peer.door
            mailbox.tell(Beat(lambda _: self._orders.put(functools.partial(self._on_mark, door, window, marked))))

    def _on_mark(self, door: OpenDoor, window: Window, marked: int) -> None:
        """The reader has come to this mark."""
        self._ahead -= marked
        window.answered()
        self._forget_window(door, window)
        if not window.is_full:
            waiting, window.waiting = window.waiting, {}
            for peer in waiting:
                if not door.paused:
                    self._go_on(peer)

    def _must_wait(self, peer: Peer) -> bool:
        """Not to be read now, because of what it said or was sent before."""
        return peer.opened and (peer.window.is_full or peer.pending > self._limits.unread_bytes)

    def _go_on(self, peer: Peer) -> None:
        """It is read again, if nothing else is against it."""
        self._watch(peer)
        if peer.closing is None and (peer.broken or not peer.connection.needs_data):
            self._ready[peer] = None

    def _on_command(self, peer: Peer, event: zmtp.Event) -> None:
        if not peer.may_command(time.monotonic(), self._limits.commands):
            seldom.info("a peer sent too many commands", peer.door.door.name, pid=peer.pid)
            self._drop(peer, CloseReason.PROTOCOL_ERROR)
        elif isinstance(event, zmtp.Reply):
            with peer.writing:
                peer.put(event.data)
            self._write(peer)

    def _used_up(self, peer: Peer) -> None:
        if buffered := peer.connection.buffered:
            self._unfinished_bytes += buffered - peer.unfinished
            peer.unfinished = buffered
            self._halves.setdefault(peer)
        else:
            self._finished(peer)
        if not peer.broken:
            del self._ready[peer]
        elif peer.read() is not Read.DATA:  # read to the end before it is declared gone
            self._drop(peer, CloseReason.PEER_GONE)
        while self._unfinished_bytes > self._limits.unfinished_bytes:
            oldest = next(iter(self._halves))
            seldom.info("a peer did not finish a frame", oldest.door.door.name, pid=oldest.pid)
            self._drop(oldest, CloseReason.PROTOCOL_ERROR)

    def _finished(self, peer: Peer) -> None:
        """Nothing is kept of an unfinished frame."""
        if peer.unfinished:
            self._unfinished_bytes -= peer.unfinished
            peer.unfinished = 0
        self._halves.pop(peer, None)

    def _pause(self, door: OpenDoor) -> None:
        door.paused = True
        self._paused.add(door)
        for peer in door.peers.values():
            if peer.opened:
                self._ready.pop(peer, None)
                self._watch(peer)

    def _write(self, peer: Peer) -> None:
        was_stuck = peer.pending > self._limits.unread_bytes
        try:
            with peer.writing:
                peer.write()
        except OSError:
            with peer.writing:
                peer.discard_output()
                peer.broken = True
            if peer.closing is None and not peer.door.paused:
                self._ready[peer] = None
        if peer.closing is not None and not peer.pending:
            self._drop(peer, peer.closing)
        elif peer.pending > self._limits.write_bytes:
            self._drop(peer, CloseReason.SLOW_CONSUMER)
        elif was_stuck and not peer.door.paused and not self._must_wait(peer):
            self._go_on(peer)
        else:
            self._watch(peer)
        if peer.pending > _MUCH:
            self._bound_writing()

    def _bound_writing(self) -> None:
        """What all peers together do not read is bounded as well: whoever has been behind the longest goes."""
        if sum(peer.pending for peer in self._peers.values()) > self._limits.all_write_bytes:
            slowest = min((peer for peer in self._peers.values() if peer.pending), key=lambda peer: peer.behind_since)
            if time.monotonic() - slowest.behind_since > _SLOW_S:
                self._drop(slowest, CloseReason.SLOW_CONSUMER)

    def _watch(self, peer: Peer) -> None:
        """Watch for what can be used now. A socket of no use leaves the selector, or its end would wake us for ever."""
        reads = peer.closing is None and not peer.broken and not (peer.opened and peer.door.paused)
        if reads and self._must_wait(peer):
            peer.window.waiting[peer] = None
            reads = False
        wanted = (_READ if reads else 0) | (_WRITE if peer.pending else 0)
        if wanted == peer.watched:
            return
        if not peer.watched:
            self._selector.register(peer.sock, wanted, peer)
        elif wanted:
            self._selector.modify(peer.sock, wanted, peer)
        else:
            self._selector.unregister(peer.sock)
        peer.watched = wanted

    def _close_number(self, number: int) -> None:
        peer = self._peers.get(number)
        if peer is not None:
            self._close(peer)

    def _close(self, peer: Peer) -> None:
        if peer.closing is not None:
            return
        peer.closing = CloseReason.CLOSED
        peer.deadline = time.monotonic() + _FLUSH_S
        self._ready.pop(peer, None)
        self._unfinished.pop(peer, None)
        self._leaving[peer] = None
        self._write(peer)

    def _drop(self, peer: Peer, reason: CloseReason) -> None:
        """Close the socket and forget the peer."""
        if self._peers.pop(peer.number, None) is None:
            return
        peer.closing = reason
        self._finished(peer)
        del peer.door.peers[peer.number]
        for waiting in (self._ready, self._unfinished, self._leaving, peer.window.waiting):
            waiting.pop(peer, None)
        peer.window.peers -= 1
        self._forget_window(peer.door, peer.window)
        if peer.watched:
            self._selector.unregister(peer.sock)
            peer.watched = 0
        with peer.writing:
            peer.discard_output()
            peer.sock.close()
        if peer.opened:
            name = peer.door.door.name
            peer.door.door.mailbox.tell(PeerClosed(name, peer.number, reason))


def _oldest_of_most(peers: Iterable[Peer]) -> tuple[Peer, int]:
    """Of the process that has most of these peers, given in the order of their age: the oldest, and how many."""
    among = list(peers)
    pid, most = Counter(peer.pid for peer in among).most_common(1)[0]
    return next(peer for peer in among if peer.pid == pid), most
