"""`lineup start`, `stop` and `status`."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Unpack

import click
import psutil

from runtime_actors import state_folder
from runtime_actors.cli.control import order, rows
from runtime_actors.cli.exits import DONE, FAILED
from runtime_actors.cli.options import json_option, state_option
from runtime_actors.cli.runs import RunOptions, arguments_of, config_of, run_options
from runtime_actors.cli.show import say, show_json, show_pairs
from runtime_actors.cli.watcher import Watcher, log_path, watcher_pid
from runtime_actors.client import ClientError, ConnectionLost, DaemonNotRunning, NoAnswer
from runtime_actors.config import RuntimeConfig
from runtime_actors.contract.agent import Shutdown
from runtime_actors.contract.base import JsonObject
from runtime_actors.errors import ExitCode
from runtime_actors.log import left_out
from runtime_actors.rules.text import neutral

_START_S: Final = 60.0
_STOP_S: Final = 15.0
_LOOK_S: Final = 0.05
_LAST_LINES: Final = 20
_ALREADY: Final = 3


@click.command(short_help="Run the daemon in the background.")
@run_options
def start(state: Path, **options: Unpack[RunOptions]) -> int:
    """Run the daemon in the background, and start it again when it crashes.

    Returns once it serves, or with its exit code and its last log lines.
    """
    return start_daemon(config_of(state, options))


@click.command(hidden=True)
@run_options
@click.option("--report", type=int, required=True)
def watch(state: Path, report: int, **options: Unpack[RunOptions]) -> int:
    """Be the watcher that `lineup start` leaves behind."""
    config = config_of(state, options)
    command = [sys.executable, "-m", "runtime_actors", "run", *arguments_of(config)]
    return Watcher(config.state, command, report).run()


@click.command(short_help="Stop the daemon.")
@state_option
def stop(state: Path) -> int:
    """Stop the daemon of this state folder, and its watcher. What is under way goes on at the next start."""
    return stop_daemon(state)


@click.command(short_help="Say whether the daemon runs, and how it fares.")
@state_option
@json_option
def status(state: Path, as_json: bool) -> int:
    """Show queues, restarts, commit latency and memory. Exit code 0 if the daemon runs, 1 if not."""
    watcher = watcher_pid(state)
    try:
        found: JsonObject = {"running": True, **next(iter(rows(state, "status", limit=1)), {})}
    except DaemonNotRunning:
        found = {"running": False}
    found |= {"watcher_pid": watcher, "state": str(state)}
    if as_json:
        show_json(found)
    elif found["running"]:
        show_pairs(found)
    else:
        say("not running; start it with: lineup start")
    return DONE if found["running"] else FAILED


def start_daemon(config: RuntimeConfig) -> int:
    """Leave a watcher behind and wait until its daemon serves, 0, or ended, its exit code."""
    try:
        state_folder.prepare(config.state)  # before anything of ours lies in it
    except OSError as error:
        say(f"{error.strerror}: {error.filename}")
        return ExitCode.STORE
    log = log_path(config.state)
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    begins_at = log.stat().st_size if log.exists() else 0
    ours, theirs = os.pipe()
    command = [sys.executable, "-m", "runtime_actors", "watch", *arguments_of(config), f"--report={theirs}"]
    with log.open("ab") as output:
        watcher = subprocess.Popen(
            command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=[theirs]
        )
    os.close(theirs)
    report = _first_line(ours)
    watcher.poll()
    if report.startswith("ready "):
        _show_left_out(log, begins_at)
        click.echo(report)
        return DONE
    if report.startswith("exit 3 "):
        say(f"already running, watched by process {watcher_pid(config.state)}; stop it with: lineup stop")
        return _ALREADY
    _show_end(log, begins_at)
    if not report.startswith("exit "):
        say(f"not ready within {_START_S:g} s and still trying; follow it in {log}, or stop it with: lineup stop")
        return FAILED
    code = int(report.split()[1])
    say(f"the daemon ended with exit code {code}; its log is {log}")
    return code


def stop_daemon(state: Path) -> int:
    """Ask the daemon to stop, then tell its watcher; 0 once both are gone, or were not there."""
    try:
        daemon = next(iter(rows(state, "status", limit=1, timeout_s=5.0)), {}).get("pid")
        order(state, "lineup.v1.control.shutdown", Shutdown(), timeout_s=5.0, repeat=False)
    except DaemonNotRunning:
        daemon = None
        if watcher_pid(state) is None:
            say("not running")
            return DONE
    except (ConnectionLost, NoAnswer):  # it may be on its way out, or hang; its watcher will see to it
        daemon = None
    except ClientError as error:
        say(str(error))
        daemon = None

    def is_gone() -> bool:
        return watcher_pid(state) is None and not _is_alive(daemon)

    if daemon is not None and _wait_until(is_gone, _STOP_S):
        say("stopped")
        return DONE
    holder = watcher_pid(state)
    if holder:
        os.kill(holder, signal.SIGTERM)
    elif daemon is None:
        say("the daemon does not answer and has no watcher; end its process yourself")
        return FAILED
    if _wait_until(is_gone, _STOP_S):
        say("stopped")
        return DONE
    say("it has not stopped yet; look with: lineup status")
    return FAILED


def _first_line(report: int) -> str:
    """What the watcher says, or "" when it says nothing in time or is gone."""
    with os.fdopen(report, "rb") as pipe:
        ready, _, _ = select.select([pipe], [], [], _START_S)
        return pipe.readline().decode().strip() if ready else ""


def _show_end(log: Path, begins_at: int) -> None:
    for line in _lines(log, begins_at)[-_LAST_LINES:]:
        say(f"  {neutral(line)}")


def _show_left_out(log: Path, begins_at: int) -> None:
    """Once each, however often the daemon had to be started."""
    found = dict.fromkeys(why for line in _lines(log, begins_at) if (why := left_out(line)) is not None)
    for why in found:
        say(f"left out: {neutral(why)}")


def _lines(log: Path, begins_at: int) -> list[str]:
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(begins_at if begins_at <= size else 0, size - 65_536))
        return file.read().decode(errors="backslashreplace").splitlines()


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _wait_until(holds: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True
