"""How many file descriptors this process has and may have."""

from __future__ import annotations

import os
import resource
from typing import Final

_CAP: Final = 65_536  # more is never needed, and some hard limits are so high that tables sized by them hurt
_RECOUNT_S: Final = 1.0


def raise_fd_limit() -> int:
    """Raise the soft RLIMIT_NOFILE to the hard one, at most 65,536, and return what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CAP if hard == resource.RLIM_INFINITY else min(hard, _CAP)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft if soft != resource.RLIM_INFINITY else _CAP


class SpareDescriptors:
    """Whether enough descriptors are free to accept one more connection.

    Counting them is a system call an entry, so between two counts the owner says what it opened; what others opened is
    seen a second later, or at once when it is getting tight.
    """

    def __init__(self, spare: int) -> None:
        self._spare = spare
        self._used = 0
        self._counted_at = float("-inf")

    def opened(self) -> None:
        self._used += 1

    def suffice(self, now: float) -> bool:
        """Whether more than `spare` are free; `now` is monotonic, in seconds."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit == resource.RLIM_INFINITY:
            return True
        if now - self._counted_at > _RECOUNT_S or limit - self._used < 2 * self._spare:
            self._used = _count()
            self._counted_at = now
        return limit - self._used > self._spare


def _count() -> int:
    try:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208 - names are all that is wanted, and it is the cheaper call
    except OSError:  # not one is left to open the folder with
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
