"""When the runtime ends itself. With a real daemon."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from runtime_actors.errors import ExitCode

ROOT = Path(__file__).parents[2]
LIMIT_S = 30.0


@pytest.fixture
def state() -> Iterator[Path]:
    """Short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="lu-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def start(state: Path, trouble: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.actors.troubled_daemon", str(state), trouble],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(daemon: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code, and what it said on standard error."""
    try:
        _, said = daemon.communicate(timeout=LIMIT_S)
    finally:
        daemon.kill()
        daemon.wait(LIMIT_S)
    return daemon.returncode, said


def test_an_actor_that_fails_too_often_ends_the_daemon_with_6_and_leaves_no_process(state: Path) -> None:
    code, said = finish(start(state, "poison"))

    assert code == int(ExitCode.GAVE_UP)
    assert "router failed too often" in said
    assert [one for one in psutil.process_iter(["cmdline"]) if str(state) in " ".join(one.info["cmdline"] or ())] == []


def test_a_stuck_actor_ends_the_daemon_with_6(state: Path) -> None:
    code, said = finish(start(state, "stuck"))

    assert code == ExitCode.GAVE_UP
    assert "the router is stuck" in said


def test_a_daemon_that_set_one_message_aside_serves_on_and_stops_cleanly(state: Path) -> None:
    daemon = start(state, "one")
    assert daemon.stdout is not None
    ready = daemon.stdout.readline()
    daemon.send_signal(signal.SIGTERM)

    code, _ = finish(daemon)

    assert (ready.startswith("ready "), code) == (True, ExitCode.STOPPED)
    with sqlite3.connect(state / "store.db") as sql:
        [(actor, error)] = sql.execute("select actor, error from set_aside").fetchall()
    sql.close()
    assert (actor, "the router cannot take object" in error) == ("router", True)
