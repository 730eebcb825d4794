"""The one thread that owns every socket of the daemon.

Actors call `listen`, `send`, `close` and so on from any thread: these leave an order and wake the thread, which alone
touches the sockets. What peers do comes back as events (`channel.events`) in the mailbox of their door.

Nothing a peer does can cost more than its limits: each gets one frame a turn; the peers of a door are not read while
that door's reader is behind; what a peer does not read is kept up to a limit; handshakes are bounded in number and
time; and no connection is accepted for which there is no descriptor to spare.
"""

from __future__ import annotations

import functools
import itertools
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from runtime_actors.channel import door as doors
from runtime_actors.channel import zmtp
from runtime_actors.channel.descriptors import SpareDescriptors
from runtime_actors.channel.door import Door, OpenDoor, SocketLimits
from runtime_actors.channel.events import CloseReason, PeerClosed, PeerMessage, PeerOpened, PeerOversized
from runtime_actors.channel.orders import Orders
from runtime_actors.channel.peer import Peer, Read

logger = logging.getLogger(__name__)

_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE
_ROUNDS: Final = 8  # rounds through peers that have frames left, between two looks at the sockets
_PAUSE_S: Final = 0.005
_ACCEPT_AGAIN_S: Final = 0.1
_FLUSH_S: Final = 1.0

_Order = tuple[int, bytes] | Callable[[], None]


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
        self._descriptors = SpareDescriptors(self._limits.spare_descriptors)
        self._accept_again_at: float | None = None
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
        """Queue one frame. It is dropped if the peer is closed, or closes before it is written."""
        self._orders.put((peer, message))

    def close(self, peer: int) -> None:
        """Write what is queued for it, for at most 1 s, and close it. From now on it is not read."""
        self._orders.put(functools.partial(self._close_number, peer))

    def unlink(self, name: str) -> None:
        """Remove the door's path, so that nobody else finds it; it stays open otherwise."""
        with self._lock:
            path = self._paths.get(name)
        if path is not None:
            path.unlink(missing_ok=True)

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
        if self._unfinished or self._leaving or self._paused or self._accept_again_at is not None:
            self._on_time(time.monotonic())

    def _timeout(self) -> float | None:
        if self._ready:
            return 0
        if self._paused:
            return _PAUSE_S
        due = [next(iter(peers)).deadline for peers in (self._unfinished, self._leaving) if peers]
        if self._accept_again_at is not None:
            due.append(self._accept_again_at)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _on_time(self, now: float) -> None:
        for waiting in (self._unfinished, self._leaving):
            while waiting and (peer := next(iter(waiting))).deadline <= now:
                logger.info("a peer took too long", extra={"door": peer.door.door.name, "pid": peer.pid})
                self._drop(peer, peer.closing or CloseReason.PROTOCOL_ERROR)
        for door in [door for door in self._paused if door.door.backlog() <= self._limits.backlog]:
            self._resume(door)
        if self._accept_again_at is not None and self._accept_again_at <= now:
            self._accept_again_at = None
            for door in self._doors.values():
                self._selector.register(door.sock, _READ, door)

    def _take_orders(self) -> None:
        written: dict[Peer, None] = {}
        for order in self._orders.take():
            if not isinstance(order, tuple):
                order()
                continue
            peer = self._peers.get(order[0])
            if peer is not None and peer.closing is None and not peer.broken:
                peer.put(zmtp.pack(order[1]))
                written[peer] = None
        for peer in written:
            self._write(peer)

    # Doors.

    def _open(self, door: OpenDoor) -> None:
        self._doors[door.door.name] = door
        if self._accept_again_at is None:
            self._selector.register(door.sock, _READ, door)

    def _close_door(self, name: str, *, keep_peers: bool) -> None:
        door = self._doors.pop(name)
        if self._accept_again_at is None:
            self._selector.unregister(door.sock)
        door.sock.close()
        if not keep_peers:
            for peer in list(door.peers.values()):
                self._close(peer)

    def _end(self) -> None:
        self._stopping = True
        for peer in list(self._peers.values()):
            self._close(peer)

    def _accept(self, door: OpenDoor) -> None:
        if self._doors.get(door.door.name) is not door or self._accept_again_at is not None:
            return  # no longer, since this very turn
        if not self._descriptors.suffice(time.monotonic()):
            self._accept_later("too few file descriptors are free")
            return
        try:
            sock, _ = door.sock.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:  # EMFILE, ENFILE, ENOBUFS, ENOMEM: they pass
            self._accept_later(error.strerror or str(error))
            return
        self._descriptors.opened()
        self._welcome(door, sock)

    def _accept_later(self, why: str) -> None:
        logger.warning("accepting no connections for now", extra={"why": why})
        for door in self._doors.values():
            self._selector.unregister(door.sock)
        self._accept_again_at = time.monotonic() + _ACCEPT_AGAIN_S

    def _welcome(self, door: OpenDoor, sock: socket.socket) -> None:
        try:
            sock.settimeout(0)
            pid, uid = doors.credentials(sock)
        except OSError:
            sock.close()
            return
        wanted = door.door
        if len(door.peers) >= wanted.max_peers or wanted.only_pid not in {None, pid}:
            logger.info("a connection was refused", extra={"door": wanted.name, "pid": pid})
            sock.close()
            return
        if len(self._unfinished) >= self._limits.handshakes:
            self._drop(next(iter(self._unfinished)), CloseReason.PROTOCOL_ERROR)
        peer = Peer(next(self._numbers), sock, door, pid, uid)
        peer.deadline = time.monotonic() + self._limits.handshake_s
        self._peers[peer.number] = door.peers[peer.number] = peer
        self._unfinished[peer] = None
        peer.put(peer.connection.greeting())
        self._write(peer)

    def _resume(self, door: OpenDoor) -> None:
        door.paused = False
        self._paused.discard(door)
        for peer in door.peers.values():
            self._watch(peer)
            if peer.closing is None and (peer.broken or not peer.connection.needs_data):
                self._ready[peer] = None

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
        if peer.opened and (door.paused or door.door.backlog() > self._limits.backlog):
            self._pause(door)
            return
        try:
            event = peer.connection.next_event()
        except zmtp.PeerProtocolError as error:
            what = {"door": door.door.name, "pid": peer.pid, "why": error.reason}
            logger.info("a peer broke the protocol", extra=what)
            self._drop(peer, CloseReason.PROTOCOL_ERROR)
            return
        if isinstance(event, bytes):
            door.door.mailbox.tell(PeerMessage(door.door.name, peer.number, event))
        elif event is zmtp.NEED_DATA:
            self._used_up(peer)
        elif isinstance(event, zmtp.Reply):
            peer.put(event.data)
            self._write(peer)
        elif isinstance(event, zmtp.Oversized):
            door.door.mailbox.tell(PeerOversized(door.door.name, peer.number, event.length))
        elif isinstance(event, zmtp.Ready):
            peer.opened = True
            del self._unfinished[peer]
            door.door.mailbox.tell(PeerOpened(door.door.name, peer.number, peer.pid, peer.uid))
            self._watch(peer)

    def _used_up(self, peer: Peer) -> None:
        if not peer.broken:
            del self._ready[peer]
        elif peer.read() is not Read.DATA:  # read to the end before it is declared gone
            self._drop(peer, CloseReason.PEER_GONE)

    def _pause(self, door: OpenDoor) -> None:
        door.paused = True
        self._paused.add(door)
        for peer in door.peers.values():
            if peer.opened:
                self._ready.pop(peer, None)
                self._watch(peer)

    def _write(self, peer: Peer) -> None:
        try:
            peer.write()
        except OSError:
            peer.discard_output()
            peer.broken = True
            if peer.closing is None and not peer.door.paused:
                self._ready[peer] = None
        if peer.closing is not None and not peer.pending:
            self._drop(peer, peer.closing)
        elif peer.pending > self._limits.write_bytes:
            self._drop(peer, CloseReason.SLOW_CONSUMER)
        else:
            self._watch(peer)

    def _watch(self, peer: Peer) -> None:
        """Watch for what can be used now. A socket of no use leaves the selector, or its end would wake us for ever."""
        reads = peer.closing is None and not peer.broken and not (peer.opened and peer.door.paused)
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
        del peer.door.peers[peer.number]
        for waiting in (self._ready, self._unfinished, self._leaving):
            waiting.pop(peer, None)
        if peer.watched:
            self._selector.unregister(peer.sock)
            peer.watched = 0
        peer.discard_output()
        peer.sock.close()
        if peer.opened:
            name = peer.door.door.name
            peer.door.door.mailbox.tell(PeerClosed(name, peer.number, reason))
