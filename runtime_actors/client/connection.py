"""One ZeroMQ socket that connects once.

ZeroMQ reconnects by itself and loses messages when it does, without a word. Here it may not: when a connection ends,
its owner is told, opens a new one and repeats what has no answer (docs/protocol.md, sections 1 and 8). So the first
frame of a connection is always the one that its owner sent first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

import zmq
from zmq.utils.monitor import recv_monitor_message

from runtime_actors.client.errors import AddressTooLong, ConnectionLost, DaemonNotRunning, NoAnswer, UnreadableAnswer
from runtime_actors.contract import codec

MAX_SOCKET_PATH_BYTES: Final = 107
_NEVER_MS: Final = 86_400_000
"""Wait before ZeroMQ reconnects, by when we have closed. Its own "never" (-1) can make the context wait for ever."""


def door_of(state: Path, name: str) -> str:
    """The endpoint of the door `name` (agent, host or control) of the state folder.

    Raises:
        AddressTooLong: The path does not fit a Unix socket.

    """
    path = state / "run" / f"{name}.sock"
    if len(bytes(path)) > MAX_SOCKET_PATH_BYTES:
        raise AddressTooLong(path, MAX_SOCKET_PATH_BYTES)
    return f"ipc://{path}"


class Connection:
    """A connection to one endpoint, for one thread. Once lost, it is only good for closing."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        self.endpoint = endpoint
        self._open = False
        self._lost = False
        self._socket = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.RECONNECT_IVL, _NEVER_MS)
        self._socket.setsockopt(zmq.MAXMSGSIZE, codec.MAX_FRAME_BYTES)
        self._monitor = self._socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED
            | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
            | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
            | zmq.EVENT_HANDSHAKE_FAILED_AUTH
            | zmq.EVENT_DISCONNECTED
            | zmq.EVENT_CLOSED
        )
        self._poller = zmq.Poller()
        self._poller.register(self._monitor, zmq.POLLIN)
        self._poller.register(self._socket, zmq.POLLIN)
        self._socket.connect(endpoint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_open(self, timeout_s: float) -> None:
        """Wait until both ends have greeted each other.

        Raises:
            DaemonNotRunning: Nobody accepts there.
            NoAnswer: Somebody accepted and did not greet in time.

        """
        deadline = time.monotonic() + timeout_s
        while not self._open:
            if self._lost:
                raise DaemonNotRunning(self.endpoint)
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not self._monitor.poll(_ms(left_s)):
                raise NoAnswer("the greeting", timeout_s)
            self._read_monitor()

    def send(self, frame: bytes) -> None:
        """Hand one frame to ZeroMQ.

        Raises:
            ConnectionLost: The connection ended, or its peer has not read for 1,000 frames.

        """
        if not self._lost:
            try:
                self._socket.send(frame, zmq.DONTWAIT)
            except zmq.Again:
                self._lost = True
            else:
                return
        raise ConnectionLost(self.endpoint)

    def receive(self, timeout_s: float) -> bytes | None:
        """The next frame, or None when there is none in time.

        Raises:
            ConnectionLost: The connection ended, and everything that had arrived was read.

        """
        deadline = time.monotonic() + timeout_s
        while True:
            frame = self._take()
            if frame is not None:
                return frame
            if self._lost:
                raise ConnectionLost(self.endpoint)
            left_s = max(0.0, deadline - time.monotonic())
            ready = dict(self._poller.poll(_ms(left_s)))
            if self._monitor in ready:
                self._read_monitor()
            elif not ready and left_s <= 0:
                return None

    def close(self) -> None:
        """Be gone at once. What was sent last may not have left: only an answer proves that it did."""
        # An unread monitor socket would let the context wait for ever.
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        # No linger: what waits for a peer that is gone would only delay the end.
        self._socket.close(linger=0)

    def _take(self) -> bytes | None:
        try:
            frames = self._socket.recv_multipart(zmq.DONTWAIT)
        except zmq.Again:
            return None
        if len(frames) != 1:
            raise UnreadableAnswer("an envelope is exactly one frame")
        return frames[0]

    def _read_monitor(self) -> None:
        while self._monitor.poll(0):
            if recv_monitor_message(self._monitor)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._open = True
            else:
                self._lost = True


Connect = Callable[[zmq.Context[zmq.Socket[bytes]], str], Connection]
"""How a connection to an endpoint is opened."""


def _ms(seconds: float) -> int:
    return math.ceil(seconds * 1000)
