"""The daemon's own log on stderr: a constant sentence, and the ids beside it."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, Literal

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "taskName", "asctime"}


LEFT_OUT: Final = "an app was left out: "
"""Begins what is logged of an app that cannot be registered. `lineup start` looks for it: see `left_out`."""


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        ids = " ".join(f"{key}={value}" for key, value in _extra(record).items())
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        line = f"{at} {record.levelname.lower():7} {record.getMessage()}{'  ' + ids if ids else ''}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        row = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{key: str(value) for key, value in _extra(record).items()},
        }
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row)


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD}


def left_out(line: str) -> str | None:
    """Which app was left out and why, if a line of the log, of either format, says that of one."""
    if LEFT_OUT not in line:
        return None
    if line.startswith("{"):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            line = str(json.loads(line)["message"])
    return line.partition(LEFT_OUT)[2] or None


def set_up(log_format: Literal["text", "json"]) -> None:
    """Log to stderr from info on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("pykka").setLevel(logging.WARNING)
