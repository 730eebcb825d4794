"""How a call ends: its record, its message, its delivery, its instance and the focus, in one transaction."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime_actors.commands import focus, inbox, questions, surfaces
from runtime_actors.commands.closing import close
from runtime_actors.commands.follow_ups import Post, TellCallChanged
from runtime_actors.contract import codec, envelope
from runtime_actors.contract.tools import CallChanged, Failure, ToolProgressDelivery, ToolResultDelivery
from runtime_actors.records import boxes, calls, instances
from runtime_actors.records.boxes import Delivery
from runtime_actors.rules.calls import CallEvent, CallRecord, must_advance
from runtime_actors.rules.instances import LIVE

if TYPE_CHECKING:
    from runtime_actors.contract.rejection import RejectionCode
    from runtime_actors.records.transaction import Transaction


def give_up(tx: Transaction, call: CallRecord, code: RejectionCode, why: str) -> None:
    """The runtime ends a call as failed."""
    end_by_runtime(tx, call, must_advance(call, CallEvent.GIVEN_UP, at=tx.at), code, why)


def end_by_runtime(tx: Transaction, before: CallRecord, after: CallRecord, code: RejectionCode, why: str) -> None:
    """End a call without its app's word, and tell the app."""
    failure = codec.encode(Failure(code=code, message=why).to_wire())
    after = replace(after, error_code=code, failure=failure)
    if after.instance_id:
        change = CallChanged(
            call_id=after.call_id, status=after.status, cancel_requested=after.cancel_requested, reason=code
        )
        tx.follow_ups.append(TellCallChanged(after.instance_id, change))
    end(tx, before, after)


def end(tx: Transaction, before: CallRecord, after: CallRecord, last_delivery: int | None = None) -> None:
    """Record a final state and everything that follows from it.

    `last_delivery` is the highest number of the agent's deliveries, if it is known.
    """
    calls.save(tx, after)
    inbox.withdraw_call(tx, after)
    surfaces.close_of_call(tx, after)
    questions.end_with_call(tx, after)
    tx.note(
        "call.ended",
        digest=hashlib.sha256(after.result or after.failure or b"").digest(),
        agent_id=after.agent_id,
        conversation_id=after.conversation_id,
        call_id=after.call_id,
        instance_id=after.instance_id,
        detail={"from": before.status, "to": after.status, "code": after.error_code},
    )
    _post_result(tx, after, last_delivery)
    if after.instance_id:
        _leave(tx, after, after.instance_id)


def _leave(tx: Transaction, call: CallRecord, instance_id: str) -> None:
    """A launch that ended closes its instance, unless other calls are open; the front goes back where it was."""
    if call.handling != "launch" and not call.fronted_over:
        return
    instance = instances.get(tx, instance_id)
    if instance is None or instance.state not in LIVE:
        return
    if call.handling == "launch" and calls.count_open_of_instance(tx, instance_id) == 0:
        close(tx, instance, "launch_ended")
    elif call.fronted_over:
        focus.restore(tx, call.conversation_id, instance_id, call.fronted_over)


def post_progress(tx: Transaction, call: CallRecord, last_delivery: int) -> None:
    """Post the newest progress; an older one that is not settled is replaced."""
    boxes.drop_progress(tx, call.agent_id, call.conversation_id, call.call_id)
    progress = calls.state(call).progress
    if progress is not None:
        number = last_delivery + 1
        body = ToolProgressDelivery(number=number, call_id=call.call_id, progress=progress)
        _post(tx, call, "lineup.v1.tool.progress", number, body)


def _post_result(tx: Transaction, call: CallRecord, last_delivery: int | None) -> None:
    if call.progress is not None:
        boxes.drop_progress(tx, call.agent_id, call.conversation_id, call.call_id)
    if last_delivery is None:
        last_delivery = boxes.last_delivery_number(tx, call.agent_id)
    number = last_delivery + 1
    state = calls.state(call, with_progress=False)
    _post(tx, call, "lineup.v1.tool.result", number, ToolResultDelivery(number=number, call=state, audit=tx.mark()))


def _post(
    tx: Transaction, call: CallRecord, kind: str, number: int, body: ToolProgressDelivery | ToolResultDelivery
) -> None:
    frame = envelope.encode(kind, body, id=f"d{number}", sent_at=tx.at, conversation_id=call.conversation_id)
    delivery = Delivery(call.agent_id, number, call.conversation_id, kind, call.call_id, frame)
    boxes.post(tx, delivery)
    tx.follow_ups.append(Post(delivery))
