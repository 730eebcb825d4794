"""`lineup`, with clocks that a storm can move: `python -m tests.storms.shifted OFFSETS ARGUMENTS...`.

The file OFFSETS holds two numbers: seconds to add to the wall clock, and to CLOCK_BOOTTIME. It is read each time.
"""

from __future__ import annotations

import sys
from pathlib import Path

from runtime_actors.chaos.clock import Offsets
from runtime_actors.cli import main
from runtime_actors.mailbox import Moment
from runtime_actors.supervisor.log_files import LogFolder, LogLimits
from runtime_actors.system import SystemClock


def move_clocks(offsets: Path) -> None:
    """From now on the clock of a daemon in this process reads what the file says."""
    read, moving = SystemClock.now, Offsets(offsets)

    def now(clock: SystemClock) -> Moment:
        return moving.moved(read(clock))

    setattr(SystemClock, "now", now)  # noqa: B010 - mypy allows no plain assignment to a method


def keep_all_logs() -> None:
    """What a worker wrote is evidence, however many others followed it."""
    LogFolder.__init__.__defaults__ = (LogLimits(attempts_per_instance=100_000),)


if __name__ == "__main__":
    move_clocks(Path(sys.argv[1]))
    keep_all_logs()
    sys.exit(main(sys.argv[2:]))
