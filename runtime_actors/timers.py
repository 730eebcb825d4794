"""Messages for later: one thread, one heap."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.mailbox import Mailbox

M = TypeVar("M")


class Timers(Protocol):
    """What an actor needs of time."""

    def tell_after(self, seconds: float, mailbox: Mailbox[M], message: M) -> None:
        """Leave `message` after so many seconds."""


class TimerThread(threading.Thread):
    """Tells messages when they are due, on the monotonic clock."""

    def __init__(self, on_crash: Callable[[str, BaseException], None]) -> None:
        super().__init__(name="timers", daemon=True)
        self._on_crash = on_crash
        self._changed = threading.Condition()
        self._order = itertools.count()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._stopped = False

    def tell_after(self, seconds: float, mailbox: Mailbox[M], message: M) -> None:
        """Leave `message` in `mailbox` after so many seconds. From any thread."""
        due = time.monotonic() + max(0.0, seconds)
        with self._changed:
            heapq.heappush(self._heap, (due, next(self._order), lambda: mailbox.tell(message)))
            if self._heap[0][0] == due:
                self._changed.notify()

    def stop(self) -> None:
        """Tell nothing more."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def run(self) -> None:
        """Until stopped."""
        try:
            while (tell := self._wait_due()) is not None:
                tell()
        except BaseException as error:  # noqa: BLE001 - the outermost loop of a thread: without timers nothing expires
            self._on_crash(self.name, error)

    def _wait_due(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._stopped:
                if not self._heap:
                    self._changed.wait()
                    continue
                wait = self._heap[0][0] - time.monotonic()
                if wait <= 0:
                    return heapq.heappop(self._heap)[2]
                self._changed.wait(wait)
        return None
