"""Why an attempt ended, in a word that a person understands."""

from __future__ import annotations

import signal
from typing import Final

from runtime_actors.supervisor.process import ExitStatus

_LOST: Final = "connection_lost"
_REFUSED: Final = "session_refused"
BY_OUR_DOING: Final = frozenset({_LOST, _REFUSED})
"""It ended by itself because of what the runtime did to its session, and the runtime knows why it did that."""
OUT_OF_MEMORY: Final = "app_out_of_memory"
OUT_OF_CPU: Final = "app_out_of_cpu"

_BY_CODE: Final = {
    3: "import_failed",
    4: _REFUSED,
    5: _LOST,
    6: OUT_OF_MEMORY,
    7: "app_out_of_files",
    8: "app_out_of_threads",
}
"""`miniapp_worker.main.ExitCode`."""


def reason_of(status: ExitStatus, *, cpu_limit_s: int, oom_kills: int) -> str:
    """For an attempt that ended by itself, or by the kernel. `oom_kills` are those in its own cgroup."""
    if status.signal is None:
        return "ended" if status.code is None else _BY_CODE.get(status.code, f"exit {status.code}")
    if status.signal == signal.SIGXCPU:
        return OUT_OF_CPU
    if status.signal == signal.SIGKILL:
        if oom_kills:
            return OUT_OF_MEMORY
        if status.cpu_s is not None and status.cpu_s >= cpu_limit_s:  # it ignored the signal before
            return OUT_OF_CPU
    try:
        return f"signal {signal.Signals(status.signal).name}"
    except ValueError:
        return f"signal {status.signal}"
