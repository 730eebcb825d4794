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

    def canonical(self) -> bytes:
        """What is hashed."""
        return codec.encode_own(
            {
                "at": self.at,
                "detail": dict(sorted(self.detail.items())),
                "digest": self.digest.hex(),
                "event": self.event,
                "seq": self.seq,
                "subject": dict(sorted(self.subject.items())),
            }
        )


def next_head(head: bytes, entry: AuditEntry) -> bytes:
    """The chain's head after `entry`."""
    return hashlib.sha256(head + entry.canonical()).digest()


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
