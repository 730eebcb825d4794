"""One state folder from its first daemon to its last: daemons are started, watched, struck and started again.

Everything happens on one thread of its own, so that the scenario can be played meanwhile.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

from runtime_actors.chaos.options import Options
from runtime_actors.chaos.plan import Fault
from runtime_actors.chaos.seen import ChaosFailed, Life, Seen, Setting, Struck
from runtime_actors.chaos.strikes import Strikes, still_there
from runtime_actors.checker import Violation
from runtime_actors.errors import ExitCode

_TURN_S: Final = 0.005
_FIND_S: Final = 2.0
"""How long somebody to strike is looked for."""
_STOP_S: Final = 10.0
_GONE_S: Final = 5.0
"""What is left of a killed daemon is gone by then. A second is promised, and holds on a machine with time for it."""
_MOST_LIVES: Final = 25
_STUCK_S: Final = 30.0
"""A daemon that does not serve by then is killed and started again: an outcome that its start waits for was dropped."""
_LOG_LINES: Final = 15


class World(threading.Thread):
    """Call `start`, `wait_serving`, `observe`, `calm` and `close`, in this order; `seen` is complete after `close`."""

    def __init__(self, folder: Path, setting: Setting, faults: Sequence[Fault]) -> None:
        super().__init__(name="world", daemon=True)
        self.state = folder / "s"
        self.log = folder / "daemon.log"
        self.seen = Seen()
        self._folder, self._setting = folder, setting
        self._waiting = list(faults)
        """Planned, and their point has not been come to."""
        self._strikes = Strikes(self, self.state, folder / "clock")
        self._process: subprocess.Popen[bytes] | None = None
        self._partial = b""
        self._workers: dict[int, psutil.Process] = {}
        self._left: list[tuple[float, list[psutil.Process]]] = []
        self._pending: list[tuple[float, int, float, Fault]] = []
        """Strikes: when, which first, until when somebody is looked for, what."""
        self._order = itertools.count()
        self._observed: queue.SimpleQueue[tuple[str, threading.Event]] = queue.SimpleQueue()
        self._counts: Counter[str] = Counter()
        self._serves, self._failed = threading.Event(), ""
        self._calm_wanted, self._is_calm = threading.Event(), threading.Event()
        self._over = threading.Event()

    # --- for those who play ---

    def wait_serving(self) -> None:
        """Until a daemon serves.

        Raises:
            ChaosFailed: None will.

        """
        if not self._serves.wait(2 * _STUCK_S) or self._failed:
            code = self.seen.lives[0].code if self.seen.lives else None
            raise ChaosFailed(self._failed or f"no daemon serves: {self.last_words()}", code)

    @property
    def is_closed(self) -> bool:
        return self._over.is_set()

    @property
    def waits_for(self) -> bool:
        """Whether a planned point has not been come to."""
        return bool(self._waiting or self._pending)

    def observe(self, name: str) -> threading.Event:
        """A point was seen from outside. From any thread. What is returned is set once it was struck."""
        seen = threading.Event()
        self._observed.put((name, seen))
        return seen

    def calm(self) -> None:
        """Strike what is due, undo what lasts, and from now on leave the daemon alone."""
        self._calm_wanted.set()
        self._is_calm.wait(_STUCK_S)

    def close(self) -> None:
        """End the daemon, and whatever is left of any."""
        self._over.set()
        if self.is_alive():
            self.join(3 * _STOP_S)
        self._kill_all()

    def last_words(self) -> str:
        """The end of the daemons' log."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-_LOG_LINES:])

    # --- what strikes needs ---

    @property
    def daemon_pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    def workers(self) -> list[psutil.Process]:
        return still_there(self._workers.values())

    def order(self, line: str) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.write(line.encode() + b"\n")
                process.stdin.flush()

    def expect_end(self) -> None:
        """Remember whom it leaves behind."""
        family = dict(self._workers)
        with contextlib.suppress(psutil.NoSuchProcess):
            family |= {one.pid: one for one in psutil.Process(self.daemon_pid).children()}
        self._left.append((time.monotonic(), list(family.values())))

    # --- its own thread ---

    def run(self) -> None:
        try:
            if not self._over.is_set():  # it may have been closed before it began
                self._launch()
            while not self._over.is_set() and not self._failed:
                self._turn()
            self._end()
        except Exception as error:  # whoever waits must hear of a bug here
            self._failed = f"{type(error).__name__}: {error}"
            raise
        finally:
            self._serves.set()
            self._is_calm.set()

    def _launch(self) -> None:
        """Each failpoint is planted until it was come to."""
        if len(self.seen.lives) >= _MOST_LIVES:
            self._fail(f"{_MOST_LIVES} daemons ended: {self.last_words()}")
            return
        points = (
            ()
            if self._calm_wanted.is_set()
            else tuple((one.point.name, one.point.hit) for one in self._waiting if one.point.is_failpoint)
        )
        told = Options(
            state=str(self.state),
            apps=tuple(map(str, self._setting.apps)),
            min_isolation=self._setting.min_isolation,
            clock=str(self._folder / "clock"),
            points=points,
        )
        self._serves.clear()
        self._partial = b""
        command = [sys.executable, "-m", "runtime_actors.chaos", told.written()]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, process_group=0
            )
        self.seen.lives.append(Life(self._process.pid, time.monotonic()))

    def _fail(self, why: str) -> None:
        self._failed = why
        self._serves.set()

    def _turn(self) -> None:
        self._hear(_TURN_S)
        now = time.monotonic()
        self._strikes.undo_due(now)
        self._take_observed(now)
        self._strike_due(now)
        self._look_at_process(now)
        self._look_after_the_dead(now)
        if self._calm_wanted.is_set() and not self._is_calm.is_set() and not self._pending:
            self._strikes.undo_due()
            self.order("calm")
            self._waiting.clear()
            self._is_calm.set()

    # --- what the daemon says ---

    def _hear(self, timeout_s: float) -> None:
        process = self._process
        if process is None or process.stdout is None:
            return
        descriptor = process.stdout.fileno()
        while select.select([descriptor], [], [], timeout_s)[0]:
            said = os.read(descriptor, 65536)
            if not said:
                return
            *lines, self._partial = (self._partial + said).split(b"\n")
            for line in lines:
                self._heard(line)
            timeout_s = 0.0

    def _heard(self, line: bytes) -> None:
        if line.startswith(b"ready "):
            self.seen.lives[-1].served = time.monotonic()
            self._serves.set()
            if self._calm_wanted.is_set():
                self.order("calm")
            return
        match json.loads(line):
            case {"held": name, "hit": hit}:
                self._at_failpoint(name, hit)
                self.order("go")
            case {"dropped": name, "hit": hit}:
                self._dropped(name, hit)
            case {"spawned": pid, "attempt": attempt_id}:
                self.seen.pids[attempt_id] = pid
                with contextlib.suppress(psutil.NoSuchProcess):
                    self._workers[pid] = psutil.Process(pid)
            case {"word": _} as word:
                self.seen.words.append(word)
            case {"seq": seq, "at": at}:
                self.seen.commits.append((seq, at))

    # --- points ---

    def _at_failpoint(self, name: str, hit: int) -> None:
        now = time.monotonic()
        for fault in [one for one in self._waiting if (one.point.name, one.point.hit) == (name, hit)]:
            self._waiting.remove(fault)
            self.seen.hit.add(str(fault.point))
            self._strike(fault, until=now + _FIND_S)

    def _dropped(self, name: str, hit: int) -> None:
        for fault in [one for one in self._waiting if (one.point.name, one.point.hit) == (name, hit)]:
            self._waiting.remove(fault)
            self.seen.hit.add(str(fault.point))
            self.seen.struck.append(Struck(fault, time.monotonic(), name.partition(":")[0]))

    def _take_observed(self, now: float) -> None:
        while True:
            try:
                name, seen = self._observed.get_nowait()
            except queue.Empty:
                return
            self._counts[name] += 1
            for fault in [one for one in self._waiting if one.point.name == name]:
                if self._counts[name] == fault.point.hit:
                    self._waiting.remove(fault)
                    self.seen.hit.add(str(fault.point))
                    at = now + fault.delay_s
                    heapq.heappush(self._pending, (at, next(self._order), at + _FIND_S, fault))
            self._strike_due(now)
            seen.set()

    def _strike_due(self, now: float) -> None:
        while self._pending and self._pending[0][0] <= now:
            _, _, until, fault = heapq.heappop(self._pending)
            self._strike(fault, until=until)

    def _strike(self, fault: Fault, *, until: float) -> None:
        target = self._strikes.strike(fault)
        now = time.monotonic()
        if target is not None:
            self.seen.struck.append(Struck(fault, now, target))
        elif now < until and not self._calm_wanted.is_set():
            heapq.heappush(self._pending, (now + 2 * _TURN_S, next(self._order), until, fault))

    # --- the process ---

    def _look_at_process(self, now: float) -> None:
        process, life = self._process, self.seen.lives[-1]
        if process is None:
            return
        if process.poll() is None:
            if life.served is None and now - life.began > _STUCK_S:
                self.expect_end()
                process.kill()
            return
        self._reap(process, life)
        if life.served is None and process.returncode > 0 and len(self.seen.lives) == 1 and not self.seen.struck:
            self._fail(self.last_words() or f"the daemon ended with {process.returncode}")
            return
        if process.returncode != -signal.SIGKILL:
            self._note_end(process.returncode)
        if not self._over.is_set():
            self._launch()

    def _reap(self, process: subprocess.Popen[bytes], life: Life) -> None:
        self._hear(0.0)  # what it said last
        life.ended, life.code = time.monotonic(), process.returncode
        self._left.append((life.ended, list(self._workers.values())))
        self._workers = {}
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not written yet need not be
                    pipe.close()
        self._process = None

    def _note_end(self, code: int) -> None:
        if code == ExitCode.STORE and time.monotonic() < self._strikes.excused_until:
            return
        rows = ({"exit_code": code, "log": self.last_words()},)
        self.seen.violations.append(Violation("daemon_ended", "the daemon", f"it ended by itself with {code}", rows))

    def _look_after_the_dead(self, now: float) -> None:
        while self._left and now - self._left[0][0] > _GONE_S:
            _, family = self._left.pop(0)
            for one in still_there(family):
                self._blame_left(one)

    def _blame_left(self, one: psutil.Process) -> None:
        message = f"it outlived its daemon by {_GONE_S:g} s"
        self.seen.violations.append(Violation("process_left", f"process {one.pid}", message))
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()

    # --- the end ---

    def _end(self) -> None:
        """A clean stop, if there is anybody to stop; then nothing is left."""
        self._strikes.undo_due()
        process = self._process
        if process is not None:
            self.order("calm")
            self.expect_end()
            process.terminate()
            deadline = time.monotonic() + _STOP_S
            while process.poll() is None and time.monotonic() < deadline:
                self._hear(_TURN_S)
            if process.poll() is None:
                process.kill()
                process.wait(_STOP_S)
            life = self.seen.lives[-1]
            self._reap(process, life)
            if process.returncode not in {ExitCode.STOPPED, -signal.SIGTERM}:
                self._note_end(process.returncode)
        deadline = time.monotonic() + _GONE_S
        while time.monotonic() < deadline and any(still_there(family) for _, family in self._left):
            threading.Event().wait(_TURN_S)
        self._look_after_the_dead(float("inf"))

    def _kill_all(self) -> None:
        """Whatever this thread did not come to."""
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        for one in still_there([one for _, family in self._left for one in family] + list(self._workers.values())):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self._process = None
