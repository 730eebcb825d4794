"""Functions of libc that Python does not offer, looked up once: each worker would pay for it with memory and time."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from typing import Final, NoReturn

Function = Callable[..., int]


def _missing(*_: object) -> NoReturn:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def _found(name: str) -> Function:
    function: Function = getattr(_libc, name, _missing)
    return function


_libc: Final = ctypes.CDLL(None, use_errno=True)

syscall = _found("syscall")
# The others are Linux's.
capset = _found("capset")
mount = _found("mount")
pivot_root = _found("pivot_root")
prctl = _found("prctl")
umount2 = _found("umount2")
unshare = _found("unshare")
