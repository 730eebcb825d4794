"""A small disk that only this process and its children see."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path
from typing import Final

_CLONE_NEWNS: Final = 0x20000
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18


def mount(folder: Path, megabytes: int) -> str | None:
    """Mount one for the rest of this process's life; or why that cannot be had, which changes nothing.

    Root alone: in a user namespace a daemon would take itself for root and confine its workers in another way.
    """
    if os.geteuid() != 0:
        return "only root may mount a disk"
    libc = ctypes.CDLL(None, use_errno=True)
    size = f"size={megabytes}m,mode=700".encode()
    done = (
        libc.unshare(_CLONE_NEWNS) == 0
        and libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) == 0
        and libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, size) == 0
    )
    return None if done else f"no disk may be mounted here: {os.strerror(ctypes.get_errno())}"


def fill(file: Path, leave_bytes: int) -> None:
    """Make a file of all free space but so much."""
    disk = os.statvfs(file.parent)
    with file.open("xb", buffering=0) as full, contextlib.suppress(OSError):  # somebody else was quicker to take it
        left = disk.f_bavail * disk.f_frsize - leave_bytes
        while left > 0:
            left -= full.write(bytes(min(left, 1 << 20)))
