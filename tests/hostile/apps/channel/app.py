"""A MiniApp that attacks its own channel: it finds the descriptor of its connection and writes to it what it likes.

Each attack goes on until the process is ended. A call that comes again is answered at once, so that it ends well.
"""

from __future__ import annotations

import errno
import itertools
import os
import select
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall

AT = "2026-01-01T00:00:00Z"
MORE = b"\x01\xff" + bytes(255)
LARGEST = 262_144
SKIPPED = 16 * 1024 * 1024


async def main(sdk: MiniAppSDK) -> None:
    async def attack(call: MiniAppToolCall) -> JsonObject:
        kind = str(call.input["kind"])
        if not call.repeated and kind in ATTACKS:
            ATTACKS[kind](Wire(call.call_id))
        return {"kind": kind}

    sdk.tools.handler("channel.attack")(attack)
    await sdk.run_until_stopped()


class Wire:
    """The connection as raw bytes. The event loop stands still meanwhile, so the SDK says and reads nothing."""

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self._fds = _connections()
        self._ids = itertools.count(1)

    def write(self, data: bytes) -> None:
        for fd in self._fds:
            left = memoryview(data)
            while left:
                left = left[_write_some(fd, left) :]

    def say(self, kind: str, body: JsonObject) -> None:
        self.write(_frame(self.message(kind, body)))

    def message(self, kind: str, body: JsonObject) -> bytes:
        tree = {"v": 1, "id": f"x{next(self._ids)}", "type": f"lineup.v1.{kind}", "sent_at": AT, "body": body}
        return bytes(sys.modules["msgpack"].packb(tree))

    def wait_answer(self) -> None:
        """Wait until something comes, and throw it away. The answer to a beat is part of it."""
        poll = select.poll()
        for fd in self._fds:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(1000):
            if b"session.ping" in os.read(fd, 1 << 20):
                self.say("session.pong", {"beat": 1})


def _connections() -> list[int]:
    """The runtime's socket; every stream socket, if the kernel does not say who is at the other end."""
    streams, named = [], []
    for fd in range(256):
        try:
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                continue
            name, kind = _peer_of(fd)
        except OSError as error:
            if error.errno != errno.EBADF:
                streams.append(fd)
            continue
        if kind == socket.SOCK_STREAM:
            streams.append(fd)
            if name:
                named.append(fd)
    return named or streams


def _peer_of(fd: int) -> tuple[Any, int]:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=fd)
    try:
        return sock.getpeername(), sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
    finally:
        sock.detach()


def _write_some(fd: int, data: memoryview) -> int:
    while True:
        try:
            return os.write(fd, data)
        except BlockingIOError:
            poll = select.poll()
            poll.register(fd, select.POLLOUT)
            poll.poll(1000)


def _frame(message: bytes) -> bytes:
    if len(message) < 256:
        return bytes((0, len(message))) + message
    return b"\x02" + struct.pack(">Q", len(message)) + message


def _forever(step: Callable[[], object]) -> None:
    while True:
        step()


# --- what breaks ZMTP ---


def endless_more(wire: Wire) -> None:
    _forever(lambda: wire.write(MORE * 64))


def huge_length(wire: Wire) -> None:
    wire.write(b"\x02" + struct.pack(">Q", 1 << 62))
    _forever(lambda: wire.write(bytes(65_536)))


def greets_again(wire: Wire) -> None:
    _forever(lambda: wire.write(b"\xff" + bytes(8) + b"\x7f\x03\x00CURVE" + bytes(47)))


def random_bytes(wire: Wire) -> None:
    _forever(lambda: wire.write(os.urandom(65_536)))


# --- what ZMTP allows, and nobody means ---


def skipped_frames(wire: Wire) -> None:
    """Frames that are too large for a message and small enough to be read past."""

    def one() -> None:
        wire.write(b"\x02" + struct.pack(">Q", SKIPPED))
        for _ in range(SKIPPED // 65_536):
            wire.write(bytes(65_536))

    _forever(one)


def half_frame(wire: Wire) -> None:
    wire.write(b"\x02" + struct.pack(">Q", LARGEST) + bytes(LARGEST - 1))
    time.sleep(600)


def drops_of_a_frame(wire: Wire) -> None:
    wire.write(b"\x02" + struct.pack(">Q", LARGEST))

    def drop() -> None:
        wire.write(b"\0")
        time.sleep(0.001)

    _forever(drop)


def endless_commands(wire: Wire) -> None:
    _forever(lambda: wire.write(b"\x04\x05\x04PONG" * 8192))


def unread_heartbeats(wire: Wire) -> None:
    pings = (b"\x04\x17\x04PING\x00\x00" + bytes(16)) * 2048
    _forever(lambda: wire.write(pings))


# --- frames that cannot be read ---


def garbage(wire: Wire) -> None:
    _forever(lambda: wire.write(_frame(b"\xc1") * 1024))


def large_garbage(wire: Wire) -> None:
    """Each takes as long to refuse as a frame can."""
    tree = {"v": 1, "id": "x", "type": "lineup.v1.tools.get", "sent_at": AT}
    items = [{"k": "v" * 20} for _ in range(4900)]
    frame = _frame(bytes(sys.modules["msgpack"].packb(tree | {"body": {"call_id": "c", "more": items}})))
    _forever(lambda: wire.write(frame))


# --- frames that hold ---


def above_credit(wire: Wire) -> None:
    """Thousands of requests at once."""
    _forever(lambda: wire.say("tools.get", {"call_id": wire.call_id}))


def large_requests(wire: Wire) -> None:
    """Valid, large, and never read an answer to."""
    data = {"lines": ["x" * 15_000]}
    progress = {"percent": 1, "data": data}
    _forever(lambda: wire.say("tools.report_progress", {"call_id": wire.call_id, "progress": progress}))


def one_request_again(wire: Wire) -> None:
    """The same request: each copy joins the first."""
    frames = _frame(wire.message("tools.get", {"call_id": wire.call_id})) * 256
    _forever(lambda: wire.write(frames))


def within_credit(wire: Wire) -> None:
    """One request after the other, each waiting for its answer, for ever: nothing is wrong with that."""

    def step() -> None:
        wire.say("tools.get", {"call_id": wire.call_id})
        wire.wait_answer()

    _forever(step)


def pongs(wire: Wire) -> None:
    frames = _frame(wire.message("session.pong", {"beat": 1})) * 256
    _forever(lambda: wire.write(frames))


def late_pongs(wire: Wire) -> None:
    """Looks alive, reads nothing, and what it is sent piles up."""

    def one() -> None:
        wire.say("session.pong", {"beat": 1})
        time.sleep(0.9)

    _forever(one)


def after_bye(wire: Wire) -> None:
    wire.say("session.bye", {"reason": "so long"})
    _forever(lambda: wire.say("tools.get", {"call_id": wire.call_id}))


def garbage_after_bye(wire: Wire) -> None:
    wire.say("session.bye", {"reason": "so long"})
    garbage(wire)


def hello_again(wire: Wire) -> None:
    body = {"attempt_id": "a", "token": "t" * 32, "sdk_version": "1", "sdkCapabilities": [], "ready": True}
    _forever(lambda: wire.say("session.hello", body))


ATTACKS: dict[str, Callable[[Wire], None]] = {
    one.__name__: one
    for one in (
        endless_more,
        huge_length,
        greets_again,
        random_bytes,
        skipped_frames,
        half_frame,
        drops_of_a_frame,
        endless_commands,
        unread_heartbeats,
        garbage,
        large_garbage,
        above_credit,
        large_requests,
        one_request_again,
        within_credit,
        pongs,
        late_pongs,
        after_bye,
        garbage_after_bye,
        hello_again,
    )
}
