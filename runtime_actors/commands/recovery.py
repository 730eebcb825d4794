"""After a start: what becomes of each record that was open when the daemon ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime_actors.commands import action_messages, endings, hosts, inbox, instances, receipts, states, suspension
from runtime_actors.commands.command import command
from runtime_actors.commands.follow_ups import DueAt, InstanceWanted, InteractionDueAt
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.contract.tools import CallStatus
from runtime_actors.records import calls, interactions
from runtime_actors.records import instances as rows
from runtime_actors.rules.calls import FINAL, CallEvent, CallKey, must_advance
from runtime_actors.rules.instances import LIVE, AttemptState, InstanceEvent, InstanceState, must_move

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Recovered:
    """Calls that were interrupted, each to be looked at by a command of its own."""

    interrupted: tuple[CallKey, ...]


@command()
def recover(tx: Transaction, _nothing: object) -> Recovered:
    """Bring clocks, attempts and instances of an earlier daemon to how things stand now. May be repeated."""
    _rebase_clocks(tx)
    hosts.recover_hosts(tx)
    for attempt in rows.running_attempts(tx):
        ended = replace(
            attempt, state=AttemptState.ENDED, end_reason="daemon_ended", ended_boot_s=tx.moment.boot_s, ended_at=tx.at
        )
        rows.save_attempt(tx, ended)
        receipts.forget(tx, attempt.attempt_id)
        tx.note(
            "attempt.ended",
            instance_id=attempt.instance_id,
            attempt_id=attempt.attempt_id,
            detail={"reason": "daemon_ended", "unexpected": False},
        )
        instance = rows.get(tx, attempt.instance_id)
        if instance is not None:
            inbox.mark_seen(tx, instance.conversation_id, instance.app_scope)
            action_messages.note_process_gone(tx, instance)
        if attempt.state is not AttemptState.STARTING:
            _take_as_handed_over(tx, attempt.instance_id)
    for instance in rows.unfinished(tx):
        if instance.state is InstanceState.CLOSING:
            moved = must_move(instance, InstanceEvent.PROCESS_ENDED, at=tx.at)
            rows.save(tx, moved)
            states.note_state(tx, moved)
        elif instance.state is not InstanceState.SUSPENDED and instance.app_scope in tx.settings.catalogue.apps:
            if instance.state is not InstanceState.STARTING:
                rows.save(tx, must_move(instance, InstanceEvent.PROCESS_LOST, at=tx.at))
            tx.follow_ups.append(InstanceWanted(instance.instance_id))
    suspension.wake_debtors(tx)
    # No process is left, so whatever runs was interrupted; also by a daemon that ended before it had looked at it.
    interrupted = calls.running(tx)
    tx.note("runtime.recovered", detail={"interrupted": len(interrupted)})
    due = calls.next_due(tx)
    if due is not None:
        tx.follow_ups.append(DueAt(due))
    expires_s = interactions.next_due(tx)
    if expires_s is not None:
        tx.follow_ups.append(InteractionDueAt(expires_s))
    return Recovered(tuple(interrupted))


def _take_as_handed_over(tx: Transaction, instance_id: str) -> None:
    """A call that must not run twice may have been handed over: nobody knows what the process had seen."""
    for call in calls.open_of_instance(tx, instance_id):
        if call.fails_on_interruption and call.status is CallStatus.WAITING_FOR_APP:
            calls.save(tx, must_advance(call, CallEvent.ACCEPTED, at=tx.at))
            tx.note(
                "call.running",
                agent_id=call.agent_id,
                conversation_id=call.conversation_id,
                call_id=call.call_id,
                instance_id=call.instance_id,
            )


def _rebase_clocks(tx: Transaction) -> None:
    """CLOCK_BOOTTIME starts over when the machine does: deadlines then go by wall time."""
    row = tx.row("select value from meta where name = 'boot_id'")
    if row is not None and row[0] == tx.moment.boot_id:
        return
    tx.sql.execute("insert or replace into meta values ('boot_id', ?)", (tx.moment.boot_id,))
    tx.sql.execute("update attempts set unexpected = 0 where unexpected")  # their times mean nothing now
    shift = tx.moment.boot_s - tx.moment.wall.timestamp()
    tx.sql.execute(
        "update calls set due_boot_s = deadline_wall_s + ?1 - (deadline_boot_s - due_boot_s), "
        "deadline_boot_s = deadline_wall_s + ?1 where due_boot_s is not null and remaining_s is null",
        (shift,),
    )
    # The grace of a call whose clock stands still has no wall time: it is over.
    tx.sql.execute(
        "update calls set due_boot_s = ? where due_boot_s is not null and remaining_s is not null and cancel_requested",
        (tx.moment.boot_s,),
    )


@command()
def recover_call(tx: Transaction, key: CallKey) -> None:
    """Decide about one call that was running when the daemon ended."""
    call = calls.find(tx, key)
    if call is not None and call.status not in FINAL:
        instances.interrupt(tx, call, counted=False)


@command()
def retire_missing_apps(tx: Transaction, _nothing: object) -> None:
    """Close the instances of apps that are not registered in this run, and end the calls of tools that are not."""
    for instance in rows.unfinished(tx):
        if instance.state in LIVE and instance.app_scope not in tx.settings.catalogue.apps:
            instances.close_instance(tx, instance, RejectionCode.APP_DISABLED, "its app is not registered any more")
    for call in calls.open_of_other_tools(tx, tx.settings.catalogue.tools.keys()):
        endings.give_up(tx, call, RejectionCode.APP_DISABLED, "its tool is not registered any more")
