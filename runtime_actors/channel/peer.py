"""One connection of a door: its socket, its ZMTP state, and what still has to be written to it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from enum import Enum
from typing import Final

from runtime_actors.channel.door import OpenDoor
from runtime_actors.channel.events import CloseReason
from runtime_actors.channel.window import Window
from runtime_actors.contract.zmtp import Connection

_READ_BYTES: Final = 16_384
"""At a time; what a peer that is not read further has left of it is kept."""


class Read(Enum):
    """What one attempt to read from a socket came to."""

    DATA = "data"
    NOTHING_YET = "nothing_yet"
    END = "end"


class Peer:
    """One connection. Only the socket thread touches it, but for `write_now`.

    `writing` is held by whoever writes, and to close the socket: its number may be another file's at once.
    """

    __slots__ = (
        "_commands",
        "_head",
        "_queue",
        "_second",
        "behind_since",
        "broken",
        "closing",
        "connection",
        "deadline",
        "door",
        "muted",
        "number",
        "opened",
        "pending",
        "pid",
        "sock",
        "uid",
        "unfinished",
        "watched",
        "window",
        "writing",
    )

    def __init__(self, number: int, sock: socket.socket, door: OpenDoor, who: tuple[int, int], window: Window) -> None:
        self.number = number
        self.sock = sock
        self.door = door
        self.pid, self.uid = who
        self.connection = Connection()
        self.opened = False
        self.broken = False
        """It cannot be written to any more; what it had said before is still read."""
        self.closing: CloseReason | None = None
        """It is to be closed once `pending` is 0, and not read any more."""
        self.deadline = 0.0
        """Monotonic: until then the handshake is complete or, when `closing`, all is written."""
        self.window = window
        self.unfinished = 0
        """Bytes kept of a frame that has not come whole."""
        self.watched = 0
        """The events that the selector watches its socket for."""
        self.pending = 0
        """Bytes that wait to be written ..."""
        self.behind_since = 0.0
        """... and since when there are any; monotonic, in seconds."""
        self.muted = False
        """It is to be closed, by an order that may still be on its way: nothing more is said to it."""
        self.writing = threading.Lock()
        self._head = memoryview(b"")
        self._queue: list[bytes] = []
        self._second = 0.0
        self._commands = 0

    def write_now(self, data: bytes) -> bool:
        """From any thread: write, or queue what the socket does not take and what something waits before.

        Whether the socket thread has to be told; it finds out as well if the peer cannot be written to.
        """
        with self.writing:
            if self.broken or self.muted or self.closing is not None:
                return False
            if not self.pending:
                with contextlib.suppress(OSError):
                    data = data[self.sock.send(data) :]
            if data:
                self.put(data)
            return bool(data)

    def put(self, data: bytes) -> None:
        """Queue; `writing` is held, or nobody knows of this peer yet."""
        if not self.pending:
            self.behind_since = time.monotonic()
        self._queue.append(data)
        self.pending += len(data)

    def write(self) -> None:
        """Write what the socket takes now, with `writing` held. Everything queued goes out in one piece.

        Raises:
            OSError: the peer cannot be written to.

        """
        while self.pending:
            if not self._head:
                self._head = memoryview(self._queue[0] if len(self._queue) == 1 else b"".join(self._queue))
                self._queue.clear()
            try:
                sent = self.sock.send(self._head)
            except BlockingIOError:
                return
            self._head = self._head[sent:]
            self.pending -= sent

    def discard_output(self) -> None:
        self._head = memoryview(b"")
        self._queue.clear()
        self.pending = 0

    def read(self) -> Read:
        """Hand what the socket has, up to 16 KiB, to the connection, which must have nothing whole left."""
        try:
            data = self.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return Read.NOTHING_YET
        except OSError:  # a reset is reported only after what was sent before it has been read (unix(7))
            return Read.END
        if not data:
            return Read.END
        self.connection.receive_data(data)
        return Read.DATA

    def may_command(self, now: float, a_second: int) -> bool:
        """Count a ZMTP command; whether there were not too many lately. `now` is monotonic, in seconds."""
        if now - self._second >= 1:
            self._second, self._commands = now, 0
        self._commands += 1
        return self._commands <= a_second
