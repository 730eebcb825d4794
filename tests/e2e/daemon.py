"""A real daemon in a process of its own, in a state folder of its own, and what an operator can ask it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import psutil

from miniapp_worker import landlock, seccomp
from runtime_actors.client import ClientError, DoorClient, door_of

ROOT: Final = Path(__file__).parents[2]
APPS: Final = ROOT / "tests" / "apps"
READY_S: Final = 30.0
QUICK: Final = ("--sweep=0.3", "--cancel-grace=0.5", "--stop-grace=0.5", "--restart-backoff=0.05")
"""What is due is looked for often, so that a lost outcome costs a test little time."""
CAN_SEAL: Final = sys.platform == "linux" and landlock.kernel_abi() > 0 and seccomp.is_available()
"""Whether the default minimum of isolation can be had on this machine."""
ACCEPTED: Final = () if CAN_SEAL else ("--min-isolation=process",)
"""What a daemon of a test must be told to run here at all. A test that is about isolation says something else."""

_FAILPOINT: Final = re.compile(r"failpoint  command=(\S+) point=(\S+) action=(\S+)\n")

T = TypeVar("T")


class TooLong(AssertionError):
    """What was waited for did not happen in time."""


def wait_until(what: str, look: Callable[[], T | None], within_s: float = 10.0, every_s: float = 0.02) -> T:
    """What `look` found: the first value that is true."""
    deadline = time.monotonic() + within_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TooLong(f"{what}: not within {within_s:g} s")
        threading.Event().wait(every_s)


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets, which pytest's own may not be."""
    with tempfile.TemporaryDirectory(prefix="lu-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def is_alive(process: psutil.Process) -> bool:
    """Not gone, and not a zombie that nobody reaps."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Daemon:
    """`lineup run` with a state folder, started, killed and started again. Its standard error is kept in `log`."""

    def __init__(
        self, state: Path, *, apps: Sequence[Path] = (APPS / "probe",), options: Sequence[str] = QUICK
    ) -> None:
        self.state = state
        self.apps = tuple(apps)
        self.options = tuple(options)
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._control: DoorClient | None = None
        self.log = state.with_name(f"{state.name}.log")
        """Beside the folder, because it outlives copies of it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- life ---

    def launch(self, *more: str) -> None:
        """Start without waiting."""
        self.starts += 1
        command = [sys.executable, "-m", "runtime_actors", "run", f"--state={self.state}", *ACCEPTED]
        command += [*self.options, *more]
        command += [f"--apps={folder}" for folder in self.apps]
        self.state.mkdir(mode=0o700, exist_ok=True)
        with self.log.open("ab") as errors, (self.state / "out").open("wb") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)

    def start(self, *more: str, within_s: float = READY_S) -> None:
        """Start, and wait until it serves."""
        self.launch(*more)
        self.wait_ready(within_s)

    def wait_ready(self, within_s: float = READY_S) -> None:
        if not wait_until("ready", lambda: self.ready or not self.running, within_s) or not self.ready:
            raise TooLong(f"the daemon ended with {self.exit_code}: {self.said()[-2000:]}")

    @property
    def ready(self) -> bool:
        return (self.state / "out").read_bytes().startswith(b"ready ")

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return None if self.process is None else self.process.poll()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL, and reap it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)

    def terminate(self, within_s: float = 10.0) -> int:
        """SIGTERM; its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(within_s)

    def close(self) -> None:
        """End it whatever it does, and leave nothing of it."""
        if self._control is not None:
            self._control.close()
            self._control = None
        family = self.family() if self.running else []
        self.kill()
        with contextlib.suppress(TooLong):
            wait_until("the family is gone", lambda: not any(map(is_alive, family)), 2.0, every_s=0.005)
        for one in filter(is_alive, family):  # a test has failed already, or is about to
            one.kill()
        self.log.unlink(missing_ok=True)

    # --- looking ---

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def passed(self, command: str, point: str, action: str) -> int:
        """How often this failpoint was hit, over all starts."""
        mark = f"failpoint  command={command} point={point} action={action}\n"
        return self.said().count(mark)

    def failpoints(self) -> list[dict[str, Any]]:
        """Every failpoint that was hit, over all starts, as lines of a history; the time is that of looking."""
        found = _FAILPOINT.findall(self.said())
        return [{"what": "fault", "at": time.monotonic(), "by": "nemesis", "kind": ":".join(words)} for words in found]

    def family(self) -> list[psutil.Process]:
        """The zygote and all workers."""
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    # --- the control door ---

    def control(self, kind: str, body: dict[str, Any], timeout_s: float = 5.0) -> dict[str, Any]:
        """One order or question; may be asked again while the daemon is down.

        Raises:
            ClientError: As `DoorClient.request`.

        """
        if self._control is None:
            self._control = DoorClient(door_of(self.state, "control"))
        try:
            return self._control.request(f"lineup.v1.control.{kind}", body, timeout_s=timeout_s)[1]
        except ClientError:
            self._control.close()
            self._control = None
            raise

    def listed(self, what: str, **wanted: object) -> list[dict[str, Any]]:
        """Every row of a listing."""
        rows: list[dict[str, Any]] = []
        after: str | None = "0" if what == "audit" else None
        while True:
            query = {"what": what, "filter": wanted} | ({"after": after} if after else {})
            answer = self.control("query", query)
            rows += answer["rows"]
            after = answer.get("next")
            if after is None:
                return rows

    def audit(self, event: str | None = None) -> list[dict[str, Any]]:
        """Audit entries, all or of one event."""
        return [row for row in self.listed("audit") if event in {None, row["event"]}]

    def instance(self, conversation_id: str, app_scope: str = "probe") -> dict[str, Any] | None:
        """The live instance of a scope."""
        for row in self.listed("ps"):
            if (
                row["conversation_id"] == conversation_id
                and row["app_scope"] == app_scope
                and row["state"] != "closing"
            ):
                return row
        return None

    def worker(self, conversation_id: str, app_scope: str = "probe", *, not_pid: int | None = None) -> dict[str, Any]:
        """Wait for an instance with a process that has attached."""

        def look() -> dict[str, Any] | None:
            row = self.instance(conversation_id, app_scope)
            found = row is not None and row["pid"] and row["state"] in {"foreground", "background"}
            return row if found and row and row["pid"] != not_pid else None

        return wait_until(f"a worker of {app_scope} in {conversation_id}", look)

    def kill_worker(self, conversation_id: str, app_scope: str = "probe", number: int = signal.SIGKILL) -> int:
        """Signal the process of an instance from outside; its pid."""
        pid = int(self.worker(conversation_id, app_scope)["pid"])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        return pid

    def worker_log(self) -> list[str]:
        """Everything that workers wrote, of every attempt that is kept."""
        lines: list[str] = []
        for path in sorted((self.state / "logs").glob("*/*.log*")):
            with contextlib.suppress(FileNotFoundError):
                lines += path.read_text(errors="replace").splitlines()
        return lines
