"""Byte streams of ZMTP 3.0 connections, good and bad, and what RFC 23 and our limits make of them: an oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from runtime_actors.contract.zmtp import MAX_COMMAND_BYTES, MAX_SKIPPED_BYTES, Violation
from tests.fuzz.source import Source

GREETING: Final = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
READY: Final = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
_KNOWN: Final = frozenset({b"PING", b"PONG", b"ERROR", b"READY", b"SUBSCRIBE", b"CANCEL", b"HELLO", b"x"})


def frame(body: bytes, flags: int = 0, *, long: bool = False, claimed: int | None = None) -> bytes:
    """One frame; `claimed` is the length that its header says."""
    length = len(body) if claimed is None else claimed
    if long or length > 255:
        return bytes((flags | 2,)) + length.to_bytes(8, "big") + body
    return bytes((flags & ~2, length)) + body


def a_stream(source: Source, max_frame: int) -> bytes:
    """What a peer sends, from its first byte on."""
    made = GREETING + frame(_ready(source), 4) if source.chance(0.9) else _bad_start(source)
    made += b"".join(_a_frame(source, max_frame) for _ in range(source.below(8)))
    if source.chance(0.15):
        made = made[: source.below(len(made) + 1)]
    return source.broken(made, 1 + source.below(3)) if source.chance(0.15) else made


def _bad_start(source: Source) -> bytes:
    kind = source.below(5)
    if kind == 0:
        return source.noise(80)
    if kind == 1:
        return b"GET / HTTP/1.1\r\n\r\n"
    if kind == 2:
        return source.broken(GREETING, 2)
    if kind == 3:
        return GREETING[:10] + bytes((source.below(6),)) + GREETING[11:] + frame(READY, 4)
    return GREETING + frame(source.noise(40), source.pick((0, 1, 4, 5, 8)))


def _ready(source: Source) -> bytes:
    kind = source.random.random()
    if kind < 0.8:
        return READY
    if kind < 0.9:
        name = source.pick((b"Socket-Type", b"SOCKET-TYPE", b"Identity", b"", b"\xff", b"X" * 255))
        value = source.pick((b"DEALER", b"ROUTER", b"REQ", b"", b"dealer", b"\xff", b"v" * 300))
        length = source.pick((len(value), len(value), 0, 2**31, 2**32 - 1))
        return b"\x05READY" + bytes((len(name) & 255,)) + name + length.to_bytes(4, "big") + value
    return READY + READY[6:] if kind < 0.95 else source.broken(READY)


def _a_frame(source: Source, max_frame: int) -> bytes:
    kind = source.random.random()
    if kind < 0.45:
        return frame(source.noise(40), long=source.chance(0.3))
    if kind < 0.55:
        size = source.pick((255, 256, max_frame - 1, max_frame, max_frame + 1, max_frame + 5000))
        return frame(bytes(min(size, 20_000)), claimed=size) if size > 20_000 else frame(bytes(size))
    if kind < 0.75:
        return _a_command(source)
    if kind < 0.82:
        return frame(source.noise(20), 1, long=source.chance(0.5)) * source.pick((1, 2, 50))
    if kind < 0.9:
        sizes = (MAX_SKIPPED_BYTES, MAX_SKIPPED_BYTES + 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
        return frame(source.noise(100), source.pick((0, 0, 4)), claimed=source.pick(sizes))
    return frame(source.noise(20), source.pick((0, 4, 5, 8, 0x80, 0xF8, 0xFF)))


def _a_command(source: Source) -> bytes:
    name = source.pick(tuple(sorted(_KNOWN)))
    operand = source.pick((b"", b"\0", b"\0\0", b"\0\x0acontext", b"\0\0" + b"c" * 16, b"\0\0" + b"c" * 17))
    size = source.pick((*(len(name),) * 8, 0, 255))
    body = bytes((size,)) + name + operand
    if source.chance(0.1):
        body = source.pick((b"", bytes(MAX_COMMAND_BYTES), bytes(MAX_COMMAND_BYTES + 1), b"\x04P\xc3\xa9G"))
    return frame(body, 4, long=source.chance(0.2))


@dataclass(slots=True)
class Expected:
    """What comes of a stream."""

    said: list[object] = field(default_factory=list)
    """Messages as bytes, `ready`, `ignored`, (`pong`, context) and (`oversized`, length)."""
    violation: str | None = None
    is_ready: bool = False


class _Stop(Exception):
    pass


def expected(data: bytes, max_frame: int) -> Expected:
    """Read a whole stream at once."""
    found = Expected()
    try:
        at = _start(data)
        while at < len(data):
            at = _next(data, at, max_frame, found)
    except _Stop as stop:
        found.violation = str(stop) or None
    return found


def _start(data: bytes) -> int:
    for at, one in enumerate(data[:33]):
        wrong = (
            (at in {0, 9} and one != GREETING[at] and Violation.SIGNATURE)
            or (at == 10 and one < 3 and Violation.VERSION)
            or (12 <= at < 32 and one != GREETING[at] and Violation.MECHANISM)
            or (at == 32 and one != 0 and Violation.AS_SERVER)
        )
        if wrong:
            raise _Stop(wrong)
    if len(data) < 64:
        raise _Stop
    return 64


def _next(data: bytes, at: int, max_frame: int, found: Expected) -> int:
    flags = data[at]
    more, long, command = flags & 1, flags & 2, flags & 4
    if flags >= 8 or (command and more):
        raise _Stop(Violation.FLAGS)
    if more:
        raise _Stop(Violation.MULTIPART)
    if not command and not found.is_ready:
        raise _Stop(Violation.READY_EXPECTED)
    begin = at + (9 if long else 2)
    if len(data) < begin:
        raise _Stop
    length = int.from_bytes(data[at + 1 : begin], "big")
    if command and length > MAX_COMMAND_BYTES:
        raise _Stop(Violation.COMMAND_TOO_LARGE)
    if length > max(max_frame, MAX_SKIPPED_BYTES):
        raise _Stop(Violation.FRAME_TOO_LARGE)
    if len(data) < begin + length:
        raise _Stop
    body = data[begin : begin + length]
    if command:
        _obey(body, found)
    else:
        found.said.append(body if length <= max_frame else ("oversized", length))
    return begin + length


def _obey(body: bytes, found: Expected) -> None:
    size = body[0] if body else 0
    name, operand = body[1 : 1 + size], body[1 + size :]
    if not body or len(name) != size or not name or not name.isascii() or not name.decode("ascii").isalpha():
        raise _Stop(Violation.COMMAND_MALFORMED)
    if name == b"ERROR":
        raise _Stop(Violation.PEER_ERROR)
    if not found.is_ready:
        if name != b"READY":
            raise _Stop(Violation.READY_EXPECTED)
        if _socket_type(operand) != b"DEALER":
            raise _Stop(Violation.SOCKET_TYPE)
        found.is_ready = True
        found.said.append("ready")
    elif name == b"READY":
        raise _Stop(Violation.READY_REPEATED)
    elif name == b"PING":
        if not 2 <= len(operand) <= 18:
            raise _Stop(Violation.COMMAND_MALFORMED)
        found.said.append(("pong", operand[2:]))
    else:
        found.said.append("ignored")


_NAME: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.+")


def _socket_type(metadata: bytes) -> bytes | None:
    found: dict[bytes, bytes] = {}
    while metadata:
        size = metadata[0]
        name, rest = metadata[1 : 1 + size], metadata[1 + size :]
        length = int.from_bytes(rest[:4], "big")
        value = rest[4 : 4 + length]
        whole = len(name) == size and len(rest) >= 4 and len(value) == length
        if not whole or not name or not set(name) <= _NAME or name.lower() in found:
            raise _Stop(Violation.COMMAND_MALFORMED)
        found[name.lower()] = value
        metadata = rest[4 + length :]
    return found.get(b"socket-type")
