"""The audit chain, computed again, and the places on it that clients were told (docs/protocol.md, sections 2 and 7)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgpack

from runtime_actors.checker.evidence import Row, Unreadable
from runtime_actors.checker.history import Answered, Delivered
from runtime_actors.checker.violation import Violation

if TYPE_CHECKING:
    from runtime_actors.checker.run import Run

GENESIS: Final = bytes(32)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the audit log."""

    seq: int
    event: str
    subject: Mapping[str, str]
    detail: Row
    digest: str
    head: str
    row: Row


def parse_audit(rows: Sequence[Row]) -> list[Entry]:
    """The audit log, entry by entry.

    Raises:
        Unreadable: a row is no entry.

    """
    try:
        return [
            Entry(row["seq"], row["event"], row["subject"], row["detail"], row["digest"], row["head_hash"], row)
            for row in rows
        ]
    except (KeyError, TypeError) as error:
        raise Unreadable(f"a row of the audit log is no entry: {error}") from None


def canonical(value: object) -> bytes:
    """The canonical form: keys sorted by their bytes, whole fractions as integers."""
    packed: bytes = msgpack.packb(_sorted(value))
    return packed


def _sorted(value: object) -> object:
    if type(value) is str:  # most are
        return value
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value, key=str.encode)}
    if isinstance(value, (list, tuple)):
        return [_sorted(one) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def digest_of(value: object) -> str:
    """SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def next_head(head: bytes, row: Row) -> bytes:
    """`head_n = SHA-256(head_(n-1) || entry_n)`."""
    entry = {name: row[name] for name in ("seq", "at", "event", "subject", "detail", "digest")}
    return hashlib.sha256(head + canonical(entry)).digest()


def check_chain(run: Run) -> Iterator[Violation]:
    """The first place that does not hold: behind it nothing can."""
    head = GENESIS
    for expected, entry in enumerate(run.entries, start=1):
        if entry.seq != expected:
            yield Violation("chain-broken", f"entry {expected}", "it is missing", (entry.row,))
            return
        head = next_head(head, entry.row)
        if entry.head != head.hex():
            yield Violation("chain-broken", f"entry {expected}", "it does not match its hash", (entry.row,))
            return


def check_marks(run: Run) -> Iterator[Violation]:
    """Every mark lies on the chain: of answers, of deliveries, and the one that the daemon shows itself."""
    heads = {entry.seq: entry.head for entry in run.entries} | {0: GENESIS.hex()}
    marked = [(one.by, one.body.get("audit"), one.row) for one in run.events if isinstance(one, (Answered, Delivered))]
    marked += [("status", row.get("audit"), row) for row in run.listings["status"]]
    for who, mark, row in marked:
        if mark is not None and heads.get(mark["audit_seq"]) != mark["head_hash"]:
            near = run.entry(mark["audit_seq"])
            shown = (row,) if near is None else (row, near.row)
            yield Violation("mark-off-chain", who, f"was told of a place {mark['audit_seq']} that is not", shown)
