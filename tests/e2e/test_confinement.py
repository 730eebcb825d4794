"""The minimum of isolation, as an operator meets it: what is refused before anything is opened, and what is shown."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_actors.cli import main
from tests.e2e.agent import Agent
from tests.e2e.daemon import ACCEPTED, CAN_SEAL, READY_S, ROOT, Daemon, short_folder, wait_until

NO_LANDLOCK = "--landlock-abi=0"
DOORS = ("agent.sock", "control.sock", "host.sock")


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with short_folder() as folder, Daemon(folder / "s") as made:
        yield made


def end_of(daemon: Daemon, *options: str) -> int | None:
    """The exit code of a daemon that does not come up."""
    daemon.launch(*options)
    wait_until("the end", lambda: not daemon.running, READY_S)
    return daemon.exit_code


def found_at_boot(daemon: Daemon) -> str:
    """The level that the probe worker had, as the log tells it."""
    [level] = re.findall(r"workers are confined.*\blevel=(\w+)", daemon.said())
    return str(level)


# --- the minimum ---


def test_below_the_minimum_a_daemon_ends_with_4_before_it_opens_a_door_and_says_what_to_do(daemon: Daemon) -> None:
    for name in DOORS:  # whoever would bind here fails, and with another code
        (daemon.state / "run" / name).mkdir(parents=True)

    code = end_of(daemon, NO_LANDLOCK, "--min-isolation=sealed")

    level = found_at_boot(daemon)
    last = daemon.said().splitlines()[-1]
    assert code == 4
    assert last.startswith(f"lineup: isolation 'sealed' cannot be had here, only '{level}': ")
    assert "no Landlock" in last
    assert "lineup doctor" in last
    assert f"--min-isolation {level} accepts it" in last
    assert (daemon.state / "out").read_bytes() == b""
    assert [path for path in daemon.state.rglob("*") if path.is_socket()] == []
    assert end_of(daemon, NO_LANDLOCK, f"--min-isolation={level}") not in {0, 4}  # with the door in the way


def test_what_the_refusal_advises_is_accepted_and_serves(daemon: Daemon) -> None:
    assert end_of(daemon, NO_LANDLOCK, "--min-isolation=strong") == 4
    [advised] = re.findall(r"(--min-isolation \w+) accepts it", daemon.said())

    daemon.start(NO_LANDLOCK, advised.replace(" ", "="))

    with Agent(daemon.state) as agent:
        agent.attached()
        key = agent.invoke("probe.echo", "hello")
        assert agent.final(key)["result"]["text"] == "hello"


@pytest.mark.skipif(not CAN_SEAL, reason="workers cannot be sealed here")
def test_where_workers_can_be_sealed_nothing_has_to_be_accepted(daemon: Daemon) -> None:
    daemon.start()

    assert found_at_boot(daemon) in {"strong", "sealed"}


@pytest.mark.skipif(CAN_SEAL, reason="workers can be sealed here")
def test_where_workers_cannot_be_sealed_the_default_is_refused(daemon: Daemon) -> None:
    assert end_of(daemon, "--min-isolation=sealed") == 4


# --- where the state may lie ---


def refused_state(state: Path, root: Path) -> str:
    """The last line of a daemon of the runtime in `root` that ends with 4."""
    command = [sys.executable, "-m", "runtime_actors", "run", f"--state={state}", *ACCEPTED]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=READY_S, check=False)
    assert done.returncode == 4, done.stderr
    assert [path for path in state.rglob("*") if path.is_socket()] == []
    return done.stderr.splitlines()[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a worker reads what its user reads")
def test_a_state_folder_that_workers_could_read_is_refused_with_4() -> None:
    """In a copy of the runtime, so that no state folder is made in the one that is tested."""
    with short_folder() as copy:
        for name in ("runtime_actors", "miniapp_worker", "miniapps"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        tree = copy.resolve() / "miniapp_worker"

        said = refused_state(tree / "state", copy)

        assert said.startswith(f"lineup: workers can read {tree}")
        assert "--state" in said


# --- what is shown ---


@pytest.mark.parametrize("options", [(), (NO_LANDLOCK, "--min-isolation=process")], ids=["best", "without Landlock"])
def test_the_level_that_an_attempt_was_measured_at_is_shown_and_audited(
    daemon: Daemon, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.start(*options)
    with Agent(daemon.state) as agent:
        agent.attached()
        key = agent.invoke("probe.echo", "hello", conversation="c1")
        agent.final(key)
    daemon.worker("c1")
    monkeypatch.setenv("LINEUP_STATE", str(daemon.state))

    assert main(["ps", "--json"]) == 0

    [row] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [ready] = daemon.audit("attempt.ready")
    assert row["level"] == ready["detail"]["level"] == found_at_boot(daemon)
    assert daemon.listed("status")[0]["isolation"] == row["level"]
    assert (row["level"] in {"strong", "sealed"}) == (CAN_SEAL and not options)
