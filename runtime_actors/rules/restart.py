"""An instance's process ended unexpectedly: start it again, wait, or give up (OTP supervisor: intensity and period)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

MISUSE: Final = frozenset({"protocol_error", "credit_exceeded", "session_stale", "attach_denied"})
"""Reasons of ends that no worker of ours comes to by accident: what it sent broke the protocol."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """More than `intensity` unexpected ends of an instance within `period_s` and it is given up."""

    intensity: int = 5
    period_s: float = 10.0
    backoff_s: float = 0.1
    """Wait before the second restart within a period; doubled for each further one. The first is at once."""
    backoff_max_s: float = 30.0


@dataclass(frozen=True, slots=True)
class StartAgain:
    """After so many seconds."""

    after_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Too many ends within the period."""

    ends: int


def after_end(
    ends_boot_s: Sequence[float], now_boot_s: float, policy: RestartPolicy, jitter: float
) -> StartAgain | GiveUp:
    """Decide after an unexpected end.

    Args:
        ends_boot_s: When this instance's processes ended unexpectedly, this end included.
        now_boot_s: Now, on the same clock.
        policy: The operator's limits.
        jitter: 0 to 1, handed in so that the rule stays a rule; spreads restarts of many instances.

    """
    recent = sum(1 for end in ends_boot_s if now_boot_s - end < policy.period_s)
    if recent > policy.intensity:
        return GiveUp(recent)
    if recent <= 1:
        return StartAgain(0.0)  # a single crash should cost its call as little as possible
    wait = min(policy.backoff_max_s, policy.backoff_s * 2.0 ** min(recent - 2, 32))
    return StartAgain(wait * (0.75 + 0.5 * jitter))
