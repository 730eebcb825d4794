"""Opening a state folder: every file, checked, and what a new store starts with."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from runtime_actors.errors import StoreUnusable
from runtime_actors.records.audit import anchor, walk
from runtime_actors.records.transaction import Chain, rfc3339
from runtime_actors.rules.audit import Break
from runtime_actors.store import files, restoring
from runtime_actors.store.faults import is_full

if TYPE_CHECKING:
    from pathlib import Path

    from runtime_actors.mailbox import Clock

LOCAL_AGENT: Final = "local"
_UNREADABLE: Final = (sqlite3.Error, OSError, ValueError)
"""ValueError: of a damaged file, and in the messages about it, SQLite hands out text that is none."""
_TAIL: Final = 2000
"""Audit entries that are verified before anybody is served; the rest follows in slices."""


@dataclass(frozen=True, slots=True)
class OpenStore:
    """The open files of a state folder."""

    sql: sqlite3.Connection
    chain: Chain
    side: files.SideFile
    ballast: files.Ballast
    identity: files.Identity


def open_store(state: Path, durability: str, clock: Clock) -> OpenStore:
    """Open the store of a folder whose lock is held.

    Raises:
        DaemonRunning: Another process has the database open.
        StoreUnusable: It cannot be opened, or what it holds cannot be trusted.

    """
    try:
        return _open(state, durability, clock)
    except _UNREADABLE as error:
        if not is_full(error):
            raise _unusable(state, error) from error
    files.Ballast(state).drop()  # opening takes some space; what runs is to end, so it is worth it
    try:
        return _open(state, durability, clock)
    except _UNREADABLE as error:
        raise _unusable(state, error) from error


def _unusable(state: Path, error: Exception) -> StoreUnusable:
    if is_full(error):
        return StoreUnusable(f"there is no space for the store in {state}; free some and start again")
    return StoreUnusable(
        f"{state / files.DATABASE} cannot be opened: {error}. `lineup restore FILE` puts a backup in its place"
    )


def _open(state: Path, durability: str, clock: Clock) -> OpenStore:
    restoring.finish(state)
    side = files.SideFile(state)
    try:
        kept = side.read()
        _check_not_gone(state, kept)
        sql = files.open_database(state, durability)
        try:
            seq, head = files.check_tail(sql, side)
            if kept is None:
                _sync_names(state)  # first: whoever finds the side file written need not do it again
                side.write(seq, head)
                side.sync()
            _verify_tail(sql, seq)
            _make_new(sql, state, clock)
            ballast = files.Ballast(state)
            ballast.restore()
            return OpenStore(sql, Chain(seq, head), side, ballast, files.Identity.of(state))
        except BaseException as error:
            if isinstance(error, StoreUnusable):
                files.keep_log(state)
            sql.close()
            raise
    except BaseException:
        side.close()
        raise


def _sync_names(state: Path) -> None:
    """Bring the names in a new folder to the disk, and its own: a loss of power would take what is in it along."""
    files.sync_folder(state)
    for above in state.resolve().parents:  # as many of them as were made with it
        with contextlib.suppress(OSError):  # another's, or of a kind that cannot be synced: then not made by us
            files.sync_folder(above)


def _check_not_gone(state: Path, kept: tuple[int, bytes] | None) -> None:
    """A new store in the place of a lost one would hide the loss, and harm the old one if that is put back."""
    if kept is not None and kept[0] > 0 and not (state / files.DATABASE).exists():
        raise StoreUnusable(
            f"{state / files.DATABASE} is gone; audit entry {kept[0]} was committed. Put it back with its -wal file, "
            "or `lineup restore FILE`; in an empty folder a new store begins"
        )


def _verify_tail(sql: sqlite3.Connection, seq: int) -> None:
    """Walk the newest part of the chain."""
    start, head = anchor(sql)
    if seq - start > _TAIL:
        start = seq - _TAIL
        row = sql.execute("select head from audit where seq = ?", (start,)).fetchone()
        head = bytes(row[0]) if row else b""
    walked = walk(sql, start, head)
    if isinstance(walked, Break):
        detail = f"the audit chain is broken: {walked.reason}. `lineup restore FILE` puts a backup in the store's place"
        raise StoreUnusable(detail)


def _make_new(sql: sqlite3.Connection, state: Path, clock: Clock) -> None:
    """A name for the series of numbers, and the agent that belongs to the folder: whoever can read its token is it."""
    token_hash = hashlib.sha256(_local_token(state).encode()).digest()
    known = sql.execute("select token_hash from agents where agent_id = ?", (LOCAL_AGENT,)).fetchone()
    stream = sql.execute("select 1 from meta where name = 'stream'").fetchone()
    if known is not None and known[0] == token_hash and stream is not None:
        return
    sql.execute("begin immediate")
    try:
        sql.execute("insert or ignore into meta values ('stream', ?)", (secrets.token_hex(8),))
        sql.execute(
            "insert into agents (agent_id, token_hash, created_at) values (?, ?, ?) "
            "on conflict do update set token_hash = excluded.token_hash",
            (LOCAL_AGENT, token_hash, rfc3339(clock.now().wall)),
        )
        sql.execute("commit")
    except BaseException:
        if sql.in_transaction:
            sql.execute("rollback")
        raise


def _local_token(state: Path) -> str:
    """The folder's own secret, made if it is missing or was not written to its end."""
    path = state / "tokens" / LOCAL_AGENT
    try:
        found = path.read_text().strip()
    except FileNotFoundError:
        found = ""
    if found:
        return found
    path.parent.mkdir(mode=0o700, exist_ok=True)
    secret = secrets.token_urlsafe(32)
    new = path.with_name(f".{LOCAL_AGENT}.new")
    new.unlink(missing_ok=True)
    with new.open("x") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(f"{secret}\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    return secret
