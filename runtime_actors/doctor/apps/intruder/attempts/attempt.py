"""How an attempt is made, and how it can end."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Callable
from typing import Final, Literal

from miniapp_worker.syscall_numbers import numbers_of

from .decoys import Decoys

Act = Callable[[Decoys], object]
"""Returning is success. A refusal is an OSError, or `Refused`."""
Outcome = Literal["open", "stopped", "capped"]


class Refused(Exception):
    """Stopped by an answer that is no errno."""


class Capped(Exception):
    """A bomb went off, and a limit bounded it."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


def ended(act: Act, decoys: Decoys) -> tuple[Outcome, str | None]:
    """Make an attempt; how it ended, and the name of the errno."""
    try:
        act(decoys)
    except Refused:
        return "stopped", None
    except Capped as capped:
        return "capped", _name(capped.code)
    except OSError as refused:
        return "stopped", _name(refused.errno)
    return "open", None


def _name(code: int | None) -> str | None:
    return None if code is None else errno.errorcode.get(code, str(code))


def reached(act: Act, *answers: int) -> Act:
    """An attempt that asks for nonsense: when the kernel gets so far as to say so, nothing has stopped it."""

    def run(decoys: Decoys) -> None:
        try:
            act(decoys)
        except OSError as answer:
            if answer.errno not in answers:
                raise

    return run


_MORE: Final = """
memfd_create 319 279, shmget 29 194, shmctl 31 195, semget 64 190, semctl 66 191, mq_open 240 180, mq_unlink 241 181,
perf_event_open 298 241, userfaultfd 323 282, add_key 248 217, request_key 249 218, setpriority 141 140,
ioprio_set 251 30, sched_setaffinity 203 122, personality 135 92, name_to_handle_at 303 264, open_by_handle_at 304 265,
pidfd_getfd 438 438, memfd_secret 447 447, open_tree 428 428, fsopen 430 430, openat2 437 437, flock 73 32,
inotify_init1 294 26, fanotify_init 300 262, kcmp 312 272, process_madvise 440 440, move_pages 279 239,
timer_create 222 107, mlock 149 228, splice 275 76, reboot 169 142, init_module 175 105, kexec_load 246 104,
sethostname 170 161, syslog 103 116, swapoff 168 225, acct 163 89, landlock_create_ruleset 444 444,
modify_ldt 154 -, setpgid 109 154
"""
# name, x86_64, aarch64: from the kernel's own headers, as `numbers_of` is


def _numbers() -> dict[str, int]:
    machine = platform.machine()
    rows = (row.split() for row in _MORE.replace("\n", " ").split(","))
    more = {name: own for name, *both in rows if (own := both[machine == "aarch64"]) != "-"}
    return numbers_of(machine) | {name: int(number) for name, number in more.items()}


NUMBERS: Final = _numbers()
_libc: Final = ctypes.CDLL(None, use_errno=True)


def syscall(name: str, *arguments: int | bytes | None) -> int:
    """Make a system call; bytes are handed over as a pointer to them."""
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    answer: int = _libc.syscall(ctypes.c_long(NUMBERS[name]), *words)
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def calling(name: str, *arguments: int | bytes | None) -> Act:
    """An attempt that is one system call."""
    return lambda _: syscall(name, *arguments)


def opening(name: str, *arguments: int | bytes | None) -> Act:
    """An attempt that is one system call and, if it succeeds, leaves a descriptor."""
    return lambda _: os.close(syscall(name, *arguments))
