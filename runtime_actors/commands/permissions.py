"""What a person has to permit before it happens: the question, and the grants that come of it (docs/people.md, 7)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from runtime_actors.commands import policy, questions
from runtime_actors.contract.capabilities import is_closed
from runtime_actors.contract.interactions import ConfirmRequest
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.records import grants
from runtime_actors.records.transaction import rfc3339
from runtime_actors.rules.grants import TOOL, GrantEvent, GrantRecord, GrantStatus, is_over, is_remembered, must_advance
from runtime_actors.rules.policy import Verdict
from runtime_actors.rules.text import quotable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime_actors.contract.manifest import ToolDescriptor
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.calls import CallKey, CallRecord
    from runtime_actors.rules.policy import Decision, Rule

PURPOSE: Final = b"permission"
MAX_PROMPT_CHARS: Final = 4000
"""Of a confirm (seed, 3.4)."""
_REASON_CHARS: Final = 2000
"""An app's reason may be cut, what is permitted may not."""
ANSWER_WITHIN_S: Final = 600.0
"""A question that nobody answers ends. One for a call that may take longer than that waits as long."""


@dataclass(frozen=True, slots=True)
class Look:
    """What stands between a wish and its fulfilment. Nothing, if all three are empty."""

    refused: Rejection | None = None
    ask: tuple[tuple[str, Rule], ...] = ()
    """What a person has to permit, each with the rule that says so."""
    use: tuple[GrantRecord, ...] = ()
    """Grants that are good for it."""


NOTHING: Final = Look()


def look_at_tool(tx: Transaction, key: CallKey, descriptor: ToolDescriptor) -> Look:
    """What policy, grants and the manifest say about a call. A tool that nobody ruled about costs nothing."""
    if not descriptor.permissions and not tx.settings.policy.rules:
        return NOTHING
    scope = descriptor.target.app_scope
    decision = tx.settings.policy.decide(scope, key.agent_id, key.conversation_id, tool=descriptor.id)
    if decision.verdict is Verdict.DENY:
        return _refused(RejectionCode.CAPABILITY_DENIED, f"policy denies {descriptor.id}")
    looks = [_stands(tx, scope, key.conversation_id, TOOL + descriptor.id, decision)]
    looks += [look_at_capability(tx, scope, key.conversation_id, name, key.agent_id) for name in descriptor.permissions]
    refused = next((one.refused for one in looks if one.refused is not None), None)
    ask = sum((one.ask for one in looks), ())
    if refused is None and len(_named(ask)) > MAX_PROMPT_CHARS:  # nobody permits what he was not shown
        return _refused(RejectionCode.CAPABILITY_DENIED, f"{descriptor.id} needs more than one question can name")
    return Look(refused, ask, sum((one.use for one in looks), ()))


def look_at_capability(
    tx: Transaction, scope: str, conversation_id: str, capability: str, agent_id: str | None = None
) -> Look:
    """As `look_at_tool`, for one capability; `agent_id` as in `policy.capability`."""
    if is_closed(capability):
        return _refused(RejectionCode.CAPABILITY_DENIED, f"{capability} is never granted")
    app = tx.settings.catalogue.apps.get(scope)
    if app is None or capability not in app.manifest.requested_capabilities:
        return _refused(RejectionCode.CAPABILITY_DENIED, f"{capability} is not declared in the manifest of {scope}")
    decision = policy.capability(tx, scope, conversation_id, capability, agent_id)
    if decision.verdict is Verdict.DENY:
        return _refused(RejectionCode.CAPABILITY_DENIED, f"{capability} is not granted to {scope}")
    return _stands(tx, scope, conversation_id, capability, decision)


def _stands(tx: Transaction, scope: str, conversation_id: str, subject: str, decision: Decision) -> Look:
    rule = decision.rule
    if decision.verdict is not Verdict.ASK or rule is None:
        return NOTHING
    usable = _usable(tx, scope, conversation_id, subject)
    if usable is not None:
        return Look(use=(usable,))
    declined = grants.last_decline(tx, scope, conversation_id, subject)
    if declined is not None and is_remembered(declined, tx.moment.wall.timestamp()):
        return _refused(RejectionCode.PERMISSION_DECLINED, f"a person declined {subject} just now")
    return Look(ask=((subject, rule),))


def _refused(code: RejectionCode, detail: str) -> Look:
    return Look(Rejection(code=code, detail=detail))


def _usable(tx: Transaction, scope: str, conversation_id: str, subject: str) -> GrantRecord | None:
    """A grant that is good now; one for good before one for once. Those whose time is over end here."""
    good = []
    for grant in grants.granted(tx, scope, conversation_id, subject):
        if is_over(grant, tx.moment.wall.timestamp()):
            move(tx, grant, GrantEvent.EXPIRED)
        else:
            good.append(grant)
    return min(good, key=lambda grant: grant.span != "always", default=None)


def use(tx: Transaction, used: Sequence[GrantRecord]) -> None:
    """One request is served by these: those for once are used up."""
    for grant in used:
        if grant.span == "once":
            move(tx, grant, GrantEvent.USED)
        elif tx.floods.wants_entry((grant.grant_id, "grant.used"), tx.moment.boot_s):
            note(tx, "grant.used", grant)


def end_left_over(tx: Transaction, call: CallRecord) -> None:
    """A call ended without what a person had permitted it for once: that is no other request's."""
    for grant in grants.left_of_call(tx, call.app_scope, call.conversation_id, call.call_id):
        move(tx, grant, GrantEvent.EXPIRED)


# --- asking ---


def ask_person(
    tx: Transaction,
    scope: str,
    conversation_id: str,
    subjects: Sequence[tuple[str, Rule]],
    *,
    instance_id: str | None = None,
    call: CallRecord | None = None,
    reason: str | None = None,
) -> list[GrantRecord] | Rejection:
    """Open one question for all `subjects`; `busy` if there is no room for it."""
    question = questions.Question(
        request=_question(tx, scope, subjects, reason),
        source="runtime_policy",
        conversation_id=conversation_id,
        app_scope=scope,
        instance_id=instance_id,
        call=call,
        presentation="modal",
        expires_s=tx.moment.wall.timestamp() + _patience_s(tx, call),
        purpose=PURPOSE,
    )
    opened = questions.open_question(tx, question)
    if isinstance(opened, Rejection):
        return opened
    asked = []
    for subject, rule in subjects:
        grant = GrantRecord(
            grant_id=tx.ids.new("gra"),
            app_scope=scope,
            conversation_id=conversation_id,
            capability=subject,
            span=rule.span,
            status=GrantStatus.ASKING,
            instance_id=instance_id,
            call_id=None if call is None else call.call_id,
            interaction_id=opened.interaction_id,
            reason=reason,
            lasts_s=rule.expires_s,
            created_at=tx.at,
            updated_at=tx.at,
        )
        grants.add(tx, grant)
        note(tx, "grant.asked", grant)
        asked.append(grant)
    return asked


def _patience_s(tx: Transaction, call: CallRecord | None) -> float:
    if call is None:
        return ANSWER_WITHIN_S
    return max(ANSWER_WITHIN_S, tx.settings.catalogue.tools[call.tool_id].descriptor.timeout_ms / 1000)


def _question(tx: Transaction, scope: str, subjects: Sequence[tuple[str, Rule]], reason: str | None) -> ConfirmRequest:
    """In both languages, without a word of the app's own but its quoted reason, which stands last."""
    app = tx.settings.catalogue.apps[scope]
    title = quotable(app.manifest.extensions.title or scope)
    prompt = _named(subjects)
    if reason is not None:
        prompt += f"\n应用给出的理由 / The app's own words: “{quotable(reason)[:_REASON_CHARS]}”"
    return ConfirmRequest(
        kind="confirm",
        title=f"是否允许“{title}”？ / Allow “{title}”?"[:200],  # noqa: RUF001 - Chinese
        prompt=prompt,
        approve_label="允许 / Allow",
        cancel_label="拒绝 / Deny",
    )


def _named(subjects: Sequence[tuple[str, Rule]]) -> str:
    """All that a yes would permit."""
    return "\n".join(_line(subject, rule) for subject, rule in subjects)


def _line(subject: str, rule: Rule) -> str:
    if subject.startswith(TOOL):
        tool = subject.removeprefix(TOOL)
        what, english = f"智能体要使用工具 {tool}", f"An agent wants to use the tool {tool}"
    else:
        what, english = f"需要能力 {subject}", f"The capability {subject} is needed"
    if rule.span == "once":
        span, once = "仅此一次", "for this once"
    else:
        span, once = "此对话中始终", "always in this conversation"
    if rule.expires_s is not None:
        span, once = f"{span}，{rule.expires_s} 秒内有效", f"{once}, for {rule.expires_s} s"  # noqa: RUF001 - Chinese
    return f"{what}（{span}）。 / {english} ({once})."  # noqa: RUF001 - Chinese


# --- what becomes of a grant ---


def move(tx: Transaction, grant: GrantRecord, event: GrantEvent, *, at_s: float | None = None) -> GrantRecord:
    """Apply an event, write it and audit it. `at_s`, by wall time, is when a person said so."""
    changes: dict[str, object] = {}
    if event is GrantEvent.DECLINED:
        changes["declined_wall_s"] = at_s
    elif event is GrantEvent.APPROVED and grant.lasts_s is not None:
        until_s = tx.moment.wall.timestamp() + grant.lasts_s
        changes["expires_wall_s"] = until_s
        changes["expires_at"] = rfc3339(datetime.fromtimestamp(until_s, UTC))
    moved = must_advance(grant, event, at=tx.at, **changes)
    grants.save(tx, moved)
    note(tx, _EVENTS[event], moved)
    return moved


_EVENTS: Final = {
    GrantEvent.APPROVED: "grant.given",
    GrantEvent.DECLINED: "grant.denied",
    GrantEvent.UNANSWERED: "grant.denied",
    GrantEvent.USED: "grant.used",
    GrantEvent.REVOKED: "grant.revoked",
    GrantEvent.EXPIRED: "grant.expired",
}


def note(tx: Transaction, event: str, grant: GrantRecord) -> None:
    """Audit it."""
    tx.note(
        event,
        digest=hashlib.sha256((grant.reason or "").encode()).digest() if grant.reason else b"",
        conversation_id=grant.conversation_id,
        app_scope=grant.app_scope,
        instance_id=grant.instance_id,
        call_id=grant.call_id,
        interaction_id=grant.interaction_id,
        grant_id=grant.grant_id,
        detail={"capability": grant.capability, "span": grant.span, "status": grant.status},
    )
