"""Changes of a conversation's focus stack, and of the states of those that it covers or uncovers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_actors.commands.follow_ups import InstanceWanted, TellContext
from runtime_actors.records import instances as rows
from runtime_actors.rules import focus
from runtime_actors.rules.instances import InstanceEvent, InstanceState, must_move

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.focus import FocusChange


def bring_to_front(tx: Transaction, conversation_id: str, instance_id: str) -> str | None:
    """Put an instance in front; who was there before is returned, None if it was there already, "" for nobody."""
    stack = rows.stack(tx, conversation_id)
    before = focus.front(stack)
    if before == instance_id:
        return None
    _apply(tx, conversation_id, focus.bring_to_front(stack, instance_id))
    return before or ""


def remove(tx: Transaction, conversation_id: str, instance_id: str) -> None:
    """Take a closing instance off the stack."""
    stack = rows.stack(tx, conversation_id)
    if instance_id in stack:
        _apply(tx, conversation_id, focus.remove(stack, instance_id))


def restore(tx: Transaction, conversation_id: str, instance_id: str, previous: str) -> None:
    """A call that took the front has ended: give it back."""
    stack = rows.stack(tx, conversation_id)
    change = focus.restore(stack, instance_id, previous)
    if change.stack != stack:
        _apply(tx, conversation_id, change)


def _apply(tx: Transaction, conversation_id: str, change: FocusChange) -> None:
    rows.save_stack(tx, conversation_id, change.stack)
    tx.note("focus.changed", conversation_id=conversation_id, instance_id=focus.front(change.stack))
    for instance_id, event in ((change.covered, InstanceEvent.COVERED), (change.fronted, InstanceEvent.FRONTED)):
        instance = rows.get(tx, instance_id) if instance_id else None
        if instance is None:
            continue
        moved = must_move(instance, event, at=tx.at)
        if moved.state == instance.state:
            continue
        rows.save(tx, moved)
        if moved.state == InstanceState.STARTING:  # it was suspended
            tx.follow_ups.append(InstanceWanted(instance.instance_id))
        else:
            tx.follow_ups.append(TellContext(instance.instance_id, moved.state))
