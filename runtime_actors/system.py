"""The real clock and the real names."""

from __future__ import annotations

import secrets
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from runtime_actors.mailbox import Moment

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


class SystemClock:
    """CLOCK_BOOTTIME and wall time of this machine."""

    def __init__(self) -> None:
        self._boot_id = _boot_id()

    def now(self) -> Moment:
        """Read both."""
        return Moment(datetime.now(UTC), _boot_s(), self._boot_id)


class RandomIds:
    """`prefix-` and a time-ordered random name: 48 bits of milliseconds, 64 of chance."""

    def new(self, prefix: str) -> str:
        """A name that was never given before."""
        number = (time.time_ns() // 1_000_000) << 64 | secrets.randbits(64)
        digits = []
        for _ in range(23):
            digits.append(_ALPHABET[number & 31])
            number >>= 5
        return f"{prefix}-{''.join(reversed(digits))}"


def _boot_s() -> float:
    # macOS has no CLOCK_BOOTTIME; its monotonic clock stops during sleep, which there only makes deadlines later.
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"since-{round(time.time() - time.monotonic(), -2):.0f}"
