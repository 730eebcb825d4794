"""A worker process as the daemon holds it: released, signalled, waited for.

On Linux the daemon is a child subreaper and a worker's parent. A pidfd names the process beyond doubt, the kernel kills
it with the daemon, and its exit status is exact. Elsewhere two pipes do the same less well: the worker holds the write
end of one until it ends, the daemon the write end of the other; then the exit status is unknown, and the worker's own
children may outlive it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Final

import psutil

_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36


class Ties(Enum):
    """What ends a worker with its daemon and tells the daemon of a worker's end."""

    KERNEL = auto()
    PIPES = auto()


def strongest_ties() -> Ties:
    """What this machine can do: pidfds that can be waited for need Linux 5.4 and a container that allows them."""
    if sys.platform != "linux":
        return Ties.PIPES
    try:
        own = os.pidfd_open(os.getpid())
    except OSError:
        return Ties.PIPES
    try:
        os.waitid(os.P_PIDFD, own, os.WEXITED | os.WNOHANG)
    except ChildProcessError:  # understood, and of course nobody is their own child
        return Ties.KERNEL
    except OSError:
        return Ties.PIPES
    else:
        return Ties.KERNEL
    finally:
        os.close(own)


def at_end(fd: int) -> bool:
    """Whether a pidfd, or the read end of a life pipe, never written to, says that its process ended."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def become_undumpable() -> None:
    """Nobody of this uid may trace this process or read its memory. Linux; see prctl(2)."""
    if sys.platform == "linux":
        _prctl(_PR_SET_DUMPABLE, 0)


def become_subreaper() -> None:
    """Make this process the parent of every descendant whose own parent ends. Linux; see prctl(2)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(operation: int, argument: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(ctypes.c_int(operation), ctypes.c_ulong(argument), zero, zero, zero) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@dataclass(frozen=True)
class ExitStatus:
    """How a process ended: an exit code, a signal, or neither when nobody could learn it."""

    code: int | None = None
    signal: int | None = None
    cpu_s: float | None = field(default=None, compare=False)
    """Processor seconds it used, with those of its children that it waited for."""

    def __str__(self) -> str:
        if self.signal is not None:
            with suppress(ValueError):
                return f"signal {signal.Signals(self.signal).name}"
            return f"signal {self.signal}"
        return "unknown" if self.code is None else f"exit code {self.code}"


class WorkerProcess:
    """One attempt's process. It waits at its gate until `release`; closed before that, it ends by itself.

    Safe from any thread: a signal never reaches another process, whatever ended or was closed meanwhile.
    """

    def __init__(self, attempt_id: str, pid: int, *, gate: int, life: int | None) -> None:
        """`gate` and `life` (read end of the worker's life pipe, None with kernel ties) belong to this object now."""
        self.attempt_id: Final = attempt_id
        self.pid: Final = pid
        self.started_at: Final = datetime.now(UTC)
        self._by_kernel = life is None
        self._gate: int | None = gate
        self._end: int | None = os.pidfd_open(pid) if life is None else life
        self._lock = threading.Lock()
        self._status: ExitStatus | None = None

    def fileno(self) -> int:
        """Readable once the process has ended. Raises ValueError after `close`."""
        if self._end is None:
            raise ValueError(f"attempt {self.attempt_id} is closed")
        return self._end

    def release(self, token: str = "", *, held: bool = False) -> None:
        """Let the worker confine itself and connect, and give it its token: no other process is told.

        `held` keeps it from MiniApp code until `admit`. With pipes as ties it cannot be held.
        """
        with self._lock:
            if held and self._by_kernel:
                self._say(f"{token}\n")
            else:
                self._say(f"{token}\n\n")
                self._let_go()

    def admit(self) -> None:
        """Let the worker run MiniApp code, if it was held."""
        with self._lock:
            if self._by_kernel:
                self._say("\n")
                self._let_go()

    def signal(self, number: int) -> bool:
        """Send a signal to the process alone. False if it is gone."""
        with self._lock:
            return self._signal(number)

    def kill_group(self) -> None:
        """SIGKILL the worker and the processes it started, as far as they stayed in its group."""
        with self._lock:
            self._kill_group()

    def reap(self) -> ExitStatus | None:
        """How the process ended, or None while it runs. What is left of its group is killed first. May be repeated."""
        with self._lock:
            if self._status is None and self._end is not None:
                self._status = self._reaped(self._end) if self._by_kernel else self._vanished()
            return self._status

    def rss_bytes(self) -> int | None:
        """Resident memory, pages shared with the zygote included; None once it is gone."""
        with self._lock:
            if self._ended():
                return None
            try:
                return int(psutil.Process(self.pid).memory_info().rss)
            except psutil.Error:
                return None

    def close(self) -> None:
        """Give the descriptors back. The process goes on, but with pipes as ties, or unreleased, this ends it."""
        with self._lock:
            self._close_gate()
            if self._end is not None:
                os.close(self._end)
                self._end = None

    def _say(self, lines: str) -> None:
        if self._gate is not None:
            with suppress(BrokenPipeError):  # it ended at the gate; that is told like any other end
                os.write(self._gate, lines.encode())

    def _let_go(self) -> None:
        if self._by_kernel:
            self._close_gate()

    def _signal(self, number: int) -> bool:
        if self._ended() or self._end is None:
            return False
        try:
            if self._by_kernel:
                signal.pidfd_send_signal(self._end, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def _kill_group(self) -> None:
        # The pid stays taken while its process is not reaped, and so it still names the group and no other.
        if self._status is None and (self._by_kernel or not self._ended()):
            with suppress(ProcessLookupError, PermissionError):  # macOS refuses when only a zombie is left
                os.killpg(self.pid, signal.SIGKILL)
        self._signal(signal.SIGKILL)  # it has no group yet while it waits at the gate

    def _ended(self) -> bool:
        return self._status is not None or self._end is None or at_end(self._end)

    def _reaped(self, pidfd: int) -> ExitStatus | None:
        try:
            if os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return None
            self._kill_group()
            _, status, used = os.wait4(self.pid, os.WNOHANG)  # the pid is still taken: it was not reaped
        except ChildProcessError:  # not our child any more: somebody else waited for it
            return ExitStatus() if self._ended() else None
        cpu_s = used.ru_utime + used.ru_stime
        if os.WIFEXITED(status):
            return ExitStatus(code=os.WEXITSTATUS(status), cpu_s=cpu_s)
        return ExitStatus(signal=os.WTERMSIG(status), cpu_s=cpu_s)

    def _vanished(self) -> ExitStatus | None:
        if not self._ended():
            return None
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)  # it only said that it ended: it has just let go of its pipe
        return ExitStatus()

    def _close_gate(self) -> None:
        if self._gate is not None:
            os.close(self._gate)
            self._gate = None


def reap_strangers(known: Collection[int]) -> list[int]:
    """Wait for ended children that nobody else waits for: what a subreaper inherits. Returns their pids.

    `known` are the pids of all children with an owner. One of them that has ended hides those behind it until
    its owner has reaped it, so call this again after. Call it on the thread that forks workers, or a
    worker that ends before its owner has noted its pid is taken for a stranger.
    """
    reaped: list[int] = []
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid in known:
                return reaped
            os.waitid(os.P_PID, ended.si_pid, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return reaped
        reaped.append(ended.si_pid)
