"""How other threads leave work for a thread that waits in select()."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Orders(Generic[T]):
    """A queue whose `fileno` is readable while something new is in it. One thread takes, any thread puts.

    A byte goes through the pipe only when none is on its way already: under load many orders share one wake-up.
    """

    def __init__(self) -> None:
        self._queue: deque[T] = deque()
        self._out, self._in = os.pipe()
        os.set_blocking(self._out, False)
        self._woken = False
        self._closed = False
        self._lock = threading.Lock()  # only so that nobody writes to a number that was given to another file

    def fileno(self) -> int:
        return self._out

    def put(self, order: T) -> None:
        """Never blocks: each take empties the pipe, and between two only those put a byte that saw it empty."""
        self._queue.append(order)
        if not self._woken:
            self._woken = True
            with self._lock:
                if not self._closed:
                    os.write(self._in, b"x")

    def take(self) -> Iterator[T]:
        """All that is there now. What is put meanwhile makes `fileno` readable again."""
        os.read(self._out, 4096)
        self._woken = False  # before looking at the queue: what comes later wakes again
        for _ in range(len(self._queue)):
            yield self._queue.popleft()

    def close(self) -> None:
        """What is put from now on is dropped."""
        with self._lock:
            self._closed = True
            os.close(self._out)
            os.close(self._in)
