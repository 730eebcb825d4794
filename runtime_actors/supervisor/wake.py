"""A descriptor that lets any thread end another thread's wait in a selector."""

from __future__ import annotations

import os
import threading
from contextlib import suppress


class WakePipe:
    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._lock = threading.Lock()
        self._closed = False

    def fileno(self) -> int:
        return self._read

    def wake(self) -> None:
        """Without effect after `close`: the number may then be another file's."""
        with self._lock, suppress(BlockingIOError):  # full of wake-ups already
            if not self._closed:
                os.write(self._write, b"w")

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._read, 65536)

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._read)
                os.close(self._write)
