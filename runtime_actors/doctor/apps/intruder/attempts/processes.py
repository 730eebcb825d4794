"""Other processes: the daemon's memory, its life, its share of the machine, and what can be learned of it."""
# ruff: noqa: PTH208

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import closing
from typing import Final

from .attempt import Act, Refused, reached, syscall
from .decoys import Decoys
from .files import read

_F_SETSIG: Final = 10
_O_ASYNC: Final = 0o20000
_F_SETOWN_EX: Final = 15
_FIOSETOWN: Final = 0x8901
_NOFILE: Final = 7
_PTRACE_SEIZE: Final = 0x4206
_SIGEV_THREAD_ID: Final = 4
_MADV_COLD: Final = 20
_NO_PROCESS: Final = 1 << 30
_FUTEX_LOCK_PI_PRIVATE: Final = 6 | 128


def _by_name(name: str, *rest: int | bytes | None) -> Act:
    """A system call whose first argument is the victim's pid."""
    return lambda decoys: syscall(name, decoys.victim, *rest)


def _memory(name: str) -> Act:
    def act(decoys: Decoys) -> None:
        here = ctypes.create_string_buffer(b"intruder", 8)
        local = struct.pack("PN", ctypes.addressof(here), 8)
        syscall(name, decoys.victim, local, 1, struct.pack("PN", decoys.victim_address, 8), 1, 0)

    return act


def _by_handle(act: Callable[[int, Decoys], object]) -> Act:
    def run(decoys: Decoys) -> None:
        handle = os.pidfd_open(decoys.victim)
        try:
            act(handle, decoys)
        finally:
            os.close(handle)

    return run


def _advise(handle: int, decoys: Decoys) -> None:
    page = decoys.victim_address & -mmap.PAGESIZE
    syscall("process_madvise", handle, struct.pack("PN", page, mmap.PAGESIZE), 1, _MADV_COLD, 0)


def _on_data(owner: Callable[[socket.socket, int], object]) -> Act:
    """Data that arrives makes the kernel send SIGKILL to the owner of the socket."""

    def act(decoys: Decoys) -> None:
        one, other = socket.socketpair()
        with closing(one), closing(other):
            owner(one, decoys.sigio_victim)
            fcntl.fcntl(one, _F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(one, fcntl.F_SETFL, fcntl.fcntl(one, fcntl.F_GETFL) | _O_ASYNC)
            other.send(b"!")

    return act


def _timer(decoys: Decoys) -> None:
    event = struct.pack("QiiI", 0, signal.SIGUSR1, _SIGEV_THREAD_ID, decoys.victim) + bytes(44)
    syscall("timer_create", time.CLOCK_MONOTONIC, event, bytes(8))


def _schedule(decoys: Decoys) -> None:
    """The filter says that it was done, for libzmq's sake; so look whether it was."""
    os.sched_setscheduler(decoys.victim, os.SCHED_BATCH, os.sched_param(0))
    if os.sched_getscheduler(decoys.victim) != os.SCHED_BATCH:
        raise Refused
    os.sched_setscheduler(decoys.victim, os.SCHED_OTHER, os.sched_param(0))


def _realtime(_: Decoys) -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    if os.sched_getscheduler(0) != os.SCHED_FIFO:
        raise Refused
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _schedule_of_victim(decoys: Decoys) -> None:
    """Whoever answers the same for a process that cannot exist has said nothing."""
    os.sched_getscheduler(decoys.victim)
    try:
        os.sched_getscheduler(_NO_PROCESS)
    except ProcessLookupError:
        return
    raise Refused


def _processor_time(decoys: Decoys) -> None:
    time.clock_gettime(~decoys.victim << 3 | 2)


def _lock_of_victim(decoys: Decoys) -> None:
    """A lock that lends its priority: the kernel looks for the process that is said to hold it."""
    syscall("futex", struct.pack("I", decoys.victim), _FUTEX_LOCK_PI_PRIVATE, 0, struct.pack("qq", 1, 0))


def _proc(act: Callable[[str], object], name: str) -> Act:
    return lambda decoys: act(f"/proc/{decoys.victim}/{name}")


ALL: Final[dict[str, Act]] = {
    "trace": lambda decoys: syscall("ptrace", _PTRACE_SEIZE, decoys.victim, 0, 0),
    "read_memory": _memory("process_vm_readv"),
    "write_memory": _memory("process_vm_writev"),
    "signal_victim": lambda decoys: os.kill(decoys.victim, 0),
    "signal_parent": lambda _: os.kill(os.getppid(), 0),
    "signal_group": lambda decoys: os.kill(-decoys.victim, 0),
    "signal_everyone": lambda _: os.kill(-1, 0),
    "signal_thread": _by_name("tkill", 0),
    "signal_with_data": _by_name("rt_sigqueueinfo", 0, struct.pack("iiiii", 0, 0, -1, 0, 0) + bytes(108)),
    "signal_by_handle": _by_handle(lambda handle, _: signal.pidfd_send_signal(handle, 0)),
    "kill_by_data": _on_data(lambda one, victim: fcntl.fcntl(one, fcntl.F_SETOWN, victim)),
    "kill_by_data_of_thread": _on_data(
        lambda one, victim: fcntl.fcntl(one, _F_SETOWN_EX, struct.pack("ii", 1, victim))
    ),
    "kill_by_ioctl": _on_data(lambda one, victim: fcntl.ioctl(one, _FIOSETOWN, struct.pack("i", victim))),
    "signal_by_timer": reached(_timer, errno.EINVAL),
    "steal_descriptor": _by_handle(lambda handle, _: os.close(syscall("pidfd_getfd", handle, 1, 0))),
    "advise_memory": _by_handle(_advise),
    "move_memory": _by_name("move_pages", 0, None, None, None, 0),
    "compare": lambda decoys: syscall("kcmp", decoys.victim, os.getpid(), 1, 0, 0),
    "read_limits": _by_name("prlimit64", _NOFILE, None, bytes(16)),
    "change_limits": _by_name("prlimit64", _NOFILE, struct.pack("QQ", 512, 512), None),
    "priority": lambda decoys: syscall("setpriority", 0, decoys.victim, 5),
    "disk_priority": lambda decoys: syscall("ioprio_set", 1, decoys.victim, 2 << 13 | 7),
    "processors": _by_name("sched_setaffinity", 8, struct.pack("Q", 1)),
    "schedule": _schedule,
    "realtime": _realtime,
    "move_to_group": reached(_by_name("setpgid", 0), errno.EPERM, errno.ESRCH),
    "locks_of_thread": _by_name("get_robust_list", bytes(8), bytes(8)),
    "proc_environment": _proc(read, "environ"),
    "proc_memory": _proc(lambda path: os.close(os.open(path, os.O_RDONLY)), "mem"),
    "proc_descriptors": _proc(os.listdir, "fd"),
    "proc_root": _proc(os.listdir, "root"),
    "proc_command": _proc(read, "cmdline"),
    "proc_status": _proc(read, "status"),
    "proc_list": lambda _: os.listdir("/proc"),
    "proc_sockets": lambda _: read("/proc/net/unix"),
    "look_up_process": _proc(os.stat, ""),
    "session": _by_name("getsid"),
    "schedule_of_victim": _schedule_of_victim,
    "processor_time": _processor_time,
    "lock_of_victim": reached(_lock_of_victim, errno.EPERM, errno.ETIMEDOUT),
}
LOOK_UPS: Final = frozenset({"look_up_process"})
