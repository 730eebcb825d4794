"""Values and frames: the one intake rule, and the one canonical form.

Every channel reads its frames with `decode`, and everything that is stored, hashed or sent is written with `encode`.
Both apply the same rule, so nothing that was accepted here fails later, in a deeper layer with other limits.

A value is JSON: maps, arrays, strings, numbers, booleans and null, as plain `dict`, `list`, `str`, `int`, `float`,
`bool` and `None`. Its canonical form is msgpack with the map keys sorted by their UTF-8 bytes, each whole number as the
shortest integer (so 1.0 and 1 are the same bytes, and -0.0 is 0) and every other number as a 64-bit float.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

import msgpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic import JsonValue

MAX_FRAME_BYTES: Final = 262_144
MAX_DEPTH: Final = 32
"""Maps and arrays inside one another, the root included."""
MAX_NODES: Final = 10_000
"""Values in a frame: the root, every array element and every map value. Keys do not count."""
MAX_KEY_BYTES: Final = 256
MAX_NUMBER: Final = 2**53 - 1
"""The largest whole number that every reader, JavaScript included, keeps exact."""

MESSAGE_INVALID: Final = "message_invalid"
MESSAGE_TOO_LARGE: Final = "message_too_large"

# A character takes at most four bytes in UTF-8: up to this many, a key needs no counting.
_SURELY_SHORT_KEY: Final = MAX_KEY_BYTES // 4


class IntakeError(ValueError):
    """A frame or value that breaks the intake rule."""

    def __init__(
        self, code: Literal["message_invalid", "message_too_large"], detail: str, request_id: str | None = None
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        """What is wrong, without a word of what was sent."""
        self.request_id = request_id
        """The `id` of what was to be an envelope, if that much could be read."""


def decode(frame: bytes) -> dict[str, JsonValue]:
    """Read one frame whose root is a map.

    Numbers come out in canonical form and keys in canonical order.

    Raises:
        IntakeError: the frame is too large, is not msgpack, or breaks the intake rule.

    """
    if len(frame) > MAX_FRAME_BYTES:
        raise IntakeError(MESSAGE_TOO_LARGE, too_large(len(frame)))
    try:
        root = _read(frame)
    except IntakeError:
        raise
    except Exception:  # noqa: BLE001 - msgpack raises a dozen unrelated classes, OverflowError and TypeError among them
        # Its message and cause may quote the frame.
        raise IntakeError(MESSAGE_INVALID, "the frame is not one well-formed msgpack value") from None
    if type(root) is not dict:
        _refuse("the root of a frame must be a map")
    canonical = _canonical(root)
    assert type(canonical) is dict  # noqa: S101 - says to the type checker that a map stays a map
    return canonical


def encode(value: object) -> bytes:
    """Write `value` in its canonical form. Any JSON value is written; a frame's root must be a map.

    Raises:
        IntakeError: the value breaks the intake rule, so no reader would accept it.

    """
    try:
        frame: bytes = msgpack.packb(_canonical(value))
    except UnicodeEncodeError:
        raise IntakeError(MESSAGE_INVALID, "a string holds a lone surrogate") from None
    if len(frame) > MAX_FRAME_BYTES:
        raise IntakeError(MESSAGE_TOO_LARGE, too_large(len(frame)))
    return frame


def encode_own(value: object) -> bytes:
    """Write a value of our own making that is in canonical form already; nothing of that is checked but the size.

    Raises:
        IntakeError: it is too large for a frame.

    """
    frame: bytes = msgpack.packb(value)
    if len(frame) > MAX_FRAME_BYTES:
        raise IntakeError(MESSAGE_TOO_LARGE, too_large(len(frame)))
    return frame


def too_large(length: int) -> str:
    """What is wrong with a frame of so many bytes."""
    return f"the frame has {length} bytes; {MAX_FRAME_BYTES} are allowed"


def check(value: object) -> None:
    """Apply the intake rule to a value that never was a frame, such as what an app returned.

    Raises:
        IntakeError: the value breaks the rule.

    """
    encode(value)


def digest(value: object) -> bytes:
    """SHA-256 of the canonical form: equal for equal values, whatever bytes or key order they came in.

    Raises:
        IntakeError: the value breaks the intake rule.

    """
    return hashlib.sha256(encode(value)).digest()


def _read(frame: bytes) -> object:
    """Let msgpack read the frame, in memory that a hostile frame cannot multiply.

    msgpack makes room for a container when it is announced and follows 1,024 announcements into each other, so a short
    frame could claim gigabytes. More than a few long containers are therefore read only after their announcements were
    added up, which takes as long as the reading.
    """
    may_be_long = sum(map(frame.count, _LONG_CONTAINERS))
    try:
        return _unpack(frame, longest=MAX_NODES if may_be_long <= _FEW else _SHORT_CONTAINER)
    except IntakeError:
        raise
    except ValueError:
        pass  # perhaps only for a long container; whatever it was, it is found again below
    _survey(frame)
    return _unpack(frame, longest=MAX_NODES)


def _unpack(frame: bytes, *, longest: int) -> object:
    containers = _Containers()
    value: object = msgpack.unpackb(
        frame,
        raw=False,
        strict_map_key=True,
        object_pairs_hook=containers.map_read,
        list_hook=containers.array_read,
        max_array_len=longest,
        max_map_len=longest,
        max_bin_len=0,
        max_ext_len=0,
    )
    return value


class _Containers:
    """Watches one frame being read, so that duplicate keys are seen and a bomb stops before it fills the memory.

    An empty container costs 70 times its byte on the wire. Values are counted where they stand, when the container
    around them is whole; containers are counted at once as well, because one that is never whole could hold them all.
    """

    __slots__ = ("containers", "nodes")

    def __init__(self) -> None:
        self.containers = 0
        self.nodes = 1

    def map_read(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        self._count(len(pairs))
        read = dict(pairs)
        if len(read) != len(pairs):
            _refuse("a map has the same key twice")
        return read

    def array_read(self, items: list[Any]) -> list[Any]:
        self._count(len(items))
        return items

    def _count(self, children: int) -> None:
        self.containers += 1
        self.nodes += children
        if self.nodes > MAX_NODES or self.containers > MAX_NODES:
            _refuse(_TOO_MANY_NODES)


def _survey(frame: bytes) -> None:
    """Add up what the containers of `frame` announce, and refuse too many nodes or too much depth.

    A frame cut short is left to the reader.
    """
    at, nodes = 0, 1
    waiting = [1]  # values still to come at each depth, keys included
    while waiting and at < len(frame):
        waiting[-1] -= 1
        length, length_bytes, values_each = _FORMATS.get(frame[at]) or _refuse("binary and extensions are not JSON")
        at += 1 + length_bytes
        if length_bytes:
            length = int.from_bytes(frame[at - length_bytes : at], "big")
        if values_each:
            nodes += length
            if nodes > MAX_NODES:
                _refuse(_TOO_MANY_NODES)
            if len(waiting) > MAX_DEPTH:
                _refuse(_TOO_DEEP)
            waiting.append(length * values_each)
        else:
            at += length
        while waiting and not waiting[-1]:
            waiting.pop()


# Containers up to this length are read without a survey: 1,024 of them announced in each other take 2 MiB.
_SHORT_CONTAINER: Final = 256
# First bytes of longer ones. Other values may hold such bytes too; so many announcements take 2.5 MB at most.
_LONG_CONTAINERS: Final = (b"\xdc", b"\xdd", b"\xde", b"\xdf")
_FEW: Final = 32

# First byte of a value (msgpack specification, "Formats") -> its length, or the bytes that hold its length, and how
# many values each unit of length stands for: none in a scalar, one in an array, a key and a value in a map.
_FORMATS: Final[Mapping[int, tuple[int, int, int]]] = (
    dict.fromkeys((*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3), (0, 0, 0))
    | {tag: (tag & 0x0F, 0, 2) for tag in range(0x80, 0x90)}
    | {tag: (tag & 0x0F, 0, 1) for tag in range(0x90, 0xA0)}
    | {tag: (tag & 0x1F, 0, 0) for tag in range(0xA0, 0xC0)}
    | dict(zip(range(0xCA, 0xD4), ((size, 0, 0) for size in (4, 8, 1, 2, 4, 8, 1, 2, 4, 8)), strict=True))
    | {0xD9: (0, 1, 0), 0xDA: (0, 2, 0), 0xDB: (0, 4, 0)}
    | {0xDC: (0, 2, 1), 0xDD: (0, 4, 1), 0xDE: (0, 2, 2), 0xDF: (0, 4, 2)}
)


def _canonical(value: object) -> JsonValue:
    """Copy `value` into canonical form, checking it on the way: level by level, so no depth can exhaust the stack.

    Lone surrogates are left to msgpack: it cannot read or write them.
    """
    top: list[JsonValue] = [None]
    level: list[tuple[Any, Any]] = [([value], top)]
    nodes = 1
    for _ in range(MAX_DEPTH + 1):  # the list around the root is one more
        below: list[tuple[Any, Any]] = []
        for source, target in level:
            for place, child in _places(source):
                if type(child) is not dict and type(child) is not list:
                    target[place] = _scalar(child)
                    continue
                nodes += len(child)
                if nodes > MAX_NODES:  # before the copy is made: an array can hold itself many times over
                    _refuse(_TOO_MANY_NODES)
                target[place] = copy = {} if type(child) is dict else [None] * len(child)
                below.append((child, copy))
        if not below:
            return top[0]
        level = below
    return _refuse(_TOO_DEEP)


def _scalar(value: object) -> JsonValue:
    if type(value) is str:
        if "\0" in value:
            _refuse("a string holds a NUL character")
        return value
    if type(value) is int or type(value) is float:
        if not -MAX_NUMBER <= value <= MAX_NUMBER:  # not-a-number fails this too
            _refuse("a number must be finite and within 2**53 - 1")
        return int(value) if type(value) is float and value.is_integer() else value
    if type(value) is not bool and value is not None:
        _refuse(f"{type(value).__name__} is not a JSON type")
    return value


def _places(container: dict[Any, Any] | list[Any]) -> Iterable[tuple[Any, Any]]:
    """Keys or indices with their values, in canonical order.

    Python orders strings by code point, which is the order of their UTF-8 bytes.
    """
    if isinstance(container, list):
        return enumerate(container)
    for key in container:
        if type(key) is not str:
            _refuse("a map key must be a string")
        if "\0" in key:
            _refuse("a map key holds a NUL character")
        if len(key) > _SURELY_SHORT_KEY and len(key.encode(errors="surrogatepass")) > MAX_KEY_BYTES:
            _refuse(f"a map key may have {MAX_KEY_BYTES} bytes")
    # Keys are unique, so sorting pairs never compares values.
    return sorted(container.items()) if len(container) > 1 else container.items()


_TOO_MANY_NODES: Final = f"a value may have {MAX_NODES} nodes"
_TOO_DEEP: Final = f"maps and arrays may stand {MAX_DEPTH} deep"


def _refuse(detail: str) -> NoReturn:
    raise IntakeError(MESSAGE_INVALID, detail)
