"""`lineup`, with clocks that a storm can move: `python -m tests.storms.shifted OFFSETS ARGUMENTS...`.

The file OFFSETS holds two numbers: seconds to add to the wall clock, and to CLOCK_BOOTTIME. It is read each time.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path

from runtime_actors.cli import main
from runtime_actors.mailbox import Moment
from runtime_actors.supervisor.log_files import LogFolder, LogLimits
from runtime_actors.system import SystemClock


def move_clocks(offsets: Path) -> None:
    """From now on the clock of a daemon in this process reads what the file says."""
    read = SystemClock.now
    descriptor = os.open(offsets, os.O_RDONLY | os.O_CLOEXEC)  # once: a storm may take all other descriptors away

    def now(clock: SystemClock) -> Moment:
        true = read(clock)
        wall_s, boot_s = map(float, os.pread(descriptor, 100, 0).split())
        return Moment(true.wall + timedelta(seconds=wall_s), true.boot_s + boot_s, true.boot_id)

    setattr(SystemClock, "now", now)  # noqa: B010 - mypy allows no plain assignment to a method


def keep_all_logs() -> None:
    """What a worker wrote is evidence, however many others followed it."""
    LogFolder.__init__.__defaults__ = (LogLimits(attempts_per_instance=100_000),)


if __name__ == "__main__":
    move_clocks(Path(sys.argv[1]))
    keep_all_logs()
    sys.exit(main(sys.argv[2:]))
