"""The intake rule and the canonical form once more, written from `docs/protocol.md` in the plainest way: an oracle."""

from __future__ import annotations

import math
import struct
from typing import Any, Final, NoReturn

import msgpack
from msgpack.fallback import Unpacker

MAX_BYTES: Final = 262_144
MAX_DEPTH: Final = 32
MAX_NODES: Final = 10_000
MAX_KEY: Final = 256
MAX_WHOLE: Final = 2**53 - 1


class Refused(Exception):
    """The rule does not let it in."""


def read(frame: bytes, *, slowly: bool = False) -> Any:  # noqa: ANN401 - JSON
    """What a frame says, in canonical form; `slowly` reads it with msgpack's parser in Python, another program.

    Raises:
        Refused: The rule does not let it in.

    """
    if len(frame) > MAX_BYTES:
        raise Refused("size")
    try:
        if slowly:
            unpacker = Unpacker(strict_map_key=False, object_pairs_hook=_unique, raw=False, max_buffer_size=MAX_BYTES)
            unpacker.feed(frame)
            value = unpacker.unpack()
            if unpacker.tell() != len(frame):
                _refuse("more than one value")
        else:
            value = msgpack.unpackb(frame, strict_map_key=False, object_pairs_hook=_unique, raw=False)
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001 - msgpack raises a dozen classes
        raise Refused(f"no msgpack: {type(error).__name__}") from None
    if not isinstance(value, dict):
        raise Refused("root")
    if _nodes(value) > MAX_NODES:
        raise Refused("nodes")
    return canonical(value)


def canonical(value: Any, depth: int = 1) -> Any:  # noqa: ANN401 - JSON
    """Sorted keys, whole numbers as integers.

    Raises:
        Refused: A value that JSON does not have, or the rule does not let in.

    """
    if isinstance(value, (dict, list)) and depth > MAX_DEPTH:
        raise Refused("depth")
    if isinstance(value, dict):
        return {key: canonical(value[key], depth + 1) for key in sorted(map(_key, value), key=lambda one: one.encode())}
    if isinstance(value, list):
        return [canonical(one, depth + 1) for one in value]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        if not math.isfinite(value) or abs(value) > MAX_WHOLE:
            raise Refused("number")
        return int(value) if value == int(value) else value
    raise Refused("type")


def write(value: Any) -> bytes:  # noqa: ANN401 - JSON
    """The canonical form, byte by byte (msgpack specification, "Formats")."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        data = value.encode()
        return _head(len(data), 0xA0, 32, {1: 0xD9, 2: 0xDA, 4: 0xDB}) + data
    if isinstance(value, list):
        return _head(len(value), 0x90, 16, {2: 0xDC, 4: 0xDD}) + b"".join(map(write, value))
    inner = b"".join(write(key) + write(one) for key, one in value.items())
    return _head(len(value), 0x80, 16, {2: 0xDE, 4: 0xDF}) + inner


def same(one: Any, other: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether two trees are equal in value, type and order of keys, so that 1, 1.0 and true differ."""
    return repr(one) == repr(other)


def _refuse(why: str) -> NoReturn:
    raise Refused(why)


def _nodes(value: Any) -> int:  # noqa: ANN401
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_nodes, children))


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refused("key twice")
    return found


def _key(key: Any) -> str:  # noqa: ANN401
    if not isinstance(key, str) or len(_text(key).encode()) > MAX_KEY:
        raise Refused("key")
    return key


def _text(text: str) -> str:
    if "\0" in text or any("\ud800" <= one <= "\udfff" for one in text):
        raise Refused("text")
    return text


def _head(count: int, short: int, below: int, longer: dict[int, int]) -> bytes:
    if count < below:
        return bytes((short | count,))
    size = next(size for size in longer if count < 256**size)
    return bytes((longer[size],)) + count.to_bytes(size, "big")


def _whole(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack("b", value)
    tags = {1: (0xCC, 0xD0), 2: (0xCD, 0xD1), 4: (0xCE, 0xD2), 8: (0xCF, 0xD3)}
    if value >= 0:
        size = next(size for size in tags if value < 256**size)
        return bytes((tags[size][0],)) + value.to_bytes(size, "big")
    size = next(size for size in tags if value >= -(256**size) // 2)
    return bytes((tags[size][1],)) + value.to_bytes(size, "big", signed=True)
