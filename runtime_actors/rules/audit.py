"""The audit chain: `head_n = SHA-256(head_(n-1) || canonical entry_n)` (docs/protocol.md, section 7)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from runtime_actors.contract import codec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime_actors.contract.base import JsonObject

GENESIS: Final = bytes(32)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry. It names ids, codes and counts, and holds digests of payloads, never payloads."""

    seq: int
    at: str
    event: str
    subject: JsonObject
    detail: JsonObject
    digest: bytes

    def written(self) -> tuple[bytes, bytes]:
        """`subject` and `detail` as they are stored; both are flat and of our own making."""
        return _canonical(self.subject), _canonical(self.detail)

    def canonical(self, written: tuple[bytes, bytes] | None = None) -> bytes:
        """What is hashed: a map of six, keys in their order. `written` spares its largest parts."""
        subject, detail = written or self.written()
        pack = codec.encode_own
        return b"".join(
            (
                _MAP_OF_SIX, _AT, pack(self.at), _DETAIL, detail, _DIGEST, pack(self.digest.hex()),
                _EVENT, pack(self.event), _SEQ, pack(self.seq), _SUBJECT, subject,
            )
        )  # fmt: skip


def _canonical(flat: JsonObject) -> bytes:
    return codec.encode_own(dict(sorted(flat.items())))


_MAP_OF_SIX: Final = b"\x86"
_AT, _DETAIL, _DIGEST, _EVENT, _SEQ, _SUBJECT = (
    codec.encode_own(key) for key in ("at", "detail", "digest", "event", "seq", "subject")
)


def next_head(head: bytes, entry: AuditEntry, written: tuple[bytes, bytes] | None = None) -> bytes:
    """The chain's head after `entry`; what `entry.written` gave need not be written again."""
    return hashlib.sha256(head + entry.canonical(written)).digest()


@dataclass(frozen=True, slots=True)
class Break:
    """Where a chain does not hold."""

    seq: int
    reason: str


def first_break(seq: int, head: bytes, entries: Iterable[tuple[AuditEntry, bytes]]) -> Break | tuple[int, bytes]:
    """Walk entries that follow `(seq, head)`: the first place that does not hold, or where the chain ends."""
    for entry, claimed in entries:
        if entry.seq != seq + 1:
            return Break(seq + 1, f"entry {seq + 1} is missing")
        head = next_head(head, entry)
        if head != claimed:
            return Break(entry.seq, f"entry {entry.seq} does not match its hash")
        seq = entry.seq
    return seq, head
