"""Backup while the daemon runs, and restore while it does not. Both end only after the copy was verified."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.errors import StoreUnusable
from runtime_actors.store import files
from runtime_actors.store.restoring import accept_lost_tail, restore
from runtime_actors.store.verifying import verify, verify_apart

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.contract.base import JsonObject

__all__ = ["CopyAborted", "accept_lost_tail", "copy_to", "restore", "verified", "verify"]

_PAGES_AT_ONCE: Final = 256
"""A mebibyte: calls wait for no more than that."""


class CopyAborted(Exception):
    """Raised by `between` to end a copy early."""


def copy_to(sql: sqlite3.Connection, path: str, between: Callable[[], None]) -> Rejection | None:
    """Copy the open store with SQLite's backup API to `path`, which must not exist. The caller has the copy `verified`.

    `between` is called after each piece and may write to the store: what it commits is in the copy as well
    (sqlite.org/c3ref/backup_finish.html). A copy that could not be made is removed, and the reason returned.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return Rejection(code=RejectionCode.NOT_FOUND, detail=f"the copy cannot be made there: {error.strerror}")
    os.close(descriptor)
    try:
        with contextlib.closing(sqlite3.connect(path)) as target:
            sql.backup(target, pages=_PAGES_AT_ONCE, progress=lambda *_: between())
            # One file that can be read anywhere; with the store's own mode it would want a log beside it.
            target.execute("pragma journal_mode = delete").fetchall()
        files.sync_folder(Path(path).parent)
    except (sqlite3.Error, OSError, CopyAborted) as error:
        _remove(path)
        return Rejection(code=RejectionCode.STORE_UNAVAILABLE, detail=f"the copy failed: {error}")
    return None


def verified(path: str) -> JsonObject | Rejection:
    """Verify a copy in a process of its own, and say what it is; one that does not hold is removed."""
    try:
        seq, head = verify_apart(Path(path))
        size = Path(path).stat().st_size
    except (StoreUnusable, OSError) as error:
        _remove(path)
        return Rejection(code=RejectionCode.STORE_UNAVAILABLE, detail=f"the copy does not hold: {error}")
    return {"path": path, "bytes": size, "audit_seq": seq, "head_hash": head.hex()}


def _remove(path: str) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
