"""Does what the schedule says to the processes, connections, disk and clock of a storm, and undoes what must end."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil

from runtime_actors.chaos.clock import set_offsets
from runtime_actors.store import files
from tests.e2e.daemon import CAN_SEAL
from tests.storms import small_disk
from tests.storms.proxy import Proxy
from tests.storms.schedule import Kind, Strike

_PAGES: Final = 24
"""A full disk leaves up to so many pages: less than a call writes, or a little more."""
_JUMPS_S: Final = (-86400.0, -3600.0, -1.0, 1.0, 3600.0, 86400.0)
_SLEPT_S: Final = 20.0
_CONNECTS: Final = 60
_SPARE: Final = 12


class Nemesis:
    """Strikes one storm. Looks at its processes anew each time, for they come and go."""

    def __init__(self, state: Path, proxies: tuple[Proxy, ...], offsets: Path, filler: Path) -> None:
        self._state, self._proxies, self._offsets, self._filler = state, proxies, offsets, filler
        self.struck: Counter[Kind] = Counter()
        self.daemon_pid = 0
        self.agents: list[psutil.Popen] = []
        self.left_behind: list[tuple[float, list[psutil.Process]]] = []
        """When a daemon was killed, and the processes it had."""
        self.excused_until = 0.0
        """Until then a daemon may end by itself: its disk was full, or it could open nothing."""
        self._zygote = 0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._boot_s = 0.0

    def strike(self, strike: Strike) -> bool:
        """Do it, if there is anybody to do it to; whether there was."""
        try:
            done = self._acts[strike.kind](self, strike)
        except (ProcessLookupError, psutil.NoSuchProcess, FileNotFoundError):
            done = False
        self.struck[strike.kind] += done
        return done

    def undo_due(self, now: float | None = None) -> None:
        """End what lasted long enough; without a time, everything."""
        while self._due and (now is None or self._due[0][0] <= now):
            with contextlib.suppress(ProcessLookupError, PermissionError, FileNotFoundError):
                heapq.heappop(self._due)[2]()

    def set_clocks(self, wall_s: float, boot_s: float) -> None:
        set_offsets(self._offsets, wall_s, boot_s)

    def calm(self) -> None:
        """Undo everything; the wall clock is right again, and the boot clock never goes back."""
        self.undo_due()
        self.set_clocks(0.0, self._boot_s)

    def _later(self, strike: Strike, undo: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.monotonic() + strike.lasts_s, next(self._order), undo))

    # --- processes ---

    def family(self) -> list[int]:
        """Zygote and workers, the oldest first."""
        pids: list[int] = []
        for children in Path(f"/proc/{self.daemon_pid}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                pids += map(int, children.read_text().split())
        return pids

    def zygote(self) -> int | None:
        """The one child that is not confined; while it is young a worker may be taken for it, never the reverse."""
        family = self.family()
        if self._zygote not in family:
            plain = [pid for pid in family if not CAN_SEAL or not _is_sealed(pid)]
            self._zygote = min(plain, key=_born, default=0)
        return self._zygote or None

    def _workers(self) -> list[int]:
        zygote = self.zygote()
        return [pid for pid in self.family() if pid != zygote]

    def _one(self, strike: Strike, pids: list[int]) -> int | None:
        return pids[int(strike.chance * len(pids))] if pids else None

    def _target(self, strike: Strike) -> int | None:
        if strike.kind in {Kind.KILL_WORKER, Kind.STOP_WORKER}:
            return self._one(strike, self._workers())
        if strike.kind in {Kind.KILL_ZYGOTE, Kind.STOP_ZYGOTE}:
            return self.zygote()
        return self.daemon_pid or None

    def _kill(self, strike: Strike) -> bool:
        pid = self._target(strike)
        if pid is None:
            return False
        if pid == self.daemon_pid:
            family = []
            for one in self.family():
                with contextlib.suppress(psutil.NoSuchProcess):
                    family.append(psutil.Process(one))
            self.left_behind.append((time.monotonic(), family))
            self.daemon_pid = 0
        os.kill(pid, signal.SIGKILL)
        return True

    def _kill_agent(self, strike: Strike) -> bool:
        agent = self.agents[int(strike.chance * len(self.agents))]
        if agent.poll() is not None:
            return False
        agent.kill()
        return True

    def _stop(self, strike: Strike) -> bool:
        pid = self._target(strike)
        if pid is None:
            return False
        one = psutil.Process(pid)
        one.suspend()
        self._later(strike, lambda: one.resume() if one.is_running() else None)
        return True

    # --- connections ---

    def _disturb(self, strike: Strike) -> bool:
        used = [proxy for proxy in self._proxies if proxy.is_used]
        if not used:
            return False
        proxy = used[int(strike.chance * len(used))]
        if strike.kind is Kind.CUT:
            proxy.cut()
        elif strike.kind is Kind.DELAY:
            proxy.hold(strike.lasts_s)
        else:
            proxy.half_close()
        return True

    # --- disk, clock, descriptors ---

    def _excuse(self, strike: Strike) -> None:
        self.excused_until = max(self.excused_until, time.monotonic() + strike.lasts_s + 3.0)

    def _fill_disk(self, strike: Strike) -> bool:
        if self._filler.exists():
            return False
        self._excuse(strike)
        small_disk.fill(self._filler, int(strike.chance * _PAGES) * 4096)
        self._later(strike, self._filler.unlink)
        return True

    def _limit_files(self, strike: Strike) -> bool:
        if not self.daemon_pid:
            return False
        self._excuse(strike)
        room = int(strike.chance * _PAGES) * 4096
        return self._limit(strike, resource.RLIMIT_FSIZE, (self._state / files.WAL).stat().st_size + room)

    def _limit(self, strike: Strike, which: int, soft: int) -> bool:
        pid = self.daemon_pid
        _, hard = resource.prlimit(pid, which)
        kept = resource.prlimit(pid, which, (soft, hard))

        def give_back() -> None:
            resource.prlimit(pid, which, kept)

        self._later(strike, give_back)
        return True

    def _move_clock(self, strike: Strike) -> bool:
        jump = int(strike.chance * (len(_JUMPS_S) + 1))
        if jump == len(_JUMPS_S):
            self._boot_s += _SLEPT_S
            self.set_clocks(_SLEPT_S, self._boot_s)
        else:
            self.set_clocks(_JUMPS_S[jump], self._boot_s)
        return True

    def _descriptors(self) -> int:
        """How many the daemon has; where it may not be looked at, fewer than any has."""
        try:
            return len(os.listdir(f"/proc/{self.daemon_pid}/fd"))  # noqa: PTH208 - names are all that is wanted
        except PermissionError:
            return 16

    def _exhaust(self, strike: Strike) -> bool:
        if not self.daemon_pid:
            return False
        self._excuse(strike)
        self._limit(strike, resource.RLIMIT_NOFILE, self._descriptors() + int(strike.chance * _SPARE))
        flood = []
        for _ in range(_CONNECTS):
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)  # noqa: FBT003 - the name of the method says it
            with contextlib.suppress(OSError):
                one.connect(str(self._state / "run" / "agent.sock"))
            flood.append(one)

        def close() -> None:
            for one in flood:
                one.close()

        self._later(strike, close)
        return True

    _acts: Final[dict[Kind, Callable[[Nemesis, Strike], bool]]] = {
        Kind.KILL_DAEMON: _kill,
        Kind.KILL_WORKER: _kill,
        Kind.KILL_ZYGOTE: _kill,
        Kind.KILL_AGENT: _kill_agent,
        Kind.STOP_DAEMON: _stop,
        Kind.STOP_WORKER: _stop,
        Kind.STOP_ZYGOTE: _stop,
        Kind.CUT: _disturb,
        Kind.DELAY: _disturb,
        Kind.HALF_CLOSE: _disturb,
        Kind.FULL_DISK: _fill_disk,
        Kind.FILE_LIMIT: _limit_files,
        Kind.CLOCK: _move_clock,
        Kind.DESCRIPTORS: _exhaust,
    }


def _is_sealed(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return "\nSeccomp:\t2" in Path(f"/proc/{pid}/status").read_text()
    return True


def _born(pid: int) -> float:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).create_time()
    return float("inf")
