"""The folder of one daemon, and the lock that makes it one. Loads next to nothing, so that refusing is quick."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from typing import Final

from runtime_actors.errors import DaemonRunning

LOCK: Final = "lock"
_OURS: Final = ("run", "store.db")
"""One of these shows that a folder was a state folder before, wherever it was copied from."""


def prepare(state: Path) -> None:
    """Make the state folder, for its owner alone.

    Raises:
        PermissionError: it is another user's, who could change what is in it; or open to others, and nothing of ours.

    """
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = state.stat()
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EACCES, "the state folder belongs to another user", str(state))
    is_ours = any((state / name).exists() for name in _OURS)
    if found.st_mode & 0o077 and not is_ours and any(state.iterdir()):
        detail = "the folder holds other things, and others may enter it: name another with --state, or chmod 700 it"
        raise PermissionError(errno.EACCES, detail, str(state))
    for folder in _folders(state):
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_mode & 0o066:  # 0711 a daemon that runs may have set: see `let_workers_pass`
            folder.chmod(0o700)


def lock(state: Path) -> int:
    """Take the state folder for this process; the descriptor holds it until it is closed, whatever kills the process.

    It is not inherited: a child would keep the lock alive.

    Raises:
        DaemonRunning: Another process has it.

    """
    path = state / LOCK
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise held(state) from None
        if _leads_to(path, descriptor):
            break
        os.close(descriptor)  # it was removed before we had it: nobody else would see our lock
    with contextlib.suppress(OSError):  # the pid is for people; the lock works on a full disk as well
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def forget_workers(state: Path) -> None:
    """Close the folders again, and remove the sockets of a killed daemon's workers. Only under the lock."""
    for folder in _folders(state):
        folder.chmod(0o700)
    for path in (state / "run" / "w").iterdir():
        if path.is_socket():
            path.unlink(missing_ok=True)


def let_workers_pass(state: Path) -> None:
    """Others may walk through to the sockets of workers, each of which belongs to one uid; they cannot list them.

    Where workers have uids of their own and no root of their own.
    """
    for path in state.iterdir():
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700)
    for folder in _folders(state):
        folder.chmod(0o711)


def _folders(state: Path) -> tuple[Path, ...]:
    return state, state / "run", state / "run" / "w"


def held(state: Path) -> DaemonRunning:
    """What whoever comes second is told."""
    return DaemonRunning(f"another daemon holds {state}; `lineup status` shows it, `lineup stop` ends it")


def _leads_to(path: Path, descriptor: int) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))
