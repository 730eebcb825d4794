"""Every setting of the store, read back from a store that was really opened."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import stat
from pathlib import Path

import pytest

from runtime_actors.contract.tools import CallStatus
from runtime_actors.rules.instances import AttemptState, InstanceState
from runtime_actors.store import files
from tests.store.bench import a_bench, note


@pytest.mark.parametrize(
    ("durability", "pragma", "value"),
    [
        ("power", "journal_mode", "wal"),
        ("power", "synchronous", 2),
        ("process", "synchronous", 1),
        ("power", "locking_mode", "exclusive"),
        ("power", "foreign_keys", 1),
        ("power", "wal_autocheckpoint", 1000),
        ("power", "journal_size_limit", 16 * 1024 * 1024),
        ("power", "trusted_schema", 0),
        ("power", "temp_store", 2),
    ],
)
def test_a_setting_is_in_force(tmp_path: Path, durability: str, pragma: str, value: object) -> None:
    with a_bench(tmp_path, durability=durability) as bench:
        assert bench.row(f"pragma {pragma}") == (value,)


def test_every_table_is_strict(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench:
        tables = bench.opened.sql.execute("select name, strict from pragma_table_list where schema = 'main'").fetchall()

        own = [(name, strict) for name, strict in tables if not name.startswith("sqlite_")]
        assert own
        assert [name for name, strict in own if not strict] == []


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ("calls", "status", list(CallStatus)),
        ("instances", "state", list(InstanceState)),
        ("attempts", "state", list(AttemptState)),
    ],
)
def test_a_status_can_only_be_one_of_its_words(tmp_path: Path, table: str, column: str, words: list[str]) -> None:
    with a_bench(tmp_path) as bench:
        (schema,) = bench.row("select sql from sqlite_master where name = ?", table)

        checked = re.search(rf"check \({column} in \((.*?)\)\)", schema)
        assert checked is not None
        assert [word.strip().strip("'") for word in checked[1].split(",")] == words


def test_a_row_of_an_unknown_conversation_is_refused(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench, pytest.raises(sqlite3.IntegrityError):
        bench.opened.sql.execute("insert into focus values ('nobody', '[]')")


def test_a_group_begins_with_the_write_lock(tmp_path: Path) -> None:
    said: list[str] = []
    with a_bench(tmp_path) as bench:
        bench.opened.sql.set_trace_callback(said.append)

        bench.ask(note, "one")

    assert said[0] == "begin immediate"
    assert "commit" in said


def test_nobody_else_can_read_or_write_the_open_database(tmp_path: Path) -> None:
    with (
        a_bench(tmp_path),
        contextlib.closing(sqlite3.connect(tmp_path / files.DATABASE, timeout=0)) as other,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        other.execute("select count(*) from audit").fetchone()


def test_there_is_no_shared_memory_file(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench:
        bench.ask(note, "one")

        assert not (tmp_path / f"{files.DATABASE}-shm").exists()


def test_only_the_owner_can_read_what_is_kept(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench:
        bench.ask(note, "one")

        kept = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_the_log_stays_short_under_load(tmp_path: Path) -> None:
    with a_bench(tmp_path, durability="process") as bench:
        for number in range(3000):
            bench.ask(note, str(number))

        assert (tmp_path / files.WAL).stat().st_size < 8 * 1024 * 1024
