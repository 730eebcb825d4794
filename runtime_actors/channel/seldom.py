"""Log lines that peers can cause: an attack must not fill the disk with them."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Final

_EACH_S: Final = 10.0
_PLAIN: Final = 10
_MAX_KEYS: Final = 256


@dataclass(slots=True)
class _Lines:
    since: float
    seen: int = 0


class Seldom:
    """Writes a sentence about a door ten times in ten seconds; the next one after that says how many were left out."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._lines: dict[tuple[str, str], _Lines] = {}

    def info(self, sentence: str, door: str, **more: object) -> None:
        self._write(logging.INFO, sentence, door, more)

    def warning(self, sentence: str, door: str, **more: object) -> None:
        self._write(logging.WARNING, sentence, door, more)

    def _write(self, level: int, sentence: str, door: str, more: dict[str, object]) -> None:
        now = time.monotonic()
        lines = self._lines.get((sentence, door))
        if lines is None or now - lines.since >= _EACH_S:
            if lines is None and len(self._lines) >= _MAX_KEYS:  # doors of attempts come and go
                self._lines.clear()
            unwritten = lines.seen - _PLAIN if lines is not None else 0
            lines = self._lines[sentence, door] = _Lines(now)
            if unwritten > 0:
                more = more | {"unwritten_before": unwritten}
        lines.seen += 1
        if lines.seen <= _PLAIN:
            self._logger.log(level, sentence, extra={"door": door, **more})
