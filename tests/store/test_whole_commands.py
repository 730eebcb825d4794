"""A command is in a crashed store as a whole or not at all: the record, its delivery and its audit entry."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from runtime_actors.commands import calls
from runtime_actors.config import Failpoint
from runtime_actors.records.transaction import Transaction
from tests.fakes import an_invoke
from tests.store.bench import Bench, a_bench, admit_call, complete_call, is_rejected, note, run_call


def switch_off_then_raise(tx: Transaction, _nothing: object) -> None:
    """Changes a row, and notes it."""
    tx.sql.execute("insert into switched_off values ('app', 'notes')")
    tx.note("test.undone")
    raise ValueError("planted")


Story = Callable[[Bench], object]

STORIES: Final[dict[str, Story]] = {
    "admit": admit_call,
    "report_progress": run_call,
    "finish": lambda bench: complete_call(bench, run_call(bench)),
}
"""Each ends with the command that it is named for."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a crashed store holds of one call, told of by three tables."""

    statuses: list[tuple[Any, ...]]
    deliveries: list[tuple[Any, ...]]
    entries: list[tuple[Any, ...]]
    """What the audit log says of the call, at its end."""


def found(bench: Bench) -> Found:
    """Read it."""
    sql = bench.opened.sql
    return Found(
        sql.execute("select call_id, status from calls").fetchall(),
        sql.execute("select call_id, kind from outbox").fetchall(),
        sql.execute("select event from audit where event like 'call.%' order by seq").fetchall(),
    )


def crashed(state: Path, story: Story, command: str, point: Literal["before", "after"]) -> Path:
    """The files that a process leaves which is killed at `point` of `command`."""
    left = state.with_name("crashed")

    def kill(_action: str) -> None:
        shutil.copytree(state, left)

    planted = (Failpoint(command, point, "kill-daemon"),)
    with a_bench(state, failpoints=planted, act=kill) as bench:
        story(bench)
    return left


@pytest.mark.parametrize("command", STORIES)
def test_after_its_commit_all_of_a_command_is_there(tmp_path: Path, command: str) -> None:
    left = crashed(tmp_path / "state", STORIES[command], command, "after")

    with a_bench(tmp_path / "state") as whole, a_bench(left) as bench:
        assert found(bench) == found(whole)
        assert bench.walked() == bench.end()


@pytest.mark.parametrize("command", STORIES)
def test_before_its_commit_nothing_of_a_command_is_there(tmp_path: Path, command: str) -> None:
    left = crashed(tmp_path / "state", STORIES[command], command, "before")

    with a_bench(tmp_path / "state") as whole, a_bench(left) as bench:
        before, after = found(bench), found(whole)
        assert before.statuses != after.statuses
        assert (before.deliveries, before.entries) != (after.deliveries, after.entries)
        assert len(before.entries) < len(after.entries)
        assert bench.walked() == bench.end() == bench.opened.side.read()


@pytest.mark.parametrize("others", [0, 1, 20])
def test_a_command_that_raises_leaves_no_row_and_those_beside_it_leave_theirs(tmp_path: Path, others: int) -> None:
    with a_bench(tmp_path) as bench:
        for number in range(others):
            bench.tell(note, f"before {number}")
        bench.tell(switch_off_then_raise)
        for number in range(others):
            bench.tell(note, f"after {number}")

        told = bench.handle()

        assert is_rejected(told[others], "internal_error")
        assert len(told) == 2 * others + 1
        assert bench.row("select count(*) from switched_off") == (0,)
        assert bench.row("select count(*) from audit where event = 'test.noted'") == (2 * others,)
        assert bench.row("select count(*) from audit where event = 'test.undone'") == (0,)
        assert bench.walked() == bench.end() == bench.opened.side.read()


@pytest.mark.parametrize("point", ["before", "after"])
def test_at_a_commit_nobody_was_told_of_an_outcome_or_what_follows_from_it(
    tmp_path: Path, point: Literal["before", "after"]
) -> None:
    told: list[list[object]] = []
    benches: list[Bench] = []
    planted = (Failpoint("admit", point, "kill-daemon"),)
    with a_bench(tmp_path, failpoints=planted, act=lambda _: told.append(list(benches[0].told))) as bench:
        benches.append(bench)
        bench.tell(calls.admit, an_invoke())

        after = bench.handle()

        assert told == [[]]
        assert len(after) > 1
