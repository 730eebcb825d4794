"""The files of a state folder: the lock, the database, the side file of the audit chain, and the ballast.

The database is opened by SQLite alone: opening and closing it by hand would drop SQLite's locks (fcntl(2), "close").
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlite_utils import Database

from runtime_actors.errors import DaemonRunning, StoreUnusable
from runtime_actors.rules.audit import GENESIS
from runtime_actors.store.migrations import migrate

if TYPE_CHECKING:
    from pathlib import Path

DATABASE: Final = "store.db"
SIDE_FILE: Final = "audit.head"
BALLAST: Final = "ballast"
LOCK: Final = "lock"
BALLAST_BYTES: Final = 4 * 1024 * 1024
_SLOT: Final = 256
_SYNCHRONOUS: Final = {"power": "full", "process": "normal"}


def prepare(state: Path) -> None:
    """Make the state folder, for its owner alone."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    state.chmod(0o700)


def lock(state: Path) -> int:
    """Take the state folder for this process; the descriptor holds it until it is closed, whatever kills the process.

    It is not inherited: a child would keep the lock alive.

    Raises:
        DaemonRunning: Another process has it.

    """
    descriptor = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        detail = f"another daemon holds {state}; `lineup status` shows it, `lineup stop` ends it"
        raise DaemonRunning(detail) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def open_database(state: Path, durability: str) -> sqlite3.Connection:
    """Open the store with every setting of design section 9, bring its schema up to date.

    SQLite before 3.51.3 can corrupt a WAL database that two connections write or checkpoint at once; the exclusive lock
    leaves this connection alone with it.

    Raises:
        StoreUnusable: It cannot be opened, is not a database, or is of a newer runtime.

    """
    path = state / DATABASE
    try:
        sql = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512)
        for pragma in (
            "locking_mode = exclusive",
            "journal_mode = wal",
            f"synchronous = {_SYNCHRONOUS[durability]}",
            "foreign_keys = on",
            "wal_autocheckpoint = 1000",
            "journal_size_limit = 16777216",
            "trusted_schema = off",
        ):
            sql.execute(f"pragma {pragma}").fetchall()
        sql.execute("begin exclusive").fetchall()  # takes the lock now, not at the first write
        sql.execute("commit")
        migrate(Database(sql))
    except sqlite3.Error as error:
        detail = f"{path} cannot be opened: {error}. `lineup restore FILE` puts a backup in its place"
        raise StoreUnusable(detail) from error
    path.chmod(0o600)
    return sql


@dataclass(frozen=True, slots=True)
class Identity:
    """Which file the store is, to notice when it is deleted or replaced under the daemon."""

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, state: Path) -> Identity:
        """The file that is there now."""
        path = state / DATABASE
        found = path.stat()
        return cls(path, found.st_dev, found.st_ino)

    def holds(self) -> bool:
        """Whether the name still leads to the same file."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - on the path of every commit; pathlib costs three times as much
        except OSError:
            return False
        return found.st_ino == self.inode and found.st_dev == self.device and found.st_nlink == 1


class SideFile:
    """The newest place on the audit chain, written after each COMMIT and before anyone is told.

    A chain cannot see that its own tail was cut; this file can. Two slots take turns, so a torn write leaves the other.
    """

    def __init__(self, state: Path) -> None:
        self._descriptor = os.open(state / SIDE_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, seq: int, head: bytes) -> None:
        """Keep a place."""
        words = f"{seq} {head.hex()}".encode()
        line = b"%s %08x\n" % (words, zlib.crc32(words))
        os.pwrite(self._descriptor, line.ljust(_SLOT, b"\0"), _SLOT * (seq % 2))

    def read(self) -> tuple[int, bytes] | None:
        """The newest place that was kept whole, or None."""
        found = [_slot(os.pread(self._descriptor, _SLOT, at)) for at in (0, _SLOT)]
        return max((one for one in found if one is not None), default=None)

    def close(self) -> None:
        """Let it go."""
        os.close(self._descriptor)


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
        """Take the space again; False while there is none."""
        try:
            if self._path.exists() and self._path.stat().st_size == BALLAST_BYTES:
                return True
            with self._path.open("wb") as file:
                file.write(bytes(BALLAST_BYTES))
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
    row = sql.execute("select seq, head from audit order by seq desc limit 1").fetchone()
    seq, head = row or anchor(sql)
    kept = side.read()
    if kept is None:
        return seq, head
    at = sql.execute("select head from audit where seq = ?", (kept[0],)).fetchone()
    if kept[0] > seq or (at is not None and at[0] != kept[1]):
        detail = (
            f"the store ends at audit entry {seq}, but entry {kept[0]} was committed: its newest part is lost or was replaced. "
            "`lineup restore FILE` puts a backup in its place; `lineup audit accept` goes on without what is lost"
        )
        raise StoreUnusable(detail)
    return seq, head


def anchor(sql: sqlite3.Connection) -> tuple[int, bytes]:
    """Where the chain that is kept here begins: the end of what was exported, or the genesis."""
    row = sql.execute("select value from meta where name = 'anchor'").fetchone()
    if row is None:
        return 0, GENESIS
    seq, head = row[0].split()
    return int(seq), bytes.fromhex(head)
