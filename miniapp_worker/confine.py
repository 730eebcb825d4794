"""What a worker gives up first, on any Unix, in this order.

`take_descriptors` comes first of all, before the worker waits for anything: whatever it held of the
zygote would keep the daemon from seeing the zygote end. `confine` follows once the worker is tied to
the daemon, and after it what only Linux can enforce (`layers`).
"""

from __future__ import annotations

import faulthandler
import fcntl
import io
import os
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from miniapp_worker import prctl

FIRST_KEPT_FD: Final = 3
_OUT_OF_THE_WAY: Final = 16
_PENDING_SIGNALS: Final = 64

# Python ignores these two so that the write fails instead: MiniApp code gets an exception it can read in its log.
_LEFT_IGNORED: Final = frozenset({signal.SIGPIPE, signal.SIGXFSZ})


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one worker, all above 0; never above what the daemon itself may have."""

    memory_bytes: int
    """Heap and private mappings (RLIMIT_DATA): beyond it Python raises MemoryError."""
    address_space_bytes: int
    """Everything mapped, shared memory too (RLIMIT_AS)."""
    cpu_s: int
    """Processor seconds over the whole life of the process; then SIGXCPU, and SIGKILL 1 s later (RLIMIT_CPU)."""
    open_files: int
    threads: int
    """Of the process, where its uid or its user namespace is its own (RLIMIT_NPROC): elsewhere that limit counts every
    process of the user, and `address_space_bytes` stops a thread bomb: a thread reserves about 64 MiB of it."""


def forget_origins() -> None:
    """No signal handled, ignored or blocked, and no environment, whatever the daemon was started with.

    The zygote does it once for all its workers: a fork keeps it.
    """
    os.environ.clear()
    os.environ["LANG"] = "C.UTF-8"
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP} - _LEFT_IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    faulthandler.enable()  # a crash in C code leaves its Python stack in the log, and still ends by its signal


def take_descriptors(log_fd: int, kept: Sequence[int]) -> None:
    """Leave /dev/null as stdin, the log as stdout and stderr, `kept` from 3 upwards in their order, and nothing else.

    `kept` end at exec, so that a program started by the worker holds no end of a pipe that speaks for the worker.
    """
    # Aside first: a target number below may be one of the sources.
    aside = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY) for fd in (log_fd, *kept)]
    for target in (1, 2):
        os.dup2(aside[0], target)
    for target, fd in enumerate(aside[1:], start=FIRST_KEPT_FD):
        os.dup2(fd, target, inheritable=False)
    os.closerange(FIRST_KEPT_FD + len(kept), os.sysconf("SC_OPEN_MAX"))
    # New ones: those of the zygote remember what kind of file they were opened on.
    sys.stdout, sys.stderr = _line_by_line(1), _line_by_line(2)


def _line_by_line(fd: int) -> io.TextIOWrapper:
    return open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def confine(limits: Limits) -> None:
    """Give up everything else that the ordinary calls of any Unix can take away."""
    os.setsid()  # a group of its own, named by its pid: ended together, out of reach of the terminal's signals
    os.chdir("/")
    os.umask(0o077)
    sys.dont_write_bytecode = True
    _limit(limits)
    if sys.platform == "linux":
        prctl.name_worker()
        prctl.refuse_new_privileges()


def _limit(limits: Limits) -> None:
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,  # a MiniApp keeps nothing on disk: its state is its inbox and its calls
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_NOFILE: limits.open_files,
    }
    if sys.platform == "linux":  # macOS refuses to lower these below what is already mapped, gigabytes at start
        wanted[resource.RLIMIT_DATA] = limits.memory_bytes
        wanted[resource.RLIMIT_AS] = limits.address_space_bytes
        wanted[resource.RLIMIT_MSGQUEUE] = 0
        wanted[resource.RLIMIT_SIGPENDING] = _PENDING_SIGNALS  # counted for the whole user
    for kind, value in wanted.items():
        _set(kind, value, value)
    # First the signal that says why, then the one that cannot be ignored.
    _set(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1)


def _set(kind: int, soft: int, hard: int) -> None:
    _, allowed = resource.getrlimit(kind)
    if allowed != resource.RLIM_INFINITY:
        soft, hard = min(soft, allowed), min(hard, allowed)
    resource.setrlimit(kind, (soft, hard))
