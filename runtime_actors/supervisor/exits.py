"""One thread that waits for the end of every process the daemon holds."""

from __future__ import annotations

import logging
import selectors
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from runtime_actors.supervisor.process import ExitStatus
from runtime_actors.supervisor.wake import WakePipe

logger = logging.getLogger(__name__)


class Ending(Protocol):
    """What can be waited for: a `WorkerProcess`, a `ZygoteProcess`."""

    def fileno(self) -> int: ...
    def reap(self) -> ExitStatus | None: ...
    def close(self) -> None: ...


class ExitWatcher:
    """Tells of each end once, after reaping and closing the process.

    `tell` runs on the watcher's own thread and must not block: leave a message in a mailbox.
    """

    def __init__(self, tell: Callable[[str, ExitStatus], None]) -> None:
        self._tell = tell
        self._selector = selectors.DefaultSelector()
        self._wake: Final = WakePipe()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._new: deque[tuple[str, Ending]] = deque()
        self._stopping = False
        self._thread: Final = threading.Thread(target=self._run, name="exits", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def watch(self, key: str, process: Ending) -> None:
        """From any thread. From now on the process belongs to the watcher: only it closes it."""
        self._new.append((key, process))
        self._wake.wake()

    def stop(self, limit_s: float = 5.0) -> None:
        """Stop watching. Processes still running stay as they are, open, their ends untold."""
        if self._thread.is_alive():
            self._stopping = True
            self._wake.wake()
            self._thread.join(limit_s)

    def _run(self) -> None:
        while not self._stopping:
            for event, _ in self._selector.select():
                if event.data is None:
                    self._wake.clear()
                    self._take_new()
                else:
                    self._ended(*event.data)
        self._selector.close()
        self._wake.close()

    def _take_new(self) -> None:
        while self._new:
            key, process = self._new.popleft()
            try:
                self._selector.register(process, selectors.EVENT_READ, (key, process))
            except (ValueError, KeyError, OSError):  # closed by somebody else; the watch over all others goes on
                logger.exception("a process could not be watched", extra={"attempt_id": key})

    def _ended(self, key: str, process: Ending) -> None:
        try:
            status = process.reap()
            if status is None:
                return
            self._selector.unregister(process)
            process.close()
            self._tell(key, status)
        except Exception:  # the outermost loop of a thread: one process must not end the watch over all others
            logger.exception("the end of a process could not be told", extra={"attempt_id": key})
