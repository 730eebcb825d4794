"""A view of its own for a worker: no network, and a root in which only what it may read exists. See namespaces(7).

Not everywhere allowed: containers often forbid it, some systems to ordinary users only. So the zygote finds out once
(`find_way`) what works here, and each worker goes that way (`enter`). Without a way the other layers still hold.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from miniapp_worker import libc
from miniapp_worker.privileges import may_unshare, set_dumpable
from miniapp_worker.readable import Readable, StrPath

_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUTS: Final = 0x04000000
_CLONE_NEWIPC: Final = 0x08000000
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000
_ALWAYS: Final = _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWUTS

# The same numbers on every architecture, pivot_root excepted.
OPEN_TREE: Final = 428
_MOVE_MOUNT: Final = 429
_MOUNT_SETATTR: Final = 442

_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_OPEN_TREE_CLONE: Final = 1
_OPEN_TREE_CLOEXEC: Final = os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_ATTR_RDONLY_NOSUID_NODEV: Final = 1 | 2 | 4

_MS_NOSUID_NODEV_NOEXEC: Final = 2 | 4 | 8
_MS_REC: Final = 0x4000
_MS_PRIVATE: Final = 1 << 18
_MNT_DETACH: Final = 2

_STAGING: Final = ("/tmp", "/run", "/var", "/usr")  # noqa: S108 - covered by a tmpfs, in a mount namespace of its own
_HOST_NAME: Final = "miniapp"
_EVERYWHERE: Final = {"user", "net", "ipc", "uts", "mnt"}


class NamespaceError(OSError):
    """A step failed. A process that is neither in nor out must end."""


@dataclass(frozen=True, slots=True)
class Way:
    """How namespaces are entered here."""

    by_user: bool
    """Through a user namespace first: without CAP_SYS_ADMIN there is no other way."""
    with_root: bool
    """Mounting works too, so a worker gets a root of its own."""


_BEST_FIRST: Final = (
    Way(by_user=False, with_root=True),
    Way(by_user=True, with_root=True),
    Way(by_user=False, with_root=False),
    Way(by_user=True, with_root=False),
)


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


_READ_ONLY: Final = _MountAttr(set=_ATTR_RDONLY_NOSUID_NODEV)
_ATTR_BYTES: Final = ctypes.c_size_t(ctypes.sizeof(_MountAttr))


def find_way(readable: Readable) -> Way | None:
    """The best way that works in a forked child; None if none does. For a process with one thread."""
    for way in _BEST_FIRST:
        if (way.by_user or may_unshare()) and _works(way, readable):
            return way
    return None


def enter(way: Way, readable: Readable, socket_path: StrPath | None) -> frozenset[str]:
    """Enter namespaces of one's own; their names in /proc/self/ns are returned, each seen to have changed.

    With a root of its own only `readable` is in it, read-only, and the unix socket at `socket_path`. Needs a process
    with one thread. Every capability within a new user namespace is held afterwards: drop them.

    Raises:
        NamespaceError: not allowed, no room for more namespaces, or it stopped half way.
    """
    before = _own_namespaces()
    uid, gid = os.geteuid(), os.getegid()
    flags = _ALWAYS | (_CLONE_NEWUSER if way.by_user else 0) | (_CLONE_NEWNS if way.with_root else 0)
    if libc.unshare(ctypes.c_int(flags)) != 0:
        raise NamespaceError(ctypes.get_errno(), "namespaces: the kernel gives none")
    try:
        if way.by_user:
            _map_ids(uid, gid)
        socket.sethostname(_HOST_NAME)
        after = _own_namespaces()  # while there is a /proc
        if way.with_root:
            _move_into_own_root(readable, socket_path)
    except OSError as error:
        raise NamespaceError(error.errno, f"namespaces: {error}") from error
    return frozenset(name for name, inode in after.items() if before.get(name) != inode)


def _works(way: Way, readable: Readable) -> bool:
    child = os.fork()
    if child == 0:
        worked = False
        try:
            worked = bool(enter(way, readable, None))
        finally:
            os._exit(0 if worked else 1)
    return os.waitpid(child, 0)[1] == 0


def _own_namespaces() -> dict[str, int]:
    found = {}
    for name in _EVERYWHERE:
        try:
            found[name] = os.stat(f"/proc/self/ns/{name}").st_ino  # noqa: PTH116 - in every worker: see `Readable`
        except OSError:  # not compiled in
            continue
    return found


def _map_ids(uid: int, gid: int) -> None:
    set_dumpable(dumpable=True)  # the files below belong to root otherwise
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path("/proc/self", name).write_text(text, encoding="ascii")


def _move_into_own_root(readable: Readable, socket_path: StrPath | None) -> None:
    usual = os.umask(0o022)  # whatever uid the worker takes later must pass through the folders made here
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE, None)  # nothing below is seen outside
    sources = [*readable.trees, *([os.fspath(socket_path)] if socket_path else [])]
    copies = [(path, _detached_copy(path)) for path in sources]  # first: the staging place may cover them
    staging = next(place for place in _STAGING if os.path.isdir(place))  # noqa: PTH112 - a string is wanted
    _mount("lineup", staging, "tmpfs", _MS_NOSUID_NODEV_NOEXEC, "mode=0755,size=64k")
    for path, tree in copies:
        _attach(tree, f"{staging}{path}")
    _link(readable.links, staging)
    os.chdir(staging)
    _check(libc.pivot_root(b".", b"."), "pivot_root")
    _check(libc.umount2(b".", _MNT_DETACH), "umount")
    os.chdir("/")
    os.umask(usual)
    _make_read_only(_AT_FDCWD, b"/", 0)


def _detached_copy(path: str) -> int:
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    tree = _syscall(OPEN_TREE, ctypes.c_int(_AT_FDCWD), os.fsencode(path), ctypes.c_uint(flags))
    _make_read_only(tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE)
    return tree


def _make_read_only(directory: int, path: bytes, flags: int) -> None:
    # Unlike a remount this leaves every other flag of the mount as it is, and those a user may not clear.
    _syscall(_MOUNT_SETATTR, ctypes.c_int(directory), path, ctypes.c_uint(flags), ctypes.byref(_READ_ONLY), _ATTR_BYTES)


def _attach(tree: int, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.mkdir(target)  # noqa: PTH102
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    destination = (ctypes.c_int(_AT_FDCWD), os.fsencode(target))
    _syscall(_MOVE_MOUNT, ctypes.c_int(tree), b"", *destination, ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH))
    os.close(tree)


def _link(links: Iterable[tuple[str, str]], staging: str) -> None:
    for name, real in links:
        placed = f"{staging}{name}"
        try:
            os.makedirs(os.path.dirname(placed), exist_ok=True)  # noqa: PTH103, PTH120
            os.symlink(real, placed)  # noqa: PTH211
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.EROFS):  # a tree that is in place has it
                raise


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None) -> None:
    done = libc.mount(_text(source), _text(target), _text(kind), ctypes.c_ulong(flags), _text(options))
    _check(done, f"mount {target}")


def _text(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _syscall(number: int, *arguments: object) -> int:
    answer: int = libc.syscall(ctypes.c_long(number), *arguments)
    _check(answer, f"call {number}")
    return answer


def _check(answer: int, what: str) -> None:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
