"""Hostile values from one seed: texts, numbers, JSON trees, msgpack spelt in every legal way and not, broken bytes."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgpack

T = TypeVar("T")

ODD_TEXTS: Final = (
    "",
    "a",
    " ",
    "\0",
    "a\0b",
    "\ud800",
    "x\udfff",
    "\ud83d\ude00",
    "\u202eabc",
    "\u2066\u2069",
    "\u00e9",
    "e\u0301",
    "\ufeff",
    "\u200b",
    "\u2028",
    "\U0010ffff",
    "\U000e0001",
    "\x1b[31m",
    "\x7f",
    "\r\n",
    "\u00b2",
    "\u0661\u0662",
    "1\U00011f50",
    "m0",
    "m1",
    "m-1",
    "m\u00b2",
    "m999999999999999",
    "m99999999999999999999",
    "-1",
    "0",
    "00",
    "1e3",
    "9" * 19,
    "9" * 30,
    "9" * 5000,
    "NaN",
    "null",
    "true",
    "__class__",
    "constructor",
    "' or 1=1; --",
    "../../etc/passwd",
    "/dev/zero",
    "%s%n{0}",
    "$ref",
    "lineup.v1.ping",
    "\u00df" * 127,
)
"""Short ones that somebody somewhere gets wrong."""
LENGTHS: Final = (1, 2, 15, 31, 32, 63, 64, 65, 120, 121, 127, 128, 129, 255, 256, 257, 2000, 2001)
LARGE: Final = (16_384, 16_385, 65_535, 65_536, 65_537, 196_608, 261_000, 262_020, 262_100, 262_144, 300_000)
ODD_NUMBERS: Final[tuple[int | float, ...]] = (
    0,
    1,
    -1,
    2,
    -0.0,
    0.5,
    1.0,
    1.5,
    -1.5,
    100,
    101,
    127,
    128,
    255,
    256,
    -32,
    -33,
    -128,
    -129,
    32767,
    32768,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32,
    2**53 - 1,
    2**53,
    -(2**53),
    2**63 - 1,
    2**63,
    2**64 - 1,
    -(2**63),
    5e-324,
    1e16,
    1e300,
    float("inf"),
    float("-inf"),
    float("nan"),
    9007199254740991.0,
    9007199254740992.0,
)


class Source:
    """Random choices; the same seed chooses the same."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)  # noqa: S311 - hostile, not secret

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def pick(self, of: Sequence[T]) -> T:
        return of[int(self.random.random() * len(of))]

    def below(self, end: int) -> int:
        """0 to `end` - 1, small ones more often."""
        return int(end * self.random.random() ** 2)

    # --- scalars ---

    def text(self) -> str:
        kind = self.random.random()
        if kind < 0.5:
            return self.pick(ODD_TEXTS)
        if kind < 0.75:
            return "".join(self.pick("abcxyz019._:-/~ \u00e9\u4e2d") for _ in range(self.below(20)))
        if kind < 0.95:
            return self.pick("ax\u00e9\U0001f600") * self.pick(LENGTHS)
        return chr(self.below(0x110000)) + self.pick(ODD_TEXTS)

    def large_text(self) -> str:
        return self.pick("axx\u00e9") * self.pick(LARGE)

    def number(self) -> int | float:
        kind = self.random.random()
        if kind < 0.6:
            return self.pick(ODD_NUMBERS)
        if kind < 0.9:
            return self.random.randint(-1000, 1000)
        return self.random.uniform(-1e6, 1e6)

    def scalar(self) -> object:
        kind = self.random.random()
        if kind < 0.45:
            return self.text()
        if kind < 0.75:
            return self.number()
        return self.pick((None, True, False))

    def no_json(self) -> object:
        """Values that msgpack knows and JSON does not."""
        return self.pick((b"", b"bytes", msgpack.ExtType(1, b"x"), msgpack.Timestamp(1, 2), {1: 2}, {None: 1}))

    # --- trees ---

    def json(self, room: int = 12) -> object:
        """A tree of at most about `room` values."""
        kind = self.random.random()
        if room <= 1 or kind < 0.4:
            return self.scalar()
        count = self.below(min(room, 6))
        inner = room // (count + 1)
        if kind < 0.65:
            return [self.json(inner) for _ in range(count)]
        return {self.key(): self.json(inner) for _ in range(count)}

    def plain(self, room: int = 8) -> object:
        """A tree that breaks no rule."""
        kind = self.random.random()
        if room <= 1 or kind < 0.5:
            return self.pick(("", "a", "text", "\u00e9\u4e2d", 0, 1, -7, 0.5, 2**53 - 1, True, False, None))
        count = self.below(4)
        if kind < 0.7:
            return [self.plain(room // (count + 1)) for _ in range(count)]
        return {self.pick("abcdefg"): self.plain(room // (count + 1)) for _ in range(count)}

    def key(self) -> str:
        return self.pick("abcdef") if self.chance(0.7) else self.text()

    def extreme(self) -> object:
        """A tree at, or beyond, a limit of size, depth or number."""
        kind = self.below(6)
        if kind == 0:
            return nested(self.pick((1, 8, 15, 16, 17, 22, 23, 24, 25, 29, 30, 31, 32, 33, 40, 200)), self.chance(0.5))
        if kind == 1:
            return [0] * self.pick((999, 1000, 1001, 7998, 7999, 8000, 9990, 9999, 10_000, 10_001))
        if kind == 2:
            return {str(at): at for at in range(self.pick((8, 64, 999, 1001, 8001)))}
        if kind == 3:
            return [[[]] * self.pick((100, 3000, 5000))] * self.pick((1, 2, 3))
        if kind == 4:
            return {"k" * self.pick((255, 256, 257)): 1}
        return self.large_text()

    # --- bytes ---

    def noise(self, most: int = 64) -> bytes:
        return self.random.randbytes(self.below(most))

    def broken(self, data: bytes, times: int = 1) -> bytes:
        """`data` with some bytes changed, lost, doubled or put in."""
        made = bytearray(data)
        for _ in range(times):
            at = int(self.random.random() * (len(made) + 1))
            kind = self.below(8)
            if kind == 0 and at < len(made):
                made[at] ^= 1 << self.below(8)
            elif kind == 1 and at < len(made):
                made[at] = self.pick(TAGS)
            elif kind == 2:
                made[at:at] = self.noise(8)
            elif kind == 3:
                del made[at : at + 1 + self.below(8)]
            elif kind == 4:
                made[at:at] = made[at : at + 1 + self.below(32)]
            elif kind == 5:
                del made[at:]
            elif kind == 6:
                made[at : at + 4] = struct.pack(">I", self.pick((0, 1, 255, 65536, 2**31, 2**32 - 1)))
            else:
                made += self.noise(8)
        return bytes(made)

    def spelt(self, value: object) -> bytes:
        """Msgpack of `value`, each part in a form chosen at random, keys in any order and now and then twice."""
        if isinstance(value, dict):
            items = list(value.items())
            self.random.shuffle(items)
            if items and self.chance(0.02):
                items.append((items[0][0], self.scalar()))
            inner = b"".join(self.spelt(key) + self.spelt(one) for key, one in items)
            return self._head(len(items), (0x80, 16), (0xDE, 2), (0xDF, 4)) + inner
        if isinstance(value, list):
            return self._head(len(value), (0x90, 16), (0xDC, 2), (0xDD, 4)) + b"".join(map(self.spelt, value))
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogatepass")
            return self._head(len(data), (0xA0, 32), (0xD9, 1), (0xDA, 2), (0xDB, 4)) + data
        if type(value) is int and self.chance(0.5):
            return self._whole(value)
        return packed(value)

    def _head(self, count: int, short: tuple[int, int], *longer: tuple[int, int]) -> bytes:
        fitting = [bytes((tag,)) + count.to_bytes(size, "big") for tag, size in longer if count < 256**size]
        if count < short[1]:
            fitting += [bytes((short[0] | count,))] * 4
        return self.pick(fitting)

    def _whole(self, value: int) -> bytes:
        forms = [(0xCC, ">B"), (0xCD, ">H"), (0xCE, ">I"), (0xCF, ">Q")] if value >= 0 else []
        forms += [(0xD0, ">b"), (0xD1, ">h"), (0xD2, ">i"), (0xD3, ">q")]
        if abs(value) < 2**24:
            forms += [(0xCA, ">f"), (0xCB, ">d")]
        tag, form = self.pick(forms)
        try:
            return bytes((tag,)) + struct.pack(form, value)
        except (struct.error, OverflowError):
            return packed(value)

    # --- patterns ---

    def matching(self, pattern: str) -> str:
        """A text that a simple pattern (classes, groups, repeats, literals) matches."""
        return _from_pattern(self, _parsed(pattern))


TAGS: Final = (0x00, 0x7F, 0x80, 0x81, 0x8F, 0x90, 0x91, 0x9F, 0xA0, 0xA1, 0xBF, *range(0xC0, 0xE0), 0xE0, 0xFF)
"""First bytes of msgpack values: every format there is."""


def packed(value: object) -> bytes:
    """Msgpack of nearly anything; what it cannot spell is replaced."""
    made: bytes = msgpack.packb(_packable(value), unicode_errors="surrogatepass")
    return made


def _packable(value: object) -> object:
    if type(value) is int and not -(2**63) <= value < 2**64:
        return 2**63
    if isinstance(value, dict):
        return {key: _packable(one) for key, one in value.items()}
    return [_packable(one) for one in value] if isinstance(value, list) else value


def nested(depth: int, in_maps: bool) -> Any:  # noqa: ANN401, FBT001 - JSON; which container is the one question
    """Containers inside one another."""
    made: Any = {} if in_maps else []
    for _ in range(depth - 1):
        made = {"d": made} if in_maps else [made]
    return made


_PARSED: dict[str, Any] = {}


def _parsed(pattern: str) -> Any:  # noqa: ANN401 - re's own tree has no types
    if pattern not in _PARSED:
        _PARSED[pattern] = re._parser.parse(pattern)  # type: ignore[attr-defined]  # a parser of patterns is in re alone
    return _PARSED[pattern]


def _from_pattern(source: Source, tree: Any) -> str:  # noqa: ANN401
    return "".join(_PARTS[str(name)](source, given) for name, given in tree)


def _repeat(source: Source, given: Any) -> str:  # noqa: ANN401
    least, most, inner = given
    count = source.pick((least, min(int(most), least + 3), source.random.randint(least, min(int(most), least + 40))))
    return "".join(_from_pattern(source, inner) for _ in range(count))


def _one_of(source: Source, given: Any) -> str:  # noqa: ANN401
    name, what = source.pick(given)
    if str(name) == "RANGE":
        return chr(source.random.randint(what[0], what[1]))
    return source.pick("0123456789") if str(name) == "CATEGORY" else chr(what)


_PARTS: Final[dict[str, Callable[[Source, Any], str]]] = {
    "LITERAL": lambda _, given: chr(given),
    "IN": _one_of,
    "MAX_REPEAT": _repeat,
    "SUBPATTERN": lambda source, given: _from_pattern(source, given[3]),
    "BRANCH": lambda source, given: _from_pattern(source, source.pick(given[1])),
    "AT": lambda _source, _given: "",
    "CATEGORY": lambda source, _given: source.pick("0123456789"),
}
