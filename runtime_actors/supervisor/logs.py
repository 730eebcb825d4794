"""Captures what attempts write to stdout and stderr: one thread reads all pipes into bounded files.

Of a worker that floods, the daemon keeps about 1 MB/s, reads and drops some more, and then leaves its pipe full
until the next tenth of a second, so that the worker waits in its own `print` and nobody else does. What was dropped is
counted in the log.
"""

from __future__ import annotations

import logging
import os
import selectors
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from runtime_actors.supervisor.log_files import Key, LogFolder
from runtime_actors.supervisor.wake import WakePipe

logger = logging.getLogger(__name__)

_WINDOW_S: Final = 0.1
_KEPT_PER_WINDOW: Final = 128 * 1024
_READ_PER_WINDOW: Final = 1024 * 1024
_CHUNK: Final = 64 * 1024
_LEAST_COST: Final = 4096
"""A read costs time too, however little it brings."""


@dataclass
class _Pipe:
    key: Key
    fd: int
    window_since: float = 0.0
    read: int = 0  # bytes in this window
    dropped: int = 0  # bytes since the last marker line
    mid_line: bool = False
    ended: bool = False


class LogCapture:
    """`open` a pipe for each attempt, hand it to the worker, close it here. `tail` reads back."""

    def __init__(self, folder: LogFolder) -> None:
        self._folder: Final = folder
        self._selector = selectors.DefaultSelector()
        self._wake: Final = WakePipe()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._new: deque[_Pipe] = deque()
        self._paused: list[_Pipe] = []
        self._stopping = False
        self._thread: Final = threading.Thread(target=self._run, name="logs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def open(self, instance_id: str, attempt_id: str) -> int:
        """The write end of a new pipe; the caller closes it once the worker has it. From any thread.

        Raises:
            ValueError: an id that cannot be a file name.
            OSError: out of descriptors.
            RuntimeError: stopped already.
        """
        if self._stopping:
            raise RuntimeError("nobody would read this log")
        key = (instance_id, attempt_id)
        self._folder.begin(key)
        try:
            read_end, write_end = os.pipe()
        except OSError:
            self._folder.finish(key)
            raise
        os.set_blocking(read_end, False)
        self._new.append(_Pipe(key, read_end))
        self._wake.wake()
        return write_end

    def tail(self, instance_id: str, lines: int) -> list[str]:
        """See `LogFolder.tail`. Empty for an instance that is unknown or wrote nothing."""
        return self._folder.tail(instance_id, lines)

    def attempts(self, instance_id: str) -> list[str]:
        """See `LogFolder.attempts`."""
        return self._folder.attempts(instance_id)

    def stop(self, limit_s: float = 5.0) -> None:
        """Read what is there, then close everything. A worker still alive then finds its stdout broken."""
        if self._thread.is_alive():
            self._stopping = True
            self._wake.wake()
            self._thread.join(limit_s)

    def _run(self) -> None:
        while not self._stopping:
            for event, _ in self._selector.select(_WINDOW_S if self._paused else None):
                self._guarded(event.data)
            self._resume()
        self._take_new()
        open_pipes = [event.data for event in self._selector.get_map().values() if event.data is not None]
        for pipe in open_pipes + self._paused:
            for _ in range(_READ_PER_WINDOW // _CHUNK):
                if not self._read(pipe):
                    break
            self._end(pipe)
        self._selector.close()
        self._wake.close()

    def _guarded(self, pipe: _Pipe | None) -> None:
        try:
            if pipe is None:
                self._wake.clear()
                self._take_new()
            elif self._read(pipe) and pipe.read >= _READ_PER_WINDOW:
                self._selector.unregister(pipe.fd)
                self._paused.append(pipe)
        except Exception:  # the outermost loop of a thread: one log must not end the capture of all others
            logger.exception("a log could not be captured", extra={"attempt_id": pipe.key[1] if pipe else None})

    def _take_new(self) -> None:
        while self._new:
            pipe = self._new.popleft()
            self._selector.register(pipe.fd, selectors.EVENT_READ, pipe)

    def _resume(self) -> None:
        now = time.monotonic()
        for pipe in [pipe for pipe in self._paused if now - pipe.window_since >= _WINDOW_S]:
            self._paused.remove(pipe)
            self._selector.register(pipe.fd, selectors.EVENT_READ, pipe)

    def _read(self, pipe: _Pipe) -> bool:
        """Read once. False when there is nothing to read, now or ever."""
        if pipe.ended:
            return False
        try:
            data = os.read(pipe.fd, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._end(pipe)
            return False
        now = time.monotonic()
        if now - pipe.window_since >= _WINDOW_S:
            pipe.window_since, pipe.read = now, 0
        if pipe.read < _KEPT_PER_WINDOW:
            self._keep(pipe, data)
        else:
            pipe.dropped += len(data)
        pipe.read += max(len(data), _LEAST_COST)
        return True

    def _keep(self, pipe: _Pipe, data: bytes) -> None:
        self._mark(pipe)
        pipe.dropped += self._folder.append(pipe.key, data)
        pipe.mid_line = not data.endswith(b"\n")

    def _mark(self, pipe: _Pipe) -> None:
        if not pipe.dropped:
            return
        start = "\n" if pipe.mid_line else ""
        marker = f"{start}[lineup: {pipe.dropped} bytes of output dropped]\n"
        if self._folder.append(pipe.key, marker.encode()) == 0:
            pipe.dropped = 0

    def _end(self, pipe: _Pipe) -> None:
        if pipe.ended:
            return
        pipe.ended = True
        self._mark(pipe)
        self._folder.finish(pipe.key)
        with suppress(KeyError):  # a paused one is not registered
            self._selector.unregister(pipe.fd)
        os.close(pipe.fd)
