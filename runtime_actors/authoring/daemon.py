"""A daemon for one app: it serves at once again whenever it was killed, and is gone when its owner is."""

from __future__ import annotations

import select
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from runtime_actors import state_folder
from runtime_actors.bench.ground import LINEUP, end, tied
from runtime_actors.errors import ExitCode

SEALED: Final = "sealed"
PROCESS: Final = "process"
UNCONFINED: Final = (
    "this machine cannot confine MiniApps: the app runs in a process of its own that can do what you can do"
    " (--min-isolation process). What the kernel forbids an app elsewhere is not noticed here."
)
_START_S: Final = 60.0
_LOG_LINES: Final = 15
_MOST_STARTS: Final = 200


class NotServed(Exception):
    """The app cannot be run: says why, for a person."""


class KeptDaemon:
    """`lineup run`, kept up by a thread, as `lineup start` would with a process."""

    def __init__(
        self,
        state: Path,
        apps: Sequence[Path],
        *,
        options: Sequence[str] = (),
        planted: Sequence[str] = (),
        isolation: str = SEALED,
    ) -> None:
        """Serve `apps` from `state`. `planted` are failpoints for the first start only."""
        self.isolation = isolation
        """The minimum that is demanded; `process` once it turned out that no more can be had."""
        self.log: Final = state / "logs" / "daemon.log"
        """Where `lineup start` would keep it too."""
        self._state = state
        self._arguments = ("run", f"--state={state}", *(f"--apps={folder}" for folder in apps), *options)
        self._planted = tuple(f"--failpoint={one}" for one in planted)
        self._changed = threading.Condition()
        self._starts = 0
        self._stopping = False
        self._failure: str | None = None
        self.exit_code: int | None = None
        """Of the daemon that did not start."""
        self._process: subprocess.Popen[bytes] | None = None
        # The daemon gets SIGTERM when the thread that started it ends (prctl(2)), so that is always this one.
        self._thread = threading.Thread(target=self._keep, name="daemon keeper", daemon=True)

    @property
    def starts(self) -> int:
        """How often it began to serve."""
        return self._starts

    def start(self) -> None:
        """Return once it serves.

        Raises:
            NotServed: It does not.

        """
        try:
            state_folder.prepare(self._state)  # before the log lies in it
            self.log.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise NotServed(f"{error.strerror}: {error.filename}") from None
        self._thread.start()
        self.wait_serving(0)

    def wait_serving(self, starts: int) -> None:
        """Wait until it began to serve more than `starts` times.

        Raises:
            NotServed: It does not.

        """
        with self._changed:
            served = self._changed.wait_for(lambda: self._failure or self._starts > starts, 2 * _START_S)
        if self._failure or not served:
            raise NotServed(self._failure or "the daemon did not come back")

    def kill(self) -> None:
        """SIGKILL; return once the next one serves.

        Raises:
            NotServed: It does not.

        """
        with self._changed:
            starts, process = self._starts, self._process
        if process is not None:
            process.kill()
        self.wait_serving(starts)

    def stop(self) -> None:
        """End it for good."""
        with self._changed:
            self._stopping = True
            if self._process is not None:
                self._process.terminate()
        if self._thread.is_alive():
            self._thread.join()

    def last_lines(self) -> list[str]:
        """The end of its log."""
        if not self.log.exists():
            return []
        return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]

    def _keep(self) -> None:
        planted = self._planted
        for _ in range(_MOST_STARTS):
            process = self._launch(planted)
            if process is None:
                return
            served = _is_ready(process)
            if served:
                planted = ()
                with self._changed:
                    self._starts += 1
                    self._changed.notify_all()
                process.wait()
            end(process)
            if served or self._stopping:
                continue
            if process.returncode != ExitCode.ISOLATION or self.isolation == PROCESS:
                self.exit_code = process.returncode
                self._fail("\n".join(["the daemon did not start:", *self.last_lines()]))
                return
            self.isolation = PROCESS
        self._fail(f"the daemon ended {_MOST_STARTS} times")

    def _launch(self, planted: Sequence[str]) -> subprocess.Popen[bytes] | None:
        with self._changed, self.log.open("ab") as log:
            if self._stopping:
                return None
            arguments = (*LINEUP, *self._arguments, f"--min-isolation={self.isolation}", *planted)
            self._process = tied(arguments, stdout=subprocess.PIPE, stderr=log)
            return self._process

    def _fail(self, why: str) -> None:
        with self._changed:
            self._failure = why
            self._changed.notify_all()


def _is_ready(process: subprocess.Popen[bytes]) -> bool:
    output = process.stdout
    assert output is not None  # noqa: S101 - as asked for
    return bool(select.select([output], [], [], _START_S)[0]) and output.readline().startswith(b"ready")
