"""Commands in groups: what one transaction holds, what a fault in one command undoes, and when outcomes are told."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime_actors.actor import Beat
from runtime_actors.commands import follow_ups
from runtime_actors.commands.agents import count_floods
from runtime_actors.config import Bounds, Failpoint
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.records.transaction import Transaction
from runtime_actors.store import files
from runtime_actors.store.messages import Upkeep
from runtime_actors.store.space import Space
from tests.fakes import a_key
from tests.store.bench import a_bench, is_rejected, note, note_then_raise, run_call


def test_commands_that_wait_together_share_one_transaction_and_are_told_in_order(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench:
        for number in range(100):
            bench.tell(note, str(number))

        told = bench.handle()

        assert told == [str(number) for number in range(100)]
        assert (bench.actor.commits, bench.actor.commands) == (1, 100)


def test_a_group_is_bounded(tmp_path: Path) -> None:
    with a_bench(tmp_path, bounds=Bounds(group=10)) as bench:
        for number in range(33):
            bench.tell(note, str(number))

        told = bench.handle()

        assert told == [str(number) for number in range(33)]
        assert bench.actor.commits == 3


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), SystemExit(1), RecursionError(), sqlite3.IntegrityError("planted")]
)
def test_an_exception_undoes_its_own_command_and_no_other(tmp_path: Path, error: BaseException) -> None:
    with a_bench(tmp_path) as bench:
        bench.tell(note, "before")
        bench.tell(note_then_raise, error)
        bench.tell(note, "after")

        told = bench.handle()

        assert (told[0], told[2]) == ("before", "after")
        assert is_rejected(told[1], "internal_error")
        events = [row[0] for row in bench.opened.sql.execute("select event from audit order by seq")]
        assert events[-3:] == ["test.noted", "command.failed", "test.noted"]
        assert bench.walked() == bench.end() == bench.opened.side.read()
        assert bench.actor.commits == 1
        assert bench.unusable == []


def test_a_refused_row_undoes_its_own_command_and_no_other(tmp_path: Path) -> None:
    def breaks_a_check(tx: Transaction, _nothing: object) -> None:
        tx.note("test.undone")
        tx.sql.execute("insert into switched_off values ('neither', 'x')")

    with a_bench(tmp_path) as bench:
        bench.tell(breaks_a_check)
        bench.tell(note, "after")

        told = bench.handle()

        assert is_rejected(told[0], "internal_error")
        assert told[1:] == ["after"]
        assert bench.walked() == bench.end()


def test_a_call_whose_command_raises_ends_with_internal_error(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench:
        run_call(bench)
        bench.tell(note_then_raise, ValueError("a bug"), call_key=a_key())

        bench.handle()

        assert bench.row("select status, error_code from calls") == ("failed", "internal_error")
        assert any(isinstance(one, follow_ups.Post) for one in bench.told)
        assert not any(one == follow_ups.DueAt(1.0) for one in bench.told)
        assert bench.walked() == bench.end()


def test_a_call_that_cannot_be_ended_takes_nothing_else_with_it(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench:
        run_call(bench)
        bench.opened.sql.execute(
            "create trigger planted before update on calls begin select raise(abort, 'planted'); end"
        )
        bench.tell(note_then_raise, ValueError("a bug"), call_key=a_key())
        bench.tell(note, "after")

        told = bench.handle()

        assert told[-1] == "after"
        assert bench.status() == "running"
        assert bench.walked() == bench.end()


def test_outcomes_are_told_after_the_commit_and_the_side_file(tmp_path: Path) -> None:
    seen: list[tuple[bool, object]] = []
    with a_bench(tmp_path) as bench:

        def look(_outcome: object) -> None:
            seen.append((bench.opened.sql.in_transaction, bench.opened.side.read()))

        for number in range(3):
            bench.tell(note, str(number), look)
        bench.handle()

        assert seen == [(False, bench.end())] * 3


def test_nothing_is_told_of_a_group_that_was_not_committed(tmp_path: Path) -> None:
    def die(_action: str) -> None:
        assert bench.told == []
        raise RuntimeError("planted")

    planted = Failpoint("note", "before", "kill-worker", hit=3)
    with a_bench(tmp_path, failpoints=(planted,), act=die) as bench:
        for name in ("a", "b", "c"):
            bench.tell(note, name)

        told = bench.handle()

        assert told == ["a", "b", "c"]
        assert bench.row("select count(*) from audit where event = 'test.noted'") == (3,)
        assert bench.walked() == bench.end()


def _an_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("planted")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "breaks"),
    [(sqlite3.SQLITE_IOERR_FSYNC, True), (sqlite3.SQLITE_IOERR_WRITE, True), (sqlite3.SQLITE_FULL, False)],
)
def test_what_sqlite_says_of_one_command_alone_ends_the_store_unless_it_is_for_space(
    tmp_path: Path, code: int, *, breaks: bool
) -> None:
    errors: list[Exception] = [RuntimeError("the group fails"), _an_error(code)]

    def fail(_action: str) -> None:
        raise errors.pop(0)

    planted = tuple(Failpoint("note", "before", "kill-worker", hit=hit) for hit in (1, 3))
    with a_bench(tmp_path, failpoints=planted, act=fail) as bench:
        for name in ("a", "b", "c"):
            bench.tell(note, name)

        told = bench.handle()

        assert told[0] == "a"
        assert is_rejected(told[1], "store_unavailable")
        assert (told[2] == "c") == (not breaks)
        assert len(bench.unusable) == (1 if breaks else 0)
        assert bench.row("select count(*) from audit where event = 'test.noted'") == (1 if breaks else 2,)
        assert bench.walked() == bench.end() == bench.opened.side.read()


@pytest.mark.parametrize(("code", "breaks"), [(sqlite3.SQLITE_FULL, False), (sqlite3.SQLITE_IOERR_READ, True)])
def test_a_fault_of_upkeep_ends_the_store_unless_it_is_for_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, *, breaks: bool
) -> None:
    def fail(_space: Space) -> None:
        raise _an_error(code)

    with a_bench(tmp_path) as bench:
        monkeypatch.setattr(Space, "look", fail)
        bench.send(Upkeep())
        bench.handle()

        assert bench.actor.full == (not breaks)
        assert len(bench.unusable) == (1 if breaks else 0)
        assert is_rejected(bench.ask(note, "a"), "store_unavailable") == breaks


def test_a_listener_that_raises_hides_no_other_outcome(tmp_path: Path) -> None:
    def raises(_outcome: object) -> None:
        raise RuntimeError("planted")

    def follows_up_nobody(tx: Transaction, _nothing: object) -> str:
        tx.follow_ups += [object(), follow_ups.DueAt(5.0)]
        return "followed"

    with a_bench(tmp_path) as bench:
        bench.tell(note, "a", raises)
        bench.tell(follows_up_nobody)
        bench.tell(note, "b")

        told = bench.handle()

        assert told == ["followed", follow_ups.DueAt(5.0), "b"]
        assert bench.row("select count(*) from audit where event = 'test.noted'") == (2,)


def test_what_is_no_command_keeps_its_place_between_commands(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench:
        bench.tell(note, "a")
        bench.send(Beat(lambda _name: bench.told.append("beat")))
        bench.tell(note, "b")
        bench.send(Upkeep())
        bench.tell(note, "c")

        told = bench.handle()

        assert told == ["a", "beat", "b", "c"]
        assert bench.actor.commits == 3
        assert bench.actor.handled == 5


def _refuses_with(number: int) -> Callable[[Path], files.SideFile]:
    class Refusing(files.SideFile):
        def write(self, seq: int, head: bytes) -> None:
            raise OSError(number, f"planted {seq} {head.hex()}")

    return Refusing


def test_nobody_is_told_of_a_commit_that_the_side_file_could_not_note(tmp_path: Path) -> None:
    with a_bench(tmp_path, side=_refuses_with(errno.EIO)) as bench:
        bench.tell(note, "a")
        bench.tell(note, "b")

        told = bench.handle()

        assert all(is_rejected(outcome, "store_unavailable") for outcome in told)
        assert len(told) == 2
        assert len(bench.unusable) == 1
        assert is_rejected(bench.ask(note, "c"), "store_unavailable")
        assert bench.row("select count(*) from audit where event = 'test.noted'") == (2,)


def test_a_side_file_without_space_keeps_an_older_place_and_new_work_waits(tmp_path: Path) -> None:
    with a_bench(tmp_path, side=_refuses_with(errno.ENOSPC)) as bench:
        bench.tell(note, "a")

        told = bench.handle()

        assert told == ["a"]
        assert bench.actor.full
        assert bench.unusable == []


def test_a_damaged_page_ends_the_store_and_commits_nothing_more(tmp_path: Path) -> None:
    def fill(tx: Transaction, _nothing: object) -> None:
        for number in range(2000):
            tx.sql.execute("insert into set_aside values (null, ?, ?, '', '')", (f"a{number}", "m" * 1000))

    def count(tx: Transaction, _nothing: object) -> object:
        tx.note("test.lost")
        return tx.rows("select actor, message from set_aside order by message, actor")[0]

    with a_bench(tmp_path) as bench:
        bench.ask(fill)
    database = tmp_path / files.DATABASE
    with database.open("r+b") as file:
        for page in range(100, 300):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    with a_bench(tmp_path) as bench:
        before = bench.end()
        bench.tell(note, "a")
        bench.tell(count)

        told = bench.handle()

        assert all(is_rejected(outcome, "store_unavailable") for outcome in told)
        assert "malformed" in bench.unusable[0]
        assert "lineup restore" in bench.unusable[0]
        assert bench.end() == bench.opened.side.read() == before


def test_a_flood_of_refusals_is_counted(tmp_path: Path) -> None:
    def refuse(tx: Transaction, _nothing: object) -> object:
        return tx.refuse("call.refused", RejectionCode.INVENTORY_REVISION_MISMATCH, "stale", who="local")

    with a_bench(tmp_path) as bench:
        for _ in range(1000):
            bench.tell(refuse)
        bench.handle()
        bench.clock.move(11)
        bench.ask(count_floods)

        events = dict(bench.opened.sql.execute("select event, count(*) from audit group by event").fetchall())
        assert events == {"call.refused": 20, "refusals.counted": 1}
        assert b"count\xcd\x03\xd4" in bench.row("select detail from audit where event = 'refusals.counted'")[0]


def test_after_a_rebuild_the_chain_goes_on_where_the_rows_say(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench:
        bench.ask(note, "a")
        end = bench.end()
        bench.opened.sql.execute("begin immediate")
        bench.opened.chain.seq, bench.opened.chain.head = 99, b"?"

        bench.actor.rebuild()

        assert not bench.opened.sql.in_transaction
        assert bench.end() == end
        assert bench.ask(note, "b") == "b"
        assert bench.walked() == bench.end()
