"""The ballast is held while there is space, and the log does not grow for ever."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_actors.store import space
from runtime_actors.store.files import BALLAST, BALLAST_BYTES, Ballast

_LONG: int = space._LONG_LOG_BYTES  # a file as long, made at once


@contextlib.contextmanager
def a_space(state: Path) -> Iterator[tuple[space.Space, Path, sqlite3.Connection]]:
    """With its ballast held, a database in WAL mode, and the ballast's file."""
    sql = sqlite3.connect(state / "store.db", isolation_level=None)
    with contextlib.closing(sql):
        sql.execute("pragma journal_mode = wal")
        sql.execute("create table t (a)")
        yield space.Space(sql, Ballast(state), state / "store.db-wal"), state / BALLAST, sql


def test_a_look_takes_the_ballast_again_that_somebody_gave_back(tmp_path: Path) -> None:
    with a_space(tmp_path) as (kept, ballast, _):
        assert kept.is_there()
        assert not ballast.exists()

        kept.look()

        assert ballast.stat().st_size == BALLAST_BYTES
        assert not kept.is_full


def test_a_look_at_a_ballast_that_cannot_be_held_says_that_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_space(tmp_path) as (kept, ballast, _):
        ballast.unlink()
        real = os.statvfs(tmp_path)
        monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*real[:4], 0, *real[5:])))

        kept.look()
        assert kept.is_full

        monkeypatch.undo()
        kept.look()  # at once: it was looked at just now
        assert kept.is_full
        assert not ballast.exists()


def test_only_a_long_log_is_brought_into_the_database(tmp_path: Path) -> None:
    with a_space(tmp_path) as (kept, _, sql):
        wal = tmp_path / "store.db-wal"
        before = wal.stat().st_size
        assert before > 0

        kept.look()
        assert wal.stat().st_size == before

        os.truncate(wal, _LONG + 1)
        kept.look()

        assert wal.stat().st_size == 0
        assert sql.execute("select count(*) from t").fetchone() == (0,)
