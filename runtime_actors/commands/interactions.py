"""Standard interactions: what MiniApps ask, and what hosts do about it for the person (docs/people.md, 2).

Who opens or ends a question in a transaction of its own finds the functions for it in `commands.questions`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from runtime_actors.commands import inbox, policy, questions, receipts
from runtime_actors.commands.command import command
from runtime_actors.contract.interactions import InteractionReceipt
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.tools import CallStatus
from runtime_actors.records import calls, instances, surfaces
from runtime_actors.records import interactions as rows
from runtime_actors.rules import calls as call_rules
from runtime_actors.rules.answers import result_of
from runtime_actors.rules.calls import CallEvent
from runtime_actors.rules.instances import LIVE
from runtime_actors.rules.interactions import (
    FINAL,
    MAX_RESULT_BYTES,
    TRANSITIONS,
    InteractionEvent,
    InteractionRow,
    already_final,
    answering,
    must_advance,
    needs_no_answer,
    parse_time,
)

if TYPE_CHECKING:
    from runtime_actors.commands.asker import Asker
    from runtime_actors.contract.host import HostAnswer
    from runtime_actors.contract.interactions import InteractionRecord, Presentation, UiCancel, UiRequest
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.calls import CallRecord
    from runtime_actors.rules.instances import InstanceRecord

_EXPIRE_AT_ONCE: Final = 100
_LIST_BYTES: Final = 64 * 1024
"""Of requests in one page: a list is read on the thread that commits."""


@dataclass(frozen=True, slots=True)
class InteractionState:
    """How a question stands after a request about it."""

    record: InteractionRecord
    repeated: bool = False
    """Nothing was changed: it had been done before."""


# --- what a MiniApp asks ---


@dataclass(frozen=True, slots=True)
class AskPerson:
    """A MiniApp's `ui.request`."""

    by: Asker
    wish: UiRequest


@command(growing=True)
def request_interaction(tx: Transaction, ask: AskPerson) -> InteractionState | Rejection:
    """Record a question, or answer a repeated one; a known question first of all, however it stands."""
    by, wish = ask.by, ask.wish
    known = rows.of_request(tx, by.instance_id, by.request_id)
    if known is None and wish.key is not None:
        known = rows.of_key(tx, by.instance_id, wish.parent_call_id, wish.key)
        if known is not None and known.request != rows.spelled(wish.request):
            return _refuse(tx, by, RejectionCode.KEY_CONFLICT, "this key was used for another question")
    if known is not None:
        _take_over_again(tx, by, wish.parent_call_id)
        return InteractionState(rows.record(questions.as_it_stands(tx, known)), repeated=True)
    may = _may_ask(tx, by, wish)
    if isinstance(may, Rejection):
        return may
    question = questions.Question(
        request=wish.request,
        source="miniapp_tool",
        conversation_id=may.instance.conversation_id,
        app_scope=may.instance.app_scope,
        instance_id=by.instance_id,
        call=_taken_over(may.call, tx.at),
        surface_id=_its_surface(tx, by.instance_id, wish.parent_call_id),
        presentation=may.presentation,
        expires_s=may.expires_s,
        key=wish.key,
        request_id=by.request_id,
    )
    opened = questions.open_question(tx, question)
    if isinstance(opened, Rejection):
        return _refuse(tx, by, opened.code, opened.detail)
    if may.call is not None:
        _note_taken_over(tx, by, may.call)
    return InteractionState(rows.record(opened))


@dataclass(frozen=True, slots=True)
class _May:
    """An instance may ask."""

    instance: InstanceRecord
    call: CallRecord | None
    presentation: Presentation
    expires_s: float | None


def _may_ask(tx: Transaction, by: Asker, wish: UiRequest) -> _May | Rejection:
    """The checks of docs/people.md, 2.2, in their order; the first that fails answers."""
    expires_s = None if wish.expires_at is None else parse_time(wish.expires_at)
    if wish.expires_at is not None and (expires_s is None or expires_s <= tx.moment.wall.timestamp()):
        return _refuse(tx, by, RejectionCode.INTERACTION_INVALID, "expires_at is not in the future")
    instance = instances.get(tx, by.instance_id)
    if instance is None or instance.state not in LIVE:
        return _refuse(tx, by, RejectionCode.APP_INSTANCE_NOT_FOUND, "the instance is closing")
    scope = instance.app_scope
    if tx.row("select 1 from switched_off where kind = 'app' and name = ?", scope):
        return _refuse(tx, by, RejectionCode.APP_DISABLED, f"{scope} is switched off")
    call = None
    if wish.parent_call_id is not None:
        call = calls.of_instance(tx, by.instance_id, wish.parent_call_id)
        if call is None:
            return _refuse(tx, by, RejectionCode.CALL_NOT_FOUND, "this instance was given no such call")
        if call.status in call_rules.FINAL:
            return _refuse(tx, by, RejectionCode.CALL_ALREADY_FINAL, f"the call is already {call.status}")
    presentation = policy.presentation(tx, scope, instance.conversation_id, wish.presentation)
    if presentation is None:
        return _refuse(tx, by, RejectionCode.PRESENTATION_DENIED, f"policy refuses questions of {scope}")
    return _May(instance, call, presentation, expires_s)


def _its_surface(tx: Transaction, instance_id: str, call_id: str | None) -> str | None:
    """The open surface of its call; else the only one that is open; None if several could be meant."""
    shown = surfaces.open_of_instance(tx, instance_id)
    of_call = [one for one in shown if call_id is not None and one.call_id == call_id]
    meant = of_call or shown
    return meant[0].surface_id if len(meant) == 1 else None


def _taken_over(call: CallRecord | None, at: str) -> CallRecord | None:
    """Whoever asks about a call has taken it over."""
    if call is None or call.status is CallStatus.RUNNING:
        return call
    return call_rules.must_advance(call, CallEvent.ACCEPTED, at=at)


def _take_over_again(tx: Transaction, by: Asker, call_id: str | None) -> None:
    """A later process of the instance asks again: with that it takes the call over, as the first one did."""
    call = None if call_id is None else calls.of_instance(tx, by.instance_id, call_id)
    if call is not None and call.status is CallStatus.WAITING_FOR_APP:
        calls.save(tx, call_rules.must_advance(call, CallEvent.ACCEPTED, at=tx.at))
        _note_taken_over(tx, by, call)


def _note_taken_over(tx: Transaction, by: Asker, call: CallRecord) -> None:
    """Settle its message, too: an app that waits for a person has nothing in its inbox to stay awake for."""
    if inbox.withdraw_call(tx, call):
        tx.note(
            "message.acknowledged",
            conversation_id=call.conversation_id,
            instance_id=by.instance_id,
            message_id=f"m{call.message}",
            call_id=call.call_id,
        )
    if call.status is CallStatus.RUNNING:
        return
    tx.note(
        "call.running",
        agent_id=call.agent_id,
        conversation_id=call.conversation_id,
        call_id=call.call_id,
        instance_id=by.instance_id,
    )


def _refuse(tx: Transaction, by: Asker, code: RejectionCode, detail: str) -> Rejection:
    return tx.refuse("interaction.refused", code, detail, who=by.instance_id, attempt_id=by.attempt_id)


@dataclass(frozen=True, slots=True)
class OwnList:
    """A MiniApp's `ui.list`."""

    by: Asker
    after_interaction_id: str | None


@dataclass(frozen=True, slots=True)
class OwnInteractions:
    """Oldest first; `more` if there are others behind them."""

    records: tuple[InteractionRecord, ...]
    more: bool


@command()
def list_own(tx: Transaction, of: OwnList) -> OwnInteractions:
    """Questions of an instance that have not ended, as many as are read quickly."""
    found: list[InteractionRecord] = []
    size = 0
    for row in rows.open_of_instance(tx, of.by.instance_id, of.after_interaction_id):
        if row.source in questions.ENDED:
            continue
        size += len(row.request)
        if found and size > _LIST_BYTES:
            return OwnInteractions(tuple(found), more=True)
        stands = questions.as_it_stands(tx, row)
        if stands.status not in FINAL:
            found.append(rows.record(stands))
    return OwnInteractions(tuple(found), more=False)


@dataclass(frozen=True, slots=True)
class OwnOne:
    """A MiniApp's `ui.get`."""

    by: Asker
    interaction_id: str


@dataclass(frozen=True, slots=True)
class OwnInteraction:
    """None if the instance owns no such one."""

    record: InteractionRecord | None


@command()
def read_own(tx: Transaction, of: OwnOne) -> OwnInteraction:
    """One question of an instance, however it stands."""
    row = _own(tx, of.by, of.interaction_id)
    return OwnInteraction(None if row is None else rows.record(row))


def _own(tx: Transaction, by: Asker, interaction_id: str) -> InteractionRow | None:
    """As if there were none that are another instance's, or policy's."""
    row = rows.get(tx, interaction_id)
    if row is None or row.instance_id != by.instance_id or row.source in questions.ENDED:
        return None
    return questions.as_it_stands(tx, row)


@dataclass(frozen=True, slots=True)
class CancelOwn:
    """A MiniApp's `ui.cancel`."""

    by: Asker
    wish: UiCancel


@command()
def cancel_interaction(tx: Transaction, cancel: CancelOwn) -> InteractionReceipt | Rejection:
    """End a question of an instance by its own wish."""
    by, wish = cancel.by, cancel.wish
    known = receipts.known(tx, by, InteractionReceipt)
    if known is not None:
        return known
    row = _own(tx, by, wish.interaction_id)
    if row is None:
        return _refuse(tx, by, RejectionCode.INTERACTION_NOT_FOUND, "this instance asked no such question")
    if row.status in FINAL:
        late = already_final(row)
        return _refuse(tx, by, late.code, late.detail)
    ended = questions.end(tx, row, InteractionEvent.CANCELLED, reason=wish.reason, by={"app": by.attempt_id})
    receipt = InteractionReceipt(request_id=by.request_id, accepted=True, interaction=rows.record(ended))
    return receipts.keep(tx, by, receipt)


# --- what a host does ---


@dataclass(frozen=True, slots=True)
class Present:
    """A host shows a question."""

    interaction_id: str
    host: str


@command()
def present(tx: Transaction, shown: Present) -> InteractionState | Rejection:
    """Note that a person can see it; the first host counts. A notice without a label ends with that."""
    row = _open(tx, shown.interaction_id, shown.host)
    if isinstance(row, Rejection):
        return row
    if InteractionEvent.PRESENTED not in TRANSITIONS[row.status]:
        return InteractionState(rows.record(row), repeated=True)
    if needs_no_answer(rows.request_of(row)):
        ended = questions.end(tx, row, *answering(row), result={"acknowledged": False}, by={"host": shown.host})
        return InteractionState(rows.record(ended))
    moved = must_advance(row, InteractionEvent.PRESENTED, at=tx.at)
    rows.save(tx, moved)
    questions.note(tx, "interaction.presented", moved, detail={"host": shown.host})
    questions.show_change(tx, moved)
    questions.tell_owner(tx, moved)
    return InteractionState(rows.record(moved))


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer, by way of a host."""

    interaction_id: str
    given: HostAnswer
    host: str


@command()
def answer(tx: Transaction, said: Answer) -> InteractionState | Rejection:
    """Take the first valid answer: record, result to its owner, and withdrawn at every other host, all or nothing."""
    row = _open(tx, said.interaction_id, said.host)
    if isinstance(row, Rejection):
        return row
    result = result_of(rows.request_of(row), said.given)
    if isinstance(result, Rejection):
        return _refuse_host(tx, said.host, row.interaction_id, result)
    return InteractionState(rows.record(questions.end(tx, row, *answering(row), result=result, by={"host": said.host})))


@dataclass(frozen=True, slots=True)
class Dismiss:
    """A person does not want to answer."""

    interaction_id: str
    host: str


@command()
def dismiss(tx: Transaction, unwanted: Dismiss) -> InteractionState | Rejection:
    """End a question without an answer; to a `confirm` that is a no. Its app is put off for a while."""
    row = _open(tx, unwanted.interaction_id, unwanted.host)
    if isinstance(row, Rejection):
        return row
    by = {"host": unwanted.host, "dismissed": True}
    if row.kind == "confirm":
        ended = questions.end(tx, row, *answering(row), result={"approved": False}, reason="dismissed", by=by)
    else:
        ended = questions.end(tx, row, InteractionEvent.DISMISSED, reason="dismissed", by=by)
    if row.instance_id is not None and row.source not in questions.ENDED:
        questions.put_off(tx, row.instance_id)
    return InteractionState(rows.record(ended))


@dataclass(frozen=True, slots=True)
class Draft:
    """What a person has written so far."""

    interaction_id: str
    sequence: int
    values: bytes
    """Canonical: values by field id."""
    host: str = ""


@command()
def save_draft(tx: Transaction, draft: Draft) -> InteractionState | Rejection:
    """Keep the newest draft of an open `input`; an older one changes nothing."""
    row = _open(tx, draft.interaction_id, draft.host)
    if isinstance(row, Rejection):
        return row
    if row.kind != "input" or len(draft.values) > MAX_RESULT_BYTES:
        detail = f"only an input has a draft, of at most {MAX_RESULT_BYTES} bytes"
        refused = Rejection(code=RejectionCode.INTERACTION_INVALID, detail=detail)
        return _refuse_host(tx, draft.host, row.interaction_id, refused)
    if draft.sequence < row.draft_sequence:
        return InteractionState(rows.record(row), repeated=True)
    rows.save(tx, replace(row, draft=draft.values, draft_sequence=draft.sequence))
    return InteractionState(rows.record(row))


def _open(tx: Transaction, interaction_id: str, host: str) -> InteractionRow | Rejection:
    """A question that can still be answered."""
    row = questions.look(tx, interaction_id)
    if row is None:
        absent = Rejection(code=RejectionCode.INTERACTION_NOT_FOUND, detail="there is no such question")
        return _refuse_host(tx, host, None, absent)
    return _refuse_host(tx, host, row.interaction_id, already_final(row)) if row.status in FINAL else row


def _refuse_host(tx: Transaction, host: str, interaction_id: str | None, why: Rejection) -> Rejection:
    return tx.refuse("interaction.refused", why.code, why.detail, who=f"host {host}", interaction_id=interaction_id)


# --- what time brings ---


@dataclass(frozen=True, slots=True)
class InteractionExpiry:
    """How many questions were ended, and when to look again, by wall time; None if nothing is due."""

    ended: int
    next_due_wall_s: float | None


@command()
def expire_interactions(tx: Transaction, _nothing: object) -> InteractionExpiry:
    """End what is overdue."""
    overdue = rows.due(tx, _EXPIRE_AT_ONCE)
    for row in overdue:
        questions.end(tx, row, InteractionEvent.EXPIRED)
    return InteractionExpiry(len(overdue), rows.next_due(tx))


@command()
def fail_unreadable(tx: Transaction, _nothing: object) -> int:
    """End open questions that nobody can be shown any more: at boot."""
    found = [row for row in rows.every_open(tx) if not rows.is_readable(row)]
    for row in found:
        questions.as_it_stands(tx, row)
    return len(found)
