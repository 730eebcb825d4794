"""The life of a tool call.

Every status change in the runtime goes through `advance`, and every legal one is a cell of `TRANSITIONS`: to see what
can happen to a call, read the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.tools import CallStatus
from runtime_actors.errors import IllegalTransition

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_CRASHES: Final = 3
"""Unexpected deaths of the process that had the call, after which it is given up (docs/promises.md, 4)."""
MAX_REFUSED_OUTPUTS: Final = 3
"""Invalid results after which a call fails."""


class CallEvent(StrEnum):
    """What can happen to a call."""

    ADMITTED = "admitted"
    DECLINED = "declined"
    QUEUED = "queued"
    ACCEPTED = "accepted"
    REDELIVERED = "redelivered"
    CANCEL_REQUESTED = "cancel_requested"
    PROGRESSED = "progressed"
    WORKER_LOST = "worker_lost"
    OUTPUT_REFUSED = "output_refused"
    RESULT_SUBMITTED = "result_submitted"
    RECORDED = "recorded"
    APP_FAILED = "app_failed"
    APP_CANCELLED = "app_cancelled"
    GRACE_PASSED = "grace_passed"
    DEADLINE_PASSED = "deadline_passed"
    GIVEN_UP = "given_up"


_S, _E = CallStatus, CallEvent

# What may end any call that has no result yet.
_CUT_SHORT: Final = {
    _E.APP_FAILED: _S.FAILED,
    _E.APP_CANCELLED: _S.CANCELLED,
    _E.GRACE_PASSED: _S.CANCELLED,
    _E.DEADLINE_PASSED: _S.EXPIRED,
    _E.GIVEN_UP: _S.FAILED,
}

TRANSITIONS: Final[Mapping[CallStatus, Mapping[CallEvent, CallStatus]]] = {
    # May wait here for the person's yes. A wish to cancel is a field of the record: it changes no status.
    _S.RECEIVED: {_E.ADMITTED: _S.ROUTING, _E.DECLINED: _S.REJECTED, _E.CANCEL_REQUESTED: _S.RECEIVED} | _CUT_SHORT,
    _S.ROUTING: {_E.QUEUED: _S.WAITING_FOR_APP, _E.CANCEL_REQUESTED: _S.ROUTING} | _CUT_SHORT,
    _S.WAITING_FOR_APP: {
        _E.ACCEPTED: _S.RUNNING,
        _E.REDELIVERED: _S.WAITING_FOR_APP,
        _E.CANCEL_REQUESTED: _S.WAITING_FOR_APP,
        _E.WORKER_LOST: _S.WAITING_FOR_APP,  # it had the call, but never said so
    }
    | _CUT_SHORT,
    _S.RUNNING: {
        _E.PROGRESSED: _S.RUNNING,
        _E.CANCEL_REQUESTED: _S.RUNNING,
        _E.OUTPUT_REFUSED: _S.RUNNING,
        _E.WORKER_LOST: _S.WAITING_FOR_APP,
        _E.RESULT_SUBMITTED: _S.SUBMITTED,
    }
    | _CUT_SHORT,
    # Once submitted, a late cancel must not undo a result.
    _S.SUBMITTED: {_E.RECORDED: _S.COMPLETED},
    _S.COMPLETED: {},
    _S.FAILED: {},
    _S.CANCELLED: {},
    _S.EXPIRED: {},
    _S.REJECTED: {},
}

FINAL: Final = frozenset(status for status, row in TRANSITIONS.items() if not row)


@dataclass(frozen=True, slots=True)
class CallKey:
    """What names a call: ids are scoped by agent and conversation."""

    agent_id: str
    conversation_id: str
    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """RuntimeToolCallRecord of the seed (section 3.2), and what the runtime keeps beside it."""

    seq: int
    """Order of admission."""
    agent_id: str
    conversation_id: str
    call_id: str
    tool_id: str
    inventory_revision: str
    app_scope: str
    instance_id: str | None
    status: CallStatus
    input: bytes
    """Canonical, as are `result`, `failure` and `progress`."""
    digest: bytes
    """SHA-256 of the canonical body of the invocation."""
    result: bytes | None = None
    error_code: str | None = None
    failure: bytes | None = None
    progress: bytes | None = None
    cancel_requested: bool = False
    crashes: int = 0
    refused_outputs: str = ""
    """Ids of the requests whose result was invalid, a blank between them: a repeated request counts once."""
    fails_on_interruption: bool = False
    handling: str
    fronted_over: str | None = None
    """The instance that was in front before this call took the front, to be restored at its end; "" for none."""
    deadline_boot_s: float
    """CLOCK_BOOTTIME of the machine's boot in force; moved by recovery after a reboot."""
    deadline_wall_s: float
    due_boot_s: float | None
    """When the next thing is due: deadline, or the end of a cancel's grace. None exactly when the call is final."""
    message: int | None = None
    """Number of the inbox message that gives it to its app, or gave it: the message ends when it is acknowledged."""
    remaining_s: float | None = None
    """Active time left while its clock stands still, because a question of its own is open (docs/people.md, 2.2)."""
    questions: int = 0
    """How many questions were ever asked for it: whether its end has any to look for."""
    surfaces: int = 0
    """Likewise of surfaces."""
    created_at: str
    updated_at: str

    @property
    def key(self) -> CallKey:
        """Its name."""
        return CallKey(self.agent_id, self.conversation_id, self.call_id)


def advance(call: CallRecord, *events: CallEvent, at: str, **changes: object) -> CallRecord | Rejection:
    """Apply events to `call`, one after the other, and set other fields with them; `at` is RFC 3339.

    Senders can be late, so an event that does not fit is refused, not raised.
    """
    status = call.status
    for event in events:
        if status in FINAL:
            return Rejection(code=RejectionCode.CALL_ALREADY_FINAL, detail=f"call {call.call_id} is already {status}")
        reached = TRANSITIONS[status].get(event)
        if reached is None:
            return Rejection(
                code=RejectionCode.CALL_NOT_READY, detail=f"call {call.call_id} is {status} and cannot take {event}"
            )
        status = reached
    if status in FINAL:
        changes["due_boot_s"] = None
    # A clock that was set back must not make a record older than it is.
    return replace(call, status=status, updated_at=max(at, call.updated_at), **changes)  # type: ignore[arg-type]


NEVER_S: Final = 1e15
"""On CLOCK_BOOTTIME: the deadline of a call whose clock stands still."""


def pause(call: CallRecord, boot_s: float) -> CallRecord:
    """Stop the clock of an open call. The grace of a wish to cancel runs on."""
    if call.remaining_s is not None:
        return call
    due = call.due_boot_s if call.cancel_requested else NEVER_S
    return replace(call, remaining_s=max(0.0, call.deadline_boot_s - boot_s), deadline_boot_s=NEVER_S, due_boot_s=due)


def resume(call: CallRecord, boot_s: float, wall_s: float) -> CallRecord:
    """Let the clock of an open call go on."""
    if call.remaining_s is None or call.due_boot_s is None:
        return call
    deadline = boot_s + call.remaining_s
    return replace(
        call,
        remaining_s=None,
        deadline_boot_s=deadline,
        deadline_wall_s=wall_s + call.remaining_s,
        due_boot_s=min(deadline, call.due_boot_s),
    )


def must_advance(call: CallRecord, *events: CallEvent, at: str, **changes: object) -> CallRecord:
    """Apply events of the runtime's own.

    Raises:
        IllegalTransition: The table has no such cell: a bug here.

    """
    moved = advance(call, *events, at=at, **changes)
    if isinstance(moved, Rejection):
        raise IllegalTransition(moved.detail)
    return moved
