"""The socket to the runtime: a DEALER on the attempt's own path, driven by the event loop.

ZeroMQ would reconnect by itself, and what was sent meanwhile could reach a runtime that has not heard a hello on the
new connection. So its reconnecting is off: a connection has a socket of its own, and a new connection is a new socket.

A ZeroMQ descriptor tells of a change, not of a state, and any use of the socket may swallow what it would have told. So
after every use the socket is asked what can be done, until that is nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, cast

import zmq
from zmq.utils.monitor import parse_monitor_message

from runtime_actors.contract.codec import MAX_FRAME_BYTES

_FIRST_RETRY_S: Final = 0.01
_LONGEST_RETRY_S: Final = 0.2
_SEND_HIGH_WATER_MARK: Final = 64
"""Frames in libzmq; what is beyond waits here. The credit of the channel bounds both."""
_RECEIVE_HIGH_WATER_MARK: Final = 1024
"""Frames. More than the credit of the channel lets be on their way: what libzmq has not read when the connection ends
is lost, and it might be the reason of that."""
_NEVER_MS: Final = 3_600_000

_FRAMES_A_TURN: Final = 8
"""Then the app's tasks have theirs, however fast the runtime speaks."""

# Plain integers: pyzmq's enums cost a microsecond at each use.
_READABLE: Final = int(zmq.POLLIN)
_WRITABLE: Final = int(zmq.POLLOUT)
_UP: Final = int(zmq.Event.HANDSHAKE_SUCCEEDED)
_DOWN: Final = int(
    zmq.Event.DISCONNECTED
    | zmq.Event.CLOSED  # connect() was refused
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_AUTH
)
_OPTIONS: Final = {
    zmq.SNDHWM: _SEND_HIGH_WATER_MARK,
    zmq.RCVHWM: _RECEIVE_HIGH_WATER_MARK,
    zmq.LINGER: 0,
    zmq.MAXMSGSIZE: MAX_FRAME_BYTES,
    # With IMMEDIATE, or with a reconnect interval of -1, libzmq drops the frames that were not fetched when the
    # connection ends: among them the refusal that the runtime sent before it closed.
    zmq.IMMEDIATE: 0,
    zmq.RECONNECT_IVL: _NEVER_MS,
    zmq.RECONNECT_IVL_MAX: 0,
    zmq.HANDSHAKE_IVL: 3000,
}


@contextlib.contextmanager
def unconnected() -> Iterator[None]:
    """A socket like that of a `Link`, with its threads, and nobody at the other end."""
    with zmq.Context() as context, context.socket(zmq.DEALER):
        yield


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
        self._endpoint = f"ipc://{path}"
        self._on_up = on_up
        self._on_down = on_down
        self._on_frame = on_frame
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context()
        self._connection: _Connection | None = None
        self._retry_s = _FIRST_RETRY_S
        self._retry: asyncio.TimerHandle | None = None

    def connect(self) -> None:
        self._retry = None
        self._connection = _Connection(self._context, self._endpoint, self._loop, self._on_frame, self._changed)

    def send(self, frame: bytes) -> None:
        """Send one frame, now or as soon as ZeroMQ takes it. Lost if the connection is: the caller says it again."""
        if self._connection is not None:
            self._connection.send(frame)

    def close(self, *, linger_ms: int) -> None:
        """End for good, waiting at most `linger_ms` for what was sent to leave."""
        if self._retry is not None:
            self._retry.cancel()
        if self._connection is not None:
            self._connection.close(linger_ms=linger_ms)
            self._connection = None
        self._context.term()

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
    """One DEALER, from its connect() to the first sign that the peer is gone."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: str,
        loop: asyncio.AbstractEventLoop,
        on_frame: Callable[[bytes], None],
        on_change: Callable[..., None],
    ) -> None:
        self._loop = loop
        self._on_frame = on_frame
        self._on_change = on_change
        self._waiting: deque[bytes] = deque()
        self._open = True
        self._turn_is_due = False
        self._dealer = context.socket(zmq.DEALER)
        for option, value in _OPTIONS.items():
            self._dealer.setsockopt(option, value)
        self._monitor = self._dealer.get_monitor_socket(_UP | _DOWN)
        self._fds = tuple(cast("int", one.getsockopt(zmq.FD)) for one in (self._dealer, self._monitor))
        loop.add_reader(self._fds[0], self._turn)
        loop.add_reader(self._fds[1], self._turn)
        self._dealer.connect(endpoint)
        self._schedule_turn()

    def send(self, frame: bytes) -> None:
        self._waiting.append(frame)
        self._flush()
        if self._can_do() & (_READABLE | _WRITABLE if self._waiting else _READABLE):
            self._schedule_turn()

    def close(self, *, linger_ms: int) -> None:
        self._open = False
        for fd in self._fds:
            self._loop.remove_reader(fd)
        self._dealer.disable_monitor()
        self._monitor.close(linger=0)
        self._dealer.close(linger=linger_ms)

    def _schedule_turn(self) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_is_due = False
        more = self._exchange()
        down = self._hear_of_connection()
        if not self._open:
            return
        if down:
            while self._exchange():  # the news of the end comes after the last frame
                pass
            self._on_change(up=False)
        elif more:
            self._schedule_turn()

    def _exchange(self) -> bool:
        """Read and write what can be, up to the limit of a turn; whether that was reached."""
        for _ in range(_FRAMES_A_TURN):
            possible = self._can_do() if self._open else 0
            if possible & _READABLE:
                self._on_frame(self._dealer.recv(zmq.NOBLOCK))
            elif possible & _WRITABLE and self._waiting:
                self._flush()
            else:
                return False
        return True

    def _hear_of_connection(self) -> bool:
        """Tell that it is up; whether it is down."""
        down = False
        while self._open and cast("int", self._monitor.getsockopt(zmq.EVENTS)) & _READABLE:
            event = int(parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))["event"])
            if event & _UP:
                self._on_change(up=True)
            else:
                down = True
        return down

    def _flush(self) -> None:
        while self._waiting:
            try:
                self._dealer.send(self._waiting[0], zmq.NOBLOCK)
            except zmq.Again:  # full, or not connected yet
                return
            self._waiting.popleft()

    def _can_do(self) -> int:
        return cast("int", self._dealer.getsockopt(zmq.EVENTS))
