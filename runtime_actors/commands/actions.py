"""Runtime Actions: what a person does in a host (docs/people.md, section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from runtime_actors.commands import focus, inbox, instances, questions, receipts, screens, states
from runtime_actors.commands.action_messages import PERSON, REFUSED, give, no_room, note_acknowledged, record
from runtime_actors.commands.command import command
from runtime_actors.commands.follow_ups import Post
from runtime_actors.contract import codec, envelope
from runtime_actors.contract.agent import PersonText
from runtime_actors.contract.lifecycle import RuntimeAction
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.tools import CommandReceipt
from runtime_actors.records import boxes
from runtime_actors.records import instances as rows
from runtime_actors.records.boxes import Delivery
from runtime_actors.rules.instances import LIVE, InstanceRecord
from runtime_actors.rules.lifecycle import CHAT

if TYPE_CHECKING:
    from runtime_actors.commands.asker import Asker
    from runtime_actors.contract.base import JsonObject
    from runtime_actors.records.transaction import Transaction


# --- what hosts write ---


@dataclass(frozen=True, slots=True)
class Act:
    """Something a person does to an instance."""

    instance_id: str
    action: Literal["focus", "close", "force_close", "app"]
    name: str | None = None
    data: JsonObject | None = None
    host: str | None = None
    """By way of which host."""


@dataclass(frozen=True, slots=True)
class Acted:
    """It is recorded."""

    action_id: str


@command(growing=True)
def act(tx: Transaction, wanted: Act) -> Acted | Rejection:
    """Do what a person wants with an instance, and tell the app."""
    instance = rows.get(tx, wanted.instance_id)
    refused = _may_act(tx, wanted, instance)
    if refused is not None or instance is None:
        return refused or _not_live(tx, wanted.instance_id)
    action = RuntimeAction(action_id=tx.ids.new("act"), kind=wanted.action, name=wanted.name, data=wanted.data)
    if wanted.action == "focus":
        _focus(tx, instance)
    elif wanted.action != "app":
        questions.put_off(tx, instance.instance_id)
    if wanted.action == "force_close":
        record(tx, instance, action, message=None, host=wanted.host)
        instances.close_instance(tx, instance, RejectionCode.APP_CLOSED, "a person closed the app")
    else:
        give(tx, instance, action, host=wanted.host)
    return Acted(action.action_id)


def _may_act(tx: Transaction, wanted: Act, instance: InstanceRecord | None) -> Rejection | None:
    if (wanted.name is not None) != (wanted.action == "app") or (wanted.data is not None and wanted.name is None):
        detail = "name: an app's own action needs one; it and data go with no other"
        return tx.refuse(REFUSED, RejectionCode.MESSAGE_INVALID, detail, who=PERSON, instance_id=wanted.instance_id)
    if instance is None or instance.state not in LIVE:
        return _not_live(tx, wanted.instance_id)
    return None if wanted.action == "force_close" else no_room(tx, instance.conversation_id, instance.app_scope)


def _not_live(tx: Transaction, instance_id: str) -> Rejection:
    detail = f"{instance_id} is no live instance"
    return tx.refuse(REFUSED, RejectionCode.APP_INSTANCE_NOT_FOUND, detail, who=PERSON, instance_id=instance_id)


def _focus(tx: Transaction, instance: InstanceRecord) -> None:
    before = focus.bring_to_front(tx, instance.conversation_id, instance.instance_id)
    if before is None:
        states.wake(tx, instance)
    elif before:
        questions.put_off(tx, before)
    questions.call_back(tx, instance.instance_id)


@dataclass(frozen=True, slots=True)
class PersonsText:
    """Something a person wrote into a conversation."""

    conversation_id: str
    text: str
    host: str | None = None
    """By way of which host."""


@command(growing=True)
def put_persons_text(tx: Transaction, written: PersonsText) -> Acted | Rejection:
    """Put it into the inbox of the conversation's `chat`, which sends it to the agent."""
    conversation_id = written.conversation_id
    refused = _may_write(tx, conversation_id)
    if refused is not None:
        return refused
    instance = instances.ensure(tx, conversation_id, CHAT)
    action = RuntimeAction(action_id=tx.ids.new("act"), kind="text", text=written.text)
    give(tx, instance, action, host=written.host)
    data: JsonObject = {"action_id": action.action_id, "text": written.text}
    screens.show(tx, "text.person", conversation_id, action.action_id, data)
    return Acted(action.action_id)


def _may_write(tx: Transaction, conversation_id: str) -> Rejection | None:
    names = {"who": PERSON, "conversation_id": conversation_id}
    if tx.row("select 1 from conversations where conversation_id = ?", conversation_id) is None:
        return tx.refuse(REFUSED, RejectionCode.NOT_FOUND, "no agent has opened this conversation", **names)
    if CHAT not in tx.settings.catalogue.apps:
        return tx.refuse(REFUSED, RejectionCode.APP_SCOPE_MISMATCH, f"there is no app {CHAT} here", **names)
    if tx.row("select 1 from switched_off where kind = 'app' and name = ?", CHAT):
        return tx.refuse(REFUSED, RejectionCode.APP_DISABLED, f"{CHAT} is switched off", **names)
    return no_room(tx, conversation_id, CHAT)


# --- what the app does with a text ---


@dataclass(frozen=True, slots=True)
class SendText:
    """An app passes on what a person wrote."""

    by: Asker
    text: str
    action_id: str | None


@command(growing=True)
def send_text(tx: Transaction, send: SendText) -> CommandReceipt | Rejection:
    """Post a person's text to the conversation's agent: once for the action that brought it, which is acknowledged."""
    known = receipts.known(tx, send.by, CommandReceipt)
    if known is not None:
        return known
    instance = rows.get(tx, send.by.instance_id)
    if instance is None or instance.state not in LIVE:
        return _refuse_text(tx, send, RejectionCode.APP_INSTANCE_NOT_FOUND, "the instance is closing")
    if tx.settings.catalogue.apps[instance.app_scope].manifest.kind != "system":
        return _refuse_text(tx, send, RejectionCode.CAPABILITY_DENIED, "only an app of kind system speaks for a person")
    message = None
    if send.action_id is not None:
        action = _text_action(tx, instance, send.action_id)
        if action is None:
            detail = f"{send.action_id} is no text that a person wrote for this app"
            return _refuse_text(tx, send, RejectionCode.NOT_FOUND, detail)
        sent, message = action
        if sent:  # an earlier process sent it, and did not live to hear of it
            return _receipt(tx, send)
    refused = _post(tx, send, instance)
    if refused is not None:
        return refused
    if send.action_id is not None and message is not None:
        _note_sent(tx, instance, send.action_id, message)
    return _receipt(tx, send)


def _receipt(tx: Transaction, send: SendText) -> CommandReceipt:
    return receipts.keep(tx, send.by, CommandReceipt(request_id=send.by.request_id, accepted=True))


def _text_action(tx: Transaction, instance: InstanceRecord, action_id: str) -> tuple[bool, int] | None:
    """Whether the text was sent, and its message; None if it is not a text of this instance's scope."""
    row = tx.row(
        "select sent, message from actions where action_id = ? and conversation_id = ? and app_scope = ? "
        "and kind = 'text'",
        action_id,
        instance.conversation_id,
        instance.app_scope,
    )
    return None if row is None else (bool(row[0]), int(row[1]))


def _note_sent(tx: Transaction, instance: InstanceRecord, action_id: str, message: int) -> None:
    tx.sql.execute("update actions set sent = 1 where action_id = ?", (action_id,))
    row = boxes.message(tx, instance.conversation_id, instance.app_scope, message)
    if row is not None:
        inbox.withdraw(tx, instance.instance_id, row)
        note_acknowledged(tx, row, instance.instance_id)


def _post(tx: Transaction, send: SendText, instance: InstanceRecord) -> Rejection | None:
    conversation_id = instance.conversation_id
    found = tx.row(
        "select a.agent_id, a.last_number, a.unsettled from conversations join agents a using (agent_id) "
        "where conversation_id = ?",
        conversation_id,
    )
    if found is None:
        return _refuse_text(tx, send, RejectionCode.NOT_FOUND, "no agent has opened this conversation")
    agent_id, last, unsettled = found
    if unsettled >= tx.settings.bounds.outbox_deliveries:
        return _refuse_text(tx, send, RejectionCode.BUSY, "too many deliveries are not acknowledged")
    body = PersonText(number=last + 1, text=send.text, sent_at=tx.at)
    kind = "lineup.v1.text"
    frame = envelope.encode(kind, body, id=f"d{body.number}", sent_at=tx.at, conversation_id=conversation_id)
    delivery = Delivery(agent_id, body.number, conversation_id, kind, None, frame)
    boxes.post(tx, delivery)
    tx.follow_ups.append(Post(delivery))
    tx.note(
        "text.sent",
        digest=codec.digest(send.text),
        agent_id=agent_id,
        conversation_id=conversation_id,
        instance_id=instance.instance_id,
        action_id=send.action_id,
    )
    return None


def _refuse_text(tx: Transaction, send: SendText, code: RejectionCode, detail: str) -> Rejection:
    return tx.refuse("text.refused", code, detail, who=send.by.instance_id, action_id=send.action_id)
