"""The life of a standard interaction (docs/people.md, 2): what a person is asked, and what counts as an answer.

Every status change goes through `advance`, and every legal one is a cell of `TRANSITIONS`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from runtime_actors.contract.interactions import InteractionStatus, NoticeRequest
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.errors import IllegalTransition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime_actors.contract.interactions import InteractionKind, Presentation, Source, StandardInteractionRequest

MAX_REQUEST_BYTES: Final = 48 * 1024
"""Canonical."""
MAX_RESULT_BYTES: Final = 64 * 1024
"""Canonical; of a result and of a draft."""
LATEST_S: Final = 253_402_214_400.0
"""The last day that records can spell (RFC 3339 has four digits for a year)."""
LONGEST_WITH_CALL_S: Final = 7 * 24 * 3600.0
"""After the call was made, whose clock stands still meanwhile."""


class InteractionEvent(StrEnum):
    """What can happen to an interaction."""

    PRESENTED = "presented"
    ANSWERED = "answered"
    RECORDED = "recorded"
    DISMISSED = "dismissed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"


_S, _E = InteractionStatus, InteractionEvent

_CUT_SHORT: Final = {
    _E.DISMISSED: _S.CANCELLED,
    _E.CANCELLED: _S.CANCELLED,
    _E.EXPIRED: _S.EXPIRED,
    _E.FAILED: _S.FAILED,
}

TRANSITIONS: Final[Mapping[InteractionStatus, Mapping[InteractionEvent, InteractionStatus]]] = {
    _S.PENDING: {_E.PRESENTED: _S.PRESENTED} | _CUT_SHORT,
    _S.PRESENTED: {_E.ANSWERED: _S.SUBMITTED} | _CUT_SHORT,
    # Passed through inside one transaction: nothing else can come in between.
    _S.SUBMITTED: {_E.RECORDED: _S.COMPLETED},
    _S.COMPLETED: {},
    _S.CANCELLED: {},
    _S.EXPIRED: {},
    _S.FAILED: {},
}

FINAL: Final = frozenset(status for status, row in TRANSITIONS.items() if not row)


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionRow:
    """A question as it is kept: what its owner and hosts see of it (`records.interactions.record`), and more."""

    interaction_id: str
    instance_id: str | None
    """Whose it is; None for a question of policy about a call that has no instance yet."""
    conversation_id: str
    app_scope: str
    agent_id: str | None
    """Whose conversation it is."""
    parent_call_id: str | None = None
    surface_id: str | None = None
    key: str | None = None
    source: Source
    kind: InteractionKind
    request: bytes
    """Canonical, as are `result` and `draft`."""
    presentation: Presentation = "default"
    status: InteractionStatus = InteractionStatus.PENDING
    result: bytes | None = None
    draft: bytes | None = None
    """`{values}` as the host sent it; gone when the question has ended."""
    draft_sequence: int = -1
    reason: str | None = None
    listed_until: str | None = None
    purpose: bytes | None = None
    """What a question of policy is for; policy alone can read it."""
    request_id: str | None = None
    """The worker's request that asked it."""
    settled: bool = False
    """It has ended, and its owner knows: it counts for no bound any more."""
    created_at: str
    updated_at: str
    expires_at: str | None = None
    expires_wall_s: float | None = None


def advance(row: InteractionRow, *events: InteractionEvent, at: str, **changes: object) -> InteractionRow | Rejection:
    """Apply events to `row`, one after the other, and set other fields with them; `at` is RFC 3339.

    Hosts can be late, so an event that does not fit is refused, not raised.
    """
    status = row.status
    for event in events:
        if status in FINAL:
            return already_final(row)
        reached = TRANSITIONS[status].get(event)
        if reached is None:
            detail = f"interaction {row.interaction_id} is {status} and cannot take {event}"
            return Rejection(code=RejectionCode.INTERACTION_INVALID, detail=detail)
        status = reached
    if status in FINAL:
        changes["draft"] = None
    # A clock that was set back must not make a record older than it is.
    return replace(row, status=status, updated_at=max(at, row.updated_at), **changes)  # type: ignore[arg-type]


def must_advance(row: InteractionRow, *events: InteractionEvent, at: str, **changes: object) -> InteractionRow:
    """Apply events of the runtime's own.

    Raises:
        IllegalTransition: The table has no such cell: a bug here.

    """
    moved = advance(row, *events, at=at, **changes)
    if isinstance(moved, Rejection):
        raise IllegalTransition(moved.detail)
    return moved


def already_final(row: InteractionRow) -> Rejection:
    """Whoever comes late is told how it ended."""
    detail = f"interaction {row.interaction_id} is already {row.status}"
    return Rejection(code=RejectionCode.INTERACTION_ALREADY_FINAL, detail=detail)


def answering(row: InteractionRow) -> tuple[InteractionEvent, ...]:
    """The way of an answer; whoever answers has seen it."""
    shown = () if row.status is InteractionStatus.PRESENTED else (_E.PRESENTED,)
    return (*shown, _E.ANSWERED, _E.RECORDED)


def needs_no_answer(request: StandardInteractionRequest) -> bool:
    """Whether it ends when it is shown. Such a one stops no clock."""
    return isinstance(request, NoticeRequest) and request.acknowledge_label is None


def is_overdue(row: InteractionRow, wall_s: float) -> bool:
    """Whether its time is over, whenever the timer runs."""
    return row.status not in FINAL and row.expires_wall_s is not None and row.expires_wall_s <= wall_s


# --- when it expires ---


def parse_time(text: str) -> float | None:
    """Seconds since 1970 of an RFC 3339 time with an offset; None if there is no such time."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def expiry(
    wished_s: float | None, now_s: float, *, timeout_s: float | None = None, call_made_s: float | None = None
) -> float | Rejection | None:
    """When a question expires, in seconds since 1970; None for never.

    One that belongs to a call (its tool's `timeout_s` and when it was made) always does: its clock stands still.
    """
    expires_s = wished_s
    if timeout_s is not None and call_made_s is not None:
        latest_s = call_made_s + LONGEST_WITH_CALL_S
        expires_s = min(latest_s, now_s + timeout_s if wished_s is None else wished_s)
    if expires_s is not None and not now_s < expires_s <= LATEST_S:
        detail = "expires_at is not in the future, or no time that there is"
        return Rejection(code=RejectionCode.INTERACTION_INVALID, detail=detail)
    return expires_s
