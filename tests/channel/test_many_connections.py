"""What many connections share: the room for unfinished frames, and the window of their process."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from runtime_actors.actor import Beat
from runtime_actors.channel.door import Door, SocketLimits
from runtime_actors.channel.events import CloseReason, PeerClosed, PeerMessage, PeerOpened, SocketEvent
from runtime_actors.channel.socket import SocketThread

WAIT_S: Final = 5.0
READY: Final = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
HANDSHAKE: Final = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48) + bytes([4, len(READY)]) + READY
HALF: Final = b"\x02" + struct.pack(">Q", 100_000) + bytes(60_000)
REST: Final = bytes(40_000)
PING: Final = b"\x04\x0a\x04PING\x00\x00abc"
SMALL: Final = b"\x00\x02hi"
ROOM: Final = 130_000
"""For two halves, and not for three."""


class Inbox:
    """A mailbox whose reader is the test."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[SocketEvent | Beat] = queue.SimpleQueue()

    def tell(self, message: SocketEvent | Beat) -> None:
        self._events.put(message)

    def next(self) -> SocketEvent:
        while isinstance(event := self._events.get(timeout=WAIT_S), Beat):
            event.answer("test")
        return event


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def thread() -> Iterator[SocketThread]:
    crashes: list[str] = []
    made = SocketThread(on_crash=lambda: crashes.append("crashed"), limits=SocketLimits(unfinished_bytes=ROOM))
    made.start()
    yield made
    made.stop()
    made.join(WAIT_S)
    assert not made.is_alive()
    assert crashes == []


@pytest.fixture
def path(tmp_path: Path, inbox: Inbox, thread: SocketThread) -> Path:
    """Of a door that is open."""
    thread.listen(Door("agent", tmp_path / "run" / "s", inbox, lambda: 0, 64))
    return tmp_path / "run" / "s"


def connected(path: Path, inbox: Inbox) -> socket.socket:
    raw = socket.socket(socket.AF_UNIX)
    raw.settimeout(WAIT_S)
    raw.connect(str(path))
    raw.sendall(HANDSHAKE)
    assert isinstance(inbox.next(), PeerOpened)
    return raw


def be_read(other: socket.socket, inbox: Inbox) -> None:
    """When this returns, what others sent before was read: peers take turns."""
    for _ in range(2):
        other.sendall(SMALL)
        assert isinstance(inbox.next(), PeerMessage)


def test_many_peers_may_send_large_frames_in_pieces_one_after_the_other(inbox: Inbox, path: Path) -> None:
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(connected(path, inbox))
        for _ in range(8):
            raw = stack.enter_context(connected(path, inbox))
            raw.sendall(HALF)
            be_read(other, inbox)
            raw.sendall(REST)

            whole = inbox.next()
            assert isinstance(whole, PeerMessage), whole
            assert len(whole.message) == 100_000


def test_who_finished_a_command_does_not_make_room_for_those_who_finish_nothing(inbox: Inbox, path: Path) -> None:
    with contextlib.ExitStack() as stack:
        innocent, other, *guilty = (stack.enter_context(connected(path, inbox)) for _ in range(5))
        innocent.sendall(PING[:4])
        be_read(other, inbox)
        innocent.sendall(PING[4:])
        be_read(other, inbox)

        for one in guilty[:-1]:
            one.sendall(HALF)
            be_read(other, inbox)
        guilty[-1].sendall(HALF)
        closed = inbox.next()
        innocent.sendall(SMALL)

        assert isinstance(closed, PeerClosed)
        assert closed.reason is CloseReason.PROTOCOL_ERROR
        heard = inbox.next()
        assert isinstance(heard, PeerMessage)
        assert heard.peer != closed.peer


@pytest.mark.parametrize("count", [1, 2, 3])
def test_nothing_is_kept_of_a_process_whose_connections_have_all_ended(
    inbox: Inbox, path: Path, thread: SocketThread, count: int
) -> None:
    peers = [connected(path, inbox) for _ in range(count)]
    [door] = thread._doors.values()
    windows = [len(door.windows)]

    for peer in peers:
        peer.close()
        assert isinstance(inbox.next(), PeerClosed)
        windows.append(len(door.windows))

    assert windows == [*([1] * count), 0]
