"""What the orchestrator tells itself. Follow-ups and `supervisor.messages.ProcessOver` are the rest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SweepDue:
    """Time to derive again who needs a process."""


@dataclass(frozen=True, slots=True)
class PressureDue:
    """Instances waited for a process a moment ago: time to see who can do without."""
