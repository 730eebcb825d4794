"""ZMTP 3.0 with the NULL mechanism: one end of a connection, without I/O. Both ends say the same.

Bytes go in with `receive_data`, one thing at a time comes out of `next_event`. What RFC 23
(https://rfc.zeromq.org/spec/23/) leaves unlimited is limited here, because a peer is whoever can open the socket:

- a message is one frame of at most `max_frame` bytes, a command at most `MAX_COMMAND_BYTES`; both are judged by their
  header, before a byte of them is kept. A frame of up to `MAX_SKIPPED_BYTES` is read past in slices and told of, so
  that its sender can be answered; what is larger, and a larger command, is a violation;
- new data is taken only when nothing whole is left of the old, so a connection never holds more than one unfinished
  frame and what was read from the socket last;
- whatever a peer sends, each frame takes one `next_event`: nothing is skipped in a loop, nothing is queued to be sent.

Peers that speak ZMTP 3.1 (libzmq does) use 3.0 with us, and their heartbeats are answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, Literal

MAX_COMMAND_BYTES: Final = 512
MAX_SKIPPED_BYTES: Final = 16 * 1024 * 1024
"""The largest frame that is read past instead of ending the connection."""

_GREETING_BYTES: Final = 64
_NULL: Final = b"NULL".ljust(20, b"\0")
_GREETING: Final = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + _NULL + b"\x00" + bytes(31)

_MORE, _LONG, _COMMAND, _RESERVED = 0x01, 0x02, 0x04, 0xF8
_SHORT_HEADER, _LONG_HEADER = 2, 9
_SHORT_LIMIT: Final = 255
_MAX_PING_CONTEXT: Final = 16
_PING_TTL_BYTES: Final = 2


class Violation(StrEnum):
    """What a peer did wrong; stable, for logs and counters."""

    SIGNATURE = "signature"
    VERSION = "version"
    MECHANISM = "mechanism"
    AS_SERVER = "as_server"
    FLAGS = "flags"
    MULTIPART = "multipart"
    FRAME_TOO_LARGE = "frame_too_large"
    COMMAND_TOO_LARGE = "command_too_large"
    COMMAND_MALFORMED = "command_malformed"
    READY_EXPECTED = "ready_expected"
    READY_REPEATED = "ready_repeated"
    SOCKET_TYPE = "socket_type"
    PEER_ERROR = "peer_error"
    """Not wrong, but as final: the peer sent an ERROR command."""


class PeerProtocolError(Exception):
    """The peer broke the protocol. Expected now and then: close its connection and go on."""

    def __init__(self, reason: Violation) -> None:
        super().__init__(reason.value)
        self.reason = reason


class LocalProtocolError(Exception):
    """This end was used in a way that its contract forbids: a bug here."""


class Signal(Enum):
    NEED_DATA = "need_data"
    IGNORED = "ignored"


NEED_DATA: Final = Signal.NEED_DATA
"""Nothing whole is left: read from the socket."""
IGNORED: Final = Signal.IGNORED
"""A command that means nothing to this end was read."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The handshake is done: messages may be sent and will come."""

    socket_type: str


@dataclass(frozen=True, slots=True)
class Reply:
    """Bytes to be sent to the peer, now or never: the answer to its heartbeat."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Oversized:
    """A message above the limit was read past to its end; nothing of it was kept."""

    length: int
    """Of its body, in bytes."""


Event = bytes | Ready | Reply | Oversized | Literal[Signal.NEED_DATA, Signal.IGNORED]
"""What `next_event` returns; `bytes` are a message."""


class Connection:
    """One connection, seen from one end; as it is, from the one that bound the socket. Not thread-safe."""

    def __init__(
        self,
        socket_type: str = "ROUTER",
        *,
        peer_types: frozenset[str] = frozenset({"DEALER"}),
        max_frame: int = 262_144,
    ) -> None:
        self._socket_type = socket_type
        self._peer_types = peer_types
        self._max_frame = max_frame
        self._buffer = bytearray()
        self._at = 0  # up to here the buffer was read
        self._needs_data = True
        self._greeted = False
        self._ready = False
        self._skipped: Oversized | None = None
        self._left_to_skip = 0
        self._violation: Violation | None = None

    def greeting(self) -> bytes:
        """Everything this end has to say by itself: greeting and READY. Send it first, without waiting for the peer."""
        return _GREETING + _command(b"READY", _property(b"Socket-Type", self._socket_type.encode("ascii")))

    @property
    def needs_data(self) -> bool:
        """Whether `next_event` has nothing whole left. Until then, do not read from the socket."""
        return self._needs_data

    @property
    def buffered(self) -> int:
        """Bytes held: at most one unfinished frame once data is needed."""
        return len(self._buffer) - self._at

    def receive_data(self, data: bytes) -> None:
        """Take what was read from the socket, in pieces of any size.

        Raises:
            LocalProtocolError: something whole is left, or the connection has failed.

        """
        if not self._needs_data or self._violation is not None:
            message = "data was passed in before the last was used up, or after a failure"
            raise LocalProtocolError(message)
        self._buffer += data
        self._needs_data = False

    def next_event(self) -> Event:
        """Take the next thing out of what was received.

        Raises:
            PeerProtocolError: the peer broke the protocol; every later call raises the same.

        """
        if self._violation is not None:
            raise PeerProtocolError(self._violation)
        try:
            event = self._read_frame() if self._greeted else self._read_greeting()
        except PeerProtocolError as error:
            self._violation = error.reason
            self._at = len(self._buffer)
            self._forget_what_was_read()
            raise
        if event is NEED_DATA:
            self._needs_data = True
            self._forget_what_was_read()
        return event

    def _forget_what_was_read(self) -> None:
        del self._buffer[: self._at]
        self._at = 0

    def _read_greeting(self) -> Event:
        # Judged byte by byte: a peer of an older protocol waits for an answer after its first few.
        seen = bytes(self._buffer[:_GREETING_BYTES])
        if (seen and seen[0] != _GREETING[0]) or (len(seen) > 9 and seen[9] != _GREETING[9]):  # noqa: PLR2004 - RFC 23
            raise PeerProtocolError(Violation.SIGNATURE)
        if len(seen) > 10 and seen[10] < _GREETING[10]:  # noqa: PLR2004
            raise PeerProtocolError(Violation.VERSION)
        if not _NULL.startswith(seen[12:32]):
            raise PeerProtocolError(Violation.MECHANISM)
        if len(seen) > 32 and seen[32] != 0:  # noqa: PLR2004
            raise PeerProtocolError(Violation.AS_SERVER)
        if len(seen) < _GREETING_BYTES:
            return NEED_DATA
        self._greeted = True
        self._at = _GREETING_BYTES
        return self._read_frame()

    def _read_frame(self) -> Event:
        if self._skipped is not None:
            return self._skip(self._skipped)
        buffer, at = self._buffer, self._at
        held = len(buffer) - at
        if not held:
            return NEED_DATA
        flags = buffer[at]
        if flags & ~_LONG:
            self._check_flags(flags)
        elif not self._ready:
            raise PeerProtocolError(Violation.READY_EXPECTED)
        header = _LONG_HEADER if flags & _LONG else _SHORT_HEADER
        if held < header:
            return NEED_DATA
        body = at + header
        length = int.from_bytes(buffer[at + 1 : body], "big")
        if length > (MAX_COMMAND_BYTES if flags & _COMMAND else self._max_frame):
            self._check_skipped(flags, length)
            self._at, self._skipped, self._left_to_skip = body, Oversized(length), length
            return self._skip(self._skipped)
        if held < header + length:
            return NEED_DATA
        self._at = end = body + length
        frame = bytes(buffer[body:end])
        return self._read_command(frame) if flags & _COMMAND else frame

    def _check_skipped(self, flags: int, length: int) -> None:
        if flags & _COMMAND:
            raise PeerProtocolError(Violation.COMMAND_TOO_LARGE)
        if length > MAX_SKIPPED_BYTES:
            raise PeerProtocolError(Violation.FRAME_TOO_LARGE)

    def _skip(self, skipped: Oversized) -> Event:
        slice_bytes = min(len(self._buffer) - self._at, self._left_to_skip)
        self._at += slice_bytes
        self._left_to_skip -= slice_bytes
        if self._left_to_skip:
            return NEED_DATA
        self._skipped = None
        return skipped

    def _check_flags(self, flags: int) -> None:
        """Flags that are not those of a message in one frame."""
        if flags & _RESERVED or (flags & _COMMAND and flags & _MORE):
            raise PeerProtocolError(Violation.FLAGS)
        if flags & _MORE:
            raise PeerProtocolError(Violation.MULTIPART)

    def _read_command(self, body: bytes) -> Event:
        size = body[0] if body else 0
        name, operand = body[1 : 1 + size], body[1 + size :]
        if len(name) < size or not (name.isalpha() and name.isascii()):
            raise PeerProtocolError(Violation.COMMAND_MALFORMED)
        if name == b"ERROR":
            raise PeerProtocolError(Violation.PEER_ERROR)
        if not self._ready:
            return self._read_ready(name, operand)
        if name == b"READY":
            raise PeerProtocolError(Violation.READY_REPEATED)
        if name == b"PING":
            return _pong(operand)
        # PONG, and what other socket types or later versions say.
        return IGNORED

    def _read_ready(self, name: bytes, operand: bytes) -> Ready:
        if name != b"READY":
            raise PeerProtocolError(Violation.READY_EXPECTED)
        # Absent, or not ASCII: neither is a type we know.
        socket_type = _properties(operand).get(b"socket-type", b"").decode("ascii", errors="replace")
        if socket_type not in self._peer_types:
            raise PeerProtocolError(Violation.SOCKET_TYPE)
        self._ready = True
        return Ready(socket_type)


def pack(message: bytes) -> bytes:
    """One message as the single frame that goes onto the wire, once the peer is ready."""
    if len(message) <= _SHORT_LIMIT:
        return bytes((0, len(message))) + message
    return bytes((_LONG,)) + len(message).to_bytes(8, "big") + message


def _command(name: bytes, operand: bytes) -> bytes:
    body = bytes((len(name),)) + name + operand
    return bytes((_COMMAND, len(body))) + body


def _property(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value


def _properties(metadata: bytes) -> dict[bytes, bytes]:
    """Read the metadata of a READY command; names come out in lower case, because their case has no meaning.

    Raises:
        PeerProtocolError: a name or value is cut short, empty where it must not be, or given twice.

    """
    read: dict[bytes, bytes] = {}
    at = 0
    while at < len(metadata):
        name_end = at + 1 + metadata[at]
        value_at = name_end + 4
        name = metadata[at + 1 : name_end].lower()
        value_end = value_at + int.from_bytes(metadata[name_end:value_at], "big")
        if value_end > len(metadata) or not _is_property_name(name) or name in read:
            raise PeerProtocolError(Violation.COMMAND_MALFORMED)
        read[name] = metadata[value_at:value_end]
        at = value_end
    return read


def _is_property_name(name: bytes) -> bool:
    return bool(name) and not name.translate(None, b"abcdefghijklmnopqrstuvwxyz0123456789-_.+")


def _pong(operand: bytes) -> Reply:
    """Answer a PING (RFC 37): its context comes back; its TTL asks for nothing that this end does not do anyway."""
    context = operand[_PING_TTL_BYTES:]
    if len(operand) < _PING_TTL_BYTES or len(context) > _MAX_PING_CONTEXT:
        raise PeerProtocolError(Violation.COMMAND_MALFORMED)
    return Reply(_command(b"PONG", context))
