"""What can become of a call. The store runs these, inside its transaction."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import msgpack

from runtime_actors.commands import (
    action_messages,
    endings,
    hosts,
    inbox,
    instances,
    permissions,
    policy,
    questions,
    states,
)
from runtime_actors.commands.command import command
from runtime_actors.commands.conversations import belongs_to, open_conversation
from runtime_actors.commands.follow_ups import DueAt, Settled, TellCallChanged
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.tools import CallChanged, CallState, CallStatus
from runtime_actors.records import boxes, calls
from runtime_actors.records.standing import standing
from runtime_actors.rules.admission import question_of
from runtime_actors.rules.calls import (
    FINAL,
    MAX_REFUSED_OUTPUTS,
    CallEvent,
    CallKey,
    CallRecord,
    advance,
    must_advance,
    resume,
)
from runtime_actors.rules.flood import PROGRESSED
from runtime_actors.rules.instances import LIVE

if TYPE_CHECKING:
    from runtime_actors.contract.base import AuditMark, JsonObject
    from runtime_actors.contract.interactions import Source
    from runtime_actors.contract.manifest import ToolDescriptor
    from runtime_actors.records.calls import ReportedCall
    from runtime_actors.records.standing import Standing
    from runtime_actors.records.transaction import Transaction

_EXPIRE_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class CheckedInvoke:
    """An invocation with the verdict of the rungs that need no record."""

    key: CallKey
    tool_id: str
    inventory_revision: str
    input: bytes
    """Canonical."""
    digest: bytes
    """Of the canonical body."""
    verdict: Rejection | None


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """How a call stands after an agent's request."""

    call: CallState
    repeated: bool
    audit: AuditMark | None


@command(growing=True)
def admit(tx: Transaction, invoke: CheckedInvoke) -> CallAnswer | Rejection:
    """Record an invocation and put it into its instance's inbox, or answer a repeated one."""
    if invoke.verdict is not None:
        return _repeated(tx, invoke) or _refuse(tx, invoke.key, invoke.verdict.code, invoke.verdict.detail)
    descriptor = tx.settings.catalogue.tools[invoke.tool_id].descriptor
    now = standing(tx, invoke.key, descriptor.target.app_scope, invoke.tool_id)
    if now.is_known:
        return _repeated(tx, invoke) or _not_found(tx, invoke.key)
    permitted = permissions.look_at_tool(tx, invoke.key, descriptor)
    refused = _may_run(tx, invoke.key, descriptor, now, permitted)
    if refused is not None:
        return refused
    if now.owner is None:
        open_conversation(tx, invoke.key.conversation_id, invoke.key.agent_id)
    if permitted.ask:
        return _ask_first(tx, invoke, permitted)
    permissions.use(tx, permitted.use)
    placed = instances.place(tx, invoke.key, descriptor, now.instance_id, is_suspended=now.is_suspended)
    call = _received(tx, invoke, placed, now.last_message + 1)
    call = must_advance(call, CallEvent.ADMITTED, CallEvent.QUEUED, at=tx.at)
    call = replace(call, seq=calls.add(tx, call))
    inbox.put_call(tx, call, repeated=False)
    tx.note(
        "call.admitted",
        digest=invoke.digest,
        agent_id=call.agent_id,
        conversation_id=call.conversation_id,
        call_id=call.call_id,
        instance_id=call.instance_id,
        detail={"path": [CallStatus.RECEIVED, CallStatus.ROUTING, CallStatus.WAITING_FOR_APP], "tool_id": call.tool_id},
    )
    mark = tx.mark()  # the answer names the call, and not its question
    if descriptor.handling == "interactive":
        _ask_person(tx, call)
    return CallAnswer(calls.state(call), repeated=False, audit=mark)


def _ask_person(tx: Transaction, call: CallRecord) -> None:
    """The call is a question: it is asked in the transaction that lets the call in, which looked whether it may be."""
    question = questions.Question(
        request=question_of(call.tool_id, msgpack.unpackb(call.input)),
        source="agent_tool",
        conversation_id=call.conversation_id,
        app_scope=call.app_scope,
        instance_id=call.instance_id,
        call=call,
    )
    opened = questions.open_question(tx, question)
    assert not isinstance(opened, Rejection)  # noqa: S101 - `_may_run` would have said so


def _repeated(tx: Transaction, invoke: CheckedInvoke) -> CallAnswer | Rejection | None:
    """The answer if there is such a call; looked for first of all, for a repeated call must not be refused as stale."""
    known = calls.find(tx, invoke.key)
    if known is None:
        return None
    if known.digest == invoke.digest:
        return CallAnswer(calls.state(known), repeated=True, audit=tx.mark())
    return _refuse(tx, invoke.key, RejectionCode.CALL_ID_CONFLICT, "this call_id was used for another call")


def _may_run(
    tx: Transaction, key: CallKey, descriptor: ToolDescriptor, now: Standing, permitted: permissions.Look
) -> Rejection | None:
    """The rungs of the ladder that need records."""
    bounds, scope = tx.settings.bounds, descriptor.target.app_scope
    if now.switched_off:
        return _refuse(tx, key, RejectionCode.APP_DISABLED, f"{descriptor.id} or its app is switched off")
    if now.owner not in {None, key.agent_id}:
        return _refuse(tx, key, RejectionCode.CONVERSATION_DENIED, "the conversation belongs to another agent")
    if permitted.refused is not None:
        return _refuse(tx, key, permitted.refused.code, permitted.refused.detail)
    if tx.settings.catalogue.apps[scope].manifest.host.surface_required and not hosts.capable_host(tx):
        return _refuse(
            tx, key, RejectionCode.HOST_UNSUPPORTED, f"{scope} needs a surface, and no host here can show one"
        )
    homeless = _may_be_placed(tx, key, descriptor, now)
    if homeless is not None:
        return homeless
    if now.open_of_instance >= bounds.open_calls_per_instance or now.open_calls >= bounds.open_calls:
        return _refuse(tx, key, RejectionCode.BUSY, "too many calls are open")
    if now.unsettled >= bounds.outbox_deliveries:
        return _refuse(tx, key, RejectionCode.BUSY, "too many deliveries are not acknowledged")
    asks: Source | None = (
        "runtime_policy" if permitted.ask else "agent_tool" if descriptor.handling == "interactive" else None
    )
    if asks is not None:
        crowded = questions.no_room(tx, asks, now.instance_id, scope)
        if crowded is not None:
            return _refuse(tx, key, crowded.code, crowded.detail)
    return None


def _may_be_placed(tx: Transaction, key: CallKey, descriptor: ToolDescriptor, now: Standing) -> Rejection | None:
    scope = descriptor.target.app_scope
    if now.instance_id is None and descriptor.handling == "operation":
        return _refuse(tx, key, RejectionCode.APP_INSTANCE_NOT_FOUND, f"{scope} is not open in this conversation")
    if descriptor.target.requires_foreground and not policy.lifecycle(
        tx, scope, key.conversation_id, "foreground", key.agent_id
    ):
        return _refuse(tx, key, RejectionCode.LIFECYCLE_DENIED, f"policy does not let {scope} take the front")
    return None


def _received(
    tx: Transaction, invoke: CheckedInvoke, placed: instances.Placed | None, message: int | None
) -> CallRecord:
    tool = tx.settings.catalogue.tools[invoke.tool_id]
    timeout_s = tool.descriptor.timeout_ms / 1000
    return CallRecord(
        seq=0,
        agent_id=invoke.key.agent_id,
        conversation_id=invoke.key.conversation_id,
        call_id=invoke.key.call_id,
        tool_id=invoke.tool_id,
        inventory_revision=invoke.inventory_revision,
        app_scope=tool.descriptor.target.app_scope,
        instance_id=placed.instance_id if placed else None,
        status=CallStatus.RECEIVED,
        input=invoke.input,
        digest=invoke.digest,
        fails_on_interruption=tool.fails_on_interruption,
        handling=tool.descriptor.handling,
        fronted_over=placed.fronted_over if placed and tool.descriptor.target.restore_previous_focus else None,
        deadline_boot_s=tx.moment.boot_s + timeout_s,
        deadline_wall_s=tx.moment.wall.timestamp() + timeout_s,
        due_boot_s=tx.moment.boot_s + timeout_s,
        message=message,
        created_at=tx.at,
        updated_at=tx.at,
    )


def _refuse(tx: Transaction, key: CallKey, code: RejectionCode, detail: str) -> Rejection:
    return tx.refuse(
        "call.refused", code, detail, who=key.agent_id, conversation_id=key.conversation_id, call_id=key.call_id
    )


# --- a call that a person has to permit ---


def _ask_first(tx: Transaction, invoke: CheckedInvoke, permitted: permissions.Look) -> CallAnswer:
    """Record the call and ask: it has no instance and no message, and its clock stands still, until the answer."""
    call = _received(tx, invoke, None, None)
    call = replace(call, seq=calls.add(tx, call))
    _ask_permission(tx, call, permitted)
    tx.note(  # last, for the answer names it
        "call.received",
        digest=invoke.digest,
        agent_id=call.agent_id,
        conversation_id=call.conversation_id,
        call_id=call.call_id,
        detail={"tool_id": call.tool_id},
    )
    return CallAnswer(calls.state(call), repeated=False, audit=tx.mark())


def _ask_permission(tx: Transaction, call: CallRecord, permitted: permissions.Look) -> None:
    asked = permissions.ask_person(tx, call.app_scope, call.conversation_id, permitted.ask, call=call)
    assert not isinstance(asked, Rejection)  # noqa: S101 - `_may_run` would have said so


def go_on(tx: Transaction, call: CallRecord) -> None:
    """A person permitted a call: it climbs the whole ladder again, for much may have changed meanwhile."""
    tool = tx.settings.catalogue.tools[call.tool_id]
    descriptor = tool.descriptor
    now = standing(tx, call.key, call.app_scope, call.tool_id)
    now = replace(now, open_calls=now.open_calls - 1)  # without this one
    permitted = permissions.look_at_tool(tx, call.key, descriptor)
    refused = _may_run(tx, call.key, descriptor, now, permitted)
    if refused is None and (fault := tool.input_schema.find_fault(msgpack.unpackb(call.input))) is not None:
        detail = f"input of {call.tool_id} breaks '{fault.keyword}' at {fault.path or '/'}"
        refused = _refuse(tx, call.key, RejectionCode.TOOL_INPUT_INVALID, detail)
    if refused is not None:
        reject(tx, call, refused.code, refused.detail)
        return
    if permitted.ask:  # a newer policy wants more
        _ask_permission(tx, call, permitted)
        return
    permissions.use(tx, permitted.use)
    placed = instances.place(tx, call.key, descriptor, now.instance_id, is_suspended=now.is_suspended)
    moved = must_advance(
        resume(call, tx.moment.boot_s, tx.moment.wall.timestamp()),
        CallEvent.ADMITTED,
        CallEvent.QUEUED,
        at=tx.at,
        instance_id=placed.instance_id,
        fronted_over=placed.fronted_over if descriptor.target.restore_previous_focus else None,
        message=now.last_message + 1,
    )
    calls.save(tx, moved)
    calls.save_place(tx, moved)
    inbox.put_call(tx, moved, repeated=False)
    tx.follow_ups.append(DueAt(moved.deadline_boot_s))
    tx.note(
        "call.admitted",
        digest=call.digest,
        agent_id=call.agent_id,
        conversation_id=call.conversation_id,
        call_id=call.call_id,
        instance_id=moved.instance_id,
        detail={"path": [CallStatus.RECEIVED, CallStatus.ROUTING, CallStatus.WAITING_FOR_APP], "tool_id": call.tool_id},
    )
    if descriptor.handling == "interactive":
        _ask_person(tx, moved)


def reject(tx: Transaction, call: CallRecord, code: RejectionCode, why: str) -> None:
    """A call that waited to be let in is not."""
    endings.end_by_runtime(tx, call, must_advance(call, CallEvent.DECLINED, at=tx.at), code, why)


# --- what an agent asks ---


@dataclass(frozen=True, slots=True)
class CancelWish:
    """An agent no longer wants an answer."""

    key: CallKey
    reason: str | None


@command()
def request_cancel(tx: Transaction, wish: CancelWish) -> CallAnswer | Rejection:
    """Note the wish and tell the app, which has the last word until the grace is over."""
    call = calls.find(tx, wish.key)
    if call is None:
        return _not_found(tx, wish.key)
    if call.cancel_requested:  # this may be the same wish again, whose answer was lost
        return CallAnswer(calls.state(call), repeated=True, audit=None)
    moved = advance(call, CallEvent.CANCEL_REQUESTED, at=tx.at)
    if isinstance(moved, Rejection):
        return _refuse(tx, wish.key, moved.code, moved.detail)
    if call.status is CallStatus.RECEIVED:  # nobody has it yet whose last word could be waited for
        _note(tx, "call.cancel_requested", call)
        ended = replace(must_advance(call, CallEvent.GRACE_PASSED, at=tx.at), cancel_requested=True)
        why = "it was cancelled before it was let in"
        endings.end_by_runtime(tx, call, ended, RejectionCode.CANCEL_GRACE_PASSED, why)
        return CallAnswer(calls.state(_known(tx, wish.key)), repeated=False, audit=tx.mark())
    due = min(call.deadline_boot_s, tx.moment.boot_s + tx.settings.cancel_grace_s)
    moved = replace(moved, cancel_requested=True, due_boot_s=due)
    calls.save(tx, moved)
    tx.note(
        "call.cancel_requested",
        agent_id=call.agent_id,
        conversation_id=call.conversation_id,
        call_id=call.call_id,
        instance_id=call.instance_id,
    )
    tx.follow_ups.append(DueAt(due))
    if moved.instance_id:
        states.wake_by_id(tx, moved.instance_id)  # it has the last word, also while a person thinks
        change = CallChanged(call_id=call.call_id, status=moved.status, cancel_requested=True, reason=wish.reason)
        tx.follow_ups.append(TellCallChanged(moved.instance_id, change))
    return CallAnswer(calls.state(moved), repeated=False, audit=tx.mark())


def _known(tx: Transaction, key: CallKey) -> CallRecord:
    call = calls.find(tx, key)
    assert call is not None  # noqa: S101 - it was just written
    return call


def read_call(tx: Transaction, key: CallKey) -> CallAnswer | Rejection:
    """How a call stands."""
    call = calls.find(tx, key)
    return _not_found(tx, key) if call is None else CallAnswer(calls.state(call), repeated=True, audit=None)


def _not_found(tx: Transaction, key: CallKey) -> Rejection:
    if not belongs_to(tx, key.conversation_id, key.agent_id):
        return _refuse(tx, key, RejectionCode.CONVERSATION_DENIED, "the conversation belongs to another agent")
    return _refuse(tx, key, RejectionCode.CALL_NOT_FOUND, "this agent has no such call in this conversation")


# --- what a MiniApp reports ---


@dataclass(frozen=True, slots=True)
class Reporter:
    """Who reports: written by the channel, never read from a body."""

    instance_id: str
    attempt_id: str
    request_id: str
    call_id: str


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """Canonical progress."""

    by: Reporter
    progress: bytes


@dataclass(frozen=True, slots=True)
class FinalReport:
    """The app's last word about a call."""

    by: Reporter
    status: CallStatus
    """completed, failed or cancelled."""
    payload: bytes | None
    """Canonical result, or failure."""
    code: str | None = None
    """Of a failure or a cancellation."""
    result: JsonObject | None = None
    """What `payload` spells, for its schema."""
    output_fault: str | None = None
    """What is wrong with the result whatever its schema."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The report was taken."""

    call_status: CallStatus


@command()
def report_progress(tx: Transaction, report: ProgressReport) -> Reported | Rejection:
    """Keep the newest progress of a call and post it."""
    reported = _reported_call(tx, report.by)
    if isinstance(reported, Rejection):
        return reported
    found = reported.call
    moved = advance(found, *_taking_over(found), CallEvent.PROGRESSED, at=tx.at, progress=report.progress)
    if isinstance(moved, Rejection):
        return _refuse_report(tx, report.by, moved.code, moved.detail)
    calls.save(tx, moved)
    note = tx.note if moved.status is not found.status else partial(tx.note_often, who=moved.call_id)
    note(
        PROGRESSED,
        digest=hashlib.sha256(report.progress).digest(),
        agent_id=moved.agent_id,
        conversation_id=moved.conversation_id,
        call_id=moved.call_id,
        instance_id=moved.instance_id,
        detail={"from": found.status, "to": moved.status},
    )
    endings.post_progress(tx, moved, reported.last_delivery)
    return Reported(moved.status)


@command()
def finish(tx: Transaction, report: FinalReport) -> Reported | Rejection:
    """Take the app's last word: record, ACK of the message, outbox, focus and audit, all or nothing."""
    reported = _reported_call(tx, report.by)
    if isinstance(reported, Rejection):
        return reported
    found = reported.call
    if found.status in FINAL:
        if _is_same_word(found, report):  # its first receipt was lost
            return Reported(found.status)
        return _refuse_report(tx, report.by, RejectionCode.CALL_ALREADY_FINAL, f"the call is already {found.status}")
    fault = _output_fault(tx, found, report)
    if fault is not None:
        return _refuse_output(tx, found, report, fault)
    if report.status is CallStatus.COMPLETED:
        events = (*_taking_over(found), CallEvent.RESULT_SUBMITTED, CallEvent.RECORDED)
        moved = advance(found, *events, at=tx.at, result=report.payload)
    else:
        event = CallEvent.APP_FAILED if report.status is CallStatus.FAILED else CallEvent.APP_CANCELLED
        moved = advance(found, event, at=tx.at, failure=report.payload, error_code=report.code)
    if isinstance(moved, Rejection):
        return _refuse_report(tx, report.by, moved.code, moved.detail)
    endings.end(tx, found, moved, reported.last_delivery)
    return Reported(moved.status)


def _output_fault(tx: Transaction, call: CallRecord, report: FinalReport) -> str | None:
    if report.output_fault is not None or report.status is not CallStatus.COMPLETED:
        return report.output_fault
    fault = tx.settings.catalogue.tools[call.tool_id].output_schema.find_fault(report.result)
    return None if fault is None else f"the result breaks '{fault.keyword}' at {fault.path or '/'}"


def _refuse_output(tx: Transaction, call: CallRecord, report: FinalReport, fault: str) -> Rejection:
    seen = call.refused_outputs.split()
    refused = _refuse_report(tx, report.by, RejectionCode.TOOL_OUTPUT_INVALID, fault)
    if report.by.request_id in seen:
        return refused
    ids = " ".join([*seen, report.by.request_id])
    moved = advance(call, *_taking_over(call), CallEvent.OUTPUT_REFUSED, at=tx.at, refused_outputs=ids)
    if isinstance(moved, Rejection):
        return moved
    if len(seen) + 1 < MAX_REFUSED_OUTPUTS:
        calls.save(tx, moved)
        if moved.status is not call.status:
            _note(tx, "call.running", moved)
    else:
        endings.give_up(tx, call, RejectionCode.TOOL_OUTPUT_INVALID, f"the app gave {len(seen) + 1} invalid results")
    return refused


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """A MiniApp took a message over."""

    instance_id: str
    attempt_id: str
    number: int | None
    """None for an id that is not one of ours."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The message will not come again."""


@command()
def acknowledge(tx: Transaction, ack: Acknowledge) -> Acknowledged | Rejection:
    """End a message. The ACK of a call's message says that the app has taken the call over."""
    instance = instances.find(tx, ack.instance_id)
    refuse = "message.ack_refused"
    if instance is None or instance.state not in LIVE:
        return tx.refuse(refuse, RejectionCode.APP_INSTANCE_NOT_FOUND, "the instance is closing", who=ack.instance_id)
    last = boxes.last_inbox_number(tx, instance.conversation_id, instance.app_scope)
    if ack.number is None or not 1 <= ack.number <= last:
        return tx.refuse(refuse, RejectionCode.MESSAGE_NOT_FOUND, "no such message in this inbox", who=ack.instance_id)
    row = boxes.message(tx, instance.conversation_id, instance.app_scope, ack.number)
    if row is None:
        return Acknowledged()  # settled before: its receipt was lost
    boxes.remove(tx, row.conversation_id, row.app_scope, row.number)
    tx.follow_ups.append(Settled(ack.instance_id, row.number))
    tx.note(
        "message.acknowledged",
        conversation_id=row.conversation_id,
        instance_id=ack.instance_id,
        message_id=row.message_id,
        call_id=row.call_id,
    )
    if row.kind == "action":
        action_messages.note_acknowledged(tx, row, ack.instance_id)
    elif row.kind == "interaction":
        questions.acknowledged(tx, row)
    call = calls.of_instance(tx, ack.instance_id, row.call_id) if row.call_id else None
    if call is not None and call.status is CallStatus.WAITING_FOR_APP:
        calls.save(tx, must_advance(call, CallEvent.ACCEPTED, at=tx.at))
        _note(tx, "call.running", call)
    return Acknowledged()


def _reported_call(tx: Transaction, by: Reporter) -> ReportedCall | Rejection:
    """The call of a report, if it is this instance's and the instance may still speak."""
    found = calls.for_report(tx, by.instance_id, by.call_id)
    if found is None:
        return _refuse_report(tx, by, RejectionCode.CALL_NOT_FOUND, "this instance was given no such call")
    if found.call.status in FINAL:
        return found
    if not found.is_live:
        return _refuse_report(tx, by, RejectionCode.APP_INSTANCE_NOT_FOUND, "the instance is closing")
    if found.is_off:
        return _refuse_report(tx, by, RejectionCode.APP_DISABLED, f"{found.call.tool_id} or its app is switched off")
    return found


def _taking_over(call: CallRecord) -> tuple[CallEvent, ...]:
    """A report about a call says that it was taken over."""
    return () if call.status is CallStatus.RUNNING else (CallEvent.ACCEPTED,)


def _is_same_word(call: CallRecord, report: FinalReport) -> bool:
    if report.output_fault is not None or call.status is not report.status:
        return False
    return report.payload == (call.result if report.status is CallStatus.COMPLETED else call.failure)


def _refuse_report(tx: Transaction, by: Reporter, code: RejectionCode, detail: str) -> Rejection:
    return tx.refuse("report.refused", code, detail, who=by.instance_id, call_id=by.call_id, attempt_id=by.attempt_id)


def _note(tx: Transaction, event: str, call: CallRecord) -> None:
    tx.note(
        event,
        agent_id=call.agent_id,
        conversation_id=call.conversation_id,
        call_id=call.call_id,
        instance_id=call.instance_id,
    )


# --- what time brings ---


@dataclass(frozen=True, slots=True)
class Expiry:
    """How many calls were ended, and when to look again; None if nothing is due."""

    ended: int
    next_due_boot_s: float | None


@command()
def expire_due(tx: Transaction, _nothing: object) -> Expiry:
    """End what is overdue: cancelled calls whose grace is over, and calls past their deadline."""
    overdue = calls.due(tx, _EXPIRE_AT_ONCE)
    for call in overdue:
        if call.deadline_boot_s <= tx.moment.boot_s:
            moved = must_advance(call, CallEvent.DEADLINE_PASSED, at=tx.at)
            code, why = RejectionCode.DEADLINE_PASSED, "its time was over"
        else:
            moved = must_advance(call, CallEvent.GRACE_PASSED, at=tx.at)
            code, why = RejectionCode.CANCEL_GRACE_PASSED, "the app did not answer the wish to cancel in time"
        endings.end_by_runtime(tx, call, moved, code, why)
    return Expiry(len(overdue), calls.next_due(tx))


@command()
def give_up_call(tx: Transaction, key: CallKey) -> None:
    """A message about this call failed twice and was set aside: end it."""
    call = calls.find(tx, key)
    if call is not None and call.status not in FINAL and call.status is not CallStatus.SUBMITTED:
        endings.give_up(tx, call, RejectionCode.INTERNAL_ERROR, "the runtime failed while working on it")
