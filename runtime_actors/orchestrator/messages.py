"""What the orchestrator tells itself. Follow-ups and `supervisor.messages.ProcessOver` are the rest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SweepDue:
    """Time to derive again who needs a process."""
