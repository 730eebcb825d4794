"""Signals by name."""

from __future__ import annotations

import os
import signal
from typing import Final

ENDS_AT_ONCE: Final = frozenset({signal.SIGKILL})
"""Signals that no process can refuse."""


def signal_number(name: str) -> signal.Signals:
    """The signal that `name` means, with or without `SIG`, in any case.

    Raises:
        ValueError: There is none.

    """
    full = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
    try:
        return signal.Signals[full]
    except KeyError:
        raise ValueError(f"there is no signal {name}; SIGTERM and SIGKILL are two") from None


def end_process(pid: int, name: str) -> None:
    """Send a signal to a process; that it is gone already is no error.

    Raises:
        ValueError: There is no such signal.

    """
    try:
        os.kill(pid, signal_number(name))
    except ProcessLookupError:
        return
