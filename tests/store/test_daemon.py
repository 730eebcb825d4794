"""The store under a real daemon: who holds it, and what happens when its files are taken away."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_actors import state_folder
from runtime_actors.client import ClientError
from runtime_actors.errors import DaemonRunning
from runtime_actors.store import files
from tests.e2e.daemon import ROOT, Daemon, short_folder, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
DATABASE = files.DATABASE


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with short_folder() as folder, Daemon(folder / "s") as one:
        yield one


def hashes(state: Path) -> dict[str, str]:
    """Of every file of the store. Read while nobody writes."""
    names = (DATABASE, files.WAL, files.SIDE_FILE, state_folder.LOCK)
    # In another process: the daemon is one, so nothing here holds SQLite's locks.
    return {name: hashlib.sha256((state / name).read_bytes()).hexdigest() for name in names}


def test_a_second_daemon_is_refused_at_once_and_touches_nothing(daemon: Daemon) -> None:
    daemon.start("--sweep=60")
    before = hashes(daemon.state)
    python = [sys.executable, "-c", "import runtime_actors.boot, runtime_actors.cli"]
    begun = time.monotonic()
    subprocess.run(python, cwd=ROOT, check=True, capture_output=True)
    imports_s = time.monotonic() - begun

    begun = time.monotonic()
    command = [sys.executable, "-m", "runtime_actors", "run", f"--state={daemon.state}"]
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    took_s = time.monotonic() - begun

    assert second.returncode == 3
    assert "another daemon holds" in second.stderr
    assert took_s < 1 + imports_s  # what a busy machine takes to load Python is not the refusal's
    assert hashes(daemon.state) == before
    assert daemon.control("query", {"what": "status"})["rows"]


def test_a_second_daemon_is_refused_even_if_the_lock_file_was_removed(daemon: Daemon) -> None:
    daemon.start()
    (daemon.state / state_folder.LOCK).unlink()

    command = [sys.executable, "-m", "runtime_actors", "run", f"--state={daemon.state}"]
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)

    assert second.returncode == 3
    assert daemon.control("query", {"what": "status"})["rows"]


def test_the_lock_is_free_once_the_daemon_is_killed_though_its_children_live(daemon: Daemon) -> None:
    daemon.start()
    held = [str(daemon.state / name) for name in (state_folder.LOCK, DATABASE, files.WAL, files.SIDE_FILE)]
    wait_until("the zygote", daemon.family)
    inherited = [(child.pid, target) for child in daemon.family() for target in _targets(child.pid) if target in held]

    daemon.kill()
    os.close(state_folder.lock(daemon.state))

    assert inherited == []


def _targets(pid: int) -> list[str]:
    """What a process has open, as far as one may look: only root looks into a zygote and into workers."""
    found = []
    with contextlib.suppress(PermissionError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(str(entry.readlink()))
    return found


def test_a_stopped_daemon_leaves_the_lock_and_one_file(daemon: Daemon) -> None:
    daemon.start()
    with pytest.raises(DaemonRunning):
        state_folder.lock(daemon.state)

    assert daemon.terminate() == 0

    os.close(state_folder.lock(daemon.state))
    assert not (daemon.state / files.WAL).exists()


def taken_away(daemon: Daemon) -> str:
    """Wait for the end that follows; what the daemon said."""
    with contextlib.suppress(ClientError):
        daemon.control("switch", {"kind": "app", "name": "probe", "enabled": False})
    assert wait_until("the end", lambda: not daemon.running, 15)
    assert daemon.exit_code == 5
    return daemon.said()


def test_a_daemon_whose_database_is_deleted_ends_with_5_and_says_why(daemon: Daemon) -> None:
    daemon.start()

    (daemon.state / DATABASE).unlink()

    assert "was deleted or replaced while the daemon ran" in taken_away(daemon)
    daemon.launch()
    assert wait_until("the end", lambda: not daemon.running, 15)
    assert daemon.exit_code == 5
    assert "is gone" in daemon.said()


def test_a_daemon_whose_database_is_replaced_ends_with_5_and_leaves_the_new_one_alone(daemon: Daemon) -> None:
    daemon.start()
    daemon.terminate()
    shutil.copy(daemon.state / DATABASE, daemon.state / "other")
    daemon.start()
    before = hashlib.sha256((daemon.state / "other").read_bytes()).hexdigest()

    (daemon.state / "other").replace(daemon.state / DATABASE)

    assert "was deleted or replaced while the daemon ran" in taken_away(daemon)
    assert hashlib.sha256((daemon.state / DATABASE).read_bytes()).hexdigest() == before


def test_a_daemon_whose_log_is_deleted_ends_with_5_and_loses_nothing(daemon: Daemon) -> None:
    daemon.start()
    daemon.control("switch", {"kind": "app", "name": "probe", "enabled": False})
    entries = len(daemon.audit())

    (daemon.state / files.WAL).unlink()

    assert "its log was deleted" in taken_away(daemon)
    daemon.start()
    assert len(daemon.audit()) > entries


def test_a_database_made_read_only_under_the_daemon_goes_on_serving(daemon: Daemon) -> None:
    """Rights are checked when a file is opened, and the daemon has it open."""
    daemon.start()

    (daemon.state / DATABASE).chmod(0o400)

    assert daemon.control("switch", {"kind": "app", "name": "probe", "enabled": False})["data"]["changed"]
    assert daemon.terminate() == 0


@pytest.mark.parametrize("content", [b"garbage" * 1000, None])
def test_a_daemon_with_no_database_in_its_place_ends_with_5_in_one_sentence(
    daemon: Daemon, content: bytes | None
) -> None:
    daemon.state.mkdir()
    if content is None:
        (daemon.state / DATABASE).mkdir()
    else:
        (daemon.state / DATABASE).write_bytes(content)

    daemon.launch()

    assert wait_until("the end", lambda: not daemon.running, 15)
    assert daemon.exit_code == 5
    assert "Traceback" not in daemon.said()
    assert "lineup restore" in daemon.said()
