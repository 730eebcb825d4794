"""Frames at the decode boundary, against an oracle that was written from the page."""

from __future__ import annotations

from typing import Any, Final

from runtime_actors.contract import codec, envelope, payload
from tests.fuzz import reference
from tests.fuzz.source import Source, nested, packed
from tests.fuzz.target import ACCEPTED, Input, Stateless, expect
from tests.golden_files import every_case

_CODES: Final = frozenset({codec.MESSAGE_INVALID, codec.MESSAGE_TOO_LARGE})
_SMALL: Final = 4096


class CodecTarget(Stateless):
    """`contract.codec.decode`, and what the envelope makes of it."""

    name = "codec"
    allowance = 6 * 1024 * 1024

    def __init__(self) -> None:
        super().__init__()
        self._golden = [case.sent for case in every_case() if len(case.sent) < _SMALL]

    def make(self, source: Source) -> Input:
        kind = source.random.random()
        if kind < 0.35:
            return Input(source.broken(source.pick(self._golden), 1 + source.below(4)))
        if kind < 0.65:
            return Input(source.spelt({source.key(): source.json() for _ in range(source.below(5))}))
        if kind < 0.8:
            return Input(source.spelt({source.pick("abc"): source.plain(20) for _ in range(source.below(4))}))
        if kind < 0.9:
            return Input(source.noise(200))
        if kind < 0.94:
            return Input(packed({"a": source.no_json() if source.chance(0.5) else source.extreme()}))
        if kind < 0.965:
            return Input(_announced(source), greedy=True)
        if kind < 0.97:
            room = 262_144 - 8 + source.pick((-1, 0, 0, 1, 2))  # eight bytes stand around the text
            return Input(b"\x81\xa1a\xdb" + room.to_bytes(4, "big") + b"x" * room)
        if kind < 0.99:
            return Input(packed({"n": nested(source.random.randint(28, 36), source.chance(0.5)), "j": source.json()}))
        return Input(packed({"k": source.extreme(), "j": source.json()}), greedy=True)

    def feed(self, one: Input) -> str:
        frame = one.data
        try:
            value = self.cost.of(codec.decode, frame)
        except codec.IntakeError as error:
            expect(error.code in _CODES, f"the code {error.code} is none of the rule's")
            expect(error.__cause__ is None and len(error.detail) < 200, "a refusal quotes what was sent")
            self._must_refuse(frame)
            return error.code
        known = self._must_accept(frame)
        expect(reference.same(value, known), "it was read as something else than the page says")
        again = self.cost.of(codec.encode, value)
        expect(again == reference.write(known), "its canonical form is not the page's")
        expect(codec.encode(codec.decode(again)) == again, "its canonical form is not a fixed point")
        expect(codec.digest(value) == codec.digest(known), "equal values have two digests")
        expect(codec.encode_own(value) == again, "it leaves in another form than it was hashed in")
        self._above(frame, value)
        return ACCEPTED

    def _must_refuse(self, frame: bytes) -> None:
        try:
            reference.read(frame)
        except (reference.Refused, RecursionError):
            return
        expect(holds=False, what="it is refused, and the page lets it in")

    def _must_accept(self, frame: bytes) -> object:
        try:
            known: object = reference.read(frame)
            if len(frame) < _SMALL and not len(frame) % 8:  # slow
                expect(reference.same(known, reference.read(frame, slowly=True)), "two parsers read it differently")
        except reference.Refused as refused:
            expect(holds=False, what=f"it is let in, and the page refuses it: {refused}")
        return known

    def _above(self, frame: bytes, value: dict[str, Any]) -> None:
        """What is built on the boundary raises nothing else either."""
        try:
            self.cost.of(envelope.decode, frame)
        except codec.IntakeError as error:
            expect(error.code == codec.MESSAGE_INVALID, "an envelope was refused by a strange code")
        try:
            small = self.cost.of(payload.canonical, value)
        except codec.IntakeError as error:
            expect(error.code in _CODES, "a payload was refused by a strange code")
        else:
            expect(small == codec.encode(value), "a payload is kept in another form")


def _announced(source: Source) -> bytes:
    """Containers that promise more than comes, inside one another and beside one another."""
    head = source.pick((b"\xdd", b"\xdf", b"\xdc", b"\xde"))
    size = 4 if head in {b"\xdd", b"\xdf"} else 2
    count = source.pick((1, 255, 256, 257, 9_999, 10_001, 65_535, 2**31, 2**32 - 1)) % 256**size
    one = head + count.to_bytes(size, "big") + (b"\xa1k" if head in {b"\xdf", b"\xde"} else b"")
    filler = source.pick((b"", b"\xc0", b"\x90" * 40, b"\x80" * 9000, b"\xa3abc\xc0"))
    made: bytes = b"\x81\xa1a" + one * source.pick((1, 2, 31, 33, 100, 1100, 20_000)) + filler
    return made
