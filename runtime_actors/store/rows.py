"""Audit rows outside a transaction: at the opening, and in a backup."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgpack

from runtime_actors.rules.audit import AuditEntry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator


def audit_entries(sql: sqlite3.Connection, after: int) -> Iterator[tuple[AuditEntry, bytes]]:
    """Entries behind `after` in order, each with the head it claims."""
    for row in sql.execute("select seq, at, event, subject, detail, digest, head from audit where seq > ? order by seq", (after,)):
        entry = AuditEntry(row[0], row[1], row[2], msgpack.unpackb(row[3]), msgpack.unpackb(row[4]), bytes(row[5]))
        yield entry, bytes(row[6])
