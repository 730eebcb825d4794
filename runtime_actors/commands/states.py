"""The states of instances, as the audit log and hosts are told of them, and waking, which changes nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_actors.commands import screens
from runtime_actors.commands.follow_ups import InstanceWanted
from runtime_actors.records import instances as rows
from runtime_actors.rules.instances import InstanceEvent, InstanceRecord, InstanceState, must_move

if TYPE_CHECKING:
    from runtime_actors.contract.base import JsonObject
    from runtime_actors.records.transaction import Transaction

_OVER = frozenset({InstanceState.CLOSING, InstanceState.CLOSED, InstanceState.FAILED})


def note_state(tx: Transaction, instance: InstanceRecord) -> None:
    """Audit the state an instance has now, and tell hosts."""
    detail: dict[str, object] = {"state": instance.state}
    if instance.end_reason and instance.state in _OVER:
        detail["reason"] = instance.end_reason
    tx.note(
        "instance.changed",
        detail=detail,
        conversation_id=instance.conversation_id,
        instance_id=instance.instance_id,
        app_scope=instance.app_scope,
    )
    show_state(tx, instance)


def show_state(tx: Transaction, instance: InstanceRecord) -> None:
    """Tell hosts the state of an instance. What the focus makes of it has no audit entry but the focus's."""
    data = shown_app(tx, instance) | {"state": str(instance.state)}
    screens.show(tx, "instance.changed", instance.conversation_id, instance.instance_id, data)


def shown_app(tx: Transaction, instance: InstanceRecord) -> JsonObject:
    """How hosts name an instance and its app."""
    app = tx.settings.catalogue.apps.get(instance.app_scope)
    title = app.manifest.extensions.title if app is not None else None
    return {
        "instance_id": instance.instance_id,
        "app_scope": instance.app_scope,
        "app_title": title or instance.app_scope,
    }


def wake(tx: Transaction, instance: InstanceRecord) -> None:
    """Have a suspended instance started again; one in another state is left as it is.

    For whoever puts something into an inbox, and for what brings an instance or its conversation before a person.
    """
    if instance.state is InstanceState.SUSPENDED:
        moved = must_move(instance, InstanceEvent.WOKEN, at=tx.at)
        rows.save(tx, moved)
        note_state(tx, moved)
        tx.follow_ups.append(InstanceWanted(instance.instance_id))


def wake_by_id(tx: Transaction, instance_id: str) -> None:
    """As `wake`."""
    instance = rows.get(tx, instance_id)
    if instance is not None:
        wake(tx, instance)
