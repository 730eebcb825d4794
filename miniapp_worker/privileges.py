"""What a worker could do by who it is: its uid, its capabilities, and whether others may look into its memory."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from miniapp_worker import libc

_PR_SET_DUMPABLE: Final = 4
_PR_CAPBSET_DROP: Final = 24
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_CAPABILITY_VERSION_3: Final = 0x20080522
_LAST_POSSIBLE_CAPABILITY: Final = 63

_CAP_CHOWN: Final = 0
_CAP_KILL: Final = 5
_CAP_SETGID: Final = 6
_CAP_SETUID: Final = 7
_CAP_SYS_ADMIN: Final = 21

_UNUSED_UIDS: Final = ((0x70000000, 65536), (60706, 478))
"""(first, how many) that no system hands out, by the table of systemd's "Users, Groups, UIDs and GIDs"."""


class _CapHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapData(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


_OWN: Final = _CapHeader(_CAPABILITY_VERSION_3, 0)
_NONE: Final = (_CapData * 2)()


@dataclass(frozen=True, slots=True)
class UidRange:
    """Uids, and gids of the same numbers, that belong to nobody else."""

    first: int
    count: int


def effective_capabilities() -> int:
    """A bit a capability, as the kernel reports it."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def may_unshare() -> bool:
    """Whether this process makes namespaces without a user namespace first."""
    return bool(effective_capabilities() >> _CAP_SYS_ADMIN & 1)


def private_uids() -> UidRange | None:
    """Uids that this process may give to workers, or None: then they keep its own.

    Giving one away needs the right to, and the daemon must still be able to signal a worker that has one, and to give
    it its socket. In a container only some uids exist.
    """
    held = effective_capabilities()
    if not all(held >> needed & 1 for needed in (_CAP_SETUID, _CAP_SETGID, _CAP_KILL, _CAP_CHOWN)):
        return None
    maps = (_mapped("uid_map"), _mapped("gid_map"))
    for first, count in _UNUSED_UIDS:
        if all(any(start <= first and first + count <= end for start, end in ids) for ids in maps):
            return UidRange(first, count)
    return None


def tasks_of_user() -> int:
    """Processes and threads of this process's uid, as RLIMIT_NPROC counts them; those that /proc shows."""
    uid, count = str(os.getuid()), 0
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            rows = dict(line.partition(":")[::2] for line in path.read_text(errors="replace").splitlines())
            count += int(rows["Threads"]) if rows["Uid"].split()[0] == uid else 0
        except (OSError, LookupError, ValueError):  # it has just ended
            continue
    return count


def become(uid: int) -> None:
    """Take `uid`, and the gid of the same number, for good. Clears PDEATHSIG: ask for it again, then check the parent.

    Raises:
        OSError: not allowed, or there is no such uid in this user namespace.
    """
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def drop_bounding_set() -> None:
    """No later exec can give a capability. Before `become`, which takes the right to do it; without the right, nothing.

    no_new_privs says the same of exec; this is the second lock.
    """
    for capability in range(_LAST_POSSIBLE_CAPABILITY + 1):
        if _prctl(_PR_CAPBSET_DROP, capability) != 0:
            return


def drop_capabilities() -> None:
    """Give up every capability, those in a user namespace of one's own too."""
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)  # kernels that have none refuse
    if libc.capset(ctypes.byref(_OWN), ctypes.byref(_NONE)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"capset: {os.strerror(code)}")


def set_dumpable(*, dumpable: bool) -> None:
    """Whether processes of the same uid may trace this one, read its memory and its files in /proc.

    While it is not, its own files in /proc belong to root, the uid map too.
    """
    if _prctl(_PR_SET_DUMPABLE, int(dumpable)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"PR_SET_DUMPABLE: {os.strerror(code)}")


def _prctl(operation: int, argument: int) -> int:
    zero = ctypes.c_ulong(0)
    answer: int = libc.prctl(ctypes.c_int(operation), ctypes.c_ulong(argument), zero, zero, zero)
    return answer


def _mapped(name: str) -> list[tuple[int, int]]:
    """(first, one past the last) ids of this user namespace that exist outside."""
    rows = (line.split() for line in Path("/proc/self", name).read_text(encoding="ascii").splitlines())
    return [(int(inside), int(inside) + int(count)) for inside, _, count in rows]
