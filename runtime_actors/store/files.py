"""The files of a state folder: the database, the side file of the audit chain, and the ballast.

The database is opened by SQLite alone: opening and closing it by hand would drop SQLite's locks (fcntl(2), "close").
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlite_utils import Database

from runtime_actors.errors import StoreUnusable
from runtime_actors.records.audit import anchor, chain_end
from runtime_actors.state_folder import held
from runtime_actors.store.faults import is_busy
from runtime_actors.store.migrations import MIGRATIONS, migrate

if TYPE_CHECKING:
    from collections.abc import Sequence

DATABASE: Final = "store.db"
WAL: Final = f"{DATABASE}-wal"
REFUSED_LOG: Final = f"{WAL}.refused"
SIDE_FILE: Final = "audit.head"
BALLAST: Final = "ballast"
BALLAST_BYTES: Final = 4 * 1024 * 1024
_MARGIN_BYTES: Final = 1024 * 1024
"""What must be free beside the ballast, or the next transaction would give it up again."""
_SLOT: Final = 256
_SYNCHRONOUS: Final = {"power": "full", "process": "normal"}
_BUSY_S: Final = 0.2
"""Nobody else has business with the database; a second daemon is to be refused at once."""


def open_database(state: Path, durability: str, migrations: Sequence[str] = MIGRATIONS) -> sqlite3.Connection:
    """Open the store with every setting that the promises need, bring its schema up to date.

    SQLite before 3.51.3 can corrupt a WAL database that two connections write or checkpoint at once; the exclusive lock
    leaves this connection alone with it.

    Raises:
        DaemonRunning: Another process has the database open, though not the lock of its folder.
        StoreUnusable: It is of a newer runtime, or of another program.
        sqlite3.Error: It cannot be opened, or is not a database.

    """
    path = state / DATABASE
    with contextlib.suppress(FileExistsError):  # with the mode that its log takes over
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    sql = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=512)
    try:
        _set_up(sql, durability)
        migrate(Database(sql), migrations)
        path.chmod(0o600)
    except BaseException as error:
        sql.close()
        if is_busy(error):
            raise held(state) from None
        raise
    return sql


def _set_up(sql: sqlite3.Connection, durability: str) -> None:
    sql.execute("pragma locking_mode = exclusive").fetchall()  # before WAL, or SQLite makes a -shm file
    mode = sql.execute("pragma journal_mode = wal").fetchone()[0]
    if mode != "wal":
        raise StoreUnusable(f"the store's disk cannot hold a write-ahead log (journal mode {mode})")
    for pragma in (
        f"synchronous = {_SYNCHRONOUS[durability]}",
        "foreign_keys = on",
        "wal_autocheckpoint = 1000",
        "journal_size_limit = 16777216",
        "trusted_schema = off",
        "temp_store = memory",  # or pages of what a large statement changes, texts of people among them, go to /var/tmp
    ):
        sql.execute(f"pragma {pragma}").fetchall()
    sql.execute("begin exclusive")  # takes the lock now, not at the first write
    sql.execute("commit")


@dataclass(frozen=True, slots=True)
class Identity:
    """Which files the store is, to notice when one is deleted or replaced: what is written to it would be lost."""

    path: Path
    wal: Path
    found: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, state: Path) -> Identity:
        """The files that are there now."""
        path, wal = state / DATABASE, state / WAL
        return cls(path, wal, (_inode(path), _inode(wal)))

    def holds(self) -> bool:
        """Whether the names still lead to the same files."""
        try:
            return (_inode(self.path), _inode(self.wal)) == self.found
        except OSError:
            return False


def _inode(path: Path) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 - on the path of every commit; pathlib costs three times as much
    return found.st_dev, found.st_ino


class SideFile:
    """The newest place on the audit chain, written after each COMMIT and before anyone is told.

    A chain cannot see that its own tail was cut; this file can. Two slots take turns, so a torn write leaves the other.
    """

    def __init__(self, state: Path) -> None:
        self._descriptor = os.open(state / SIDE_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        found = [_slot(os.pread(self._descriptor, _SLOT, at)) for at in (0, _SLOT)]
        self._next = 1 if found[0] is not None and (found[1] is None or found[0] > found[1]) else 0

    def write(self, seq: int, head: bytes) -> None:
        """Keep a place, over the older one of the two."""
        words = f"{seq} {head.hex()}".encode()
        line = b"%s %08x\n" % (words, zlib.crc32(words))
        os.pwrite(self._descriptor, line.ljust(_SLOT, b"\0"), _SLOT * self._next)
        self._next = 1 - self._next

    def read(self) -> tuple[int, bytes] | None:
        """The newest place that was kept whole, or None."""
        found = [_slot(os.pread(self._descriptor, _SLOT, at)) for at in (0, _SLOT)]
        return max((one for one in found if one is not None), default=None)

    def sync(self) -> None:
        """Bring it to the disk. A commit does not wait for this: only the loss of power could take it back."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Let it go."""
        os.close(self._descriptor)


def replace_side_file(state: Path, seq: int, head: bytes) -> None:
    """Forget what was kept, and keep this place; all or nothing."""
    new = state / f"{SIDE_FILE}.new"
    new.unlink(missing_ok=True)
    words = f"{seq} {head.hex()}".encode()
    with new.open("xb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write((b"%s %08x\n" % (words, zlib.crc32(words))).ljust(2 * _SLOT, b"\0"))
        file.flush()
        os.fsync(file.fileno())
    new.replace(state / SIDE_FILE)
    sync_folder(state)


def _slot(raw: bytes) -> tuple[int, bytes] | None:
    words, _, crc = raw.rstrip(b"\0\n").rpartition(b" ")
    try:
        if int(crc, 16) != zlib.crc32(words):
            return None
        seq, head = words.split()
        return int(seq), bytes.fromhex(head.decode())
    except ValueError:
        return None


class Ballast:
    """Space kept back so that running calls can end when the disk is full."""

    def __init__(self, state: Path) -> None:
        self._path = state / BALLAST

    def restore(self) -> bool:
        """Take the space again, unless it is held; False while there is none."""
        try:
            if self._path.exists() and self._path.stat().st_size == BALLAST_BYTES:
                return True
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < BALLAST_BYTES + _MARGIN_BYTES:
                return False
            with self._path.open("wb") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(os.urandom(BALLAST_BYTES))  # nothing that a file system could store in less
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            self.drop()
            return False
        return True

    def drop(self) -> None:
        """Give the space back."""
        self._path.unlink(missing_ok=True)


def check_tail(sql: sqlite3.Connection, side: SideFile) -> tuple[int, bytes]:
    """The end of the audit chain, if the side file does not know better.

    Raises:
        StoreUnusable: Entries that were committed are gone, or are others than were committed.

    """
    start, end = anchor(sql), chain_end(sql)
    kept = side.read()
    if kept is None:
        if end[0] == 0:
            return end
        raise StoreUnusable(
            f"{SIDE_FILE} is missing or damaged, so nobody knows whether the store's newest audit entry, {end[0]}, is "
            "the last one that was committed. `lineup audit accept` goes on with what is there"
        )
    row = sql.execute("select head from audit where seq = ?", (kept[0],)).fetchone()
    at = bytes(row[0]) if row is not None else start[1] if kept[0] == start[0] else None
    # What lies before the anchor was exported, and the side file cannot be that old unless power was lost.
    if kept[0] > end[0] or (at != kept[1] and kept[0] >= start[0]):
        raise StoreUnusable(
            f"the store ends at audit entry {end[0]}, but entry {kept[0]} was committed: its newest part is lost or "
            "was replaced. `lineup restore FILE` puts a backup in its place; `lineup audit accept` goes on without "
            "what is lost"
        )
    return end


def keep_log(state: Path) -> None:
    """Copy the log of a store that is refused, unless one was kept before.

    SQLite drops what it could not read of a log when the database is closed, and it may be all that is left of a call.
    """
    found, kept = state / WAL, state / REFUSED_LOG
    with contextlib.suppress(OSError):  # for want of space, say: it is refused all the same
        if found.stat().st_size and not kept.exists():
            shutil.copyfile(found, kept)  # SQLite's locks are on the database, so this file may be opened and closed
            kept.chmod(0o600)


def sync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
