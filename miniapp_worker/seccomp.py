"""Which system calls a worker can still make. See seccomp(2), and `docs/isolation.md` for the reasons.

An allow-list fits, because the workload is one known program: CPython and its libraries, without children. There are
two filters. The first comes before any thread and leaves only what a unix stream socket needs to connect; the second is
the seal: no new socket, no new connection, no other filter. The kernel keeps both for every thread, for good.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from miniapp_worker import bpf, libc
from miniapp_worker.bpf import ALLOW, AllBits, NoBits, OneOf, OwnPid, Rule, null, only, refuse
from miniapp_worker.syscall_numbers import numbers_of

_SET_MODE_FILTER: Final = 1
_GET_ACTION_AVAIL: Final = 2
_TSYNC: Final = 1
_RET_KILL_PROCESS: Final = 0x80000000

_AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT: Final = 0x40000000

_ALLOWED: Final = """
read write readv writev pread64 pwrite64 preadv pwritev close lseek stat fstat lstat newfstatat statx access faccessat
faccessat2 readlink readlinkat getdents64 getcwd chdir fchdir fadvise64
mmap munmap mprotect mremap madvise brk set_robust_list rseq membarrier set_tid_address
restart_syscall exit exit_group getpid gettid getppid getuid geteuid getgid getegid getresuid getresgid getgroups
getpgrp uname sysinfo times getrusage getrlimit nanosleep gettimeofday time
poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2
pipe pipe2 timerfd_create timerfd_settime timerfd_gettime dup dup2 dup3 getsockname getpeername shutdown
rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack alarm setitimer
getitimer sched_yield getcpu getrandom sched_get_priority_max sched_get_priority_min
"""
"""`uname` and `sysinfo`: `uuid` and `platform` fail to import without the first, glibc's qsort asks the second."""

_NOT_PERMITTED: Final = """
fork vfork execve execveat ptrace process_vm_readv process_vm_writev mount umount2 pivot_root chroot setns unshare
io_uring_setup io_uring_enter io_uring_register bpf
"""

_DENIED: Final = """
bind listen accept accept4 mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat
chmod fchmod fchmodat chown fchown lchown fchownat utime utimes futimesat utimensat truncate ftruncate mknod mknodat
setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr creat fallocate
"""
"""EACCES, so that Python raises PermissionError, which libraries expect of a place that they may not write to."""

_THREAD_MUST: Final = 0x10F00
"""CLONE_VM, FS, FILES, SIGHAND, THREAD: a thread with files of its own would have its own limit of descriptors."""
_THREAD_MAY: Final = 0x7D0F00
"""And SYSVSEM, SETTLS, PARENT_SETTID, CHILD_CLEARTID, DETACHED: what glibc and musl ask for."""

# The same on both machines, unlike O_DIRECTORY and its neighbours.
_O_PATH: Final = 0o10000000
_OPEN_OTHERWISE: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | _O_PATH
"""Anything but reading: to write, or O_PATH, which Landlock lets pass."""
_O_ASYNC: Final = 0o20000

_F_SETFL: Final = 4
_O_DIRECT: Final = 0x4000 | 0x10000
"""On x86_64 and aarch64; on the other of the two each is O_DIRECTORY, which nobody sets later. Of a pipe: packets, each
of which costs its reader a turn."""
_FCNTL_COMMANDS: Final = (0, 1, 2, 3, 1030, 1032)
"""Duplicate, flags, F_DUPFD_CLOEXEC, F_GETPIPE_SZ. Not F_SETOWN, F_SETSIG, F_NOTIFY, F_SETPIPE_SZ, and no locks: those
on a file that can be read reach everybody who has it open, and no limit counts their memory."""
_IOCTL_REQUESTS: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX. Not FIOASYNC, FIOSETOWN, TIOCSTI."""
_PRCTL_NAMES: Final = (15, 16)
_FUTEX_OPERATIONS: Final = tuple(
    operation | private | by_wall_clock
    for operation in (0, 1, 3, 4, 5, 9, 10)
    for private in (0, 0x80)
    for by_wall_clock in (0, 0x100)
)
"""WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAIT_BITSET, WAKE_BITSET. Not those that lend priority: they name a
process, and say whether it exists; and they were the way out of more than one sandbox."""
_OF_ANY_PROCESS: Final = 0x80000000
"""The sign of a clock that counts another process's or thread's processor time."""
_SOL_SOCKET: Final = 1
_SOCKET_OPTIONS: Final = (3, 4, 7, 8, 17, 38, 39)
"""SO_TYPE, ERROR, SNDBUF, RCVBUF, PEERCRED, PROTOCOL, DOMAIN. Not SO_PEERPIDFD, a handle on the daemon."""

_AF_UNIX: Final = 1
_STREAM: Final = (0x1, 0x801, 0x80001, 0x80801)
"""SOCK_STREAM, with SOCK_NONBLOCK and SOCK_CLOEXEC or without."""
_MESSAGE_FLAGS: Final = 0xC16A
"""MSG_PEEK, CTRUNC, TRUNC, DONTWAIT, WAITALL, NOSIGNAL, MORE. Not OOB: it was the way out of more than one sandbox."""


class SeccompError(OSError):
    """The kernel refused a filter. The process goes on without it."""


class MachineUnknown(SeccompError):
    """There is no table of system calls for this machine."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A program for the kernel, made once and installed in many processes."""

    code: bytes
    own_pid_at: tuple[int, ...]
    """Byte offsets where the pid of the process that installs it belongs."""


def is_available() -> bool:
    """Whether this kernel takes such filters, and there is a table of calls for this machine."""
    action = ctypes.c_uint32(_RET_KILL_PROCESS)
    asked = ctypes.c_uint(_GET_ACTION_AVAIL), ctypes.c_uint(0), ctypes.byref(action)
    return sys.platform == "linux" and _INSTALL != 0 and libc.syscall(ctypes.c_long(_INSTALL), *asked) == 0


def connecting(machine: str = platform.machine()) -> Filter:
    """The first filter: everything that a worker may ever do, and connecting to the runtime.

    Raises:
        MachineUnknown: neither x86_64 nor aarch64.
    """
    # Not EPERM for what is not listed: libc falls back to an older call only when a newer one does not exist.
    return _assemble(machine, _rules(), refuse(errno.ENOSYS))


def sealing(machine: str = platform.machine()) -> Filter:
    """The second filter: it only takes away; what it lets pass still has to pass the first.

    Raises:
        MachineUnknown: neither x86_64 nor aarch64.
    """
    taken = {"socket": errno.EACCES, "connect": errno.EACCES, "seccomp": errno.EPERM}
    return _assemble(machine, {name: refuse(code) for name, code in taken.items()}, ALLOW)


def install(program: Filter) -> None:
    """Bind every thread of this process to `program`, for good. Needs no_new_privs or CAP_SYS_ADMIN.

    Raises:
        SeccompError: refused; with several threads also when one of them has filters that this thread has not.
    """
    code = bytearray(program.code)
    for offset in program.own_pid_at:
        struct.pack_into("=I", code, offset, os.getpid())
    head = _Program(len(code) // bpf.INSTRUCTION_BYTES, bytes(code))
    answer: int = libc.syscall(
        ctypes.c_long(_INSTALL), ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(_TSYNC), ctypes.byref(head)
    )
    if answer < 0:
        code_of_error = ctypes.get_errno()
        raise SeccompError(code_of_error, f"seccomp filter: {os.strerror(code_of_error)}")
    if answer > 0:
        raise SeccompError(errno.EBUSY, f"seccomp filter: thread {answer} could not be bound")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


_INSTALL: Final = numbers_of(platform.machine())["seccomp"] if platform.machine() in _AUDIT_ARCH else 0


def _assemble(machine: str, rules: Mapping[str, Rule], default: Rule) -> Filter:
    if machine not in _AUDIT_ARCH:
        raise MachineUnknown(errno.ENOSYS, f"no table of system calls for {machine}")
    numbers = numbers_of(machine)
    code, own_pid_at = bpf.assemble(
        {numbers[name]: rule for name, rule in rules.items() if name in numbers},
        default,
        audit_arch=_AUDIT_ARCH[machine],
        kill_from=_X32_BIT if machine == "x86_64" else None,
    )
    return Filter(code, own_pid_at)


def _rules() -> dict[str, Rule]:
    rules = dict.fromkeys(_ALLOWED.split(), ALLOW)
    rules |= dict.fromkeys(_NOT_PERMITTED.split(), refuse(errno.EPERM))
    rules |= dict.fromkeys(_DENIED.split(), refuse(errno.EACCES))
    own_process = only(OneOf(0, (OwnPid(),)), otherwise=errno.EPERM)
    unix_stream = OneOf(0, (_AF_UNIX,)), OneOf(1, _STREAM)
    own_clock = only(NoBits(0, _OF_ANY_PROCESS), otherwise=errno.EINVAL)
    ordinary_flags = NoBits(3, ~_MESSAGE_FLAGS & 0xFFFFFFFF)
    return rules | {
        "open": only(NoBits(1, _OPEN_OTHERWISE), otherwise=errno.EACCES),
        "openat": only(NoBits(2, _OPEN_OTHERWISE), otherwise=errno.EACCES),
        "pipe2": only(NoBits(1, ~(os.O_CLOEXEC | os.O_NONBLOCK) & 0xFFFFFFFF), otherwise=errno.EINVAL),
        "clone": only(AllBits(0, _THREAD_MUST), NoBits(0, ~_THREAD_MAY & 0xFFFFFFFF), otherwise=errno.EPERM),
        "kill": own_process,
        "tgkill": own_process,
        "prctl": only(OneOf(0, _PRCTL_NAMES), otherwise=errno.EPERM),
        "prlimit64": only(OneOf(0, (0,)), *null(2), otherwise=errno.EPERM),
        "sched_getaffinity": only(OneOf(0, (0,)), otherwise=errno.ENOSYS),
        # libzmq aborts when its thread cannot ask for its scheduling, and set what it has already; an app may use it.
        # The answer is 0, as if it were the ordinary one: really asked, it would say of any process whether it exists.
        "sched_getscheduler": refuse(0),
        "sched_getparam": refuse(0),
        "sched_setscheduler": refuse(0),
        "sched_setparam": refuse(0),
        "futex": only(OneOf(1, _FUTEX_OPERATIONS), otherwise=errno.ENOSYS),
        "clock_gettime": own_clock,
        "clock_getres": own_clock,
        "clock_nanosleep": own_clock,
        "fcntl": Rule(
            ((OneOf(1, _FCNTL_COMMANDS),), (OneOf(1, (_F_SETFL,)), NoBits(2, _O_ASYNC | _O_DIRECT))),
            otherwise=errno.EPERM,
        ),
        "ioctl": only(OneOf(1, _IOCTL_REQUESTS), otherwise=errno.EPERM),
        "sendto": only(ordinary_flags, *null(4), otherwise=errno.EPERM),
        "recvfrom": only(ordinary_flags, otherwise=errno.EPERM),
        "getsockopt": only(OneOf(1, (_SOL_SOCKET,)), OneOf(2, _SOCKET_OPTIONS), otherwise=errno.ENOPROTOOPT),
        "socketpair": only(*unix_stream, otherwise=errno.EPERM),
        "socket": only(*unix_stream, otherwise=errno.EACCES),
        "connect": ALLOW,
        "seccomp": ALLOW,
    }
