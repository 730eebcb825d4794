"""The crash matrix: whatever happens to whom at the commit of whichever command, no promise breaks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_actors.commands.command import COMMANDS
from tests.e2e.agent import History
from tests.e2e.daemon import short_folder
from tests.faults import campaign, matrix, world

CASES = list(campaign.short_form())


@pytest.fixture(scope="module")
def template() -> Iterator[tuple[Path, History]]:
    with short_folder() as folder:
        yield folder / "template", world.prepare(folder / "template")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name if len(case.name) < 40 else f"{case.name[:37]}...")
def test_whatever_happens_at_a_commit_breaks_no_promise(case: campaign.Case, template: tuple[Path, History]) -> None:
    with tempfile.TemporaryDirectory(prefix="lu-", ignore_cleanup_errors=True) as folder:
        outcome = campaign.run(case, *template, Path(folder) / "s")

    assert outcome.violations == (), campaign.describe(case, 0, outcome)
    assert outcome.missed == ()
    assert outcome.hit == {fault.cell for fault in case.faults if fault.cell is not None}
    assert outcome.deaths >= sum(fault.action == "kill-daemon" for fault in case.faults)
    assert outcome.figures["redelivered"] > 0
    assert outcome.figures["duplicates"] + outcome.figures["attaches"] > 0


def test_the_matrix_is_complete_but_for_what_is_left_out_for_a_reason() -> None:
    """Each case must hit all its cells, or it fails: so what is planned is what is hit."""
    planned = {fault.cell for case in CASES for fault in case.faults if fault.cell is not None}

    assert planned == matrix.promised()
    assert {cell.command for cell in planned} == COMMANDS.keys() - matrix.INSIDE - matrix.UNREACHED
    for process in matrix.PROCESSES:
        assert {cell.kind for cell in planned if cell.process == process} >= {"kill", "stop"}
    assert {cell.process for cell in planned if cell.kind == "cut"} == {"worker", "agent", "host"}


def test_each_commands_commit_meets_kills_on_both_sides_and_a_lost_outcome() -> None:
    faults = {(fault.command, fault.point, fault.action) for case in CASES for fault in case.faults}

    for command in matrix.all_commands():
        for killed in ("kill-daemon", "kill-zygote", "kill-worker"):
            assert {(command, "before", killed), (command, "after", killed)} <= faults
        assert (command, "outcome", "drop") in faults


def test_what_is_left_out_says_why() -> None:
    every = {
        matrix.Cell(process, kind, command)
        for process in matrix.PROCESSES
        for kind in matrix.KINDS
        for command in matrix.all_commands()
    }
    reasons = {why for cell in every - matrix.promised() if (why := matrix.why_not(cell)) is not None}

    assert len(reasons) == 3
    assert {"give_up_call", "wake_debtor"} == matrix.INSIDE | matrix.UNREACHED
