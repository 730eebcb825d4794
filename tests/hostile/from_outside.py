"""A process that means the daemon's doors no good: `python -m tests.hostile.from_outside KIND SOCKET`.

It goes on until it is killed, and starts again on a new connection whenever it was thrown out.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgpack

_GREETING: Final = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
_READY: Final = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
_HANDSHAKE: Final = _GREETING + bytes((4, len(_READY))) + _READY
_LARGEST: Final = 262_144
_SKIPPED: Final = 16 * 1024 * 1024
_CROWD: Final = 900
_INTRUDERS: Final = 6
_AGAIN_S: Final = 0.001


def frame(message: bytes) -> bytes:
    """As ZMTP puts it on the wire."""
    if len(message) < 256:
        return bytes((0, len(message))) + message
    return b"\x02" + struct.pack(">Q", len(message)) + message


def message(kind: str, body: dict[str, object], request_id: str = "x") -> bytes:
    """An envelope that holds."""
    tree = {"v": 1, "id": request_id, "type": f"lineup.v1.{kind}", "sent_at": "2026-01-01T00:00:00Z", "body": body}
    return bytes(msgpack.packb(tree))


class Attacker:
    """One process, one door, any number of connections."""

    def __init__(self, path: str) -> None:
        self._path = path

    # --- connections that never become one ---

    def connects(self) -> None:
        while True:
            self._dial().close()

    def silent(self) -> None:
        self._crowd(b"")

    def half_greetings(self) -> None:
        self._crowd(_GREETING[:40])

    def no_ready(self) -> None:
        self._crowd(_GREETING)

    def wrong_signature(self) -> None:
        self._again_and_again(lambda: b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")

    def wrong_mechanism(self) -> None:
        self._again_and_again(lambda: _GREETING.replace(b"NULL\0", b"PLAIN"))

    def crowd(self) -> None:
        """Connections that are made, and kept."""
        self._crowd(_HANDSHAKE)

    # --- frames that break ZMTP ---

    def huge_length(self) -> None:
        self._again_and_again(lambda: _HANDSHAKE + b"\x02" + struct.pack(">Q", 1 << 62) + bytes(65_536))

    def endless_more(self) -> None:
        self._pour(b"\x01\xff" + bytes(255))

    # --- frames that ZMTP allows ---

    def skipped_frames(self) -> None:
        self._pour(b"\x02" + struct.pack(">Q", _SKIPPED) + bytes(_SKIPPED))

    def half_frames(self) -> None:
        self._crowd(_HANDSHAKE + b"\x02" + struct.pack(">Q", _LARGEST) + bytes(_LARGEST - 1))

    def endless_commands(self) -> None:
        self._pour(b"\x04\x05\x04PONG" * 4096)

    def unread_heartbeats(self) -> None:
        self._pour((b"\x04\x17\x04PING\x00\x00" + bytes(16)) * 2048, connections=8)

    # --- messages ---

    def garbage(self) -> None:
        self._pour(frame(b"\xc1") * 1024, reads=True)

    def large_garbage(self) -> None:
        """Each takes as long to refuse as a frame can."""
        items = [{"k": "v" * 20} for _ in range(4900)]
        self._pour(frame(message("agent.attach", {"agent": "local", "more": items})), reads=True)

    def large_unread(self) -> None:
        """On many connections, so that what is kept for each adds up."""
        items = [{"k": "v" * 20} for _ in range(4900)]
        self._pour(frame(message("agent.attach", {"agent": "local", "more": items})), connections=64)

    def unread_answers(self) -> None:
        self._pour(frame(message("ping", {})) * 512, connections=32)

    def requests(self) -> None:
        """What anybody may ask, as fast as it goes."""
        self._pour(frame(message("ping", {})) * 512, reads=True)

    def before_attach(self) -> None:
        """What only those may ask who attached."""
        self._pour(frame(message("inventory.get", {})) * 512, reads=True)

    # --- sockets of attempts ---

    def intrudes(self) -> None:
        """The path is a folder: connects to whatever socket is in it, before the process that it is for can."""
        folder, hello = Path(self._path), frame(message("session.hello", {}))
        while True:
            for path in folder.iterdir():
                with contextlib.suppress(OSError):
                    self._intrude(path, hello)

    def _intrude(self, path: Path, hello: bytes) -> None:
        made = [socket.socket(socket.AF_UNIX) for _ in range(_INTRUDERS)]
        try:
            for number, sock in enumerate(made):
                sock.settimeout(0.05)
                sock.connect(str(path))
                sock.sendall(_HANDSHAKE + hello if number % 2 else _GREETING[:40])
            for sock in made:
                with contextlib.suppress(OSError):
                    sock.recv(65_536)
        finally:
            for sock in made:
                sock.close()

    # --- how ---

    def _dial(self) -> socket.socket:
        while True:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(self._path)
            except OSError:
                sock.close()
                time.sleep(_AGAIN_S)
            else:
                return sock

    def _again_and_again(self, said: Callable[[], bytes]) -> None:
        while True:
            sock = self._dial()
            sock.settimeout(5)
            try:
                sock.sendall(said())
                while sock.recv(65_536):
                    pass
            except OSError:
                pass
            sock.close()

    def _crowd(self, said: bytes) -> None:
        """As many connections as are let in; each says this and no more."""
        open_now: dict[int, socket.socket] = {}
        poll = select.poll()
        for _ in itertools.count():
            if len(open_now) < _CROWD:
                sock = self._dial()
                sock.settimeout(0.2)
                try:
                    sock.sendall(said)
                except OSError:
                    sock.close()
                    continue
                open_now[sock.fileno()] = sock
                poll.register(sock, select.POLLRDHUP)
            for fd, _ in poll.poll(0 if len(open_now) < _CROWD else 100):
                poll.unregister(fd)
                open_now.pop(fd).close()

    def _pour(self, data: bytes, *, connections: int = 1, reads: bool = False) -> None:
        """The same over and over, on each connection as fast as it takes it."""
        left: dict[int, tuple[socket.socket, memoryview]] = {}
        poll = select.poll()
        interest = select.POLLOUT | (select.POLLIN if reads else 0)
        while True:
            while len(left) < connections:
                sock = self._dial()
                sock.settimeout(0)
                left[sock.fileno()] = (sock, memoryview(_HANDSHAKE))
                poll.register(sock, interest)
            for fd, event in poll.poll(1000):
                sock, rest = left[fd]
                try:
                    if event & select.POLLIN and not sock.recv(1 << 20):
                        raise ConnectionResetError
                    if event & (select.POLLHUP | select.POLLERR):
                        raise ConnectionResetError
                    if event & select.POLLOUT:
                        rest = rest[sock.send(rest) :]
                        left[fd] = (sock, rest or memoryview(data))
                except BlockingIOError:
                    continue
                except OSError:
                    poll.unregister(fd)
                    del left[fd]
                    sock.close()


KINDS: Final = tuple(name for name in vars(Attacker) if not name.startswith("_") and name != "intrudes")
"""Against a door."""


def main() -> None:
    kind, path = sys.argv[1:]
    print("begins", flush=True)  # noqa: T201 - awaited
    getattr(Attacker(path), kind)()


if __name__ == "__main__":
    main()
