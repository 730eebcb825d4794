"""Conversations belong to the agent that opened them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction


def belongs_to(tx: Transaction, conversation_id: str, agent_id: str) -> bool:
    """Whether an agent may use a conversation: its own, or one that nobody has opened."""
    row = tx.row("select agent_id from conversations where conversation_id = ?", conversation_id)
    return row is None or row[0] == agent_id


def open_conversation(tx: Transaction, conversation_id: str, agent_id: str) -> None:
    """Open it unless it is open."""
    added = tx.sql.execute("insert or ignore into conversations values (?, ?, ?)", (conversation_id, agent_id, tx.at))
    if added.rowcount:
        tx.note("conversation.opened", agent_id=agent_id, conversation_id=conversation_id)
