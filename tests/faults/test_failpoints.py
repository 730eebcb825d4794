"""SIGKILL of worker, zygote and daemon before and after the commit of every command, and each outcome dropped."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.agent import History
from tests.e2e.daemon import short_folder
from tests.faults import campaign, world

pytestmark = pytest.mark.timeout(120)

CASES = [case for command in campaign.all_commands() for case in campaign.cases(command)]


@pytest.fixture(scope="module")
def template() -> Iterator[tuple[Path, History]]:
    with short_folder() as folder:
        yield folder / "template", world.prepare(folder / "template")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_whatever_dies_at_a_commit_breaks_no_promise(case: campaign.Case, template: tuple[Path, History]) -> None:
    with tempfile.TemporaryDirectory(prefix="lu-", ignore_cleanup_errors=True) as folder:
        outcome = campaign.run(case, *template, Path(folder) / "s")

    assert outcome.violations == (), campaign.describe(case, 0, outcome)
    assert outcome.missed == ()
    assert outcome.deaths >= sum(fault.action == "kill-daemon" for fault in case.faults)
    assert outcome.figures["redelivered"] > 0
    assert outcome.figures["duplicates"] + outcome.figures["attaches"] > 0
