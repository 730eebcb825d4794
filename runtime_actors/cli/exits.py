"""Exit codes of everything but `lineup run`, whose codes are in docs/operating.md with these."""

from __future__ import annotations

from typing import Final

from runtime_actors.client import (
    AddressTooLong,
    ClientError,
    ConnectionLost,
    DaemonNotRunning,
    NoAnswer,
    NoToken,
    Refused,
)

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
WAIT_ENDED: Final = 4
NO_DAEMON: Final = 7
INTERNAL: Final = 70
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141

_CODES: Final[tuple[tuple[type[ClientError], int], ...]] = (
    (Refused, REFUSED),
    (NoToken, REFUSED),
    (AddressTooLong, USAGE),
    (NoAnswer, WAIT_ENDED),
    (ConnectionLost, WAIT_ENDED),
    (DaemonNotRunning, NO_DAEMON),
)


def code_of(error: ClientError) -> int:
    """The exit code that tells a script what went wrong."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)
