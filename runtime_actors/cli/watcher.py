"""The process that `lineup start` leaves behind: it runs the daemon, and runs it again when it ends as it should not.

It holds a lock on `<state>/watcher.lock` (flock(2)), which the kernel frees however it ends. The file's content is its
process id, and means something only while the lock is held: so a crash cannot fool anybody.
"""

from __future__ import annotations

import fcntl
import logging.handlers
import os
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final, Self

_AGAIN: Final = frozenset({5, 6})
"""Exit codes of `lineup run` after which it is worth another try, as after a signal."""
_PERIOD_S: Final = 60.0
"""Restarts are counted within this."""
_BACKOFF_S: Final = (0.0, 0.5, 1.0, 2.0, 4.0)
_STOP_S: Final = 10
"""After SIGTERM the daemon has this long before it is killed."""
_LOG_BYTES: Final = 10 * 1024 * 1024
_LOG_FILES: Final = 3


def lock_path(state: Path) -> Path:
    return state / "watcher.lock"


def log_path(state: Path) -> Path:
    return state / "logs" / "daemon.log"


def watcher_pid(state: Path) -> int | None:
    """The process that holds the watcher's lock, or None when nobody does. 0: it has not written its id yet."""
    try:
        file = lock_path(state).open("rb")
    except OSError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = file.read(20).strip()
            return int(text) if text.isdigit() else 0
        return None


class Watcher:
    """Runs in the main thread of its process, which it needs for its signals."""

    def __init__(
        self, state: Path, command: Sequence[str], report: int, *, backoff_s: Sequence[float] = _BACKOFF_S
    ) -> None:
        """Watch `command`, a `lineup run`; the first thing that happens is written to the descriptor `report`.

        `backoff_s` are the waits before a first, second ... restart within a minute; after the last one it gives up.
        """
        self._state = state
        self._command = command
        self._backoff_s = backoff_s
        self._report: int | None = report
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._was_ready = False
        self._wake, self._woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def run(self) -> int:
        """Watch until the daemon stops for good, and return its exit code (128 + N after signal N)."""
        log_path(self._state).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_path(self._state).open("a+b") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._say("exit 3 already watched")
                return 3
            lock.truncate(0)
            lock.write(str(os.getpid()).encode())
            lock.flush()
            signal.set_wakeup_fd(self._woken)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self._stop())
            signal.signal(signal.SIGALRM, lambda *_: self._signal(signal.SIGKILL))
            code = self._watch()
            self._say(f"exit {code}")
            return code

    def _watch(self) -> int:
        restarts: deque[float] = deque(maxlen=len(self._backoff_s))
        with _Log(log_path(self._state)) as log:
            while True:
                code = self._run_once(log)
                if self._stopping or not self._was_ready or (code not in _AGAIN and code >= 0):
                    return code if code >= 0 else 128 - code
                now = time.monotonic()
                recent = [at for at in restarts if now - at < _PERIOD_S]
                if len(recent) >= len(self._backoff_s):
                    log.write(f"watcher: ended with {code}, {len(recent)} restarts within {_PERIOD_S:g} s: giving up")
                    return code if code >= 0 else 128 - code
                wait_s = self._backoff_s[len(recent)]
                log.write(f"watcher: the daemon ended with {code}; starting it again in {wait_s:g} s")
                select.select([self._wake], [], [], wait_s)
                if self._is_stopping():
                    return 0
                restarts.append(time.monotonic())

    def _run_once(self, log: _Log) -> int:
        with subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            self._process = process
            if self._stopping:  # the signal came while the process was made
                self._stop()
            reader = threading.Thread(target=self._read, args=(process.stdout, log), daemon=True)
            reader.start()
            code = process.wait()
            reader.join(2.0)  # a process that outlives the daemon may hold the pipe open
            signal.alarm(0)
            return code

    def _read(self, output: IO[bytes], log: _Log) -> None:
        for line in output:
            text = line.decode(errors="backslashreplace").rstrip("\n")
            log.write(text)
            if text.startswith("ready "):
                self._was_ready = True
                self._say(text)

    def _is_stopping(self) -> bool:
        return self._stopping

    def _stop(self) -> None:
        self._stopping = True
        if self._process is not None:
            self._signal(signal.SIGTERM)
            signal.alarm(_STOP_S)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _say(self, text: str) -> None:
        if self._report is not None:
            report, self._report = self._report, None
            try:
                os.write(report, f"{text}\n".encode())
            except BrokenPipeError:  # whoever started us has gone
                return
            finally:
                os.close(report)


class _Log:
    """Lines in a file that is begun anew when it is full; a few old ones are kept."""

    def __init__(self, path: Path) -> None:
        self._handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._handler.close()

    def write(self, line: str) -> None:
        self._handler.emit(logging.makeLogRecord({"msg": line}))
