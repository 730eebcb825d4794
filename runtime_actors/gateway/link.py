"""The relay's end of one connection to the agent door: ZMTP 3.0 over a Unix socket, as `contract.zmtp` speaks it.

With the NULL mechanism both ends say the same, so the sans-IO module serves the connecting end too. A socket of our own
shows its end at once, where a DEALER would connect again in silence and lose who it speaks for.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from runtime_actors.contract import zmtp

_READ_BYTES: Final = 65_536
_FULL_BYTES: Final = 262_144


class LinkClosed(Exception):
    """The agent door closed the connection, or cannot be reached."""


class Link:
    """One agent's connection to the door. Never blocks."""

    def __init__(self, path: Path, *, client: bytes, key: str, agent: str) -> None:
        """Connect.

        Raises:
            LinkClosed: nobody listens at `path`, or too many wait there already.

        """
        self.client = client
        """The routing id of the TCP peer."""
        self.key = key
        """The public key it proved."""
        self.agent = agent
        self.active_at = 0.0
        self.unsent: bytes | None = None
        """A message from the door that the TCP peer has no room for yet."""
        self._connection = zmtp.Connection("DEALER", peer_types=frozenset({"ROUTER"}))
        self._out = bytearray(self._connection.greeting())
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.settimeout(0)
        try:
            self._sock.connect(str(path))
        except OSError as error:
            self._sock.close()
            raise LinkClosed(str(error)) from error

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def wants_to_read(self) -> bool:
        return self.unsent is None and self._connection.needs_data

    @property
    def wants_to_write(self) -> bool:
        return bool(self._out)

    @property
    def full(self) -> bool:
        """Whether the door is behind, so that nothing more should be put."""
        return len(self._out) > _FULL_BYTES

    def put(self, message: bytes) -> None:
        self._out += zmtp.pack(message)

    def write(self) -> None:
        """Write what the socket takes now.

        Raises:
            LinkClosed: the door is gone.

        """
        try:
            sent = self._sock.send(self._out)
        except BlockingIOError:
            return
        except OSError as error:
            raise LinkClosed(str(error)) from error
        del self._out[:sent]

    def read(self) -> None:
        """Read what the socket has; then `take` it.

        Raises:
            LinkClosed: the door is gone.

        """
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise LinkClosed(str(error)) from error
        if not data:
            raise LinkClosed("the door closed the connection")
        self._connection.receive_data(data)

    def take(self) -> bytes | None:
        """The next message that was read; None when there is no whole one left."""
        if self.unsent is not None:
            return self.unsent
        try:
            while (event := self._connection.next_event()) is not zmtp.NEED_DATA:
                if isinstance(event, bytes):
                    return event
                if isinstance(event, zmtp.Reply):
                    self._out += event.data
        except zmtp.PeerProtocolError as error:
            raise LinkClosed(str(error)) from error
        return None

    def close(self) -> None:
        self._sock.close()
