"""The life of a grant: what a person was asked to permit, and what became of the answer (docs/people.md, 7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from runtime_actors.errors import IllegalTransition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime_actors.rules.policy import Span

DECLINE_REMEMBERED_S: Final = 60.0
"""A person who said no is not asked again at once."""
TOOL: Final = "tool:"
"""In front of a tool's id, where a grant is for the tool itself and not for a capability. No capability has a colon."""


class GrantStatus(StrEnum):
    """How a grant stands."""

    ASKING = "asking"
    GRANTED = "granted"
    DENIED = "denied"
    USED = "used"
    REVOKED = "revoked"
    EXPIRED = "expired"


class GrantEvent(StrEnum):
    """What can happen to a grant."""

    APPROVED = "approved"
    DECLINED = "declined"
    UNANSWERED = "unanswered"
    """Its question ended without an answer, or policy had changed by then."""
    USED = "used"
    REVOKED = "revoked"
    EXPIRED = "expired"


_S, _E = GrantStatus, GrantEvent

TRANSITIONS: Final[Mapping[GrantStatus, Mapping[GrantEvent, GrantStatus]]] = {
    _S.ASKING: {_E.APPROVED: _S.GRANTED, _E.DECLINED: _S.DENIED, _E.UNANSWERED: _S.DENIED},
    _S.GRANTED: {_E.USED: _S.USED, _E.REVOKED: _S.REVOKED, _E.EXPIRED: _S.EXPIRED},
    _S.DENIED: {},
    _S.USED: {},
    _S.REVOKED: {},
    _S.EXPIRED: {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRecord:
    """One permission that was asked for."""

    grant_id: str
    app_scope: str
    conversation_id: str
    interaction_id: str
    """The question."""
    capability: str
    """Or `tool:` and the id of a tool."""
    span: Span
    """For how many requests a yes is good."""
    status: GrantStatus
    instance_id: str | None = None
    """Who asked; None for a call, which may have no instance yet."""
    call_id: str | None = None
    """The call that waits for it, or did."""
    reason: str | None = None
    """The app's own words."""
    lasts_s: int | None = None
    """How long a yes is good; None for ever."""
    declined_wall_s: float | None = None
    """When a person said no, in seconds since 1970."""
    expires_at: str | None = None
    expires_wall_s: float | None = None
    created_at: str
    updated_at: str


def must_advance(grant: GrantRecord, event: GrantEvent, *, at: str, **changes: object) -> GrantRecord:
    """Apply an event of the runtime's own.

    Raises:
        IllegalTransition: The table has no such cell: a bug here.

    """
    status = TRANSITIONS[grant.status].get(event)
    if status is None:
        raise IllegalTransition(f"grant {grant.grant_id} is {grant.status} and cannot take {event}")
    return replace(grant, status=status, updated_at=max(at, grant.updated_at), **changes)  # type: ignore[arg-type]


def is_over(grant: GrantRecord, wall_s: float) -> bool:
    """Whether its time is over, by wall time."""
    return grant.expires_wall_s is not None and grant.expires_wall_s <= wall_s


def is_remembered(declined_wall_s: float, wall_s: float) -> bool:
    """Whether a person said no just now. A clock that was set back must not make a no last longer."""
    return 0 <= wall_s - declined_wall_s < DECLINE_REMEMBERED_S
