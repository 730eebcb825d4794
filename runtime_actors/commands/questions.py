"""The life of a question inside a transaction: opened, shown, ended; and the clock of the call it belongs to.

`commands.interactions` holds what MiniApps and hosts ask; others open questions here, in their own transactions.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgpack

from runtime_actors.commands import inbox, screens
from runtime_actors.commands.follow_ups import DueAt, InteractionDueAt, TellInteraction
from runtime_actors.commands.put_off import call_back_row, put_off_row, put_off_until
from runtime_actors.contract import codec
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.records import calls, instances
from runtime_actors.records import interactions as rows
from runtime_actors.records.transaction import rfc3339
from runtime_actors.rules import calls as call_rules
from runtime_actors.rules.calls import CallKey
from runtime_actors.rules.instances import LIVE
from runtime_actors.rules.interactions import (
    FINAL,
    MAX_REQUEST_BYTES,
    InteractionEvent,
    InteractionRow,
    advance,
    expiry,
    is_overdue,
    must_advance,
    needs_no_answer,
    parse_time,
)
from runtime_actors.rules.lifecycle import CHAT

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.contract.base import JsonObject
    from runtime_actors.contract.interactions import Presentation, Source, StandardInteractionRequest
    from runtime_actors.records.boxes import InboxRow
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.calls import CallRecord
    from runtime_actors.rules.instances import InstanceRecord

SETTLED_KEPT: Final = 256
"""Questions of an instance whose end it knows; of so many a repeated request, or key, is answered as before."""
_ITS_OWN: Final[tuple[inbox.NewsKind, ...]] = ("interaction", "capability")
"""Messages that are the instance's and not its scope's; of actions, `action_messages` knows which."""

ENDED: Final[dict[Source, Callable[[Transaction, InteractionRow], None]]] = {}
"""What hears of the end of a question instead of its owner's inbox, in the transaction that ended it. `runtime_policy`
has to be here: what the question was for stands in its `purpose`. Its call may have ended before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be asked, by whom."""

    request: StandardInteractionRequest
    source: Source
    conversation_id: str
    app_scope: str
    instance_id: str | None
    call: CallRecord | None = None
    """The open call that it belongs to, as its row is now."""
    surface_id: str | None = None
    presentation: Presentation = "default"
    expires_s: float | None = None
    """A wish, in seconds since 1970."""
    key: str | None = None
    request_id: str | None = None
    purpose: bytes | None = None


def open_question(tx: Transaction, question: Question) -> InteractionRow | Rejection:
    """Record a question, show it to hosts, and stop the clock of its call.

    Refused with `interaction_invalid` (too large, or over already) or `busy`; the audit entry of a refusal is the
    caller's. It always expires if it has a call.
    """
    request = rows.spelled(question.request)
    if len(request) > MAX_REQUEST_BYTES:
        detail = f"the request takes {len(request)} bytes; {MAX_REQUEST_BYTES} are allowed"
        return Rejection(code=RejectionCode.INTERACTION_INVALID, detail=detail)
    expires_s = _expiry(tx, question)
    if isinstance(expires_s, Rejection):
        return expires_s
    crowded = no_room(tx, question.source, question.instance_id, question.app_scope)
    if crowded is not None:
        return crowded
    owner = tx.row("select agent_id from conversations where conversation_id = ?", question.conversation_id)
    row = InteractionRow(
        interaction_id=tx.ids.new("int"),
        instance_id=question.instance_id,
        conversation_id=question.conversation_id,
        app_scope=question.app_scope,
        agent_id=owner[0] if owner else None,
        parent_call_id=question.call.call_id if question.call else None,
        surface_id=question.surface_id,
        key=question.key,
        source=question.source,
        kind=question.request.kind,
        request=request,
        presentation=question.presentation,
        listed_until=put_off_until(tx, question.instance_id) if question.instance_id else None,
        purpose=question.purpose,
        request_id=question.request_id,
        created_at=tx.at,
        updated_at=tx.at,
        expires_at=None if expires_s is None else rfc3339(datetime.fromtimestamp(expires_s, UTC)),
        expires_wall_s=expires_s,
    )
    rows.add(tx, row)
    if question.instance_id is not None:
        rows.drop_settled(tx, question.instance_id, SETTLED_KEPT)
    if question.call is not None:
        _belongs_to(tx, question.call, question.request)
    note(tx, "interaction.opened", row, digest=request, detail={"kind": row.kind, "source": row.source})
    screens.show(tx, "interaction.opened", row.conversation_id, row.interaction_id, shown(tx, row))
    if expires_s is not None:
        tx.follow_ups.append(InteractionDueAt(expires_s))
    return row


def _expiry(tx: Transaction, question: Question) -> float | Rejection | None:
    now_s = tx.moment.wall.timestamp()
    call = question.call
    if call is None:
        return expiry(question.expires_s, now_s)
    timeout_s = tx.settings.catalogue.tools[call.tool_id].descriptor.timeout_ms / 1000
    return expiry(question.expires_s, now_s, timeout_s=timeout_s, call_made_s=parse_time(call.created_at))


def no_room(tx: Transaction, source: Source, instance_id: str | None, app_scope: str) -> Rejection | None:
    """`busy` if so many are open, or ended without their owner knowing, that there can be no other."""
    bounds = tx.settings.bounds
    now = rows.unsettled(tx, instance_id, app_scope)
    if source == "runtime_policy":
        full = now.about_app >= bounds.interactions_per_app or now.of_runtime >= bounds.interactions
    elif app_scope == CHAT:
        full = now.of_instance >= bounds.interactions_per_instance or now.of_runtime >= bounds.interactions
    else:
        full = (
            now.of_instance >= bounds.interactions_per_instance
            or now.of_app >= bounds.interactions_per_app
            or now.of_apps >= bounds.interactions
        )
    return Rejection(code=RejectionCode.BUSY, detail="too many questions are open") if full else None


def look(tx: Transaction, interaction_id: str) -> InteractionRow | None:
    """A question as it stands now: one whose time is over, or that nobody can read any more, is ended first."""
    row = rows.get(tx, interaction_id)
    return None if row is None else as_it_stands(tx, row)


def as_it_stands(tx: Transaction, row: InteractionRow) -> InteractionRow:
    """As `look`, for a row at hand."""
    if row.status in FINAL:
        return row
    if is_overdue(row, tx.moment.wall.timestamp()):
        return end(tx, row, InteractionEvent.EXPIRED)
    if not rows.is_readable(row):
        return end(tx, row, InteractionEvent.FAILED, reason="its record cannot be read any more")
    return row


def end(
    tx: Transaction,
    row: InteractionRow,
    *events: InteractionEvent,
    result: JsonObject | None = None,
    reason: str | None = None,
    by: JsonObject | None = None,
    is_told: bool = True,
) -> InteractionRow:
    """End an open question: its record, the clock of its call, its owner's inbox and what hosts see.

    `by` says for the audit log who ended it, if it was not the runtime.
    `is_told` is false if the owner hears of it otherwise: with the end of the call, or not at all because it ends.
    """
    outcome = None if result is None else codec.encode(result)
    path = _path(row, events, tx.at)
    moved = must_advance(row, *events, at=tx.at, result=outcome, reason=reason)
    is_told = is_told and row.source not in ENDED and _is_live(tx, row.instance_id)
    moved = replace(moved, settled=not is_told)
    rows.save(tx, moved)
    note(tx, "interaction.ended", moved, digest=outcome or b"", detail={"path": path, "told": is_told, **(by or {})})
    if moved.parent_call_id is not None:
        _resume(tx, moved, moved.parent_call_id)
    if is_told:
        inbox.put_news(tx, moved.conversation_id, moved.app_scope, "interaction", rows.record(moved))
    show_change(tx, moved)
    hears = ENDED.get(row.source)
    if hears is not None:
        hears(tx, moved)
    return moved


def _path(row: InteractionRow, events: tuple[InteractionEvent, ...], at: str) -> list[str]:
    """The statuses that are passed, for the audit log."""
    path: list[str] = [row.status]
    for event in events:
        moved = advance(row, event, at=at)
        assert isinstance(moved, InteractionRow)  # noqa: S101 - `must_advance` says so with a better word
        row = moved
        path.append(row.status)
    return path


def _is_live(tx: Transaction, instance_id: str | None) -> bool:
    instance = instances.get(tx, instance_id) if instance_id else None
    return instance is not None and instance.state in LIVE


def tell_owner(tx: Transaction, row: InteractionRow) -> None:
    """News that need not arrive. Questions of policy are no business of the app's."""
    if row.instance_id is not None and row.source not in ENDED:
        tx.follow_ups.append(TellInteraction(row.instance_id, rows.record(row)))


def shown(tx: Transaction, row: InteractionRow) -> JsonObject:
    """As hosts draw it."""
    return rows.shown(row, app_title(tx, row.app_scope))


def app_title(tx: Transaction, app_scope: str) -> str:
    """By which people know an app."""
    app = tx.settings.catalogue.apps.get(app_scope)
    return (app.manifest.extensions.title if app else None) or app_scope


def show_change(tx: Transaction, row: InteractionRow) -> None:
    """Hosts draw it as it is now, or withdraw it."""
    screens.show(tx, "interaction.changed", row.conversation_id, row.interaction_id, shown(tx, row))


def put_off(tx: Transaction, instance_id: str) -> None:
    """The person dismissed a question of the instance, closed it, or put another one in front."""
    put_off_row(tx, instance_id)
    _list_anew(tx, instance_id)


def call_back(tx: Transaction, instance_id: str) -> None:
    """The person returned to the instance."""
    call_back_row(tx, instance_id)
    _list_anew(tx, instance_id)


def _list_anew(tx: Transaction, instance_id: str) -> None:
    """What it has asked already is put forward, or not, like what it will ask."""
    until = put_off_until(tx, instance_id)
    for row in rows.open_of_instance(tx, instance_id):
        if row.source in ENDED or row.listed_until == until:
            continue
        stands = as_it_stands(tx, row)
        if stands.status not in FINAL:
            moved = replace(stands, listed_until=until)
            rows.save(tx, moved)
            show_change(tx, moved)


def acknowledged(tx: Transaction, message: InboxRow) -> None:
    """The owner of a question has taken over how it ended."""
    rows.settle(tx, msgpack.unpackb(message.body)["interaction_id"])


def note(
    tx: Transaction, event: str, row: InteractionRow, *, digest: bytes = b"", detail: JsonObject | None = None
) -> None:
    """Audit it; `digest` is of the words that were said."""
    tx.note(
        event,
        digest=hashlib.sha256(digest).digest() if digest else b"",
        detail=detail,
        conversation_id=row.conversation_id,
        app_scope=row.app_scope,
        instance_id=row.instance_id,
        call_id=row.parent_call_id,
        interaction_id=row.interaction_id,
    )


# --- the clock of the call ---


def _belongs_to(tx: Transaction, call: CallRecord, request: StandardInteractionRequest) -> None:
    counted = replace(call, questions=call.questions + 1)
    calls.save(tx, counted if needs_no_answer(request) else call_rules.pause(counted, tx.moment.boot_s))


def _resume(tx: Transaction, row: InteractionRow, call_id: str) -> None:
    """The last question that stopped the clock has ended."""
    call = calls.find(tx, CallKey(row.agent_id or "", row.conversation_id, call_id))
    if call is None or call.remaining_s is None or call.due_boot_s is None:
        return
    if any(_stops_clock(one) for one in rows.open_of_call(tx, row.conversation_id, call_id)):
        return
    moved = call_rules.resume(call, tx.moment.boot_s, tx.moment.wall.timestamp())
    calls.save(tx, moved)
    tx.follow_ups.append(DueAt(moved.due_boot_s or moved.deadline_boot_s))


def _stops_clock(row: InteractionRow) -> bool:
    return not rows.is_readable(row) or not needs_no_answer(rows.request_of(row))


# --- with what it belongs to ---


def end_with_call(tx: Transaction, call: CallRecord) -> None:
    """A call has ended: its questions are not asked any longer. The app hears of the call."""
    if not call.questions:  # an ordinary call pays nothing
        return
    for row in rows.open_of_call(tx, call.conversation_id, call.call_id):
        ended = end(tx, row, InteractionEvent.CANCELLED, reason="its call has ended", is_told=False)
        tell_owner(tx, ended)


def end_with_instance(tx: Transaction, instance: InstanceRecord) -> None:
    """An instance has ended: its questions, and what its inbox holds for it and not for the scope's next one."""
    for row in rows.open_of_instance(tx, instance.instance_id):
        end(tx, row, InteractionEvent.CANCELLED, reason="its app has ended", is_told=False)
    rows.settle_all(tx, instance.instance_id)
    for kind in _ITS_OWN:
        for message in inbox.news(tx, instance.conversation_id, instance.app_scope, kind):
            inbox.withdraw(tx, instance.instance_id, message)
