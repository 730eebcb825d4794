"""Runs of the benchmark, as small as they can be. No figure is held against its bar here: machines differ."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from runtime_actors.bench import peer, report
from runtime_actors.bench.agent import Agent
from runtime_actors.bench.calls import flow
from runtime_actors.bench.effort import Effort
from runtime_actors.cli import main
from tests.e2e.daemon import CAN_SEAL, short_folder

pytestmark = pytest.mark.skipif(not CAN_SEAL, reason="figures are of confined workers")

TINY = Effort(
    turns=1,
    calls=3,
    flow_turns=1,
    flow_calls=100,
    starts=1,
    idle=3,
    boots=1,
    open_calls=40,
    finished=(40, 400),
    paced_s=0.4,
    crowd=3,
    wakes=1,
)
KEYS = {
    "name",
    "value",
    "unit",
    "reference",
    "reference_is",
    "ratio",
    "bar",
    "bar_is",
    "ok",
    "median",
    "spread",
    "repeats",
    "what",
}
MEMORY = Path("/dev/shm")  # noqa: S108 - where a commit costs nothing


def living() -> set[psutil.Process]:
    """Of a daemon that was killed, the dead are this process's if an earlier test made it their reaper."""
    found = set()
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if one.status() != psutil.STATUS_ZOMBIE:
                found.add(one)
    return found


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for a tiny run; nothing of the run is left in it, and no process."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(report, "QUICK", TINY)
    with short_folder() as folder:
        before = living()
        yield folder
        assert list(folder.iterdir()) == []
        assert living() <= before
    for number, handler in kept.items():
        signal.signal(number, handler)


def run(place: Path, *only: str, check: bool = False) -> int:
    return report.run(as_json=True, quick=True, check=check, only=only, folder=place)


def printed(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Figures by name, and the last line."""
    *rows, last = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    return {row["name"]: row for row in rows}, last


@pytest.mark.timeout(300)  # it starts a dozen daemons
def test_every_family_is_measured_and_nothing_is_left_behind(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(place)

    figures, last = printed(capsys)
    assert code == 0
    assert list(figures) == [
        "call.floor",
        "call.peer",
        "flow.peer",
        "flow.fsyncs",
        "flow.cpu",
        "accept.p50",
        "accept.p99",
        "start.forks",
        "start.recovery",
        "start.private",
        "start.daemon",
        "start.daemon_busy",
        "crowd.calls",
        "crowd.processes",
        "crowd.daemon_rss",
        "crowd.quiet_bytes",
        "crowd.wake",
        "history.call_400",
        "history.bytes",
        "boot.empty",
        "boot.open",
        "boot.finished",
        "boot.drain",
    ]
    assert all(set(row) == KEYS for row in figures.values())
    assert last == {"figures": len(figures), "ok": all(row["ok"] is not False for row in figures.values())}


def test_a_slow_call_is_found_out(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Agent.result

    def slow(self: Agent, *arguments: str) -> Any:  # noqa: ANN401 - the app's own
        threading.Event().wait(2.0)  # more than two floors on the busiest machine
        return plain(self, *arguments)

    monkeypatch.setattr(Agent, "result", slow)

    code = run(place, "call.floor", check=True)

    figures, last = printed(capsys)
    assert figures["call.floor"]["ok"] is False
    assert last == {"figures": 1, "ok": False}
    assert code == 1


def test_a_peer_that_is_not_installed_is_named_and_fails_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "is_installed", lambda: False)

    code = run(place, "call.peer", "flow.peer")

    figures, _ = printed(capsys)
    assert code == 0
    for row in (figures["call.peer"], figures["flow.peer"]):
        assert (row["reference"], row["ratio"], row["ok"]) == (None, None, None)
        assert "pip install 'lineup-runtime[bench]'" in row["reference_is"]


@pytest.mark.skipif(not peer.is_installed(), reason="the extra is not installed")
def test_the_peer_answers_alone_and_at_once() -> None:
    with peer.peer() as other:
        assert other is not None
        assert len(other.calls(3)) == 3
        assert other.flow(20, 8) > 0


def test_an_interrupt_ends_the_run_and_cleans_up(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> float:
        os.kill(os.getpid(), signal.SIGINT)
        return 1.0

    monkeypatch.setattr(Agent, "flow", interrupted)

    with pytest.raises(KeyboardInterrupt):
        run(place, flow.__name__)


@pytest.mark.skipif(not MEMORY.is_dir(), reason="there is no folder in memory")
def test_a_folder_in_memory_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["bench", "--json", "--quick", f"--folder={MEMORY}"])

    _, last = printed(capsys)
    assert code == 1
    assert (last["figures"], last["ok"]) == (0, False)
    assert "--folder" in last["why"]


def test_a_figure_that_there_is_not_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["bench", "--only", "speed"])

    assert code == 2
    assert "speed" in capsys.readouterr().err
