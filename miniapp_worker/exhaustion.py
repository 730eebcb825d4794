"""Which limit of its manifest an app met, from what Python raised for it."""

from __future__ import annotations

import errno
from enum import StrEnum


class Limit(StrEnum):
    """What an attempt can run out of without being ended by the kernel at once."""

    MEMORY = "memory"
    FILES = "files"
    THREADS = "threads"


def limit_met(error: BaseException | None) -> Limit | None:
    """None for an error that has another cause. What was raised `from` it, or beside others, counts as it does."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:  # an app may have made a circle of causes
            continue
        seen.add(id(one))
        met = _of(one)
        if met is not None:
            return met
        waiting.append(one.__cause__)
        if isinstance(one, BaseExceptionGroup):
            waiting += reversed(one.exceptions)
    return None


def _of(error: BaseException) -> Limit | None:
    if isinstance(error, MemoryError):
        return Limit.MEMORY
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENOMEM):
        return Limit.FILES if error.errno == errno.EMFILE else Limit.MEMORY
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":  # what CPython says, and no more
        return Limit.THREADS
    return None
