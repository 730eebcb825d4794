"""The socket to the runtime: a DEALER on the attempt's own path, driven by the event loop.

It speaks ZMTP by itself (`contract.zmtp`): a context of libzmq has two threads, and takes 0.7 MiB and 5 ms of each
worker. A new connection is a new socket, so what was said on the last one never reaches a runtime that has not heard a
hello on this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from runtime_actors.contract import zmtp
from runtime_actors.contract.codec import MAX_FRAME_BYTES

_FIRST_RETRY_S: Final = 0.01
_LONGEST_RETRY_S: Final = 0.2
_HANDSHAKE_S: Final = 3.0
"""For whoever accepted to greet as well."""

_STEPS_A_TURN: Final = 16
"""Reads and frames. Then the app's tasks have their turn, however fast the runtime speaks."""
_READ_BYTES: Final = 65536
_PEERS: Final = frozenset({"ROUTER", "DEALER"})


class Link:
    """One connection after the other to the same path. Lives on the thread of its event loop."""

    def __init__(
        self,
        path: str,
        *,
        on_up: Callable[[], None],
        on_down: Callable[[], None],
        on_frame: Callable[[bytes], None],
    ) -> None:
        self._path = path
        self._on_up = on_up
        self._on_down = on_down
        self._on_frame = on_frame
        self._loop = asyncio.get_running_loop()
        self._connection: _Connection | None = None
        self._retry_s = _FIRST_RETRY_S
        self._retry: asyncio.TimerHandle | None = None

    def connect(self) -> None:
        self._retry = None
        try:
            connected = self._connected()
        except OSError:  # nobody listens, or too many wait already: as if it had broken at once
            self._changed(up=False)
            return
        self._connection = _Connection(connected, self._loop, self._on_frame, self._changed)

    def send(self, frame: bytes) -> None:
        """Send one frame, now or as soon as there is room. Lost if the connection is: the caller says it again."""
        if self._connection is not None:
            self._connection.send(frame)

    def close(self, *, linger_ms: int) -> None:
        """End for good, waiting at most `linger_ms` for what was sent to leave."""
        if self._retry is not None:
            self._retry.cancel()
        if self._connection is not None:
            self._connection.close(linger_ms=linger_ms)
            self._connection = None

    def _connected(self) -> socket.socket:
        """A stream to the path, not blocking. Raises OSError."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(0)
        try:
            made.connect(self._path)
        except OSError:
            made.close()
            raise
        return made

    def _changed(self, *, up: bool) -> None:
        if up:
            self._retry_s = _FIRST_RETRY_S
            self._on_up()
            return
        if self._connection is not None:
            self._connection.close(linger_ms=0)
            self._connection = None
        self._retry = self._loop.call_later(self._retry_s, self.connect)
        self._retry_s = min(self._retry_s * 2, _LONGEST_RETRY_S)
        self._on_down()


class _Connection:
    """One connected socket, up to the first sign that the peer is gone."""

    def __init__(
        self,
        connected: socket.socket,
        loop: asyncio.AbstractEventLoop,
        on_frame: Callable[[bytes], None],
        on_change: Callable[..., None],
    ) -> None:
        self._socket = connected
        self._loop = loop
        self._on_frame = on_frame
        self._on_change = on_change
        self._zmtp = zmtp.Connection("DEALER", peer_types=_PEERS, max_frame=MAX_FRAME_BYTES)
        self._waiting: deque[bytes] = deque()
        """What the socket did not take yet, the rest of a frame first."""
        self._is_open = True
        self._turn_is_due = False
        loop.add_reader(connected, self._turn)
        self._too_late = loop.call_later(_HANDSHAKE_S, self._end)
        self._write(self._zmtp.greeting())

    def send(self, frame: bytes) -> None:
        self._write(zmtp.pack(frame))

    def close(self, *, linger_ms: int) -> None:
        self._is_open = False
        self._too_late.cancel()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        if self._waiting and linger_ms:
            self._socket.settimeout(linger_ms / 1000)
            with contextlib.suppress(OSError):
                self._socket.sendall(b"".join(self._waiting))
        self._socket.close()

    def _turn(self) -> None:
        self._turn_is_due = False
        for _ in range(_STEPS_A_TURN):
            if not self._is_open or not self._take():
                return
        if not self._turn_is_due:  # the selector does not know of what was read and not taken
            self._turn_is_due = True
            self._loop.call_soon(self._turn)

    def _take(self) -> bool:
        """Take one thing; False when there is nothing for now."""
        try:
            event = self._zmtp.next_event()
        except zmtp.PeerProtocolError:
            self._end()
            return False
        if event is zmtp.NEED_DATA:
            return self._read()
        if isinstance(event, bytes):
            self._on_frame(event)
        elif isinstance(event, zmtp.Ready):
            self._too_late.cancel()
            self._on_change(up=True)
        elif isinstance(event, zmtp.Reply):
            self._write(event.data)
        return True

    def _read(self) -> bool:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:  # what the peer said before has been taken: the kernel keeps the order
            self._end()
            return False
        self._zmtp.receive_data(data)
        return True

    def _end(self) -> None:
        if self._is_open:
            self._on_change(up=False)

    def _write(self, data: bytes) -> None:
        if self._waiting:
            self._waiting.append(data)
        elif left := self._push(data):
            self._waiting.append(left)
            self._loop.add_writer(self._socket, self._flush)

    def _flush(self) -> None:
        while self._waiting:
            if left := self._push(self._waiting.popleft()):
                self._waiting.appendleft(left)
                return
        self._loop.remove_writer(self._socket)

    def _push(self, data: bytes) -> bytes:
        """What the socket does not take now."""
        try:
            return data[self._socket.send(data) :]
        except BlockingIOError:
            return data
        except OSError:  # the peer is gone; what it said before is still to be read, and then its end
            return b""
