"""The three things a process tells the Linux kernel about itself here. See prctl(2)."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Final

from miniapp_worker import libc

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_NO_NEW_PRIVS: Final = 38

# Made once, in the zygote: in a worker each of these costs a tenth of a fork.
_NAME: Final = ctypes.create_string_buffer(b"lineup-worker")  # the kernel keeps 15 bytes
_ZERO: Final = ctypes.c_ulong(0)


def die_with_parent(parent_pid: int) -> bool:
    """Have the kernel kill this process when the parent thread it was born to ends.

    False when the parent is no longer `parent_pid`: it died before the request reached the kernel,
    so no signal will ever come, and the caller must end by itself.
    """
    if os.getppid() != parent_pid:
        return False
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent_pid


def refuse_new_privileges() -> None:
    """From here on no exec, of a set-user-id program for one, gives more rights than this process has."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def name_worker() -> None:
    """What `ps` and `top` show."""
    _prctl(_PR_SET_NAME, ctypes.addressof(_NAME))


def _prctl(operation: int, argument: int) -> None:
    if libc.prctl(ctypes.c_int(operation), ctypes.c_ulong(argument), _ZERO, _ZERO, _ZERO) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {operation}: {os.strerror(code)}")
