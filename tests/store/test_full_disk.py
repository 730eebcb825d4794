"""No space, at every page that a call writes: new work waits, what runs ends in the ballast, nothing is half done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.store.full_disk import MOST, NOT_ALLOWED

Lines = list[dict[str, Any]]
_CHILD = Path(__file__).with_name("full_disk.py")


@pytest.fixture(scope="module", params=["tmpfs", "limit"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def lines(way: str, tmp_path_factory: pytest.TempPathFactory) -> Lines:
    """What `full_disk.py` saw."""
    command = [sys.executable, str(_CHILD), way, str(tmp_path_factory.mktemp(way))]
    child = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    if child.returncode == NOT_ALLOWED:
        pytest.skip(f"no disk of its own may be mounted here: {child.stdout.strip()}")
    assert child.returncode == 0, child.stderr[-2000:]
    return [json.loads(line) for line in child.stdout.splitlines()]


def of(lines: Lines, **wanted: object) -> Lines:
    return [line for line in lines if all(line.get(key) == value for key, value in wanted.items())]


pytestmark = pytest.mark.xdist_group("full_disk")


def test_a_new_call_is_refused_without_a_trace_or_admitted_whole(lines: Lines) -> None:
    seen = of(lines, step="limited", scenario="ballast")

    assert len(seen) == MOST
    for line in seen:
        assert line["admitted"] in {"done", "store_unavailable"}
        assert line["same"] == (line["admitted"] == "store_unavailable"), line
    assert seen[0]["admitted"] == "store_unavailable"
    assert seen[-1]["admitted"] == "done"
    assert seen[-1]["full"] is False


def test_a_running_call_ends_thanks_to_the_ballast(way: str, lines: Lines) -> None:
    seen = of(lines, step="limited", scenario="ballast")

    for line in seen:
        assert line["status"] == ("completed" if line["finished"] == "done" else "running"), line
    if way == "tmpfs":  # a limit on the size of each file leaves nothing that the ballast could give
        assert {line["finished"] for line in seen} == {"done"}


def test_without_a_ballast_a_running_call_goes_on_running_until_there_is_space(lines: Lines) -> None:
    seen = of(lines, step="limited", scenario="no-ballast")

    for line in seen:
        assert line["admitted"] == "store_unavailable"
        assert line["status"] == ("completed" if line["finished"] == "done" else "running"), line
    assert {line["finished"] for line in seen} == {"done", "store_unavailable"}


def test_when_space_returns_everything_goes_on(lines: Lines) -> None:
    seen = of(lines, step="again")

    assert len(seen) == 2 * MOST
    for line in seen:
        assert (line["admitted"], line["finished"], line["full"]) == ("done", "done", False), line
        assert line["holds"]
        assert line["unusable"] == []


def test_the_next_daemon_finds_each_call_once_and_whole(lines: Lines) -> None:
    for scenario in ("ballast", "no-ballast"):
        for line in of(lines, step="reopened", scenario=scenario):
            assert line["holds"], line
            assert (line["c1"], line["c2"]) == ("completed", "waiting_for_app")
            assert (line["results"], line["ended"], line["counted"]) == (1, 1, 1)


def test_a_crash_on_the_full_disk_loses_nothing_that_was_told(lines: Lines) -> None:
    for before, after in zip(
        of(lines, step="limited", scenario="crash"), of(lines, step="reopened", scenario="crash"), strict=True
    ):
        assert after["holds"]
        assert after["c1"] == before["status"]
        assert (after["c2"] is None) == (before["admitted"] == "store_unavailable")
        assert after["results"] == after["ended"] == (1 if before["finished"] == "done" else 0)


def test_a_command_that_fills_the_disk_by_itself_is_refused_alone(lines: Lines) -> None:
    assert of(lines, step="large") == [
        {
            "step": "large", "outcomes": ["done", "store_unavailable", "done"], "rows": 0, "small": "done",
            "holds": True, "unusable": [],
        }
    ]  # fmt: skip


def test_a_daemon_starts_on_a_full_disk_and_ends_what_runs(way: str, lines: Lines) -> None:
    if way != "tmpfs":
        pytest.skip("a limit on the size of each file fills no disk")

    (seen,) = of(lines, step="opened", ballast=True)
    (after,) = of(lines, step="reopened", ballast=True)

    assert (seen["admitted"], seen["finished"], seen["full"], seen["unusable"]) == (
        "store_unavailable",
        "done",
        True,
        [],
    )
    assert (after["holds"], after["c1"]) == (True, "completed")


def test_without_a_ballast_it_opens_or_says_that_there_is_no_space(way: str, lines: Lines) -> None:
    if way != "tmpfs":
        pytest.skip("a limit on the size of each file fills no disk")

    (seen,) = of(lines, step="opened", ballast=False)
    (after,) = of(lines, step="reopened", ballast=False)

    if "refused" in seen:
        assert "no space" in seen["refused"]
    else:
        assert (seen["admitted"], seen["full"]) == ("store_unavailable", True)
    assert after["holds"]
