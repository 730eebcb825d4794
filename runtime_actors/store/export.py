"""Moving old audit entries to a file: written and on disk first, then deleted here, each a slice at a time.

The file is JSONL, an entry a line as the `audit` listing shows it; the chain goes on behind the last one, which is left
here as the anchor. The last line's `head_hash` is the anchor's head, so file and store can be verified as one chain.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.records.audit import anchor, chain_end, entry_of, rows_behind, walk_rows
from runtime_actors.rules.audit import Break
from runtime_actors.store.files import sync_folder

if TYPE_CHECKING:
    import sqlite3

    from runtime_actors.contract.base import JsonObject
    from runtime_actors.records.transaction import Transaction

_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Dropped:
    """A slice of what was exported is gone from here."""

    done: bool


class AuditExport:
    """One export under way. On the store's thread.

    Raises:
        OSError: The file is there already, or cannot be made.

    """

    def __init__(self, sql: sqlite3.Connection, path: str, keep: int) -> None:
        self._sql, self._path = sql, Path(path)
        self._from, self._head = anchor(sql)
        self._at = self._from
        self.through = max(self._from, chain_end(sql)[0] - keep)
        if self._path.exists():
            raise FileExistsError(0, "it is there already")
        self._part = Path(f"{path}.part")
        self._file: IO[bytes] = self._part.open("wb")
        os.fchmod(self._file.fileno(), 0o600)

    @property
    def is_written(self) -> bool:
        """Whether every entry is in the file, and on disk."""
        return self._file.closed

    def write_on(self) -> Rejection | None:
        """Write the next slice; a chain that does not hold is not exported.

        Raises:
            OSError: It cannot be written.

        """
        limit = min(_AT_ONCE, self.through - self._at)
        rows = rows_behind(self._sql, self._at, limit) if limit else []
        walked = walk_rows(self._at, self._head, rows)
        if isinstance(walked, Break):
            return Rejection(code=RejectionCode.INTERNAL_ERROR, detail=f"the audit chain is broken: {walked.reason}")
        for row in rows:
            entry = entry_of(row)
            line = {
                "seq": entry.seq, "at": entry.at, "event": entry.event, "subject": entry.subject,
                "detail": entry.detail, "digest": entry.digest.hex(), "head_hash": bytes(row[6]).hex(),
            }  # fmt: skip
            self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self._at, self._head = walked
        if self._at == self.through:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._part.rename(self._path)
            sync_folder(self._path.parent)
        return None

    def abort(self) -> None:
        """Leave no half a file."""
        self._file.close()
        with contextlib.suppress(OSError):
            self._part.unlink(missing_ok=True)

    def told(self) -> JsonObject:
        """What was exported, for who asked."""
        return {
            "path": str(self._path), "entries": self.through - self._from, "from_seq": self._from + 1,
            "through_seq": self.through, "head_hash": self._head.hex(),
        }  # fmt: skip


def drop_exported(tx: Transaction, through: int) -> Dropped:
    """Delete a slice of the entries up to `through`, and move the anchor behind it."""
    start, _ = anchor(tx.sql)
    until = min(through, start + _AT_ONCE)
    if until <= start:
        return Dropped(done=True)
    row = tx.row("select head from audit where seq = ?", until)
    assert row is not None  # noqa: S101 - it was exported a moment ago
    tx.sql.execute("insert or replace into meta values ('anchor', ?)", (f"{until} {bytes(row[0]).hex()}",))
    tx.sql.execute("delete from audit where seq <= ?", (until,))
    if until == through:
        tx.note("audit.exported", detail={"through_seq": until, "head_hash": bytes(row[0]).hex()})
    return Dropped(done=until == through)
