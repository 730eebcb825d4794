"""Opening what may lie in a state folder: a new store, one that lost something, one of another version or program."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlite_utils import Database

from runtime_actors import state_folder
from runtime_actors.errors import DaemonRunning, StoreUnusable
from runtime_actors.rules.audit import GENESIS
from runtime_actors.store import files
from runtime_actors.store.backup import accept_lost_tail
from runtime_actors.store.migrations import MIGRATIONS, migrate
from runtime_actors.store.opening import open_store
from tests.fakes import HandClock
from tests.store.bench import a_bench, note

DATABASE = files.DATABASE
SIDE = files.SIDE_FILE


def filled(state: Path, count: int = 5) -> tuple[int, bytes]:
    """A store with some entries, closed; the end of its chain."""
    with a_bench(state) as bench:
        for number in range(count):
            bench.ask(note, str(number))
        return bench.end()


def reopened(state: Path) -> tuple[int, bytes]:
    """Open and close; the end of the chain."""
    with a_bench(state) as bench:
        assert bench.walked() == bench.end()
        return bench.end()


def test_a_new_store_begins_at_the_genesis_and_its_side_file_says_so(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench:
        assert bench.end() == bench.opened.side.read() == (0, GENESIS)


def test_a_store_goes_on_where_it_ended(tmp_path: Path) -> None:
    end = filled(tmp_path)

    assert reopened(tmp_path) == end


def test_the_agent_of_the_folder_is_whoever_can_read_its_token(tmp_path: Path) -> None:
    filled(tmp_path)
    token = tmp_path / "tokens" / "local"
    token.write_text("another secret\n")

    with a_bench(tmp_path) as bench:
        (found,) = bench.row("select token_hash from agents where agent_id = 'local'")

    assert found == hashlib.sha256(b"another secret").digest()


@pytest.mark.parametrize("left", [None, ""])
def test_a_token_that_is_missing_or_was_cut_short_is_made_again(tmp_path: Path, left: str | None) -> None:
    filled(tmp_path)
    token = tmp_path / "tokens" / "local"
    token.unlink()
    if left is not None:
        token.write_text(left)

    with a_bench(tmp_path) as bench:
        (found,) = bench.row("select token_hash from agents where agent_id = 'local'")

    assert found == hashlib.sha256(token.read_text().strip().encode()).digest()
    assert token.stat().st_mode & 0o777 == 0o600


# --- what is not a store ---


def test_a_folder_in_the_database_s_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / DATABASE).mkdir()

    with pytest.raises(StoreUnusable, match="cannot be opened"):
        open_store(tmp_path, "power", HandClock())


@pytest.mark.parametrize("content", [b"not a database " * 1000, b"SQLite format 3\0" + b"\0" * 5000])
def test_garbage_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / DATABASE).write_bytes(content)

    with pytest.raises(StoreUnusable, match="lineup restore"):
        open_store(tmp_path, "power", HandClock())

    assert (tmp_path / DATABASE).read_bytes() == content


def test_a_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as other:
        other.execute("create table theirs (a)")
        other.commit()

    with pytest.raises(StoreUnusable, match="another program"):
        open_store(tmp_path, "power", HandClock())

    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as other:
        assert other.execute("select name from sqlite_master").fetchall() == [("theirs",)]


@pytest.mark.parametrize("version", [len(MIGRATIONS) + 1, 1_000_000, -1])
def test_a_store_of_a_version_that_is_not_known_is_refused(tmp_path: Path, version: int) -> None:
    filled(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as other:
        other.execute(f"pragma user_version = {version}")

    with pytest.raises(StoreUnusable, match=f"version {version}"):
        open_store(tmp_path, "power", HandClock())


def test_a_database_that_another_process_has_open_is_refused_as_running(tmp_path: Path) -> None:
    filled(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as other:
        other.execute("begin exclusive")

        with pytest.raises(DaemonRunning):
            open_store(tmp_path, "power", HandClock())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_database_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / DATABASE).chmod(0o400)

    with pytest.raises(StoreUnusable, match="cannot be opened"):
        open_store(tmp_path, "power", HandClock())


# --- what was lost ---


def test_a_database_that_is_gone_is_not_replaced_by_a_new_one(tmp_path: Path) -> None:
    end = filled(tmp_path)
    database = tmp_path / DATABASE
    kept = tmp_path / "elsewhere"
    database.rename(kept)

    with pytest.raises(StoreUnusable, match="is gone"):
        open_store(tmp_path, "power", HandClock())

    assert not database.exists()
    kept.rename(database)
    assert reopened(tmp_path) == end


def test_an_older_copy_in_the_database_s_place_is_noticed(tmp_path: Path) -> None:
    filled(tmp_path)
    shutil.copy(tmp_path / DATABASE, tmp_path / "older")
    with a_bench(tmp_path) as bench:
        bench.ask(note, "newer")
    (tmp_path / "older").replace(tmp_path / DATABASE)

    with pytest.raises(StoreUnusable, match="lineup audit accept"):
        open_store(tmp_path, "power", HandClock())


def test_a_store_with_another_history_is_noticed(tmp_path: Path) -> None:
    filled(tmp_path / "one")
    with a_bench(tmp_path / "two") as bench:
        bench.clock.move(5)
        for number in range(8):
            bench.ask(note, str(number))
    (tmp_path / "two" / DATABASE).replace(tmp_path / "one" / DATABASE)

    with pytest.raises(StoreUnusable, match="was replaced"):
        open_store(tmp_path / "one", "power", HandClock())


@pytest.mark.parametrize("content", [None, b"", b"garbage" * 100])
def test_without_its_side_file_a_store_is_only_opened_on_the_owner_s_word(
    tmp_path: Path, content: bytes | None
) -> None:
    end = filled(tmp_path)
    (tmp_path / SIDE).unlink()
    if content is not None:
        (tmp_path / SIDE).write_bytes(content)

    with pytest.raises(StoreUnusable, match="lineup audit accept"):
        open_store(tmp_path, "power", HandClock())

    assert accept_lost_tail(tmp_path)[0] == end[0]
    assert reopened(tmp_path)[0] == end[0] + 1


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("count", [4, 5])
def test_a_torn_slot_of_the_side_file_leaves_the_other(tmp_path: Path, slot: int, count: int) -> None:
    end = filled(tmp_path, count)
    raw = bytearray((tmp_path / SIDE).read_bytes())
    raw[slot * 256 : slot * 256 + 40] = b"\0" * 40
    (tmp_path / SIDE).write_bytes(bytes(raw))

    side = files.SideFile(tmp_path)
    kept = side.read()
    side.close()

    assert kept is not None
    assert kept[0] in {end[0], end[0] - 1}
    assert reopened(tmp_path) == end


def test_the_slots_take_turns_whatever_the_numbers_are(tmp_path: Path) -> None:
    side = files.SideFile(tmp_path)
    for seq in (2, 4, 8, 10):
        side.write(seq, bytes([seq]) * 32)
    raw = (tmp_path / SIDE).read_bytes()
    side.close()

    assert b"8 0808" in raw
    assert b"10 0a0a" in raw


def test_an_edited_entry_is_noticed(tmp_path: Path) -> None:
    filled(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as other:
        other.execute("update audit set event = 'test.forged' where seq = 2")
        other.commit()

    with pytest.raises(StoreUnusable, match="entry 2 does not match its hash"):
        open_store(tmp_path, "power", HandClock())


@pytest.mark.parametrize("value", ["x'c1'", "x'd60102030405'", "x'81a161'", "x'a1ff'", "x''"])
def test_an_entry_that_cannot_be_read_breaks_the_chain_and_not_the_start(tmp_path: Path, value: str) -> None:
    filled(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as other:
        other.execute(f"update audit set detail = {value} where seq = 3")  # noqa: S608 - our own bytes
        other.commit()

    with pytest.raises(StoreUnusable, match="entry 3"):
        open_store(tmp_path, "power", HandClock())


# --- accepting a loss ---


def test_accepting_a_lost_tail_notes_the_loss_and_starts_a_new_series_of_numbers(tmp_path: Path) -> None:
    old = filled(tmp_path)
    shutil.copy(tmp_path / DATABASE, tmp_path / "older")
    with a_bench(tmp_path) as bench:
        bench.ask(note, "lost")
        lost = bench.end()
        stream = bench.row("select value from meta where name = 'stream'")
    (tmp_path / "older").replace(tmp_path / DATABASE)

    assert accept_lost_tail(tmp_path) == (old[0], lost[0])

    with a_bench(tmp_path) as bench:
        assert bench.walked() == bench.end() == bench.opened.side.read()
        assert bench.end()[0] == old[0] + 1
        assert bench.row("select event from audit order by seq desc") == ("audit.tail_lost",)
        assert bench.row("select value from meta where name = 'stream'") != stream


def test_accepting_when_nothing_is_lost_changes_nothing(tmp_path: Path) -> None:
    end = filled(tmp_path)

    assert accept_lost_tail(tmp_path) == (end[0], end[0])

    assert reopened(tmp_path) == end


def test_accepting_an_entry_more_than_the_side_file_knows_changes_nothing(tmp_path: Path) -> None:
    """The daemon died between a COMMIT and the side file."""
    filled(tmp_path)
    kept = (tmp_path / SIDE).read_bytes()
    with a_bench(tmp_path) as bench:
        bench.ask(note, "committed")
        end = bench.end()
    (tmp_path / SIDE).write_bytes(kept)

    assert accept_lost_tail(tmp_path) == (end[0], end[0])

    assert reopened(tmp_path) == end


def test_a_broken_chain_is_not_accepted(tmp_path: Path) -> None:
    filled(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as other:
        other.execute("delete from audit where seq = 3")
        other.commit()

    with pytest.raises(StoreUnusable, match="entry 3 is missing"):
        accept_lost_tail(tmp_path)


def test_nothing_is_accepted_while_a_daemon_runs_or_where_no_store_is(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable):
        accept_lost_tail(tmp_path)
    filled(tmp_path)
    held = state_folder.lock(tmp_path)
    try:
        with pytest.raises(DaemonRunning):
            accept_lost_tail(tmp_path)
    finally:
        os.close(held)


# --- migrations ---

_SECOND = "create table newer (a integer not null) strict;\ninsert into newer select seq from audit;\n"
_BROKEN = "create table newer (a integer not null) strict;\ninsert into missing values (1);\n"


def test_an_older_store_is_brought_up_to_date_with_what_it_holds(tmp_path: Path) -> None:
    end = filled(tmp_path)

    sql = files.open_database(tmp_path, "power", (*MIGRATIONS, _SECOND))

    with contextlib.closing(sql):
        assert sql.execute("pragma user_version").fetchone() == (len(MIGRATIONS) + 1,)
        assert sql.execute("select count(*) from newer").fetchone() == (end[0],)


def test_a_migration_that_fails_leaves_the_old_store(tmp_path: Path) -> None:
    end = filled(tmp_path)

    with pytest.raises(sqlite3.OperationalError, match="missing"):
        files.open_database(tmp_path, "power", (*MIGRATIONS, _SECOND.replace("newer", "second"), _BROKEN))

    assert reopened(tmp_path) == end
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as sql:
        assert sql.execute("select name from sqlite_master where name in ('newer', 'second')").fetchall() == []


def test_the_statements_of_a_trigger_s_body_stay_together(tmp_path: Path) -> None:
    script = (
        "create table a (x integer) strict;\ncreate trigger t after insert on a\nbegin\n"
        "    update a set x = 1;\n    update a set x = x + 1;\nend;\ninsert into a values (0)"
    )
    with contextlib.closing(sqlite3.connect(tmp_path / "x", isolation_level=None)) as sql:
        assert migrate(Database(sql), (script,)) == 0
        assert sql.execute("select x from a").fetchall() == [(2,)]
