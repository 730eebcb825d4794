"""Using up what is shared. Each goes on until a limit stops it, or far enough to show that none does."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from .attempt import Act, Capped
from .decoys import Decoys

_MIB: Final = 2**20
_HEAP_MIB: Final = 512
_SHARED_MIB: Final = 2048
_THREADS: Final = 60
_DESCRIPTORS: Final = 2000
_PROCESSOR_S: Final = 15.0
_LOG_MIB: Final = 8


def _heap(_: Decoys) -> None:
    held: list[bytearray] = []
    try:
        while len(held) < _HEAP_MIB:
            held.append(bytearray(_MIB))
    except MemoryError:
        held.clear()
        raise Capped(errno.ENOMEM) from None


def _shared(_: Decoys) -> None:
    """Shared pages are no heap: another limit has to count them. Untouched: what is mapped is what is counted."""
    with ExitStack() as held:
        _until_refused(lambda: held.enter_context(mmap.mmap(-1, 16 * _MIB)), _SHARED_MIB // 16)


def _descriptors(_: Decoys) -> None:
    held: list[int] = []
    try:
        _until_refused(lambda: held.append(os.dup(0)), _DESCRIPTORS)
    finally:
        for one in held:
            os.close(one)


def _until_refused(take: Callable[[], object], times: int) -> None:
    try:
        for _ in range(times):
            take()
    except OSError as refused:
        raise Capped(refused.errno) from None


def _threads(_: Decoys) -> None:
    stop = threading.Event()
    started: list[threading.Thread] = []
    try:
        while len(started) < _THREADS:
            thread = threading.Thread(target=stop.wait)
            thread.start()
            started.append(thread)
    except RuntimeError:
        raise Capped(errno.EAGAIN) from None
    finally:
        stop.set()
        for thread in started:
            thread.join()


def _processor(_: Decoys) -> None:
    """Returns only if no limit ends the process. Hashing lets go of the interpreter's lock, so both really run."""
    until = time.monotonic() + _PROCESSOR_S

    def burn() -> None:
        block = bytes(_MIB)
        while time.monotonic() < until:
            hashlib.sha256(block)

    threads = [threading.Thread(target=burn) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _log(_: Decoys) -> None:
    """Whether it was kept only the doctor can see."""
    line = "x" * 1023 + "\n"
    for _line in range(_LOG_MIB * 1024):
        sys.stdout.write(line)
    sys.stdout.flush()


ALL: Final[dict[str, Act]] = {
    "heap_bomb": _heap,
    "shared_memory_bomb": _shared,
    "thread_bomb": _threads,
    "descriptor_bomb": _descriptors,
    "processor_bomb": _processor,
    "log_flood": _log,
}
