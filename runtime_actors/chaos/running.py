"""Sees calls begin to run, which nobody is told of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from runtime_actors.client import ClientError, DoorClient, door_of

_LOOK_S: Final = 0.01


class Watch(threading.Thread):
    """Looks again and again; `observe` hears `call.running` each time that a call is found running that was not."""

    def __init__(self, state: Path, observe: Callable[[str], object]) -> None:
        super().__init__(name="watch", daemon=True)
        self._state, self._observe = state, observe
        self._over = threading.Event()
        self._running: set[tuple[str, str, str]] = set()

    def stop(self) -> None:
        self._over.set()
        if self.is_alive():
            self.join(5.0)

    def run(self) -> None:
        with DoorClient(door_of(self._state, "control")) as door:
            while not self._over.wait(_LOOK_S):
                try:
                    query = {"what": "calls", "filter": {"open": True}}
                    rows = door.request("lineup.v1.control.query", query, timeout_s=1.0)[1]["rows"]
                except ClientError:
                    continue  # the daemon is down, or stands still
                self._look(rows)

    def _look(self, rows: list[dict[str, Any]]) -> None:
        now = {(row["agent_id"], row["conversation_id"], row["call_id"]) for row in rows if row["status"] == "running"}
        for _ in now - self._running:
            self._observe("call.running")
        self._running = now
