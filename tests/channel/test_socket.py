"""The socket thread against real peers: pyzmq's, and raw sockets that mean no good."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
import zmq

from runtime_actors.actor import Beat
from runtime_actors.channel.door import Door, FolderNotPrivate, PathTooLong, SocketLimits
from runtime_actors.channel.events import (
    CloseReason,
    PeerClosed,
    PeerMessage,
    PeerOpened,
    PeerOversized,
    SocketEvent,
)
from runtime_actors.channel.seldom import Seldom
from runtime_actors.channel.socket import SocketThread

ROOT = Path(__file__).parents[2]
WAIT_S = 5.0
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
READY = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
HANDSHAKE = GREETING + bytes([4, len(READY)]) + READY


class Inbox:
    """A mailbox whose reader is the test. It answers marks as an actor does: when it comes to them."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[SocketEvent | Beat] = queue.SimpleQueue()

    def tell(self, message: SocketEvent | Beat) -> None:
        self._events.put(message)

    def next(self) -> SocketEvent:
        while isinstance(event := self._events.get(timeout=WAIT_S), Beat):
            event.answer("test")
        return event

    def opened(self) -> PeerOpened:
        event = self.next()
        assert isinstance(event, PeerOpened)
        return event

    def message(self) -> bytes:
        event = self.next()
        assert isinstance(event, PeerMessage)
        return event.message

    def waiting(self) -> int:
        return self._events.qsize()


class Swift:
    """A mailbox whose reader is done with everything at once."""

    def tell(self, message: SocketEvent | Beat) -> None:
        if isinstance(message, Beat):
            message.answer("test")


class Crash:
    """What `on_crash` did; nothing must be in it at the end of a test."""

    def __init__(self) -> None:
        self.happened = threading.Event()

    def __call__(self) -> None:
        self.happened.set()


StartThread = Callable[[SocketLimits], SocketThread]


class Dial(Protocol):
    def __call__(self, path: Path, first: bytes = b"") -> socket.socket: ...


Connect = Callable[[Path], zmq.Socket[bytes]]


@pytest.fixture
def start_thread() -> Iterator[StartThread]:
    crash, started = Crash(), list[SocketThread]()

    def start(limits: SocketLimits) -> SocketThread:
        thread = SocketThread(on_crash=crash, limits=limits)
        started.append(thread)
        thread.start()
        return thread

    yield start
    for thread in started:
        thread.stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert not crash.happened.is_set()


@pytest.fixture
def sockets(start_thread: StartThread) -> SocketThread:
    return start_thread(SocketLimits())


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "s"


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Make pyzmq peers of a door."""
    context, made = zmq.Context(), list[zmq.Socket[bytes]]()

    def connect(path: Path) -> zmq.Socket[bytes]:
        dealer = context.socket(zmq.DEALER)
        made.append(dealer)
        dealer.setsockopt(zmq.RCVTIMEO, int(WAIT_S * 1000))
        dealer.setsockopt(zmq.SNDTIMEO, int(WAIT_S * 1000))
        dealer.connect(f"ipc://{path}")
        return dealer

    yield connect
    for dealer in made:
        dealer.close(linger=0)
    context.term()


@pytest.fixture
def dial() -> Iterator[Dial]:
    """Make peers that say what they want."""
    made = list[socket.socket]()

    def dial(path: Path, first: bytes = b"") -> socket.socket:
        raw = socket.socket(socket.AF_UNIX)
        made.append(raw)
        raw.settimeout(WAIT_S)
        raw.connect(str(path))
        if first:
            raw.sendall(first)
        return raw

    yield dial
    for raw in made:
        raw.close()


def a_door(path: Path, inbox: Inbox, *, name: str = "agent", max_peers: int = 64) -> Door:
    return Door(name, path, inbox, lambda: 0, max_peers)


def read_to_end(raw: socket.socket) -> bytes:
    data = b""
    try:
        while part := raw.recv(65536):
            data += part
    except ConnectionResetError:
        pass
    return data


# The ordinary life of a peer.


def test_a_peer_is_opened_heard_answered_and_closed(
    sockets: SocketThread, inbox: Inbox, path: Path, connect: Connect
) -> None:
    sockets.listen(a_door(path, inbox))
    dealer = connect(path)

    dealer.send(b"hello")
    opened = inbox.opened()
    heard = inbox.next()
    sockets.send(opened.peer, b"welcome")
    answer = dealer.recv()
    dealer.close(linger=0)

    assert opened == PeerOpened("agent", opened.peer, os.getpid(), os.getuid())
    assert heard == PeerMessage("agent", opened.peer, b"hello")
    assert answer == b"welcome"
    assert inbox.next() == PeerClosed("agent", opened.peer, CloseReason.PEER_GONE)


def test_frames_of_every_size_come_through_unchanged_both_ways(
    sockets: SocketThread, inbox: Inbox, path: Path, connect: Connect
) -> None:
    sockets.listen(a_door(path, inbox))
    dealer = connect(path)
    messages = [os.urandom(size) for size in (0, 1, 255, 256, 65_535, 65_536, 262_144)]

    for message in messages:
        dealer.send(message)
    peer = inbox.opened().peer
    received = [inbox.message() for _ in messages]
    for message in received:
        sockets.send(peer, message)

    assert received == messages
    assert [dealer.recv() for _ in messages] == messages


def test_heartbeats_of_a_quiet_peer_are_answered(sockets: SocketThread, inbox: Inbox, path: Path, dial: Dial) -> None:
    sockets.listen(a_door(path, inbox))
    raw = dial(path, HANDSHAKE + b"\x04\x09\x04PING\x00\x0aab")
    inbox.opened()

    data = raw.recv(len(HANDSHAKE))
    while len(data) < len(HANDSHAKE) + 9:
        data += raw.recv(65536)

    assert data.endswith(b"\x04\x07\x04PONGab")


def test_two_threads_send_to_one_peer_and_each_ones_frames_keep_their_order(
    sockets: SocketThread, inbox: Inbox, path: Path, connect: Connect
) -> None:
    sockets.listen(a_door(path, inbox))
    dealer = connect(path)
    peer = inbox.opened().peer

    def send_all(sender: bytes) -> None:
        for number in range(3000):
            sockets.send(peer, b"%s %d" % (sender, number))

    senders = [threading.Thread(target=send_all, args=(name,)) for name in (b"a", b"b")]
    for sender in senders:
        sender.start()
    received = [dealer.recv().split() for _ in range(6000)]
    for sender in senders:
        sender.join(WAIT_S)

    for name in (b"a", b"b"):
        assert [int(number) for sender, number in received if sender == name] == list(range(3000))


KILLED = """
import os, signal, socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
peer.sendall(sys.stdin.buffer.read())
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_all_that_a_killed_peer_had_sent_is_told_before_its_end(
    start_thread: StartThread, inbox: Inbox, path: Path
) -> None:
    held = threading.Event()
    sockets = start_thread(SocketLimits(backlog=0))  # so that nothing is read before the peer is dead
    sockets.listen(Door("agent", path, inbox, lambda: 0 if held.is_set() else 1, 4))
    frames = b"".join(b"\x00\x04%04d" % number for number in range(1000))

    child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdin=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(HANDSHAKE + frames)
    child.stdin.close()
    assert child.wait(WAIT_S) == -signal.SIGKILL
    held.set()
    opened = inbox.opened()

    assert opened.pid == child.pid
    assert [inbox.message() for _ in range(1000)] == [b"%04d" % number for number in range(1000)]
    assert inbox.next() == PeerClosed("agent", opened.peer, CloseReason.PEER_GONE)


def test_what_a_dead_peer_had_sent_is_told_even_when_writing_to_it_fails_first(
    start_thread: StartThread, inbox: Inbox, path: Path, dial: Dial
) -> None:
    free = threading.Event()
    sockets = start_thread(SocketLimits(backlog=0))
    sockets.listen(Door("agent", path, inbox, lambda: 0 if free.is_set() else 1, 4))
    raw = dial(path, HANDSHAKE + b"\x00\x04last")
    peer = inbox.opened().peer
    raw.close()

    sockets.send(peer, b"nobody reads this")
    sockets.listen(a_door(path.with_name("t"), inbox, name="later"))
    dial(path.with_name("t"), HANDSHAKE).close()  # its events say that the order before it was taken
    assert [type(inbox.next()) for _ in range(2)] == [PeerOpened, PeerClosed]
    free.set()

    assert inbox.next() == PeerMessage("agent", peer, b"last")
    assert inbox.next() == PeerClosed("agent", peer, CloseReason.PEER_GONE)


def test_a_peer_that_only_stops_reading_is_closed_when_it_is_written_to(
    sockets: SocketThread, inbox: Inbox, path: Path, dial: Dial
) -> None:
    sockets.listen(a_door(path, inbox))
    raw = dial(path, HANDSHAKE)
    peer = inbox.opened().peer
    raw.shutdown(socket.SHUT_RD)

    sockets.send(peer, b"not wanted")

    assert inbox.next() == PeerClosed("agent", peer, CloseReason.PEER_GONE)


# Closing.


def test_close_writes_what_is_queued_first(sockets: SocketThread, inbox: Inbox, path: Path, dial: Dial) -> None:
    sockets.listen(a_door(path, inbox))
    raw = dial(path, HANDSHAKE)
    peer = inbox.opened().peer

    for _ in range(10):
        sockets.send(peer, bytes(100_000))
    sockets.close(peer)
    sockets.send(peer, b"too late")
    data = read_to_end(raw)

    assert len(data) == len(HANDSHAKE) + 10 * (9 + 100_000)
    assert inbox.next() == PeerClosed("agent", peer, CloseReason.CLOSED)


def test_a_peer_that_is_to_be_closed_is_told_nothing_more_from_that_moment_on(
    sockets: SocketThread, inbox: Inbox, path: Path, dial: Dial
) -> None:
    sockets.listen(a_door(path, inbox))
    raw = dial(path, HANDSHAKE)
    peer = inbox.opened().peer
    busy = threading.Event()

    def hold_up() -> None:
        busy.wait(WAIT_S)

    sockets._orders.put(hold_up)  # the thread comes to the close only later
    sockets.close(peer)
    sockets.send(peer, b"too late")
    busy.set()

    assert len(read_to_end(raw)) == len(HANDSHAKE)


def test_close_waits_a_second_at_most_for_a_peer_that_does_not_read(
    sockets: SocketThread, inbox: Inbox, path: Path, dial: Dial
) -> None:
    sockets.listen(a_door(path, inbox))
    dial(path, HANDSHAKE)
    peer = inbox.opened().peer

    started = time.monotonic()
    sockets.send(peer, bytes(1_000_000))
    sockets.close(peer)
    closed = inbox.next()
    took = time.monotonic() - started

    assert closed == PeerClosed("agent", peer, CloseReason.CLOSED)
    assert 0.9 < took < 3


def test_a_closed_door_is_gone_and_its_peers_stay_if_wished(
    sockets: SocketThread, inbox: Inbox, path: Path, connect: Connect
) -> None:
    sockets.listen(a_door(path, inbox))
    dealer = connect(path)
    peer = inbox.opened().peer

    sockets.close_door("agent", keep_peers=True)
    sockets.send(peer, b"still here")

    assert dealer.recv() == b"still here"
    assert not path.exists()


def test_a_door_closed_with_its_peers_can_be_opened_again_under_its_name(
    sockets: SocketThread, inbox: Inbox, path: Path, connect: Connect
) -> None:
    sockets.listen(a_door(path, inbox))
    connect(path)  # it connects again by itself
    first = inbox.opened().peer

    sockets.close_door("agent", keep_peers=False)
    sockets.listen(a_door(path, inbox))

    assert inbox.next() == PeerClosed("agent", first, CloseReason.CLOSED)
    assert inbox.opened().peer != first


def test_a_door_that_is_closed_can_keep_its_peers_and_is_found_by_nobody_else(
    sockets: SocketThread, inbox: Inbox, path: Path, connect: Connect, dial: Dial
) -> None:
    sockets.listen(a_door(path, inbox))
    dealer = connect(path)
    peer = inbox.opened().peer

    sockets.close_door("agent", keep_peers=True)
    sockets.send(peer, b"as before")

    assert dealer.recv() == b"as before"
    with pytest.raises(FileNotFoundError):
        dial(path)


def test_a_stopped_thread_leaves_no_socket_behind_and_takes_orders_silently(
    inbox: Inbox, path: Path, dial: Dial
) -> None:
    sockets = SocketThread(on_crash=Crash())
    sockets.start()
    sockets.listen(a_door(path, inbox))
    raw = dial(path, HANDSHAKE)
    peer = inbox.opened().peer

    sockets.stop()
    sockets.join(WAIT_S)
    sockets.send(peer, b"nobody")
    data = read_to_end(raw)

    assert not sockets.is_alive()
    assert not path.exists()
    assert len(data) == len(HANDSHAKE)
    assert inbox.next() == PeerClosed("agent", peer, CloseReason.CLOSED)


def test_a_failure_of_the_thread_is_reported_to_whoever_can_end_the_process(path: Path, dial: Dial) -> None:
    class Broken:
        def tell(self, message: SocketEvent | Beat) -> None:
            raise RuntimeError(f"planted at {type(message).__name__}")

    crash = Crash()
    sockets = SocketThread(on_crash=crash)
    sockets.start()
    sockets.listen(Door("agent", path, Broken(), lambda: 0, 4))

    dial(path, HANDSHAKE).close()

    assert crash.happened.wait(WAIT_S)
    sockets.join(WAIT_S)


# Binding.


def test_a_door_is_private_and_replaces_the_socket_a_crash_left(
    sockets: SocketThread, inbox: Inbox, path: Path, dial: Dial
) -> None:
    path.parent.mkdir(mode=0o700)
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()

    sockets.listen(a_door(path, inbox))
    dial(path, HANDSHAKE).close()

    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert inbox.opened().door == "agent"


def test_a_path_that_is_too_long_is_refused_by_name(sockets: SocketThread, inbox: Inbox, tmp_path: Path) -> None:
    path = tmp_path / ("s" * 108)

    with pytest.raises(PathTooLong, match="107") as refused:
        sockets.listen(a_door(path, inbox))

    assert refused.value.filename == str(path)


def test_a_folder_that_others_may_enter_is_refused(sockets: SocketThread, inbox: Inbox, path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o755)

    with pytest.raises(FolderNotPrivate):
        sockets.listen(a_door(path, inbox))


def test_a_file_that_is_no_socket_is_not_removed(sockets: SocketThread, inbox: Inbox, path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_text("precious")

    with pytest.raises(FileExistsError):
        sockets.listen(a_door(path, inbox))

    assert path.read_text() == "precious"


def test_a_name_is_given_to_one_door_at_a_time(sockets: SocketThread, inbox: Inbox, path: Path) -> None:
    sockets.listen(a_door(path, inbox))

    with pytest.raises(ValueError, match="agent"):
        sockets.listen(a_door(path.with_name("t"), inbox))


# Hostile peers.


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", id="another protocol"),
        pytest.param(os.urandom(4096), id="noise"),
        pytest.param(GREETING.replace(b"NULL\0", b"CURVE"), id="another mechanism"),
    ],
)
def test_a_peer_that_never_shakes_hands_is_closed_and_not_heard_of(
    sockets: SocketThread, inbox: Inbox, path: Path, said: bytes, dial: Dial
) -> None:
    sockets.listen(a_door(path, inbox))
    raw = dial(path, said)

    read_to_end(raw)

    assert inbox.waiting() == 0


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"\x01\x01x" * 1000, id="endless MORE"),
        pytest.param(b"\x02" + struct.pack(">Q", 1 << 62), id="huge length"),
        pytest.param(b"\x02" + struct.pack(">Q", 16 * 1024 * 1024 + 1), id="one byte too many"),
    ],
)
def test_a_peer_that_breaks_the_protocol_later_is_closed_with_that_reason(
    sockets: SocketThread, inbox: Inbox, path: Path, said: bytes, dial: Dial
) -> None:
    sockets.listen(a_door(path, inbox))
    raw = dial(path, HANDSHAKE + b"\x00\x02ok" + said)

    peer = inbox.opened().peer
    heard = inbox.message()
    closed = inbox.next()
    read_to_end(raw)

    assert heard == b"ok"
    assert closed == PeerClosed("agent", peer, CloseReason.PROTOCOL_ERROR)


def test_an_oversized_frame_is_told_of_and_the_connection_goes_on(
    sockets: SocketThread, inbox: Inbox, path: Path, connect: Connect
) -> None:
    sockets.listen(a_door(path, inbox))
    dealer = connect(path)

    for message in (b"before", bytes(262_145), bytes(16 * 1024 * 1024), b"after"):
        dealer.send(message)
    peer = inbox.opened().peer
    heard = [inbox.next() for _ in range(4)]

    assert heard == [
        PeerMessage("agent", peer, b"before"),
        PeerOversized("agent", peer, 262_145),
        PeerOversized("agent", peer, 16 * 1024 * 1024),
        PeerMessage("agent", peer, b"after"),
    ]


def test_half_a_greeting_is_given_up_in_time(start_thread: StartThread, inbox: Inbox, path: Path, dial: Dial) -> None:
    sockets = start_thread(SocketLimits(handshake_s=0.2))
    sockets.listen(a_door(path, inbox))
    started = time.monotonic()
    raw = dial(path, GREETING[:32])

    read_to_end(raw)

    assert 0.15 < time.monotonic() - started < 2
    assert inbox.waiting() == 0


def test_unfinished_handshakes_are_bounded_and_the_oldest_makes_room(
    start_thread: StartThread, inbox: Inbox, path: Path, dial: Dial, connect: Connect
) -> None:
    sockets = start_thread(SocketLimits(handshakes=4))
    sockets.listen(a_door(path, inbox))
    silent = [dial(path) for _ in range(6)]

    for gone in silent[:2]:
        read_to_end(gone)
    dealer = connect(path)
    dealer.send(b"still served")

    inbox.opened()
    assert inbox.message() == b"still served"


def test_a_peer_that_never_reads_is_closed_as_a_slow_consumer(
    start_thread: StartThread, inbox: Inbox, path: Path, dial: Dial
) -> None:
    sockets = start_thread(SocketLimits(write_bytes=1_000_000))
    sockets.listen(a_door(path, inbox))
    dial(path, HANDSHAKE)
    peer = inbox.opened().peer

    for _ in range(20):
        sockets.send(peer, bytes(100_000))

    assert inbox.next() == PeerClosed("agent", peer, CloseReason.SLOW_CONSUMER)


@pytest.mark.parametrize("command", [b"\x04\x09\x04PING\x00\x0aab", b"\x04\x05\x04PONG"], ids=["PING", "PONG"])
def test_more_commands_than_anybody_needs_end_the_connection(
    sockets: SocketThread, inbox: Inbox, path: Path, dial: Dial, command: bytes
) -> None:
    sockets.listen(a_door(path, inbox))
    raw = dial(path, HANDSHAKE)
    peer = inbox.opened().peer

    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        raw.sendall(command * 1_000_000)

    assert inbox.next() == PeerClosed("agent", peer, CloseReason.PROTOCOL_ERROR)


def test_one_peer_too_many_is_closed_at_once(sockets: SocketThread, inbox: Inbox, path: Path, dial: Dial) -> None:
    sockets.listen(a_door(path, inbox, max_peers=1))
    dial(path, HANDSHAKE)
    inbox.opened()

    assert read_to_end(dial(path)) == b""
    assert inbox.waiting() == 0


def test_a_flooding_peer_does_not_keep_others_waiting(
    sockets: SocketThread, path: Path, connect: Connect, dial: Dial
) -> None:
    sockets.listen(Door("flood", path, Swift(), lambda: 0, 4))
    quiet = Inbox()
    sockets.listen(a_door(path.with_name("t"), quiet, name="quiet"))
    flooder, over = dial(path, HANDSHAKE), threading.Event()

    def flood() -> None:
        while not over.is_set():
            flooder.sendall(b"\x00\x01x" * 20_000)

    flooding = threading.Thread(target=flood)
    flooding.start()
    dealer = connect(path.with_name("t"))
    dealer.send(b"please")
    started = time.monotonic()
    peer = quiet.opened().peer
    heard = quiet.message()
    sockets.send(peer, b"done")
    answer = dealer.recv()
    took = time.monotonic() - started
    over.set()
    flooding.join(WAIT_S)

    assert (heard, answer) == (b"please", b"done")
    assert took < 1


def test_a_door_whose_reader_is_behind_is_not_read_and_goes_on_afterwards(
    start_thread: StartThread, inbox: Inbox, path: Path, dial: Dial
) -> None:
    sockets = start_thread(SocketLimits(backlog=10))
    sockets.listen(Door("agent", path, inbox, inbox.waiting, 4))
    barrier = Inbox()
    sockets.listen(a_door(path.with_name("t"), barrier, name="barrier"))

    raw = dial(path, HANDSHAKE + b"".join(b"\x00\x04%04d" % number for number in range(2000)))
    give_up = time.monotonic() + WAIT_S
    while inbox.waiting() < 11:
        assert time.monotonic() < give_up
    for _ in range(2):  # each takes a turn or more of the thread
        dial(path.with_name("t"), HANDSHAKE).close()
        barrier.opened()
        barrier.next()
    told_meanwhile = inbox.waiting()
    inbox.opened()
    received = [inbox.message() for _ in range(2000)]
    raw.close()

    assert told_meanwhile == 11
    assert received == [b"%04d" % number for number in range(2000)]
    assert isinstance(inbox.next(), PeerClosed)


@pytest.mark.parametrize("alive", [True, False], ids=["alive", "dead"])
def test_a_paused_door_is_looked_at_every_few_milliseconds_and_no_oftener(
    start_thread: StartThread, inbox: Inbox, path: Path, dial: Dial, *, alive: bool
) -> None:
    looks: queue.SimpleQueue[float] = queue.SimpleQueue()
    behind = threading.Event()
    behind.set()

    def backlog() -> int:
        looks.put(time.monotonic())
        return 1 if behind.is_set() else 0

    sockets = start_thread(SocketLimits(backlog=0))
    sockets.listen(Door("agent", path, inbox, backlog, 4))
    raw = dial(path, HANDSHAKE + b"\x00\x02ok" + HANDSHAKE)
    inbox.opened()
    if not alive:
        raw.close()  # its end stays signalled, and must not keep the thread awake

    times = [looks.get(timeout=WAIT_S) for _ in range(40)]
    behind.clear()

    assert 39 * 0.004 < times[-1] - times[0] < 39 * 0.05
    assert inbox.message() == b"ok"


# Shares.


def counted(inbox: Inbox) -> int:
    """How many frames wait, once no more come."""
    give_up, seen = time.monotonic() + WAIT_S, -1
    while (now := inbox.waiting()) != seen or now == 0:
        assert time.monotonic() < give_up
        seen = now
        threading.Event().wait(0.05)
    return seen


def test_a_process_has_a_short_stretch_of_its_readers_mailbox_however_many_connections_it_has(
    start_thread: StartThread, inbox: Inbox, path: Path, dial: Dial
) -> None:
    sockets = start_thread(SocketLimits(frames_ahead=8))
    sockets.listen(a_door(path, inbox))
    peers = [dial(path, HANDSHAKE + b"\x00\x01x" * 500) for _ in range(3)]

    waiting = counted(inbox)
    heard = [inbox.next() for _ in range(3 + 1500)]

    assert waiting <= 3 + 8 + 2 + len(peers)  # opened, frames, marks, and one each before the window was full
    assert sum(isinstance(event, PeerMessage) for event in heard) == 1500
    assert {event.peer for event in heard} == {event.peer for event in heard if isinstance(event, PeerOpened)}


def test_a_large_frame_waits_alone(start_thread: StartThread, inbox: Inbox, path: Path, dial: Dial) -> None:
    sockets = start_thread(SocketLimits(bytes_ahead=32_768))
    sockets.listen(a_door(path, inbox))
    raw = dial(path, HANDSHAKE)
    inbox.opened()
    large = b"\x02" + struct.pack(">Q", 100_000) + bytes(100_000)
    sending = threading.Thread(target=raw.sendall, args=(large * 20,))
    sending.start()

    waiting = counted(inbox)
    received = [inbox.message() for _ in range(20)]
    sending.join(WAIT_S)

    assert waiting == 2  # the frame and its mark
    assert received == [bytes(100_000)] * 20


@pytest.mark.parametrize("told", [False, True], ids=["unnoticed", "noticed by writing"])
def test_a_peer_that_dies_while_it_is_not_read_is_read_to_its_end(
    start_thread: StartThread, inbox: Inbox, path: Path, dial: Dial, *, told: bool
) -> None:
    sockets = start_thread(SocketLimits(frames_ahead=2))
    sockets.listen(a_door(path, inbox))
    raw = dial(path, HANDSHAKE + b"\x00\x01x" * 100)
    peer = inbox.opened().peer
    counted(inbox)

    raw.close()
    if told:
        sockets.send(peer, b"nobody reads this")
    received = [inbox.message() for _ in range(100)]

    assert received == [b"x"] * 100
    assert inbox.next() == PeerClosed("agent", peer, CloseReason.PEER_GONE)


def test_a_peer_that_does_not_take_its_answers_is_not_read_until_it_does(
    start_thread: StartThread, path: Path, dial: Dial
) -> None:
    """It would be sent more and more."""
    heard: queue.SimpleQueue[int] = queue.SimpleQueue()

    class Answering:
        def tell(self, message: SocketEvent | Beat) -> None:
            if isinstance(message, Beat):
                message.answer("test")
            elif isinstance(message, PeerMessage):
                heard.put(1)
                thread.send(message.peer, bytes(10_000))

    thread = start_thread(SocketLimits(unread_bytes=100_000))
    thread.listen(Door("agent", path, Answering(), lambda: 0, 4))
    raw = dial(path, HANDSHAKE + b"\x00\x01x" * 2000)
    give_up, seen = time.monotonic() + WAIT_S, -1
    while (now := heard.qsize()) != seen or now == 0:
        assert time.monotonic() < give_up
        seen = now
        threading.Event().wait(0.05)

    left = len(HANDSHAKE) + 2000 * (9 + 10_000)
    while left:
        left -= len(raw.recv(65_536))

    assert seen < 200
    assert heard.qsize() == 2000


def test_frames_that_never_come_whole_share_a_limit_and_the_oldest_makes_room(
    start_thread: StartThread, inbox: Inbox, path: Path, dial: Dial
) -> None:
    sockets = start_thread(SocketLimits(unfinished_bytes=230_000))
    sockets.listen(a_door(path, inbox))
    half = b"\x02" + struct.pack(">Q", 100_000) + bytes(60_000)

    made = []
    for _ in range(4):
        made.append(dial(path, HANDSHAKE + half))
        assert inbox.opened()
    closed = inbox.next()
    made[3].sendall(bytes(40_000))
    whole = inbox.next()

    assert isinstance(closed, PeerClosed)
    assert closed.reason is CloseReason.PROTOCOL_ERROR
    assert read_to_end(made[0]).endswith(b"ROUTER")
    assert isinstance(whole, PeerMessage)
    assert whole.message == bytes(100_000)


def test_what_all_peers_leave_unread_shares_a_limit_and_who_is_behind_the_longest_makes_room(
    start_thread: StartThread, inbox: Inbox, path: Path, dial: Dial
) -> None:
    sockets = start_thread(SocketLimits(all_write_bytes=2_000_000))
    sockets.listen(a_door(path, inbox))
    peers = []
    for _ in range(3):
        dial(path, HANDSHAKE)
        peers.append(inbox.opened().peer)

    for peer in peers:
        sockets.send(peer, bytes(900_000))
    give_up = time.monotonic() + WAIT_S
    while not inbox.waiting():  # it is borne for a moment
        assert time.monotonic() < give_up
        sockets.send(peers[2], b"more")
        threading.Event().wait(0.05)

    assert inbox.next() == PeerClosed("agent", peers[0], CloseReason.SLOW_CONSUMER)


STORM = """
import socket, sys, time
made = []
for _ in range(int(sys.argv[2])):
    raw = socket.socket(socket.AF_UNIX)
    raw.connect(sys.argv[1])
    made.append(raw)
print("connected", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def a_storm(path: Path, connections: int) -> Iterator[None]:
    """Connections of another process, which says nothing on them."""
    command = [sys.executable, "-c", STORM, str(path), str(connections)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as storm:
        try:
            assert storm.stdout is not None
            assert storm.stdout.readline() == "connected\n"
            yield
        finally:
            storm.kill()


def test_a_process_that_fills_a_door_makes_room_for_others(
    sockets: SocketThread, inbox: Inbox, path: Path, connect: Connect
) -> None:
    sockets.listen(a_door(path, inbox, max_peers=8))

    with a_storm(path, 20):
        dealer = connect(path)
        dealer.send(b"let me in")

        assert inbox.opened().pid == os.getpid()
        assert inbox.message() == b"let me in"


def test_a_process_that_connects_over_and_over_is_shut_out_and_others_are_not(
    start_thread: StartThread, inbox: Inbox, path: Path, connect: Connect
) -> None:
    sockets = start_thread(SocketLimits(connects=1, connects_at_once=4, handshake_s=60))
    sockets.listen(a_door(path, inbox))
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208 - names are all that is wanted

    with a_storm(path, 50):
        dealer = connect(path)
        dealer.send(b"let me in")

        assert inbox.opened().pid == os.getpid()
        assert inbox.message() == b"let me in"
        assert len(os.listdir("/dev/fd")) < before + 20  # noqa: PTH208 - as above


def test_log_lines_that_a_peer_causes_are_counted_and_not_written(caplog: pytest.LogCaptureFixture) -> None:
    seldom = Seldom(logging.getLogger("seldom"))

    with caplog.at_level(logging.INFO, "seldom"):
        for _ in range(1000):
            seldom.info("a connection was refused", "agent", pid=1)
        seldom.info("a connection was refused", "host", pid=1)

    assert len(caplog.records) == 11


# Descriptors.

SERVER = """
import os, queue, resource, sys
from pathlib import Path
from typing import Protocol
from runtime_actors.channel.door import Door
from runtime_actors.channel.events import PeerMessage
from runtime_actors.channel.socket import SocketThread

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

class Echo:
    def tell(self, event):
        if isinstance(event, PeerMessage):
            sockets.send(event.peer, event.message)

sockets = SocketThread(on_crash=lambda: os._exit(6))
sockets.start()
sockets.listen(Door("agent", Path(sys.argv[1]), Echo(), lambda: 0, 1000))
print("ready", flush=True)
sys.stdin.read()
"""


def test_running_out_of_descriptors_stops_accepting_and_nothing_else(path: Path, connect: Connect) -> None:
    command = [sys.executable, "-c", SERVER, str(path)]
    crowd: list[socket.socket] = []
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            early = connect(path)
            early.send(b"before")
            before = early.recv()

            for _ in range(900):
                raw = socket.socket(socket.AF_UNIX)
                raw.settimeout(0)
                crowd.append(raw)
                if raw.connect_ex(str(path)) != 0:  # the queue of the listening socket is full: nobody accepts
                    break
            early.send(b"meanwhile")
            meanwhile = early.recv()
            for raw in crowd:
                raw.close()
            late = connect(path)
            late.send(b"after")
            after = late.recv()

            assert (before, meanwhile, after) == (b"before", b"meanwhile", b"after")
            assert 100 < len(crowd) < 900
            assert server.poll() is None
        finally:
            server.kill()


def test_the_descriptor_limit_is_raised_to_the_hard_one() -> None:
    code = (
        "import resource; from runtime_actors.channel.descriptors import raise_fd_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 300)); print(raise_fd_limit(), raise_fd_limit())\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )

    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True, timeout=30)

    assert out.stdout == "300 300\n(300, 300)\n"
