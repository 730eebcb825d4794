"""What the interaction actor is told, apart from follow-ups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime_actors.commands.interactions import InteractionExpiry
    from runtime_actors.contract.rejection import Rejection


@dataclass(frozen=True, slots=True)
class TimeUp:
    """Some question may be due."""


@dataclass(frozen=True, slots=True)
class SweepDue:
    """Time to look at the clock again."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What was overdue has been ended."""

    outcome: InteractionExpiry | Rejection
