"""Rows of the audit chain, and the walk along it: a row that cannot be read breaks the chain, not the walker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgpack

from runtime_actors.rules.audit import GENESIS, AuditEntry, Break, first_break

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

_SELECT: Final = (
    "select seq, at, event, subject, detail, digest, head from audit where seq > ? order by seq limit coalesce(?, -1)"
)


def audit_entries(sql: sqlite3.Connection, after: int, limit: int | None = None) -> Iterator[tuple[AuditEntry, bytes]]:
    """Entries behind `after` in order, each with the head it claims.

    Raises:
        ValueError: A row cannot be read; `walk` makes a `Break` of it.

    """
    for row in sql.execute(_SELECT, (after, limit)):
        yield entry_of(row), bytes(row[6])


def entry_of(row: tuple[Any, ...]) -> AuditEntry:
    """What a row of all columns says."""
    return AuditEntry(row[0], row[1], row[2], msgpack.unpackb(row[3]), msgpack.unpackb(row[4]), bytes(row[5]))


def walk(sql: sqlite3.Connection, seq: int, head: bytes, limit: int | None = None) -> Break | tuple[int, bytes]:
    """Walk at most `limit` entries behind `(seq, head)`: the first place that does not hold, or where it ended."""
    # A cursor that is left in the middle of a walk would hold up checkpoints; only a bounded walk fits into a list.
    rows = sql.execute(_SELECT, (seq, None)) if limit is None else rows_behind(sql, seq, limit)
    return walk_rows(seq, head, rows)


def rows_behind(sql: sqlite3.Connection, seq: int, limit: int) -> list[tuple[Any, ...]]:
    """At most `limit` rows, of all columns."""
    return sql.execute(_SELECT, (seq, limit)).fetchall()


def walk_rows(seq: int, head: bytes, rows: Iterable[tuple[Any, ...]]) -> Break | tuple[int, bytes]:
    """As `walk`, over rows of all columns that were read already."""
    reached = seq

    def readable() -> Iterator[tuple[AuditEntry, bytes]]:
        nonlocal reached
        for row in rows:
            yield entry_of(row), bytes(row[6])
            reached = row[0]

    try:
        return first_break(seq, head, readable())
    except Exception:  # noqa: BLE001 - msgpack and the codec raise what they like at damaged bytes
        return Break(reached + 1, f"entry {reached + 1} cannot be read")


def anchor(sql: sqlite3.Connection) -> tuple[int, bytes]:
    """Where the chain that is kept here begins: the end of what was exported, or the genesis."""
    row = sql.execute("select value from meta where name = 'anchor'").fetchone()
    if row is None:
        return 0, GENESIS
    seq, head = row[0].split()
    return int(seq), bytes.fromhex(head)


def chain_end(sql: sqlite3.Connection) -> tuple[int, bytes]:
    """The newest entry and its head."""
    row = sql.execute("select seq, head from audit order by seq desc limit 1").fetchone()
    return (int(row[0]), bytes(row[1])) if row is not None else anchor(sql)
