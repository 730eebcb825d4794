"""What each kind of fault does to a daemon under test, and how it is undone."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import resource
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, Protocol

import psutil

from runtime_actors.chaos.clock import set_offsets
from runtime_actors.chaos.plan import Fault, Kind
from runtime_actors.store import files

_PAGES: Final = 24
"""A full disk leaves up to so many pages: less than a call writes, or a little more."""
_PAGE_BYTES: Final = 4096
_JUMPS_S: Final = (-43200.0, -3600.0, -1.0, 1.0, 3600.0, 43200.0)
"""Less than a day: questions expire by wall time, and those of calls of a day must not."""
_SLEPT_S: Final = 2.0
_EXCUSED_S: Final = 3.0


class Target(Protocol):
    """What is struck: looked at anew each time, for processes come and go."""

    @property
    def daemon_pid(self) -> int: ...

    def workers(self) -> list[psutil.Process]: ...

    def order(self, line: str) -> None:
        """Tell the daemon something on its wire."""
        ...

    def expect_end(self) -> None:
        """The daemon is about to be killed."""
        ...


class Strikes:
    """Strikes the daemon of one state folder. For one thread."""

    def __init__(self, target: Target, state: Path, offsets: Path) -> None:
        self._target, self._state, self._offsets = target, state, offsets
        self.excused_until = 0.0
        """Until then a daemon may end by itself: its disk was full."""
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._boot_s = 0.0
        set_offsets(offsets, 0.0, 0.0)

    def strike(self, fault: Fault) -> str | None:
        """Do it, if there is anybody to do it to: what was struck, or None."""
        try:
            return self._acts[fault.kind](self, fault)
        except (ProcessLookupError, psutil.NoSuchProcess, FileNotFoundError):
            return None

    def undo_due(self, now: float | None = None) -> None:
        """End what lasted long enough; without a time, everything."""
        while self._due and (now is None or self._due[0][0] <= now):
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess, PermissionError):
                heapq.heappop(self._due)[2]()

    def _later(self, fault: Fault, undo: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.monotonic() + fault.lasts_s, next(self._order), undo))

    def _worker(self, fault: Fault) -> psutil.Process | None:
        workers = self._target.workers()
        return workers[int(fault.chance * len(workers))] if workers else None

    def _kill_worker(self, fault: Fault) -> str | None:
        worker = self._worker(fault)
        if worker is None:
            return None
        worker.kill()
        return f"worker {worker.pid}"

    def _kill_daemon(self, _fault: Fault) -> str | None:
        pid = self._target.daemon_pid
        if not pid:
            return None
        self._target.expect_end()
        os.kill(pid, signal.SIGKILL)
        return f"daemon {pid}"

    def _stop_worker(self, fault: Fault) -> str | None:
        worker = self._worker(fault)
        if worker is None:
            return None
        worker.suspend()
        self._later(fault, worker.resume)
        return f"worker {worker.pid}"

    def _close_channel(self, fault: Fault) -> str | None:
        worker = self._worker(fault)
        if worker is None:
            return None
        self._target.order(f"cut {worker.pid}")
        return f"worker {worker.pid}"

    def _fill_disk(self, fault: Fault) -> str | None:
        pid = self._target.daemon_pid
        if not pid:
            return None
        self.excused_until = max(self.excused_until, time.monotonic() + fault.lasts_s + _EXCUSED_S)
        room = int(fault.chance * _PAGES) * _PAGE_BYTES
        limit_files(pid, (self._state / files.WAL).stat().st_size + room)
        self._later(fault, lambda: limit_files(pid, None))
        return f"daemon {pid}"

    def _move_clock(self, fault: Fault) -> str:
        jump = int(fault.chance * (len(_JUMPS_S) + 1))
        if jump == len(_JUMPS_S):
            self._boot_s += _SLEPT_S
            wall_s, told = _SLEPT_S, f"{_SLEPT_S:g} s asleep"
        else:
            wall_s = _JUMPS_S[jump]
            told = f"wall clock {wall_s:+g} s"
        set_offsets(self._offsets, wall_s, self._boot_s)
        self._later(fault, lambda: set_offsets(self._offsets, 0.0, self._boot_s))  # CLOCK_BOOTTIME never goes back
        return told

    _acts: Final[dict[Kind, Callable[[Strikes, Fault], str | None]]] = {
        Kind.KILL_WORKER: _kill_worker,
        Kind.KILL_DAEMON: _kill_daemon,
        Kind.STOP_WORKER: _stop_worker,
        Kind.CLOSE_CHANNEL: _close_channel,
        Kind.FULL_DISK: _fill_disk,
        Kind.CLOCK: _move_clock,
    }


def limit_files(pid: int, size: int | None) -> None:
    """No file of this process may grow beyond so many bytes (setrlimit(2), RLIMIT_FSIZE); None: as far as it may.

    Raises:
        ProcessLookupError: It is gone.

    """
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


def still_there(processes: Collection[psutil.Process]) -> list[psutil.Process]:
    """Those that live: neither gone nor waiting to be reaped."""
    found = []
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if one.is_running() and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found
