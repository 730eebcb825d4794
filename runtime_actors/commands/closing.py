"""How an instance comes to its end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime_actors.commands import action_messages, focus, questions, surfaces
from runtime_actors.commands.follow_ups import InstanceDone
from runtime_actors.commands.states import note_state
from runtime_actors.records import instances
from runtime_actors.rules.instances import (
    AttemptEvent,
    InstanceEvent,
    InstanceRecord,
    attempt_after,
    must_move,
)

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction


def close(tx: Transaction, instance: InstanceRecord, reason: str) -> None:
    """Close a live instance: off the focus stack, its process told to end. Calls are the caller's.

    From here on it is not live: a new launch makes a new instance, which gets the messages that were not acknowledged.
    """
    focus.remove(tx, instance.conversation_id, instance.instance_id)
    action_messages.withdraw_all(tx, instance)
    surfaces.close_of_instance(tx, instance)
    questions.end_with_instance(tx, instance)
    instance = instances.get(tx, instance.instance_id) or instance
    moved = must_move(instance, InstanceEvent.CLOSE_WANTED, at=tx.at)
    attempt = instances.running_attempt(tx, instance.instance_id)
    if attempt is None:
        moved = must_move(moved, InstanceEvent.PROCESS_ENDED, at=tx.at)
    else:
        state = attempt_after(attempt, AttemptEvent.STOP_ORDERED) or attempt.state
        instances.save_attempt(tx, replace(attempt, state=state))
    instances.save(tx, replace(moved, end_reason=reason))
    note_state(tx, replace(moved, end_reason=reason))
    tx.follow_ups.append(InstanceDone(instance.instance_id, attempt.attempt_id if attempt else None, reason))


def fail(tx: Transaction, instance: InstanceRecord, reason: str) -> None:
    """Give a live instance up; its process is gone already."""
    focus.remove(tx, instance.conversation_id, instance.instance_id)
    action_messages.withdraw_all(tx, instance)
    surfaces.close_of_instance(tx, instance)
    questions.end_with_instance(tx, instance)
    instance = instances.get(tx, instance.instance_id) or instance
    moved = replace(must_move(instance, InstanceEvent.GIVEN_UP, at=tx.at), end_reason=reason)
    instances.save(tx, moved)
    note_state(tx, moved)
    tx.follow_ups.append(InstanceDone(instance.instance_id, None, reason))
