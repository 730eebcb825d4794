"""Files of others: read, find, change, or leave some where none should be."""
# An attempt is a system call, and spelled as one.
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH116, PTH120, PTH123, PTH208, PTH211, S108

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final

from .attempt import Act, Refused, calling, opening, reached, syscall
from .decoys import Decoys

_AT_FDCWD: Final = -100


def read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(64)


def _open(path: Callable[[Decoys], str], flags: int) -> Act:
    return lambda decoys: os.close(os.open(path(decoys), flags, 0o600))


def _store(decoys: Decoys) -> str:
    return decoys.store


def _write_into(folder: Callable[[Decoys], str]) -> Act:
    def write(decoys: Decoys) -> None:
        path = f"{folder(decoys)}/intruder-{os.getpid()}"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        os.unlink(path)

    return write


def _undone(do: Callable[[str, str], object]) -> Act:
    """Make something of the store in the open folder, and remove it again."""

    def act(decoys: Decoys) -> None:
        made = f"{decoys.open_folder}/made-{os.getpid()}"
        do(decoys.store, made)
        os.unlink(made)

    return act


def _query_store(decoys: Decoys) -> None:
    try:
        with closing(sqlite3.connect(f"file:{decoys.store}?mode=ro", uri=True)) as store:
            store.execute("select secret from secrets").fetchone()
    except sqlite3.OperationalError as error:
        raise Refused from error


def _make_folder(decoys: Decoys) -> None:
    made = f"{decoys.open_folder}/folder-{os.getpid()}"
    os.mkdir(made)
    os.rmdir(made)


def _move(path: Callable[[Decoys], str]) -> Act:
    def move(decoys: Decoys) -> None:
        os.rename(path(decoys), f"{path(decoys)}.moved")
        os.rename(f"{path(decoys)}.moved", path(decoys))

    return move


def _read_by_link(decoys: Decoys) -> None:
    link = f"{decoys.open_folder}/link-{os.getpid()}"
    os.symlink(decoys.store, link)
    try:
        read(link)
    finally:
        os.unlink(link)


def _foreign_descriptors(_: Decoys) -> None:
    """Look for a descriptor on a file or folder that somebody forgot to close."""
    for descriptor in range(3, 1024):
        with suppress(OSError):
            kind = os.fstat(descriptor).st_mode
            if stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISBLK(kind):
                return
    raise OSError(errno.EBADF, "none")


def _secret_in_environment(_: Decoys) -> None:
    if not any("SECRET" in name for name in os.environ):
        raise FileNotFoundError(errno.ENOENT, "no secret")


def _write_own_memory(_: Decoys) -> None:
    os.close(os.open("/proc/self/mem", os.O_RDWR))


def _lease(decoys: Decoys) -> None:
    """A lease holds up whoever opens the file; for a file of its own app that is the daemon."""
    with open(f"{decoys.own_app}/app.py", "rb") as own:
        fcntl.fcntl(own, 1024, fcntl.F_RDLCK)  # F_SETLEASE
        fcntl.fcntl(own, 1024, fcntl.F_UNLCK)


def _lock(decoys: Decoys) -> None:
    with open(f"{decoys.own_app}/app.py", "rb") as own:
        syscall("flock", own.fileno(), fcntl.LOCK_EX)


def _splice(decoys: Decoys) -> None:
    """Pages of a file in a pipe have been written to more than once in history."""
    source, target = os.pipe()
    with open(f"{decoys.own_app}/app.py", "rb") as own:
        try:
            syscall("splice", own.fileno(), None, target, None, 1, 0)
        finally:
            os.close(source)
            os.close(target)


def _handle(decoys: Decoys) -> None:
    handle = (128).to_bytes(4, "little") + bytes(132)
    syscall("name_to_handle_at", _AT_FDCWD, decoys.store.encode(), handle, bytes(4), 0)


ALL: Final[dict[str, Act]] = {
    "read_store": lambda decoys: read(decoys.store),
    "query_store": _query_store,
    "write_store": _open(_store, os.O_RDWR),
    "resize_store": reached(lambda decoys: os.truncate(decoys.store, 1 << 50), errno.EFBIG),
    "move_store": _move(_store),
    "open_path": _open(_store, os.O_PATH),
    "open_otherwise": lambda decoys: os.close(syscall("openat2", _AT_FDCWD, decoys.store.encode(), bytes(24), 24)),
    "link_store": _undone(os.link),
    "read_by_link": _read_by_link,
    "handle_of_store": _handle,
    "open_by_handle": reached(calling("open_by_handle_at", 0, bytes(128), 0), errno.EINVAL, errno.ESTALE),
    "look_up_store": lambda decoys: os.stat(decoys.store),
    "look_up_by_parent": lambda decoys: os.stat(f"/..{decoys.store}"),  # an old root may lie beneath the new one
    "list_state": lambda decoys: os.listdir(os.path.dirname(decoys.store)),
    "list_sibling": lambda decoys: os.listdir(os.path.dirname(decoys.sibling_file)),
    "read_sibling": lambda decoys: read(decoys.sibling_file),
    "move_sibling": _move(lambda decoys: decoys.sibling_file),
    "read_accounts": lambda _: read("/etc/passwd"),
    "write_file": _write_into(lambda decoys: decoys.open_folder),
    "write_own_app": _write_into(lambda decoys: decoys.own_app),
    "write_temporary": _write_into(lambda _: "/tmp"),
    "write_shared_memory": _write_into(lambda _: "/dev/shm"),
    "write_unnamed": _open(lambda decoys: decoys.open_folder, os.O_TMPFILE | os.O_WRONLY),
    "make_folder": _make_folder,
    "make_pipe": _undone(lambda _, made: os.mkfifo(made)),
    "make_device": _undone(lambda _, made: os.mknod(made, 0o020600, os.makedev(1, 3))),
    "change_mode": lambda decoys: os.chmod(decoys.store, 0o600),
    "change_owner": lambda decoys: os.chown(decoys.store, -1, -1),
    "change_times": lambda decoys: os.utime(decoys.store),
    "change_attribute": lambda decoys: os.setxattr(decoys.store, "user.lineup", b"1"),
    "watch_files": opening("inotify_init1", 0),
    "watch_everything": opening("fanotify_init", 0, 0),
    "lease": _lease,
    "lock": _lock,
    "splice": _splice,
    "leaked_descriptor": lambda decoys: os.fstat(decoys.leaked_fd),
    "foreign_descriptors": _foreign_descriptors,
    "secret_in_environment": _secret_in_environment,
    "own_environment": lambda _: read("/proc/self/environ"),
    "own_memory_file": _write_own_memory,
    "own_mappings": lambda _: read("/proc/self/maps"),
    "spare_from_killing": lambda _: os.close(os.open("/proc/self/oom_score_adj", os.O_WRONLY)),
}
LOOK_UPS: Final = frozenset({"look_up_store", "look_up_by_parent"})
