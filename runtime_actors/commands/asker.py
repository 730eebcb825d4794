"""Who asks: written by the channel, never read from a body."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asker:
    """A MiniApp's request."""

    instance_id: str
    attempt_id: str
    request_id: str
    """Names the attempt, too: another attempt's request is another one."""
