"""Backup while the daemon runs, and restore while it does not. Both end only after the copy was verified."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sqlite_utils import Database

from runtime_actors.contract import codec
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.errors import StoreUnusable
from runtime_actors.records.transaction import rfc3339
from runtime_actors.rules.audit import AuditEntry, Break, first_break, next_head
from runtime_actors.store import files
from runtime_actors.store.migrations import MIGRATIONS
from runtime_actors.store.rows import audit_entries

if TYPE_CHECKING:
    from runtime_actors.contract.base import JsonObject
    from runtime_actors.records.transaction import Chain


def copy_to(sql: sqlite3.Connection, path: str, chain: Chain) -> JsonObject | Rejection:
    """Copy the open store with SQLite's backup API to `path`, which must not exist. The caller verifies the copy."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return Rejection(code=RejectionCode.NOT_FOUND, detail=f"the copy cannot be made there: {error.strerror}")
    os.close(descriptor)
    try:
        with contextlib.closing(sqlite3.connect(path)) as target:
            sql.backup(target)
    except sqlite3.Error as error:
        Path(path).unlink(missing_ok=True)
        return Rejection(code=RejectionCode.STORE_UNAVAILABLE, detail=f"the copy failed: {error}")
    return {"path": path, "bytes": Path(path).stat().st_size, "audit_seq": chain.seq, "head_hash": chain.head.hex()}


def verify(path: Path) -> tuple[int, bytes]:
    """Check a copy: it is whole, of a version that is known here, and its audit chain holds. Its end is returned.

    Raises:
        StoreUnusable: Something of that is not so.

    """
    if not path.is_file():
        detail = f"there is no file {path}"
        raise StoreUnusable(detail)
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as sql:
            return _verified(sql, path)
    except sqlite3.Error as error:
        detail = f"{path} is not a store: {error}"
        raise StoreUnusable(detail) from error


def _verified(sql: sqlite3.Connection, path: Path) -> tuple[int, bytes]:
    version = int(sql.execute("pragma user_version").fetchone()[0])
    if not 1 <= version <= len(MIGRATIONS):
        detail = f"{path} has schema version {version}; this runtime knows 1 to {len(MIGRATIONS)}"
        raise StoreUnusable(detail)
    found = sql.execute("pragma quick_check(1)").fetchone()[0]
    if found != "ok":
        detail = f"{path} is damaged: {found}"
        raise StoreUnusable(detail)
    walked = first_break(*files.anchor(sql), audit_entries(sql, files.anchor(sql)[0]))
    if isinstance(walked, Break):
        detail = f"the audit chain in {path} is broken: {walked.reason}"
        raise StoreUnusable(detail)
    return walked


def restore(state: Path, source: Path) -> tuple[int, bytes]:
    """Put a verified copy in the store's place; the store that was there is kept beside it as `store.db.before-restore`.

    The series of numbers gets a new name, so that agents forget what they remember of the old one.

    Raises:
        DaemonRunning: Stop it first.
        StoreUnusable: The copy does not hold; nothing was changed.

    """
    files.prepare(state)
    lock = files.lock(state)
    try:
        verify(source)
        new = state / f"store.db.restoring-{secrets.token_hex(4)}"
        with contextlib.closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as copy:
            with contextlib.closing(sqlite3.connect(new)) as target:
                copy.backup(target)
                target.execute("insert or replace into meta values ('stream', ?)", (secrets.token_hex(8),))
                target.commit()
        seq, head = verify(new)
        _sync(new)
        database = state / files.DATABASE
        if database.exists():
            # Its own WAL goes with it: opening brings both together.
            with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(database)) as old:
                old.execute("pragma wal_checkpoint(truncate)").fetchall()
            database.replace(state / f"{files.DATABASE}.before-restore")
        for suffix in ("-wal", "-shm"):
            (state / f"{files.DATABASE}{suffix}").unlink(missing_ok=True)
        (state / files.SIDE_FILE).unlink(missing_ok=True)
        new.replace(database)
        side = files.SideFile(state)
        side.write(seq, head)
        side.close()
        _sync(state)
        return seq, head
    finally:
        os.close(lock)


def accept_lost_tail(state: Path) -> tuple[int, int]:
    """Go on with a store whose newest part is lost: (entry that is its last one, entry that was committed last).

    What is lost is noted on the chain; receipts for it, which agents may hold, will not be found on it.

    Raises:
        DaemonRunning: Stop it first.
        StoreUnusable: The store cannot be opened, or its chain does not hold in itself.

    """
    lock = files.lock(state)
    try:
        with contextlib.closing(sqlite3.connect(state / files.DATABASE, isolation_level=None)) as sql:
            seq, head = _verified(sql, state / files.DATABASE)
            side = files.SideFile(state)
            kept = side.read() or (seq, head)
            if kept == (seq, head):
                return seq, seq
            entry = AuditEntry(
                seq + 1, rfc3339(datetime.now(UTC)), "audit.tail_lost", {}, {"committed_seq": kept[0], "head_hash": kept[1].hex()}, b""
            )
            head = next_head(head, entry)
            Database(sql)["audit"].insert(
                {
                    "seq": entry.seq, "at": entry.at, "event": entry.event, "subject": b"\x80",
                    "detail": codec.encode(entry.detail), "digest": b"", "head": head,
                }
            )  # fmt: skip
            (state / files.SIDE_FILE).unlink()
            side.close()
            side = files.SideFile(state)
            side.write(entry.seq, head)
            side.close()
            return seq, kept[0]
    finally:
        os.close(lock)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
