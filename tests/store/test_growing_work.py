"""Which commands take on new work: on a full disk they wait, and everything else goes on."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from runtime_actors.commands import agents, calls, inbox
from runtime_actors.contract import codec
from runtime_actors.store import files
from tests.fakes import AGENT, TALK, an_invoke
from tests.store.bench import Bench, a_bench, complete_call, is_rejected, note, run_call


class NoSpace(files.SideFile):
    """Its disk becomes full when told to."""

    full = False

    def write(self, seq: int, head: bytes) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "planted")
        super().write(seq, head)


def fill(bench: Bench) -> None:
    """The next write finds no space; from then on the store knows."""
    side = bench.opened.side
    assert isinstance(side, NoSpace)
    side.full = True
    bench.ask(note, "the last one that was taken")
    assert bench.actor.full


TEXT = inbox.PutText(AGENT, TALK, "m1", "notes", "hello", None, codec.digest("hello"))


@pytest.mark.parametrize(
    ("rule", "argument"),
    [
        (calls.admit, an_invoke(call_id="new")),
        (inbox.put_text, TEXT),
        (agents.add_agent, agents.NewAgent("new", codec.digest("new"), None)),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_new_work_is_refused_while_the_disk_is_full(tmp_path: Path, rule: object, argument: object) -> None:
    assert callable(rule)
    with a_bench(tmp_path, side=NoSpace) as bench:
        fill(bench)

        outcome = bench.ask(rule, argument)

        assert is_rejected(outcome, "store_unavailable")
        assert bench.row("select count(*) from calls") == (0,)
        assert bench.row("select count(*) from inbox") == (0,)


def test_what_runs_may_end_while_the_disk_is_full(tmp_path: Path) -> None:
    with a_bench(tmp_path, side=NoSpace) as bench:
        reporter = run_call(bench)
        fill(bench)

        outcome = complete_call(bench, reporter)

        assert isinstance(outcome, calls.Reported), outcome
        assert bench.status() == "completed"


def test_the_ballast_is_given_up_when_the_disk_is_full_and_held_before(tmp_path: Path) -> None:
    with a_bench(tmp_path, side=NoSpace) as bench:
        held = (tmp_path / files.BALLAST).stat().st_size

        fill(bench)

        assert held == files.BALLAST_BYTES
        assert not (tmp_path / files.BALLAST).exists()
