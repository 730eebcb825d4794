"""What the socket thread tells about the peers of a door.

For each peer: `PeerOpened`, any number of `PeerMessage` and `PeerOversized`, `PeerClosed`; in this order, to the door's
mailbox. A peer that never finished its handshake is not heard of at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CloseReason(StrEnum):
    """Why a connection ended; stable, for logs, counters and attempts."""

    PEER_GONE = "peer_gone"
    """The peer closed it or died. Everything it had sent before was told."""
    CLOSED = "closed"
    """We closed it: `close`, `close_door` or `stop`."""
    SLOW_CONSUMER = "slow_consumer"
    """The peer did not read, and more was waiting for it than is kept."""
    PROTOCOL_ERROR = "protocol_error"
    """The peer broke ZMTP."""


@dataclass(frozen=True, slots=True)
class PeerOpened:
    """A peer finished the ZMTP handshake."""

    door: str
    peer: int
    """Never given twice in the life of a socket thread."""
    pid: int
    """Of the process that called connect(), as the kernel knows it; 0 where the kernel does not tell."""
    uid: int


@dataclass(frozen=True, slots=True)
class PeerMessage:
    """One frame, unread."""

    door: str
    peer: int
    message: bytes


@dataclass(frozen=True, slots=True)
class PeerOversized:
    """One frame above the limit, which was read past: nothing of it is left."""

    door: str
    peer: int
    length: int
    """In bytes."""


@dataclass(frozen=True, slots=True)
class PeerClosed:
    """The connection is gone. Told once, after the peer's last message."""

    door: str
    peer: int
    reason: CloseReason


SocketEvent = PeerOpened | PeerMessage | PeerOversized | PeerClosed
