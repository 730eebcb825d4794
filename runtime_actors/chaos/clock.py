"""A clock that others can move."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Final

from runtime_actors.mailbox import Moment
from runtime_actors.system import SystemClock

_WIDTH: Final = 100


def set_offsets(file: Path, wall_s: float, boot_s: float) -> None:
    """Move every clock that reads `file`: so many seconds are added to the wall clock and to CLOCK_BOOTTIME.

    Written in place and at once, because daemons hold it open.
    """
    with file.open("r+b" if file.exists() else "wb", buffering=0) as written:
        written.write(f"{wall_s} {boot_s}".ljust(_WIDTH).encode())


class Offsets:
    """Reads the file each time. It is opened once: whoever moves clocks may take all other descriptors away too."""

    def __init__(self, file: Path) -> None:
        self._descriptor: Final = os.open(file, os.O_RDONLY | os.O_CLOEXEC)

    def moved(self, true: Moment) -> Moment:
        """What a clock shows at this time."""
        wall_s, boot_s = map(float, os.pread(self._descriptor, _WIDTH, 0).split())
        return Moment(true.wall + timedelta(seconds=wall_s), true.boot_s + boot_s, true.boot_id)


class MovedClock(SystemClock):
    """The clock of a daemon under test."""

    def __init__(self, offsets: Offsets) -> None:
        super().__init__()
        self._offsets = offsets

    def now(self) -> Moment:
        return self._offsets.moved(super().now())
