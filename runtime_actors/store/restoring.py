"""Another store in the place of the one that is there: a backup, or the same without a tail that was lost.

A restore is made ready beside the store and decided by one rename, of the marker. From then on whoever opens the folder
finishes it, so a crash at any moment leaves the old store or the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from runtime_actors import state_folder
from runtime_actors.contract import codec
from runtime_actors.errors import StoreUnusable
from runtime_actors.records.audit import chain_end
from runtime_actors.records.transaction import rfc3339
from runtime_actors.rules.audit import AuditEntry, next_head
from runtime_actors.store import files
from runtime_actors.store.verifying import open_copy, verify, verify_open

if TYPE_CHECKING:
    from pathlib import Path

    from runtime_actors.contract.base import JsonObject

NEW: Final = f"{files.DATABASE}.restoring"
MARKER: Final = "restore.decided"
BEFORE: Final = f"{files.DATABASE}.before-restore"
_SUFFIXES: Final = ("", "-wal", "-journal", "-shm")


def restore(state: Path, source: Path) -> tuple[int, bytes]:
    """Put a verified copy in the store's place; the old one is kept beside it as `store.db.before-restore`.

    The series of numbers gets a new name, so that agents forget what they remember of the old one. The restore is noted
    on the chain, whose end is returned.

    Raises:
        DaemonRunning: Stop it first.
        StoreUnusable: The copy does not hold, or cannot be written; nothing was changed.

    """
    state_folder.prepare(state)
    lock = state_folder.lock(state)
    try:
        finish(state)
        verify(source)
        try:
            seq, head = _make_ready(state, source)
            _decide(state, seq, head)
        except (sqlite3.Error, OSError) as error:
            _discard(state)
            raise StoreUnusable(f"{source} cannot be restored: {error}") from error
        finish(state)
        return seq, head
    finally:
        os.close(lock)


def _make_ready(state: Path, source: Path) -> tuple[int, bytes]:
    """A verified copy of the copy, with a new name for its numbers, in one file."""
    _discard(state)
    new = state / NEW
    with contextlib.closing(open_copy(source)) as copy, contextlib.closing(sqlite3.connect(new)) as target:
        copy.backup(target)
        target.isolation_level = None
        target.execute("pragma journal_mode = delete").fetchall()
        seq, _ = chain_end(target)
        target.execute("begin immediate")
        _rename_stream(target)
        _append(target, "store.restored", {"from_seq": seq})
        target.execute("commit")
    new.chmod(0o600)
    found = verify(new)
    with new.open("rb") as file:  # nobody has it open in SQLite now
        os.fsync(file.fileno())
    return found


def _decide(state: Path, seq: int, head: bytes) -> None:
    """From here on the new store is the store."""
    draft = state / f"{MARKER}.new"
    with draft.open("w") as file:
        json.dump({"audit_seq": seq, "head_hash": head.hex()}, file)
        file.flush()
        os.fsync(file.fileno())
    for suffix in _SUFFIXES[1:]:  # of a store that an earlier restore set aside; it would be taken for the next one's
        (state / f"{BEFORE}{suffix}").unlink(missing_ok=True)
    files.sync_folder(state)
    draft.replace(state / MARKER)
    files.sync_folder(state)


def finish(state: Path) -> None:
    """Finish a restore that was decided, forget one that was not; may be repeated. The folder's lock is held."""
    marker = state / MARKER
    if not marker.exists():
        _discard(state)
        return
    place = json.loads(marker.read_text())
    if (state / NEW).exists():
        if (state / files.DATABASE).exists():
            _set_old_aside(state)
        # What is left of the old store's log would be replayed into the new one.
        for suffix in _SUFFIXES[1:]:
            (state / f"{files.DATABASE}{suffix}").unlink(missing_ok=True)
        files.sync_folder(state)
        (state / NEW).replace(state / files.DATABASE)
        files.sync_folder(state)
    files.replace_side_file(state, int(place["audit_seq"]), bytes.fromhex(place["head_hash"]))
    marker.unlink()
    files.sync_folder(state)


def _set_old_aside(state: Path) -> None:
    """Keep the old store with its log, as they are: opening what may be damaged could change it."""
    old, kept = state / files.DATABASE, state / BEFORE
    if not old.is_file() and kept.exists():
        kept = state / f"{BEFORE}-{secrets.token_hex(4)}"  # a folder takes no file's place
    for suffix in _SUFFIXES[1:]:
        with contextlib.suppress(FileNotFoundError):
            (state / f"{files.DATABASE}{suffix}").replace(state / f"{kept.name}{suffix}")
    old.replace(kept)


def _discard(state: Path) -> None:
    """Remove what a restore that was not decided left."""
    for suffix in _SUFFIXES:
        (state / f"{NEW}{suffix}").unlink(missing_ok=True)
    (state / f"{MARKER}.new").unlink(missing_ok=True)


def accept_lost_tail(state: Path) -> tuple[int, int]:
    """Go on with a store whose newest part is lost: (entry that is its last one, entry that was committed last).

    What is lost is noted on the chain; receipts for it, which agents may hold, will not be found on it. As after a
    restore the series of numbers gets a new name: numbers that were lost will be given again. If nothing is lost,
    nothing is done.

    Raises:
        DaemonRunning: Stop it first.
        StoreUnusable: The store cannot be opened, or its chain does not hold in itself.

    """
    path = state / files.DATABASE
    if not path.is_file():
        raise StoreUnusable(f"there is no store in {state}")
    lock = state_folder.lock(state)
    try:
        finish(state)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as sql:
            sql.execute("pragma locking_mode = exclusive").fetchall()  # leaves no -shm file behind
            seq, _ = verify_open(sql, path)
            lost = _lost(sql, state)
            if lost is None:
                return seq, seq
            sql.execute("pragma synchronous = full").fetchall()
            sql.execute("begin immediate")
            _rename_stream(sql)
            _append(sql, "audit.tail_lost", {"committed_seq": lost[0], "head_hash": lost[1].hex()})
            sql.execute("commit")
            files.replace_side_file(state, *chain_end(sql))
            return seq, lost[0]
    except (sqlite3.Error, OSError, ValueError) as error:  # ValueError: text of a damaged file that is none
        raise StoreUnusable(f"{path} cannot be opened: {error}") from error
    finally:
        os.close(lock)


def _lost(sql: sqlite3.Connection, state: Path) -> tuple[int, bytes] | None:
    """The place that was committed and is not here any more; None if all is."""
    side = files.SideFile(state)
    try:
        files.check_tail(sql, side)
    except StoreUnusable:
        return side.read() or chain_end(sql)
    finally:
        side.close()
    return None


def _rename_stream(sql: sqlite3.Connection) -> None:
    sql.execute("insert or replace into meta values ('stream', ?)", (secrets.token_hex(8),))


def _append(sql: sqlite3.Connection, event: str, detail: JsonObject) -> None:
    """Note on the chain what was done to the store from outside."""
    seq, head = chain_end(sql)
    entry = AuditEntry(seq + 1, rfc3339(datetime.now(UTC)), event, {}, detail, b"")
    sql.execute(
        "insert into audit (seq, at, event, subject, detail, digest, head) values (?, ?, ?, ?, ?, ?, ?)",
        (entry.seq, entry.at, event, codec.encode({}), codec.encode(detail), b"", next_head(head, entry)),
    )
