"""What SQLite's errors mean for the store: no space, a broken disk or file, or a bug in one command."""

from __future__ import annotations

import errno
import resource
import sqlite3
from typing import Final

_PRIMARY: Final = 0xFF
"""An extended result code holds its primary one in the low byte (sqlite.org/rescode.html)."""
_BROKEN: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_BUSY,
    }
)
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def is_full(error: BaseException) -> bool:
    """No space: the disk's, a quota's, or a file size limit's (setrlimit(2), RLIMIT_FSIZE).

    SQLite says SQLITE_FULL for ENOSPC alone; the others are SQLITE_IOERR_WRITE, and so is a write that failed for good.
    """
    if isinstance(error, OSError):
        return error.errno in NO_SPACE
    return getattr(error, "sqlite_errorcode", 0) in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}


def may_be_broken(error: BaseException) -> bool:
    """A write failed in a way that only a limit on space excuses."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_WRITE and not _files_are_limited()


def is_of_the_store(error: BaseException) -> bool:
    """Not the fault of the command that met it."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & _PRIMARY in _BROKEN


def is_busy(error: BaseException) -> bool:
    """Another connection holds the database."""
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY == sqlite3.SQLITE_BUSY


def _files_are_limited() -> bool:
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
