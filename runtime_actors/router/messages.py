"""What the router is told, apart from follow-ups and the channel's reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime_actors.rules.calls import CallKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.commands.calls import CallAnswer, Expiry
    from runtime_actors.contract.interactions import OldToolCall
    from runtime_actors.contract.rejection import Rejection
    from runtime_actors.contract.tools import ToolInvoke


@dataclass(frozen=True, slots=True)
class Invoke:
    """An agent invokes a tool. `answer` runs on the store's thread."""

    call_key: CallKey
    request: ToolInvoke
    answer: Callable[[CallAnswer | Rejection], None]


@dataclass(frozen=True, slots=True)
class OldCall:
    """An agent asks the person by the old form. `answer` as above."""

    call_key: CallKey
    request: OldToolCall
    answer: Callable[[CallAnswer | Rejection], None]


@dataclass(frozen=True, slots=True)
class CancelCall:
    """An agent no longer wants an answer."""

    call_key: CallKey
    reason: str | None
    answer: Callable[[CallAnswer | Rejection], None]


@dataclass(frozen=True, slots=True)
class GetCall:
    """An agent asks how a call stands."""

    call_key: CallKey
    answer: Callable[[CallAnswer | Rejection], None]


@dataclass(frozen=True, slots=True)
class ExpiryDone:
    """Overdue calls were ended."""

    outcome: Expiry | Rejection


@dataclass(frozen=True, slots=True)
class TimeUp:
    """Something may be due."""


@dataclass(frozen=True, slots=True)
class SweepDue:
    """Time to look at clocks and switches again."""
