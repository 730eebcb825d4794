"""The watcher, over small processes in the daemon's place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime_actors.cli.watcher import log_path, watcher_pid
from tests.e2e.daemon import wait_until

WAIT_S = 10.0

WATCH = """
import sys
from pathlib import Path
from runtime_actors.cli.watcher import Watcher
state, report, script = sys.argv[1:]
sys.exit(Watcher(Path(state), [sys.executable, "-u", "-c", script, state], int(report), backoff_s=(0, 0, 0)).run())
"""

SERVES = "print('ready here'); import signal; signal.pause()"
COUNTS = """
import sys
from pathlib import Path
runs = Path(sys.argv[1]) / "runs"
number = len(runs.read_text()) if runs.exists() else 0
runs.write_text("x" * (number + 1))
print("ready here")
"""


@contextmanager
def a_watcher(state: Path, script: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A watcher over `script`, and the first thing it reported."""
    ours, theirs = os.pipe()
    with subprocess.Popen([sys.executable, "-c", WATCH, str(state), str(theirs), script], pass_fds=[theirs]) as process:
        os.close(theirs)
        try:
            with os.fdopen(ours) as report:
                yield process, report.readline().strip()
        finally:
            process.terminate()
            assert process.wait(WAIT_S) is not None


def wait_log(state: Path, text: str) -> None:
    wait_until(text, lambda: text in log_path(state).read_text(), WAIT_S)


def test_its_process_id_is_known_only_while_it_lives(tmp_path: Path) -> None:
    assert watcher_pid(tmp_path) is None
    with a_watcher(tmp_path, SERVES) as (process, report):
        assert report == "ready here"
        assert watcher_pid(tmp_path) == process.pid

    assert (tmp_path / "watcher.lock").exists()
    assert watcher_pid(tmp_path) is None


def test_a_watcher_that_was_killed_fools_nobody(tmp_path: Path) -> None:
    with a_watcher(tmp_path, "print('ready here'); import time; time.sleep(0.2)") as (process, _):
        process.kill()
        process.wait(WAIT_S)

        assert watcher_pid(tmp_path) is None


def test_a_second_watcher_leaves_the_folder_alone(tmp_path: Path) -> None:
    with a_watcher(tmp_path, SERVES) as (first, _):
        with a_watcher(tmp_path, SERVES) as (second, report):
            assert report == "exit 3 already watched"
            assert second.wait(WAIT_S) == 3

        assert watcher_pid(tmp_path) == first.pid


def test_a_daemon_that_never_served_is_not_tried_again(tmp_path: Path) -> None:
    with a_watcher(tmp_path, "print('the store is broken'); raise SystemExit(5)") as (process, report):
        assert report == "exit 5"
        assert process.wait(WAIT_S) == 5

    assert log_path(tmp_path).read_text() == "the store is broken\n"


def test_a_daemon_that_stopped_as_it_was_told_is_not_started_again(tmp_path: Path) -> None:
    with a_watcher(tmp_path, COUNTS) as (process, report):
        assert report == "ready here"
        assert process.wait(WAIT_S) == 0

    assert (tmp_path / "runs").read_text() == "x"


def test_a_daemon_that_gave_up_is_started_again_until_the_limit(tmp_path: Path) -> None:
    with a_watcher(tmp_path, f"{COUNTS}\nsys.exit(6)") as (process, _):
        assert process.wait(WAIT_S) == 6

    assert (tmp_path / "runs").read_text() == "xxxx"
    assert "giving up" in log_path(tmp_path).read_text()


def test_a_daemon_that_was_killed_is_started_again_and_the_limit_tells_the_signal(tmp_path: Path) -> None:
    killed = f"{COUNTS}\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    with a_watcher(tmp_path, killed) as (process, _):
        assert process.wait(WAIT_S) == 128 + signal.SIGKILL

    assert (tmp_path / "runs").read_text() == "xxxx"


def test_told_to_stop_it_stops_the_daemon_and_ends(tmp_path: Path) -> None:
    stops = (
        "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: (print('stopping'), sys.exit(0)))\n"
        "print('ready here')\nsignal.pause()"
    )
    with a_watcher(tmp_path, stops) as (process, _):
        process.terminate()
        assert process.wait(WAIT_S) == 0

    assert log_path(tmp_path).read_text().splitlines() == ["ready here", "stopping"]


def test_what_the_daemon_says_is_kept_even_if_it_is_no_text(tmp_path: Path) -> None:
    odd = (
        "import sys\nsys.stdout.buffer.write(b'\\xff\\xfe odd\\n')\nprint('ready here')\nimport signal; signal.pause()"
    )
    with a_watcher(tmp_path, odd):
        wait_log(tmp_path, "ready here")

        assert log_path(tmp_path).read_text().splitlines()[0] == "\\xff\\xfe odd"
