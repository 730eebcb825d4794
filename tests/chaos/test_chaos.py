"""`lineup chaos` on MiniApps: the healthy one passes, and each broken one is found by the rule that it breaks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import psutil
import pytest

from runtime_actors.chaos.plan import FAULTS
from tests.chaos.world import SCENARIO, an_app, chaos, command, played
from tests.e2e.daemon import ROOT, wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="faults are only to be had on Linux"),
    pytest.mark.xdist_group("chaos"),
]

_KINDS = {
    "kill-worker": "step:5",
    "kill-daemon": "report_progress:after",
    "stop-worker": "call.running",
    "close-channel": "finish:before",
    "full-disk": "progress",
    "clock": "admit:after:2",
}
"""A point for each, that this scenario always comes to."""


@pytest.fixture(scope="module")
def healthy() -> Iterator[Path]:
    with an_app("healthy") as folder:
        yield folder


def folder_of(pid: int) -> str:
    """The temporary folder that a process of `lineup chaos` made, as its children are told."""
    told = [" ".join(child.cmdline()) for child in psutil.Process(pid).children()]
    return next(found[0] for found in (re.search(r"lineup-chaos-\w+", line) for line in told) if found)


def processes_with(text: str) -> list[int]:
    return [one.pid for one in psutil.process_iter(["cmdline"]) if text in " ".join(one.info["cmdline"] or ())]


@pytest.mark.parametrize("kind", _KINDS)
def test_a_healthy_app_holds_whatever_strikes(healthy: Path, kind: str) -> None:
    options = ("--faults", kind, "--at", _KINDS[kind], "--seed=1", "--runs=2")

    code, runs, summary = played(SCENARIO, "--app", healthy, *options)

    assert code == 0, runs
    assert summary["struck"] == {kind: 2}
    assert summary["calls"] >= 8
    assert all(run["ok"] and run["struck"] for run in runs)


def test_a_healthy_app_holds_where_faults_are_drawn_and_outcomes_are_dropped(healthy: Path) -> None:
    code, runs, _ = played(SCENARIO, "--app", healthy, "--seed=21", "--runs=2")
    dropped, rows, summary = played(SCENARIO, "--app", healthy, "--at=finish:outcome", "--seed=1", "--runs=1")

    assert (code, dropped) == (0, 0), [runs, rows]
    assert summary["struck"] == {"drop-outcome": 1}


def test_three_apps_and_a_person_hold_whatever_is_drawn() -> None:
    """The short form of the nightly run; these seeds plan each kind of fault."""
    code, runs, summary = played("three-apps", "--seed=19", "--runs=10", "--jobs=2")

    assert code == 0, [run for run in runs if not run["ok"]]
    assert [run["seed"] for run in runs] == list(range(19, 29))
    assert set(summary["struck"]) == set(FAULTS)
    assert summary["calls"] == 60


def test_an_app_that_says_done_before_it_reported_is_found_where_it_is_killed_between() -> None:
    with an_app("hasty") as app:
        code, (run,), summary = played(
            SCENARIO, "--app", app, "--faults=kill-worker", "--at=finish:after", "--seed=1", "--runs=1"
        )
        healed, _, _ = played(
            SCENARIO, "--app", app, "--faults=kill-worker", "--at=report_progress:after:2", "--seed=1", "--runs=1"
        )

    assert code == 1
    assert healed == 0, "it is right as long as nothing strikes in between"
    assert summary["rules"] == {"scenario_expectation": 1}
    shortest = run["shortest"]
    assert shortest["faults"] == ["kill-worker at finish:after"]
    (found,) = shortest["violations"]
    assert "{'count': 3}, expected {'count': 5}" in found["message"]
    events = [row.get("event") or row.get("what") or row.get("do") for row in found["shortest"]]
    assert events[0] == "expect"
    assert events.index("fault") < events.index("call.interrupted") < events.index("call.redelivered")


def test_an_app_that_completes_twice_is_found_and_needs_no_fault_for_it() -> None:
    with an_app("fickle") as app:
        code, (run,), _ = played(SCENARIO, "--app", app, "--faults=clock", "--seed=1", "--runs=1")

    assert code == 1
    assert run["rules"] == ["completed_twice"]
    assert run["shortest"]["faults"] == []


def test_an_app_that_loses_its_state_is_found_and_its_report_is_one_page(tmp_path: Path) -> None:
    with an_app("forgetful") as app:
        done = chaos(
            SCENARIO,
            "--app",
            app,
            "--faults=kill-worker",
            "--at=finish:after",
            "--seed=1",
            "--runs=1",
            "--report",
            tmp_path,
        )

    assert done.returncode == 1
    assert "scenario_expectation" in done.stdout
    assert "seed 1 breaks with kill-worker at finish:after" in done.stdout
    assert f"again: lineup chaos {SCENARIO} --seed 1 --runs 1 --faults kill-worker --at finish:after" in done.stdout
    page = (tmp_path / "chaos.html").read_text(encoding="utf-8")
    drawn = ET.fromstring(page)  # noqa: S314 - our own
    names = [one.text for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"agent local", "daemon", "worker tally in main", "call open", "faults"} <= set(names)
    assert_self_contained(page)
    checked = subprocess.run(
        [sys.executable, "-m", "runtime_actors.checker", tmp_path / "evidence-1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout  # the runtime kept its promises; the app did not


def assert_self_contained(page: str) -> None:
    outside: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag in {"script", "link", "img", "iframe", "object", "embed", "base"}:
                outside.append(tag)
            outside.extend(
                f"{name}={value}"
                for name, value in attrs
                if name in {"src", "href", "xlink:href", "data", "action"} and not (value or "").startswith("#")
            )

    Reader().feed(page)
    assert outside == []
    assert not re.search(r"@import|url\(", page)


def test_a_point_that_is_never_hit_fails_the_run_and_says_so(healthy: Path) -> None:
    done = chaos(SCENARIO, "--app", healthy, "--at=set_aside:after", "--seed=1", "--runs=1")

    assert done.returncode == 1
    assert "set_aside:after was never hit" in done.stdout


def test_a_scenario_that_cannot_hold_is_broken_without_any_fault(tmp_path: Path, healthy: Path) -> None:
    steps = [{"do": "call", "tool": "tally.open", "call_id": "a"}, {"do": "expect", "call_id": "a", "status": "failed"}]
    scenario = tmp_path / "wrong.jsonl"
    scenario.write_text("".join(json.dumps(step) + "\n" for step in steps))

    code, (run,), _ = played(scenario, "--app", healthy, "--faults=clock", "--seed=1", "--runs=1")

    assert code == 1
    assert run["rules"] == ["scenario_expectation"]
    assert run["shortest"]["faults"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-file",),
        (SCENARIO, "--faults=earthquake"),
        (SCENARIO, "--faults="),
        (SCENARIO, "--at=vanish:after"),
        (SCENARIO, "--at=finish"),
        (SCENARIO, "--runs=0"),
        (SCENARIO, "--app=/"),
        (SCENARIO, "--report=/proc/report"),
    ],
)
def test_what_cannot_be_played_is_refused_with_what_to_do(arguments: tuple[str | Path, ...]) -> None:
    done = chaos(*arguments)

    assert done.returncode == 2
    assert "Error: " in done.stderr
    assert not done.stdout


def test_a_line_that_is_no_step_is_refused_before_anything_is_played() -> None:
    done = chaos("-", given='{"do": "cal"}\n')

    assert done.returncode == 2
    assert "docs/simulator.md" in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
@pytest.mark.parametrize("jobs", [1, 2])
def test_nothing_is_left_however_it_ends(healthy: Path, jobs: int, number: int, code: int) -> None:
    process = subprocess.Popen(
        command(SCENARIO, "--app", healthy, "--runs=100", f"--jobs={jobs}", "--json"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()  # in the middle of the second run
    folder = folder_of(process.pid)
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=30)

    assert process.returncode == code
    assert "Traceback" not in said
    wait_until("every process is gone", lambda: not processes_with(folder))
    wait_until("the folder is gone", lambda: not (Path(tempfile.gettempdir()) / folder).exists())
