"""Changes of a conversation's focus stack, and of the states of those that it covers or uncovers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_actors.commands import screens
from runtime_actors.commands.follow_ups import InstanceWanted, TellContext
from runtime_actors.commands.states import note_state, show_state, shown_app
from runtime_actors.records import instances as rows
from runtime_actors.rules import focus
from runtime_actors.rules.instances import InstanceEvent, InstanceState, must_move
from runtime_actors.rules.lifecycle import CHAT

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.focus import FocusChange, Stack


def bring_to_front(tx: Transaction, conversation_id: str, instance_id: str) -> str | None:
    """Put an instance in front; who was there before is returned, None if it was there already, "" for nobody.

    It wakes if it comes there suspended. One that was there already has to be woken by `instances.wake`.
    """
    stack = rows.stack(tx, conversation_id)
    before = focus.front(stack)
    if before == instance_id:
        return None
    _apply(tx, conversation_id, focus.bring_to_front(stack, instance_id, floor=_if_chat(tx, instance_id)))
    return before or ""


def lay_floor(tx: Transaction, conversation_id: str, chat_id: str) -> None:
    """There is a `chat` instance: it is below all others from now on."""
    _apply(tx, conversation_id, focus.lay_floor(rows.stack(tx, conversation_id), chat_id))


def leave(tx: Transaction, conversation_id: str, instance_id: str) -> None:
    """Take a living instance off the stack, if it is there."""
    stack = rows.stack(tx, conversation_id)
    if instance_id in stack:
        _apply(tx, conversation_id, focus.leave(stack, instance_id))


def remove(tx: Transaction, conversation_id: str, instance_id: str) -> None:
    """Take a closing instance off the stack."""
    stack = rows.stack(tx, conversation_id)
    if instance_id in stack:
        _apply(tx, conversation_id, focus.remove(stack, instance_id))


def restore(tx: Transaction, conversation_id: str, instance_id: str, previous: str) -> None:
    """A call that took the front has ended: give it back."""
    stack = rows.stack(tx, conversation_id)
    change = focus.restore(stack, instance_id, previous, floor=_if_chat(tx, previous))
    if change.stack != stack:
        _apply(tx, conversation_id, change)


def chat_of(tx: Transaction, stack: Stack) -> str | None:
    """The conversation's `chat` instance: nobody else is below it."""
    return _if_chat(tx, stack[0]) if stack else None


def _if_chat(tx: Transaction, instance_id: str) -> str | None:
    instance = rows.get(tx, instance_id)
    return instance_id if instance is not None and instance.app_scope == CHAT else None


def _apply(tx: Transaction, conversation_id: str, change: FocusChange) -> None:
    rows.save_stack(tx, conversation_id, change.stack)
    tx.note(
        "focus.changed",
        conversation_id=conversation_id,
        instance_id=focus.front(change.stack),
        detail={"stack": list(change.stack)},
    )
    _show_stack(tx, conversation_id, change.stack)
    for instance_id, event in ((change.covered, InstanceEvent.COVERED), (change.fronted, InstanceEvent.FRONTED)):
        instance = rows.get(tx, instance_id) if instance_id else None
        if instance is None:
            continue
        moved = must_move(instance, event, at=tx.at)
        if moved.state == instance.state:
            continue
        rows.save(tx, moved)
        if moved.state == InstanceState.STARTING:  # it was suspended
            note_state(tx, moved)
            tx.follow_ups.append(InstanceWanted(instance.instance_id))
        else:
            show_state(tx, moved)
            tx.follow_ups.append(TellContext(instance.instance_id, moved.state))


def _show_stack(tx: Transaction, conversation_id: str, stack: Stack) -> None:
    found = (rows.get(tx, instance_id) for instance_id in stack)
    data = {
        "stack": [shown_app(tx, instance) for instance in found if instance is not None],
        "front": focus.front(stack),
    }
    screens.show(tx, "focus.changed", conversation_id, conversation_id, data)
