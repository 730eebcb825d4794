"""Which files a worker can still open, and what else Landlock takes from it. See landlock(7).

Only reading is ever granted, and only beneath the given paths; every other right that the kernel knows is taken
without exception. Landlock binds threads, not processes: `restrict_self` must come before any second thread exists.
It is no boundary for what needs no opening: `stat`, `chdir`, and below ABI 9 connecting to a unix socket by its path.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from miniapp_worker import libc
from miniapp_worker.readable import StrPath

NEWEST_KNOWN_ABI: Final = 10

# The same numbers on every architecture: they came after the tables were unified.
CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_LOG_SAME_EXEC_OFF: Final = 1

_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_RESOLVE_UNIX: Final = 1 << 16

_ABI_TCP: Final = 4
_ABI_SCOPES: Final = 6
_ABI_LOG_FLAGS: Final = 7
_ABI_RESOLVE_UNIX: Final = 9

_FS_BITS: Final = ((1, 13), (2, 14), (3, 15), (5, 16), (_ABI_RESOLVE_UNIX, 17))
"""(ABI, how many of the lowest bits it handles): 2 REFER, 3 TRUNCATE, 5 IOCTL_DEV, 9 RESOLVE_UNIX."""
_NET_BITS: Final = ((_ABI_TCP, 2), (10, 4))
"""4 bind and connect TCP; 10 the same for UDP."""
_SCOPE_BITS: Final = ((_ABI_SCOPES, 2),)
"""6 abstract unix sockets and signals, outside the domain."""


class LandlockError(OSError):
    """The kernel refused a step of Landlock that it should have taken. The process is not confined by it."""


class _RulesetAttr(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


@dataclass(frozen=True, slots=True)
class Handled:
    """What a ruleset takes away where no rule gives it back: bit masks of the kernel's `landlock.h`."""

    fs: int
    net: int
    scoped: int
    attr_bytes: int
    """How much of the structure a kernel of that ABI knows."""


def kernel_abi() -> int:
    """The ABI of the running kernel; 0 where Landlock is not compiled in, not switched on, or forbidden."""
    if sys.platform != "linux":
        return 0
    found: int = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(ASK_VERSION))
    return max(found, 0)


def handled_at(abi: int) -> Handled:
    """What can be taken at `abi`. Of a newer kernel only what is known here is used: the rest stays as it is."""
    size = 24 if abi >= _ABI_SCOPES else 16 if abi >= _ABI_TCP else 8
    return Handled(_mask(_FS_BITS, abi), _mask(_NET_BITS, abi), _mask(_SCOPE_BITS, abi), size)


def restrict_self(readable: Iterable[StrPath], connectable: Iterable[StrPath], *, abi: int | None = None) -> int:
    """Confine this thread and all it starts from now on; the ABI in force is returned.

    `readable` are files and directories; beneath a directory everything can be read and listed. `connectable` are
    unix sockets that may be connected to by path, which matters from ABI 9 on. What does not exist is left out.
    `abi` uses less than the kernel has. Needs no_new_privs or CAP_SYS_ADMIN.

    Raises:
        LandlockError: there is no Landlock, or it refused. Nothing is taken then.
    """
    found = kernel_abi()
    used = min(found, NEWEST_KNOWN_ABI, abi if abi is not None else found)
    if used == 0:
        raise LandlockError(errno.ENOSYS, "this kernel has no Landlock")
    handled = handled_at(used)
    attr = _RulesetAttr(handled.fs, handled.net, handled.scoped)
    ruleset = _call(CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(handled.attr_bytes), ctypes.c_uint32(0))
    try:
        for path in readable:
            _allow(ruleset, path, _READ_FILE | _READ_DIR)
        if handled.fs & _RESOLVE_UNIX:
            for path in connectable:
                _allow(ruleset, path, _RESOLVE_UNIX)
        # A hostile app could fill the audit log with its denials, and each start's own checks would be in it.
        flags = _LOG_SAME_EXEC_OFF if used >= _ABI_LOG_FLAGS else 0
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(flags))
    finally:
        os.close(ruleset)
    return used


def _mask(bits: Iterable[tuple[int, int]], abi: int) -> int:
    return max(((1 << count) - 1 for since, count in bits if abi >= since), default=0)


def _allow(ruleset: int, path: StrPath, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= ~_READ_DIR  # the kernel refuses a directory's right on anything else
        rule = _PathBeneath(rights, fd)
        _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(fd)


def _call(number: int, *arguments: object) -> int:
    answer: int = libc.syscall(ctypes.c_long(number), *arguments)
    if answer < 0:
        code = ctypes.get_errno()
        raise LandlockError(code, f"Landlock call {number}: {os.strerror(code)}")
    return answer
