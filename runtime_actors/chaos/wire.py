"""What a daemon under test tells whoever strikes it, and is told: lines on its standard output and input.

Told: `go` (on, from where it stands still), `cut PID` (end the connection of a worker), `calm` (stand still no more).
When its input ends, whoever started it is gone, and it is as well, that moment.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import Final

from runtime_actors.channel.door import cut

_IN, _OUT = 0, 1
_HOLD_S: Final = 20.0
"""Longer than any strike takes: a bug of ours must not look like one of the daemon's."""


class Wire:
    """The daemon's end."""

    def __init__(self) -> None:
        self._go = threading.Event()
        self.is_calm = False

    def start(self) -> None:
        threading.Thread(target=self._listen, name="chaos", daemon=True).start()

    def say(self, **fields: object) -> None:
        """From any thread; a line is shorter than a pipe takes at once (pipe(7), PIPE_BUF)."""
        os.write(_OUT, json.dumps(fields).encode() + b"\n")

    def stand_still(self, point: str, hit: int) -> None:
        """Say where this thread is, and wait until it may go on."""
        if self.is_calm:
            return
        self._go.clear()
        self.say(held=point, hit=hit)
        self._go.wait(_HOLD_S)

    def _listen(self) -> None:
        with os.fdopen(os.dup(_IN), "r", encoding="ascii") as lines:
            for line in lines:
                match line.split():
                    case ["go"]:
                        self._go.set()
                    case ["cut", pid]:
                        cut(int(pid))
                    case ["calm"]:
                        self.is_calm = True
                        self._go.set()
        os.kill(os.getpid(), signal.SIGKILL)
