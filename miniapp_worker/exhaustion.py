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
    if error is None:
        return None
    if isinstance(error, MemoryError):
        return Limit.MEMORY
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENOMEM):
        return Limit.FILES if error.errno == errno.EMFILE else Limit.MEMORY
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":  # what CPython says, and no more
        return Limit.THREADS
    if isinstance(error, BaseExceptionGroup):
        return next((met for one in error.exceptions if (met := limit_met(one)) is not None), None)
    return limit_met(error.__cause__)
