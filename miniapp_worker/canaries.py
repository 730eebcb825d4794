"""Attempts that a sealed worker makes against itself, before any MiniApp code is in it: each must fail in its own way.

What the kernel says about a process (`/proc/PID/status`) does not mention Landlock, and a filter that is installed may
still be the wrong one. An attempt that gets through does no harm: nothing is opened for long, nobody is signalled.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from miniapp_worker import libc
from miniapp_worker.syscall_numbers import numbers_of

Act = Callable[[], object]

_O_ASYNC: Final = 0o20000
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_CLONE_NEWUSER: Final = 0x10000000
_CLONE3_TOO_SMALL: Final = 1
"""A size of its arguments with which no kernel clones: where the call is not refused it fails with EINVAL."""

_numbers: Final = numbers_of(platform.machine()) if platform.machine() in ("x86_64", "aarch64") else {}


@dataclass(frozen=True, slots=True)
class Canary:
    """One attempt and the errno that the layer it watches answers with."""

    name: str
    layer: str
    """`landlock`, `filter` (the first one) or `seal`."""
    expected: int
    act: Act


@dataclass(frozen=True, slots=True)
class Finding:
    """How one attempt went."""

    name: str
    layer: str
    got: int
    """An errno; 0 when it got through."""
    ok: bool


def run(*, with_landlock: bool = True, with_filters: bool = True) -> tuple[Finding, ...]:
    """Make every attempt. Those against a layer that is not there are left out: the level says that it is missing."""
    chosen = (canary for canary in ALL if (with_landlock if canary.layer == "landlock" else with_filters))
    return tuple(_try(canary) for canary in chosen)


def held(findings: Iterable[Finding]) -> dict[str, bool]:
    """For each layer, whether every attempt against it failed as it should."""
    layers: dict[str, bool] = {}
    for finding in findings:
        layers[finding.layer] = layers.get(finding.layer, True) and finding.ok
    return layers


def _try(canary: Canary) -> Finding:
    try:
        canary.act()
        got = 0
    except OSError as refused:
        got = refused.errno or -1
    return Finding(canary.name, canary.layer, got, got == canary.expected)


def opens_root() -> bool:
    """Before Landlock: where something else refuses it already, its refusal later proves nothing."""
    try:
        _open_root()
    except OSError:
        return False
    return True


def _open_root() -> None:
    os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY))


def _open_to_write() -> None:
    os.close(os.open("/dev/null", os.O_WRONLY))


def _new_socket(family: int, kind: int) -> Act:
    return lambda: socket.socket(family, kind).close()


def _pair(kind: int) -> None:
    for end in socket.socketpair(socket.AF_UNIX, kind):
        end.close()


def _connect() -> None:
    one, other = socket.socketpair()
    with closing(one), closing(other):
        one.connect("\0lineup-canary")


def _fork() -> None:
    # Not os.fork, which prepares a child with an interpreter at some expense, before the kernel refuses.
    child: int = libc.syscall(
        ctypes.c_long(_numbers["clone"]), *(ctypes.c_long(one) for one in (signal.SIGCHLD, 0, 0, 0, 0))
    )
    if child == 0:
        os._exit(0)
    if child < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    os.waitpid(child, 0)


def _own_signals() -> None:
    one, other = socket.socketpair()
    with closing(one), closing(other):
        fcntl.fcntl(one, fcntl.F_SETOWN, os.getpid())


def _asynchronous() -> None:
    one, other = socket.socketpair()
    with closing(one), closing(other):
        fcntl.fcntl(one, fcntl.F_SETFL, _O_ASYNC)


def _out_of_band() -> None:
    one, other = socket.socketpair()
    with closing(one), closing(other):
        one.send(b"!", socket.MSG_OOB)


def _limits_of_parent() -> None:
    _call("prlimit64", os.getppid(), 7, 0, 0)  # RLIMIT_NOFILE, asked only


def _call(name: str, *arguments: int) -> None:
    words = (ctypes.c_long(argument) for argument in arguments)
    if libc.syscall(ctypes.c_long(_numbers[name]), *words) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _calling(name: str, *arguments: int) -> Act:
    return lambda: _call(name, *arguments)


ALL: Final = (
    Canary("list_root", "landlock", errno.EACCES, _open_root),
    Canary("open_to_write", "filter", errno.EACCES, _open_to_write),
    Canary("network_socket", "filter", errno.EACCES, _new_socket(socket.AF_INET, socket.SOCK_STREAM)),
    Canary("datagram_pair", "filter", errno.EPERM, lambda: _pair(socket.SOCK_DGRAM)),
    Canary("fork", "filter", errno.EPERM, _fork),
    Canary("clone3", "filter", errno.ENOSYS, _calling("clone3", 0, _CLONE3_TOO_SMALL)),
    Canary("exec", "filter", errno.EPERM, _calling("execve", 0, 0, 0)),
    Canary("signal_parent", "filter", errno.EPERM, lambda: os.kill(os.getppid(), 0)),
    Canary("signal_everyone", "filter", errno.EPERM, lambda: os.kill(-os.getpid(), 0)),
    Canary("signal_owner", "filter", errno.EPERM, _own_signals),
    Canary("signal_on_data", "filter", errno.EPERM, _asynchronous),
    Canary("out_of_band", "filter", errno.EPERM, _out_of_band),
    Canary("trace_parent", "filter", errno.EPERM, _calling("ptrace", 0x4206, -1)),
    Canary("limits_of_parent", "filter", errno.EPERM, _limits_of_parent),
    Canary("outlive_parent", "filter", errno.EPERM, _calling("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL)),
    Canary("show_memory", "filter", errno.EPERM, _calling("prctl", _PR_SET_DUMPABLE, 0)),
    Canary("new_user_namespace", "filter", errno.EPERM, _calling("unshare", _CLONE_NEWUSER | 1)),
    Canary("io_uring", "filter", errno.EPERM, _calling("io_uring_setup", 0, 0)),
    Canary("unix_socket", "seal", errno.EACCES, _new_socket(socket.AF_UNIX, socket.SOCK_STREAM)),
    Canary("connect", "seal", errno.EACCES, _connect),
    Canary("another_filter", "seal", errno.EPERM, _calling("seccomp", 1, 0, 0)),
)
