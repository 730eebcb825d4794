"""Connections to a door: the sans-I/O parser in pieces of any size, and the socket thread over a real Unix socket."""

from __future__ import annotations

import contextlib
import itertools
import queue
import socket
import struct
import tempfile
import threading
from pathlib import Path
from typing import Final

from runtime_actors.actor import Beat
from runtime_actors.channel.door import Door, SocketLimits
from runtime_actors.channel.events import CloseReason, PeerClosed, PeerMessage, PeerOpened, PeerOversized, SocketEvent
from runtime_actors.channel.socket import SocketThread
from runtime_actors.contract import zmtp
from tests.fuzz.source import Source
from tests.fuzz.target import ACCEPTED, Input, Stateless, expect
from tests.fuzz.zmtp_stream import GREETING, READY, Expected, a_stream, expected, frame

_SIZES: Final = ("1000", "1000", "262144")
_LIMIT_S: Final = 5.0
UNFINISHED: Final = "unfinished"


def verdict(known: Expected) -> str:
    """In one word."""
    if known.violation is not None:
        return known.violation
    return ACCEPTED if any(isinstance(one, bytes) for one in known.said) else UNFINISHED


class ZmtpTarget(Stateless):
    """`contract.zmtp.Connection`. `to` is its largest frame."""

    name = "zmtp"

    def make(self, source: Source) -> Input:
        most = source.pick(_SIZES)
        return Input(a_stream(source, int(most)), most)

    def feed(self, one: Input) -> str:
        most = int(one.to)
        known = expected(one.data, most)
        cuts = Source(one.data[:100].hex())
        pieces = ([one.data], _pieces(cuts, one.data), [bytes((byte,)) for byte in one.data[:400]] + [one.data[400:]])
        for each in pieces:
            said, violation = self.cost.of(_events, each, most)
            expect(said == known.said, f"it reads {said[-3:]}, the page says {known.said[-3:]}")
            expect(violation == known.violation, f"it finds {violation}, the page says {known.violation}")
        return verdict(known)


def _pieces(source: Source, data: bytes) -> list[bytes]:
    cuts = sorted({0, len(data), *(source.below(len(data) + 1) for _ in range(5))})
    return [data[start:end] for start, end in itertools.pairwise(cuts)]


def _events(pieces: list[bytes], most: int) -> tuple[list[object], str | None]:
    connection = zmtp.Connection(max_frame=most)
    said: list[object] = []
    for piece in pieces:
        connection.receive_data(piece)
        for _ in range(len(piece) + 2):
            try:
                event = connection.next_event()
            except zmtp.PeerProtocolError as error:
                return said, _final(connection, error.reason)
            if event is zmtp.NEED_DATA:
                break
            said.append(_named(event))
        expect(connection.needs_data, "it does not come to an end with a piece")
        expect(connection.buffered <= most + 9, "it keeps more than one unfinished frame")
    return said, None


def _final(connection: zmtp.Connection, reason: str) -> str:
    expect(connection.buffered == 0, "a failed connection keeps what it read")
    with contextlib.suppress(zmtp.PeerProtocolError):
        connection.next_event()
        expect(holds=False, what="a failed connection goes on")
    return str(reason)


def _named(event: zmtp.Event) -> object:
    match event:
        case bytes():
            return event
        case zmtp.Ready():
            return "ready"
        case zmtp.Reply(data):
            return "pong", data[data.index(b"PONG") + 4 :]
        case zmtp.Oversized(length):
            return "oversized", length
    return "ignored"


class _Echo:
    """A door's reader that says everything again, to whoever said it, and tells who is gone and why."""

    def __init__(self) -> None:
        self.thread: SocketThread | None = None
        self.closed: queue.SimpleQueue[PeerClosed] = queue.SimpleQueue()

    def tell(self, message: SocketEvent | Beat) -> None:
        assert self.thread is not None
        match message:
            case Beat():
                message.answer("echo")
            case PeerMessage(_, peer, said):
                self.thread.send(peer, said)
            case PeerOversized(_, peer, length):
                self.thread.send(peer, f"oversized {length}".encode())
            case PeerClosed():
                self.closed.put(message)
            case PeerOpened():
                pass


class SocketsTarget(Stateless):
    """The socket thread: what peers send arrives or ends their connection, and nobody else's."""

    name = "sockets"

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="lu-")
        self._path = Path(self._folder.name) / "run" / "s"
        self._crashed = threading.Event()
        self._echo = _Echo()
        limits = SocketLimits(connects=1_000_000, connects_at_once=1_000_000, accepts=1_000_000, commands=1_000_000)
        self._thread = SocketThread(on_crash=self._crashed.set, limits=limits)
        self._echo.thread = self._thread
        self._thread.start()
        self._thread.listen(Door("fuzz", self._path, self._echo, lambda: 0, max_peers=64))
        self._witness = self._dial(GREETING + frame(READY, 4))
        self._heard = _Reader(self._witness)
        self._numbers = itertools.count()

    def make(self, source: Source) -> Input:
        return Input(a_stream(source, 262_144), source.pick(("wait", "wait", "close", "reset", "half")))

    def feed(self, one: Input) -> str:
        known = expected(one.data, 262_144)
        peer = self._dial(b"")
        try:
            with contextlib.suppress(ConnectionError):  # it was closed at the first bad byte
                peer.sendall(one.data)
                if one.to == "half":
                    peer.shutdown(socket.SHUT_WR)
            if one.to == "wait":
                self._compare(_Reader(peer), known)
            elif one.to == "reset":
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        finally:
            peer.close()
        self._others_are_served()
        return verdict(known)

    def _compare(self, reader: _Reader, known: Expected) -> None:
        """What has an answer is answered, and whoever broke the protocol is hung up on."""
        if known.violation is not None:
            reader.wait_end()
            return
        for one in known.said:
            match one:
                case bytes():
                    expect(reader.message() == one, "a message did not arrive as it was sent")
                case ("oversized", length):
                    expect(reader.message() == f"oversized {length}".encode(), "an oversized frame was not told of")
                case _:
                    pass

    def _others_are_served(self) -> None:
        word = f"still {next(self._numbers)}".encode()
        self._witness.sendall(frame(word))
        expect(self._heard.message() == word, "another connection is not served any more")
        expect(not self._crashed.is_set(), "the socket thread crashed")
        while not self._echo.closed.empty():
            gone = self._echo.closed.get()
            allowed = {CloseReason.PEER_GONE, CloseReason.PROTOCOL_ERROR}
            expect(gone.reason in allowed, f"a connection was closed as {gone.reason}")

    def _dial(self, first: bytes) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(_LIMIT_S)
        made.connect(str(self._path))
        made.sendall(first)
        return made

    def close(self) -> None:
        self._witness.close()
        self._thread.stop()
        self._thread.join(_LIMIT_S)
        self._folder.cleanup()
        expect(not self._thread.is_alive() and not self._crashed.is_set(), "the socket thread did not end well")


class _Reader:
    """The messages that the bound end sends."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._connection = zmtp.Connection("DEALER", peer_types=frozenset({"ROUTER"}))

    def message(self) -> bytes:
        while True:
            event = self._connection.next_event() if not self._connection.needs_data else zmtp.NEED_DATA
            if isinstance(event, bytes):
                return event
            if event is zmtp.NEED_DATA:
                data = self._sock.recv(65_536)
                expect(data, "the connection was closed instead of an answer")
                self._connection.receive_data(data)

    def wait_end(self) -> None:
        with contextlib.suppress(ConnectionError):
            while self._sock.recv(65_536):
                pass
