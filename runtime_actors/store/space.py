"""Space for the store: the ballast, when new work is refused, and how long the log may become."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from runtime_actors.store.files import Ballast

logger = logging.getLogger(__name__)

_PROBE_EVERY_S: Final = 1.0
_LONG_LOG_BYTES: Final = 64 * 1024 * 1024
"""A checkpoint each 1000 pages keeps the log at 4 MiB; one this long says that checkpoints fail."""


class Space:
    """Keeps whether the disk is full. It is while the ballast cannot be held."""

    def __init__(self, sql: sqlite3.Connection, ballast: Ballast, wal: Path) -> None:
        self._sql, self._ballast, self._wal = sql, ballast, wal
        self._probed = 0.0
        self.is_full = False
        if not ballast.restore():
            self.note_full()

    def note_full(self) -> None:
        """A write found no space: what is running may use the ballast's, new work is refused."""
        if not self.is_full:
            logger.error("there is no space: new work is refused until there is")
            self.is_full = True
        self._probed = time.monotonic()
        self._ballast.drop()

    def probe(self) -> None:
        """If the disk is full: is there space again?"""
        now = time.monotonic()
        if self.is_full and now - self._probed >= _PROBE_EVERY_S:
            self._probed = now
            if self._ballast.restore():
                logger.warning("there is space again: new work is taken")
                self.is_full = False

    def is_there(self) -> bool:
        """Whether the disk takes as much as the ballast: then it was not for space that a write failed."""
        there = self._ballast.restore()
        self._ballast.drop()
        return there

    def look(self) -> None:
        """Now and then: hold the ballast, shorten the log.

        Raises:
            sqlite3.Error: The checkpoint failed.

        """
        self.probe()
        if not self.is_full and not self._ballast.restore():
            self.note_full()
        if self._wal.stat().st_size > _LONG_LOG_BYTES:
            logger.warning("the store's log is long: it is brought into the database")
            self._sql.execute("pragma wal_checkpoint(truncate)").fetchall()
