"""What becomes of a message in a MiniApp's inbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import msgpack

from runtime_actors.commands import screens
from runtime_actors.commands.command import command
from runtime_actors.commands.conversations import belongs_to, open_conversation
from runtime_actors.commands.follow_ups import Deliver, Settled
from runtime_actors.commands.states import wake
from runtime_actors.contract import codec
from runtime_actors.contract.capabilities import CapabilityDecision
from runtime_actors.contract.inbox import AgentText, MiniAppMessage
from runtime_actors.contract.interactions import InteractionRecord
from runtime_actors.contract.lifecycle import RuntimeAction
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.records import boxes, calls, instances
from runtime_actors.records.boxes import InboxRow
from runtime_actors.rules.delivery import WINDOW_BYTES
from runtime_actors.rules.instances import LIVE
from runtime_actors.rules.lifecycle import CHAT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime_actors.contract.base import AuditMark, JsonObject, WireModel
    from runtime_actors.contract.tools import MiniAppToolCall
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.calls import CallRecord

NewsKind = Literal["interaction", "action", "capability"]
_NEWS: Final[Mapping[str, type[WireModel]]] = {
    "interaction": InteractionRecord,
    "action": RuntimeAction,
    "capability": CapabilityDecision,
}


@dataclass(frozen=True, slots=True)
class PutText:
    """A `lineup.v1.message`, checked as far as no record is needed."""

    agent_id: str
    conversation_id: str
    message_id: str
    """The agent's own name for it."""
    app_scope: str
    text: str
    data: dict[str, object] | None
    digest: bytes
    """Of the canonical body."""


@dataclass(frozen=True, slots=True)
class TextReceived:
    """It is in the inbox, or was already."""

    repeated: bool
    audit: AuditMark


@command(growing=True)
def put_text(tx: Transaction, put: PutText) -> TextReceived | Rejection:
    """Commit an agent's text to the inbox of its scope, or answer a repeated one."""
    known = tx.row(
        "select digest from received_messages where agent_id = ? and conversation_id = ? and message_id = ?",
        put.agent_id,
        put.conversation_id,
        put.message_id,
    )
    if known is not None:
        if known[0] == put.digest:
            return TextReceived(repeated=True, audit=tx.mark())
        return _refused(tx, put, RejectionCode.MESSAGE_ID_CONFLICT, "this message_id was used for another message")
    refused = _may_receive(tx, put)
    if refused:
        return refused
    open_conversation(tx, put.conversation_id, put.agent_id)
    tx.sql.execute(
        "insert into received_messages values (?, ?, ?, ?, ?)",
        (put.agent_id, put.conversation_id, put.message_id, put.digest, tx.at),
    )
    body = codec.encode(AgentText(text=put.text, data=put.data).to_wire())
    number = boxes.last_inbox_number(tx, put.conversation_id, put.app_scope) + 1
    row = InboxRow(
        put.conversation_id,
        put.app_scope,
        number,
        "message",
        put.agent_id,
        None,
        body,
        repeated=False,
        created_at=tx.at,
    )
    boxes.put(tx, row)
    instance = instances.live(tx, put.conversation_id, put.app_scope)
    message = _as_message(row, None)
    if instance is not None and message is not None:  # without an instance it waits for the scope's next one
        wake(tx, instance)
        tx.follow_ups.append(Deliver(instance.instance_id, message))
    tx.note(
        "message.received",
        digest=put.digest,
        agent_id=put.agent_id,
        conversation_id=put.conversation_id,
        app_scope=put.app_scope,
        message_id=put.message_id,
    )
    if put.app_scope == CHAT:  # what is said to another app is for the app, and not for the person
        screens.show(tx, "text.agent", put.conversation_id, put.message_id, _shown_text(put))
    return TextReceived(repeated=False, audit=tx.mark())


def _shown_text(put: PutText) -> JsonObject:
    shown: JsonObject = {"agent_id": put.agent_id, "message_id": put.message_id, "text": put.text}
    return shown if put.data is None else shown | {"data": put.data}


def _may_receive(tx: Transaction, put: PutText) -> Rejection | None:
    app = tx.settings.catalogue.apps.get(put.app_scope)
    if app is None:
        return _refused(tx, put, RejectionCode.APP_SCOPE_MISMATCH, "no app has this scope")
    if tx.row("select 1 from switched_off where kind = 'app' and name = ?", put.app_scope):
        return _refused(tx, put, RejectionCode.APP_DISABLED, f"{put.app_scope} is switched off")
    if not any(one.type == "lineup.v1.message" for one in app.manifest.subscriptions):
        return _refused(tx, put, RejectionCode.MESSAGE_NOT_SUBSCRIBED, f"{put.app_scope} takes no messages")
    if not belongs_to(tx, put.conversation_id, put.agent_id):
        return _refused(tx, put, RejectionCode.CONVERSATION_DENIED, "the conversation belongs to another agent")
    if boxes.count(tx, put.conversation_id, put.app_scope) >= tx.settings.bounds.inbox_messages:
        return _refused(tx, put, RejectionCode.BUSY, f"the inbox of {put.app_scope} is full")
    return None


def _refused(tx: Transaction, put: PutText, code: RejectionCode, detail: str) -> Rejection:
    return tx.refuse(
        "message.refused",
        code,
        detail,
        who=put.agent_id,
        conversation_id=put.conversation_id,
        message_id=put.message_id,
    )


def put_call(tx: Transaction, call: CallRecord, *, repeated: bool) -> None:
    """Put a call into the inbox of its instance's scope, as its `message`. A call never has two."""
    assert call.message is not None  # noqa: S101 - whoever puts it has numbered it
    row = InboxRow(
        call.conversation_id, call.app_scope, call.message, "tool.call", call.agent_id, call.call_id, b"", repeated,
        tx.at,
    )  # fmt: skip
    boxes.put(tx, row)
    if call.instance_id is not None:
        tx.follow_ups.append(Deliver(call.instance_id, _call_message(row, call)))


def withdraw_call(tx: Transaction, call: CallRecord) -> bool:
    """Take a call's message out of the inbox; False if it was acknowledged before."""
    if call.message is None or not boxes.remove(tx, call.conversation_id, call.app_scope, call.message):
        return False
    if call.instance_id:
        tx.follow_ups.append(Settled(call.instance_id, call.message))
    return True


def put_news(tx: Transaction, conversation_id: str, app_scope: str, kind: NewsKind, body: WireModel) -> int:
    """Put what concerns the scope's instance itself into its inbox, whatever that holds already.

    `body` is the `InteractionRecord`, `RuntimeAction` or `CapabilityDecision`. The message's number is returned.
    """
    number = boxes.last_inbox_number(tx, conversation_id, app_scope) + 1
    encoded = codec.encode(body.to_wire())
    row = InboxRow(conversation_id, app_scope, number, kind, "", None, encoded, repeated=False, created_at=tx.at)
    boxes.put(tx, row)
    instance = instances.live(tx, conversation_id, app_scope)
    message = _as_message(row, None)
    if instance is not None and message is not None:
        wake(tx, instance)
        tx.follow_ups.append(Deliver(instance.instance_id, message))
    return number


def news(tx: Transaction, conversation_id: str, app_scope: str, kind: NewsKind) -> list[InboxRow]:
    """What `put_news` put and nobody has acknowledged, in order."""
    found = tx.rows(
        "select number from inbox where conversation_id = ? and app_scope = ? and kind = ? order by number",
        conversation_id,
        app_scope,
        kind,
    )
    rows = (boxes.message(tx, conversation_id, app_scope, number) for (number,) in found)
    return [row for row in rows if row is not None]


def withdraw(tx: Transaction, instance_id: str, row: InboxRow) -> None:
    """Take a message out of the inbox of an instance, or of the one that was its scope's."""
    if boxes.remove(tx, row.conversation_id, row.app_scope, row.number):
        tx.follow_ups.append(Settled(instance_id, row.number))


def _as_message(row: InboxRow, call: CallRecord | None) -> MiniAppMessage | None:
    """What goes over the channel; None if the record of its call is gone."""
    if row.call_id is not None:
        return _call_message(row, call) if call else None
    if row.kind in _NEWS:
        return _news_message(row)
    return MiniAppMessage(
        message_id=row.message_id,
        number=row.number,
        kind="message",
        repeated=row.repeated,
        created_at=row.created_at,
        message=AgentText.model_validate(msgpack.unpackb(row.body)),
    )


def _news_message(row: InboxRow) -> MiniAppMessage:
    tree = {
        "message_id": row.message_id,
        "number": row.number,
        "kind": row.kind,
        "repeated": row.repeated,
        "created_at": row.created_at,
        row.kind: _NEWS[row.kind].model_validate(msgpack.unpackb(row.body)),
    }
    return MiniAppMessage.model_validate(tree)


def _call_message(row: InboxRow, call: CallRecord) -> MiniAppMessage:
    return MiniAppMessage(
        message_id=row.message_id,
        number=row.number,
        kind="tool.call",
        repeated=row.repeated,
        created_at=row.created_at,
        call=calls.for_app(call),
    )


@dataclass(frozen=True, slots=True)
class InboxPageOf:
    """A request for more of an instance's inbox."""

    instance_id: str
    in_flight: frozenset[int]
    after: int
    most: int
    most_bytes: int = WINDOW_BYTES
    """Of the bodies together; one message is given whatever its size."""


@dataclass(frozen=True, slots=True)
class InboxRead:
    """Unacknowledged messages in order, without those in flight."""

    instance_id: str
    messages: tuple[MiniAppMessage, ...]
    still: frozenset[int]
    """Those in flight that are not settled."""
    through: int
    """The highest number given when this was read."""
    complete: bool


def read_inbox(tx: Transaction, of: InboxPageOf) -> InboxRead | Rejection:
    """One page of what an instance has not acknowledged."""
    instance = instances.get(tx, of.instance_id)
    if instance is None or instance.state not in LIVE:
        return Rejection(code=RejectionCode.APP_INSTANCE_NOT_FOUND, detail="the instance is closing")
    most = of.most + len(of.in_flight)
    rows = boxes.page(tx, instance.conversation_id, instance.app_scope, of.after, most + 1)
    complete = len(rows) <= most
    found = {row.number for row in rows}
    messages: list[MiniAppMessage] = []
    size = 0
    for row in rows[:most]:
        if row.number in of.in_flight:
            continue
        call = calls.of_instance(tx, instance.instance_id, row.call_id) if row.call_id is not None else None
        size += len(row.body) + (len(call.input) if call is not None else 0)
        if messages and size > of.most_bytes:
            complete = False
            break
        message = _readable(tx, row, call)
        if message is not None:
            messages.append(message)
    still = of.in_flight & found if complete else of.in_flight
    through = boxes.last_inbox_number(tx, instance.conversation_id, instance.app_scope)
    return InboxRead(of.instance_id, tuple(messages), still, through, complete)


def _readable(tx: Transaction, row: InboxRow, call: CallRecord | None) -> MiniAppMessage | None:
    """A record that cannot be read any more must not hold up those behind it."""
    try:
        return _as_message(row, call)
    except (ValueError, TypeError):  # what msgpack and pydantic raise
        tx.note("record.unreadable", app_scope=row.app_scope, message_id=row.message_id, call_id=row.call_id)
        return None


def mark_seen(tx: Transaction, conversation_id: str, app_scope: str) -> None:
    """A process that may have been sent these messages has ended: whoever gets them next is told so."""
    tx.sql.execute(
        "update inbox set repeated = 1 where conversation_id = ? and app_scope = ? and not repeated",
        (conversation_id, app_scope),
    )


def read_for_app(tx: Transaction, of: tuple[str, str]) -> MiniAppToolCall | None:
    """A call as the instance that it was given to sees it; `of` is (instance_id, call_id)."""
    call = calls.of_instance(tx, *of)
    return None if call is None else calls.for_app(call)
