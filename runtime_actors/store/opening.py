"""Opening a state folder: every file, checked, and what a new store starts with."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from runtime_actors.errors import StoreUnusable
from runtime_actors.records.transaction import Chain, rfc3339
from runtime_actors.rules.audit import Break, first_break
from runtime_actors.store import files
from runtime_actors.store.rows import audit_entries

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from runtime_actors.mailbox import Clock

LOCAL_AGENT: Final = "local"
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
        StoreUnusable: It cannot be opened, or what it holds cannot be trusted.

    """
    sql = files.open_database(state, durability)
    side = files.SideFile(state)
    try:
        seq, head = files.check_tail(sql, side)
        _verify_tail(sql, seq)
        _make_new(sql, state, clock)
    except BaseException:
        side.close()
        sql.close()
        raise
    ballast = files.Ballast(state)
    ballast.restore()
    return OpenStore(sql, Chain(seq, head), side, ballast, files.Identity.of(state))


def _verify_tail(sql: sqlite3.Connection, seq: int) -> None:
    """Walk the newest part of the chain."""
    start, head = files.anchor(sql)
    if seq - start > _TAIL:
        start = seq - _TAIL
        row = sql.execute("select head from audit where seq = ?", (start,)).fetchone()
        head = bytes(row[0]) if row else b""
    walked = first_break(start, head, audit_entries(sql, start))
    if isinstance(walked, Break):
        detail = f"the audit chain is broken: {walked.reason}. `lineup restore FILE` puts a backup in the store's place"
        raise StoreUnusable(detail)


def _make_new(sql: sqlite3.Connection, state: Path, clock: Clock) -> None:
    """A name for the series of numbers, and the agent that belongs to the folder."""
    sql.execute("insert or ignore into meta values ('stream', ?)", (secrets.token_hex(8),))
    token = state / "tokens" / LOCAL_AGENT
    known = sql.execute("select token_hash from agents where agent_id = ?", (LOCAL_AGENT,)).fetchone()
    if known is None or not token.exists():
        token.parent.mkdir(mode=0o700, exist_ok=True)
        secret = secrets.token_urlsafe(32)
        token.touch(mode=0o600)
        token.write_text(secret + "\n")
        sql.execute(
            "insert into agents (agent_id, token_hash, created_at) values (?, ?, ?) "
            "on conflict do update set token_hash = excluded.token_hash",
            (LOCAL_AGENT, hashlib.sha256(secret.encode()).digest(), rfc3339(clock.now().wall)),
        )
