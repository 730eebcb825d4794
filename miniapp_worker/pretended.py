"""A kernel that accepts what a worker gives up, and takes nothing: for the zygote, which rehearses a worker's life."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
from collections.abc import Iterator
from typing import Any, Final

from miniapp_worker import canaries, landlock, libc, namespaces, spawned

_NOT_DONE: Final = (
    (os, "closerange"),
    (os, "dup2"),
    (os, "mkdir"),
    (os, "setgroups"),
    (os, "setresgid"),
    (os, "setresuid"),
    (os, "setsid"),
    (os, "symlink"),
    (resource, "setrlimit"),
    (socket, "sethostname"),
)
"""What the whole process would have for good, and what would be left behind."""
_OF_LIBC: Final = ("capset", "mount", "pivot_root", "prctl", "syscall", "umount2", "unshare")
_OPEN_FILES: Final = "/dev/fd"


@contextlib.contextmanager
def pretended(gate: int) -> Iterator[None]:
    """Within it, the steps of a worker are taken without effect. `gate` is the descriptor that it finds its gate at.

    For a process with one thread. What is opened within it is closed at its end.
    """
    with _as_before(), contextlib.ExitStack() as restored:
        for place, name in _NOT_DONE:
            _set(restored, place, name, _accept)
        for name in _OF_LIBC:
            _set(restored, libc, name, _answer)
        _set(restored, canaries, "libc", _Refusing)
        _set(restored, spawned, "_GATE", gate)
        yield


@contextlib.contextmanager
def _as_before() -> Iterator[None]:
    """Undo what is done in earnest."""
    files, folder, mask = _open_files(), os.getcwd(), os.umask(0o077)  # noqa: PTH109 - a string will do
    streams, writes_no_bytecode = (sys.stdout, sys.stderr), sys.dont_write_bytecode
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes_no_bytecode
        sys.stdout, sys.stderr = streams
        os.umask(mask)
        os.chdir(folder)
        for fd in _open_files() - files:
            with contextlib.suppress(OSError):  # that of the listing itself
                os.close(fd)


def _open_files() -> set[int]:
    return {int(name) for name in os.listdir(_OPEN_FILES)}  # noqa: PTH208 - names are wanted


def _set(restored: contextlib.ExitStack, place: object, name: str, value: object) -> None:
    if hasattr(place, name):  # not on every system
        restored.callback(setattr, place, name, getattr(place, name))
        setattr(place, name, value)


def _accept(*_: object, **__: object) -> None:
    pass


def _answer(*arguments: Any) -> int:  # noqa: ANN401 - ctypes' values, and plain ones
    """In place of libc. Every call succeeds, and gives a descriptor where one is asked for."""
    number, last = (getattr(one, "value", one) for one in (arguments[0], arguments[-1]))
    if (number, last) == (landlock.CREATE_RULESET, landlock.ASK_VERSION):
        return landlock.NEWEST_KNOWN_ABI
    if number in (landlock.CREATE_RULESET, namespaces.OPEN_TREE):
        return os.open("/", os.O_RDONLY | os.O_CLOEXEC)
    return 0


class _Refusing:
    """Libc as a confined process finds it."""

    @staticmethod
    def syscall(*_: object) -> int:
        return -1
