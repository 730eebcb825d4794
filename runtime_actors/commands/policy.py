"""What policy says, for commands that have a conversation and no agent at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from runtime_actors.rules.policy import Decision, Verdict

if TYPE_CHECKING:
    from runtime_actors.contract.interactions import Presentation
    from runtime_actors.records.transaction import Transaction

LifecycleWish = Literal["foreground", "background", "close"]


def presentation(tx: Transaction, app_scope: str, conversation_id: str, wish: Presentation) -> Presentation | None:
    """The wish, or what policy lowers it to; None if the question is refused (`presentation_denied`).

    A rule for `modal` also means the wish `default`, which is `modal` unless something else decides.
    """
    policy = tx.settings.policy
    if not policy.rules:
        return wish
    named = "modal" if wish == "default" else wish
    decision = policy.decide(app_scope, agent_of(tx, conversation_id), conversation_id, presentation=named)
    if decision.verdict is Verdict.DENY:
        return None
    return "inline" if decision.verdict is Verdict.INLINE else wish


def lifecycle(
    tx: Transaction, app_scope: str, conversation_id: str, wish: LifecycleWish, agent_id: str | None = None
) -> bool:
    """Whether an app may ask for this (`lifecycle_denied` if not). `agent_id` as in `capability`."""
    policy = tx.settings.policy
    if not policy.rules:
        return True
    agent_id = agent_id or agent_of(tx, conversation_id)
    decision = policy.decide(app_scope, agent_id, conversation_id, lifecycle=wish)
    return decision.verdict is not Verdict.DENY


def capability(
    tx: Transaction, app_scope: str, conversation_id: str, name: str, agent_id: str | None = None
) -> Decision:
    """What the rules say about a capability; the closed list and the manifest are the caller's.

    `agent_id` names who calls: a conversation that its first call opens has no owner on record yet.
    """
    agent_id = agent_id or agent_of(tx, conversation_id)
    return tx.settings.policy.decide(app_scope, agent_id, conversation_id, capability=name)


def agent_of(tx: Transaction, conversation_id: str) -> str | None:
    """Whose conversation it is, if any rule wants to know."""
    if not tx.settings.policy.names_agents:
        return None
    row = tx.row("select agent_id from conversations where conversation_id = ?", conversation_id)
    return None if row is None else row[0]
