"""What a MiniApp may beyond its own process: asked for, granted, denied, revoked (docs/people.md, 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgpack

from runtime_actors.commands import calls, inbox, permissions, questions, receipts
from runtime_actors.commands.asker import Asker
from runtime_actors.commands.command import command
from runtime_actors.contract.capabilities import CapabilityDecision, CapabilityReceipt
from runtime_actors.contract.interactions import InteractionStatus
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.records import calls as call_rows
from runtime_actors.records import grants, instances
from runtime_actors.rules.calls import FINAL, CallKey
from runtime_actors.rules.grants import GrantEvent, GrantRecord, GrantStatus, is_over
from runtime_actors.rules.instances import LIVE
from runtime_actors.rules.interactions import FINAL as QUESTION_FINAL
from runtime_actors.rules.interactions import InteractionEvent

if TYPE_CHECKING:
    from runtime_actors.contract.capabilities import CapabilityRequest
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.interactions import InteractionRow

_DENIALS: Final = frozenset({RejectionCode.CAPABILITY_DENIED, RejectionCode.PERMISSION_DECLINED})


@dataclass(frozen=True, slots=True)
class CapabilityWish:
    """A MiniApp's `capabilities.request`."""

    by: Asker
    wish: CapabilityRequest


@command(growing=True)
def request_capability(tx: Transaction, asked: CapabilityWish) -> CapabilityReceipt | Rejection:
    """Grant, deny, or ask the person; a repeated request is answered as before."""
    by, capability = asked.by, asked.wish.capability
    known = receipts.known(tx, by, CapabilityReceipt)
    if known is not None:
        return known
    instance = instances.get(tx, by.instance_id)
    if instance is None or instance.state not in LIVE:
        return _deny(tx, by, RejectionCode.APP_INSTANCE_NOT_FOUND, "the instance is closing")
    scope, conversation_id = instance.app_scope, instance.conversation_id
    found = permissions.look_at_capability(tx, scope, conversation_id, capability)
    if found.refused is not None:
        return _deny(tx, by, found.refused.code, found.refused.detail)
    if not found.ask:
        permissions.use(tx, found.use)
        if not found.use:
            _note_allowed(tx, by, scope, conversation_id, capability)
        grant_id = found.use[0].grant_id if found.use else None
        return receipts.keep(tx, by, _receipt(by, "granted", grant_id))
    open_one = grants.asked_by_app(tx, scope, conversation_id, capability)
    if open_one is not None:  # one question at a time: its answer is the answer to both
        return receipts.keep(tx, by, _receipt(by, "asking", open_one.grant_id))
    asking = permissions.ask_person(
        tx, scope, conversation_id, found.ask, instance_id=instance.instance_id, reason=asked.wish.reason
    )
    if isinstance(asking, Rejection):
        return _deny(tx, by, asking.code, asking.detail)
    return receipts.keep(tx, by, _receipt(by, "asking", asking[0].grant_id))


def _receipt(by: Asker, decision: str, grant_id: str | None) -> CapabilityReceipt:
    return CapabilityReceipt.model_validate(
        {"request_id": by.request_id, "accepted": True, "decision": decision, "grant_id": grant_id}
    )


def denied(by: Asker, refused: Rejection) -> CapabilityReceipt:
    """A refusal as a receipt; `denied` is what policy or a person said, and not what was in the way."""
    return CapabilityReceipt(
        request_id=by.request_id,
        accepted=False,
        decision="denied" if refused.code in _DENIALS else None,
        code=refused.code,
        detail=refused.detail,
    )


def _deny(tx: Transaction, by: Asker, code: RejectionCode, detail: str) -> Rejection:
    return tx.refuse("capability.refused", code, detail, who=by.instance_id, attempt_id=by.attempt_id)


def _note_allowed(tx: Transaction, by: Asker, scope: str, conversation_id: str, capability: str) -> None:
    """A rule allows it outright: there is no grant to name."""
    tx.note_often(
        "capability.allowed",
        who=by.instance_id,
        digest=b"",
        detail={"capability": capability},
        conversation_id=conversation_id,
        app_scope=scope,
        instance_id=by.instance_id,
    )


# --- what the person said ---


def _heard(tx: Transaction, row: InteractionRow) -> None:
    """A question of policy has ended. Policy, manifest and what waits for it may have changed since it was opened."""
    asked = grants.of_question(tx, row.interaction_id)
    answered = row.status is InteractionStatus.COMPLETED and row.result is not None
    approved = answered and msgpack.unpackb(row.result or b"").get("approved") is True
    if asked and asked[0].call_id is not None:
        _heard_for_call(tx, _key(row, asked[0].call_id), asked, approved=approved, answered=answered)
        return
    for grant in asked:
        _heard_for_app(tx, grant, approved=approved, answered=answered)


def _heard_for_app(tx: Transaction, grant: GrantRecord, *, approved: bool, answered: bool) -> None:
    refused = permissions.look_at_capability(tx, grant.app_scope, grant.conversation_id, grant.capability).refused
    given = approved and (refused is None or refused.code is RejectionCode.PERMISSION_DECLINED)
    _settle(tx, grant, given=given, declined=answered and not approved)
    instance = instances.get(tx, grant.instance_id or "")
    if instance is not None and instance.state in LIVE:
        decision = CapabilityDecision(
            capability=grant.capability, decision="granted" if given else "denied", grant_id=grant.grant_id
        )
        inbox.put_news(tx, grant.conversation_id, grant.app_scope, "capability", decision)


def _heard_for_call(tx: Transaction, key: CallKey, asked: list[GrantRecord], *, approved: bool, answered: bool) -> None:
    call = call_rows.find(tx, key)
    waits = call is not None and call.status not in FINAL
    for grant in asked:
        _settle(tx, grant, given=approved and waits, declined=answered and not approved)
    if call is not None and waits and approved:
        calls.go_on(tx, call)
    elif call is not None and waits:
        why = "a person declined it" if answered else "nobody permitted it in time"
        calls.reject(tx, call, RejectionCode.PERMISSION_DECLINED, why)
    _end_left_over(tx, key)
    if waits and approved:
        _let_others_in(tx, asked)


def _end_left_over(tx: Transaction, key: CallKey) -> None:
    call = call_rows.find(tx, key)
    if call is not None and call.status in FINAL:
        permissions.end_left_over(tx, call)


def _let_others_in(tx: Transaction, given: list[GrantRecord]) -> None:
    """What was permitted for good need not be asked for other calls that wait for it."""
    for grant in given:
        if grant.span != "always":
            continue
        for other in grants.asked_by_calls(tx, grant.app_scope, grant.conversation_id, grant.capability):
            question = questions.look(tx, other.interaction_id)
            call = None if question is None else call_rows.find(tx, _key(question, other.call_id or ""))
            if question is None or question.status in QUESTION_FINAL or call is None or call.status in FINAL:
                continue
            tool = tx.settings.catalogue.tools[call.tool_id]
            if permissions.look_at_tool(tx, call.key, tool.descriptor).ask:
                continue  # it waits for something else as well
            for asked in grants.of_question(tx, question.interaction_id):
                permissions.move(tx, asked, GrantEvent.UNANSWERED)
            questions.end(tx, question, InteractionEvent.CANCELLED, reason="it was permitted otherwise", is_told=False)
            calls.go_on(tx, call_rows.find(tx, call.key) or call)
            _end_left_over(tx, call.key)


def _key(question: InteractionRow, call_id: str) -> CallKey:
    return CallKey(question.agent_id or "", question.conversation_id, call_id)


def _settle(tx: Transaction, grant: GrantRecord, *, given: bool, declined: bool) -> None:
    if given:
        permissions.move(tx, grant, GrantEvent.APPROVED)
    elif declined:
        permissions.move(tx, grant, GrantEvent.DECLINED, at_s=tx.moment.wall.timestamp())
    else:
        permissions.move(tx, grant, GrantEvent.UNANSWERED)


questions.ENDED["runtime_policy"] = _heard


# --- what the operator does ---


@dataclass(frozen=True, slots=True)
class Revoked:
    """How the grant stands."""

    grant_id: str
    status: str
    changed: bool


@command()
def revoke_grant(tx: Transaction, grant_id: str) -> Revoked | Rejection:
    """Take a grant back, for all requests to come; one that is over already stays as it is."""
    grant = grants.get(tx, grant_id)
    if grant is None:
        detail = "there is no such grant; `lineup grants` lists them"
        return tx.refuse("grant.revoke_refused", RejectionCode.NOT_FOUND, detail, who="operator", name=grant_id)
    if grant.status is GrantStatus.ASKING:
        detail = "a person is being asked for it just now; dismiss the question with `lineup dismiss`"
        return tx.refuse("grant.revoke_refused", RejectionCode.BUSY, detail, who="operator", name=grant_id)
    if grant.status is not GrantStatus.GRANTED:
        return Revoked(grant_id, grant.status, changed=False)
    over = is_over(grant, tx.moment.wall.timestamp())
    moved = permissions.move(tx, grant, GrantEvent.EXPIRED if over else GrantEvent.REVOKED)
    return Revoked(grant_id, moved.status, changed=not over)
