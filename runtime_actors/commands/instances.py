"""What can become of an instance and of its attempts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from runtime_actors.commands import action_messages, closing, endings, focus, inbox, receipts, states, suspension
from runtime_actors.commands.command import command
from runtime_actors.commands.follow_ups import InstanceWanted
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.contract.tools import CallStatus
from runtime_actors.records import boxes, calls
from runtime_actors.records import instances as rows
from runtime_actors.rules import focus as focus_rules
from runtime_actors.rules.calls import FINAL, MAX_CRASHES, CallEvent, must_advance
from runtime_actors.rules.instances import (
    LIVE,
    AttemptEvent,
    AttemptRecord,
    AttemptState,
    InstanceEvent,
    InstanceRecord,
    InstanceState,
    attempt_after,
    must_move,
)
from runtime_actors.rules.lifecycle import CHAT
from runtime_actors.rules.restart import MISUSE, GiveUp, after_end

if TYPE_CHECKING:
    from runtime_actors.contract.manifest import ToolDescriptor
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.calls import CallKey, CallRecord

NEVER_AGAIN: Final = frozenset({"import_failed", "start_timeout", "capability_set_incompatible"})
"""Ends that a restart would only repeat."""

NO_ROOM_WAIT_S: Final = 1.0
MISUSE_WAIT_S: Final = 2.0
_NO_ROOM: Final = ("fork_failed", "no_socket")
_LEAST_WAIT_S: Final = dict.fromkeys(_NO_ROOM, NO_ROOM_WAIT_S) | dict.fromkeys(MISUSE, MISUSE_WAIT_S)
"""Before another start. What broke the protocol is no accident that a call should be spared, and reading it cost others
time. The want of something of the system's does not count as an end of the app, so nothing else would keep it from
being met again as fast as the disk allows."""

find = rows.get
wake = states.wake


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a call goes."""

    instance_id: str
    fronted_over: str | None
    """Who was in front before this call took the front, "" for nobody; None if it did not."""


def place(
    tx: Transaction, key: CallKey, descriptor: ToolDescriptor, instance_id: str | None, *, is_suspended: bool = False
) -> Placed:
    """Give a call the live instance, woken if it `is_suspended`, or a new one; and the front if the tool says so."""
    if instance_id is None:
        instance_id = make(tx, key.conversation_id, descriptor.target.app_scope).instance_id
    elif is_suspended:
        states.wake_by_id(tx, instance_id)
    over = None
    if descriptor.target.requires_foreground:
        over = focus.bring_to_front(tx, key.conversation_id, instance_id)
    return Placed(instance_id, over)


def ensure(tx: Transaction, conversation_id: str, scope: str) -> InstanceRecord:
    """The live instance of a registered app in an open conversation; a new one if there is none."""
    return rows.live(tx, conversation_id, scope) or make(tx, conversation_id, scope)


def make(tx: Transaction, conversation_id: str, scope: str) -> InstanceRecord:
    """A new instance of a scope that has no live one; `chat` becomes the floor of the focus stack."""
    instance = InstanceRecord(
        instance_id=tx.ids.new("ins"),
        conversation_id=conversation_id,
        app_scope=scope,
        app_version=tx.settings.catalogue.apps[scope].manifest.version,
        state=InstanceState.STARTING,
        created_at=tx.at,
        updated_at=tx.at,
    )
    rows.add(tx, instance)
    states.note_state(tx, instance)
    if scope == CHAT:
        focus.lay_floor(tx, conversation_id, instance.instance_id)
    tx.follow_ups.append(InstanceWanted(instance.instance_id))
    return instance


# --- attempts ---


@dataclass(frozen=True, slots=True)
class AttemptBegun:
    """An instance may have a new process."""

    instance: InstanceRecord
    attempt_id: str


@dataclass(frozen=True, slots=True)
class NotWanted:
    """The instance has a process, or needs none any more."""

    instance_id: str


@command()
def begin_attempt(tx: Transaction, instance_id: str) -> AttemptBegun | NotWanted:
    """Record that an instance is about to get a process."""
    instance = rows.get(tx, instance_id)
    if instance is None or instance.state is not InstanceState.STARTING or rows.running_attempt(tx, instance_id):
        return NotWanted(instance_id)
    attempt = AttemptRecord(
        attempt_id=tx.ids.new("att"),
        instance_id=instance_id,
        state=AttemptState.STARTING,
        started_at=tx.at,
        started_boot_s=tx.moment.boot_s,
    )
    rows.add_attempt(tx, attempt)
    tx.note("attempt.started", instance_id=instance_id, attempt_id=attempt.attempt_id)
    return AttemptBegun(instance, attempt.attempt_id)


@dataclass(frozen=True, slots=True)
class Spawned:
    """A process was forked."""

    attempt_id: str
    pid: int


@command()
def note_spawned(tx: Transaction, spawned: Spawned) -> None:
    """Keep the process id, for people and for `ps`."""
    attempt = rows.attempt(tx, spawned.attempt_id)
    if attempt is not None and attempt.state is not AttemptState.ENDED:
        rows.save_attempt(tx, replace(attempt, pid=spawned.pid))


@dataclass(frozen=True, slots=True)
class Attached:
    """A worker has loaded its MiniApp."""

    attempt_id: str
    level: str
    snapshot: bytes
    """Canonical `sdkCapabilitySnapshot[]`."""


@dataclass(frozen=True, slots=True)
class AttemptReady:
    """The attempt may be given work."""

    attempt_id: str
    instance_id: str
    state: InstanceState


@dataclass(frozen=True, slots=True)
class AttemptOver:
    """The attempt is to end, or has."""

    attempt_id: str


@command()
def attach(tx: Transaction, attached: Attached) -> AttemptReady | AttemptOver:
    """Make an attempt ready, and give it its instance's debts: each open call without a message gets one again."""
    attempt = rows.attempt(tx, attached.attempt_id)
    instance = rows.get(tx, attempt.instance_id) if attempt else None
    if attempt is None or instance is None or instance.state not in LIVE:
        return AttemptOver(attached.attempt_id)
    if attempt.state is AttemptState.READY:  # asked again: the first answer was lost
        return AttemptReady(attempt.attempt_id, instance.instance_id, instance.state)
    if attempt.state is not AttemptState.STARTING:
        return AttemptOver(attached.attempt_id)
    state = attempt_after(attempt, AttemptEvent.ATTACHED) or attempt.state
    rows.save_attempt(tx, replace(attempt, state=state, level=attached.level, snapshot=attached.snapshot))
    in_front = focus_rules.front(rows.stack(tx, instance.conversation_id)) == instance.instance_id
    moved = must_move(instance, InstanceEvent.READY_IN_FRONT if in_front else InstanceEvent.READY_BEHIND, at=tx.at)
    rows.save(tx, moved)
    states.note_state(tx, moved)
    tx.note(
        "attempt.ready",
        digest=hashlib.sha256(attached.snapshot).digest(),
        instance_id=instance.instance_id,
        attempt_id=attempt.attempt_id,
        detail={"level": attached.level},
    )
    action_messages.note_handed_over(tx, instance)
    for call in calls.open_of_instance(tx, instance.instance_id):
        # An earlier process had it, and recovery has not come to it yet: this one must not be given it.
        if call.fails_on_interruption and call.status is CallStatus.RUNNING:
            interrupt(tx, call, counted=False)
        elif not _is_readable(call):  # one spoiled record must not keep the process from all its other calls
            endings.give_up(tx, call, RejectionCode.INTERNAL_ERROR, "its record cannot be read any more")
    still = rows.get(tx, instance.instance_id)
    if still is None or still.state not in LIVE:
        return AttemptOver(attached.attempt_id)  # that was its last call
    _owe_again(tx, instance.instance_id)
    return AttemptReady(attempt.attempt_id, instance.instance_id, still.state)


def _is_readable(call: CallRecord) -> bool:
    try:
        calls.for_app(call)
    except (ValueError, TypeError):  # what msgpack and pydantic raise
        return False
    return True


def _owe_again(tx: Transaction, instance_id: str) -> None:
    """Put the debts of an instance into its inbox again, in the order in which its calls were admitted.

    A call that lost its message gets a new one; so does each later call, for it must not overtake.
    """
    again = False
    for call in calls.open_of_instance(tx, instance_id):
        waits = boxes.message(tx, call.conversation_id, call.app_scope, call.message or 0)
        again = again or waits is None
        if again:
            inbox.withdraw_call(tx, call)
            _redeliver(tx, call, repeated=waits is None or waits.repeated)


def _redeliver(tx: Transaction, call: CallRecord, *, repeated: bool) -> None:
    event = CallEvent.WORKER_LOST if call.status is CallStatus.RUNNING else CallEvent.REDELIVERED
    number = boxes.last_inbox_number(tx, call.conversation_id, call.app_scope) + 1
    moved = must_advance(call, event, at=tx.at, message=number)
    calls.save(tx, moved)
    inbox.put_call(tx, moved, repeated=repeated)
    tx.note(
        "call.redelivered",
        agent_id=call.agent_id,
        conversation_id=call.conversation_id,
        call_id=call.call_id,
        instance_id=call.instance_id,
    )


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """A process is gone, and everything it had said was handled."""

    attempt_id: str
    reason: str
    counted: bool
    """It may be the app's fault: it counts for restarts and for its calls, unless the attempt was told to end."""
    delivered: tuple[str, ...] = ()
    """Calls whose message it was sent."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end is recorded."""

    attempt_id: str
    instance_id: str


@command()
def end_attempt(tx: Transaction, end: AttemptEnd) -> Ended | None:
    """Record an end and decide what becomes of the instance and of the calls the process had."""
    attempt = rows.attempt(tx, end.attempt_id)
    if attempt is None or attempt.state is AttemptState.ENDED:
        return None
    unexpected = end.counted and attempt.state is not AttemptState.STOPPING
    reason = end.reason
    if reason == "import_failed" and attempt.state is not AttemptState.STARTING:
        reason = "ended"  # it was imported: the app chose the exit code that says otherwise
    ended = replace(
        attempt,
        state=AttemptState.ENDED,
        end_reason=reason,
        unexpected=unexpected,
        ended_boot_s=tx.moment.boot_s,
        ended_at=tx.at,
    )
    rows.save_attempt(tx, ended)
    receipts.forget(tx, attempt.attempt_id)
    tx.note(
        "attempt.ended",
        instance_id=attempt.instance_id,
        attempt_id=attempt.attempt_id,
        detail={"reason": reason, "unexpected": unexpected},
    )
    instance = rows.get(tx, attempt.instance_id)
    if instance is not None and attempt.state is not AttemptState.STARTING:
        inbox.mark_seen(tx, instance.conversation_id, instance.app_scope)
        action_messages.note_process_gone(tx, instance)
    if instance is not None and instance.state is InstanceState.CLOSING:
        moved = must_move(instance, InstanceEvent.PROCESS_ENDED, at=tx.at)
        rows.save(tx, moved)
        states.note_state(tx, moved)
    elif instance is not None and instance.state in LIVE:
        _lose_process(tx, instance, ended, frozenset(end.delivered))
    return Ended(attempt.attempt_id, attempt.instance_id)


def _lose_process(tx: Transaction, instance: InstanceRecord, ended: AttemptRecord, delivered: frozenset[str]) -> None:
    if instance.state is not InstanceState.SUSPENDED:
        instance = must_move(instance, InstanceEvent.PROCESS_LOST, at=tx.at)
        rows.save(tx, instance)
        states.note_state(tx, instance)
    for call in calls.open_of_instance(tx, instance.instance_id):
        if call.status is CallStatus.RUNNING or call.call_id in delivered:
            interrupt(tx, call, counted=ended.unexpected, why=ended.end_reason)
    again = rows.get(tx, instance.instance_id)
    if again is None or again.state is not InstanceState.STARTING:
        return  # its last call ended, and with it the instance
    if ended.unexpected and ended.end_reason in NEVER_AGAIN:
        _give_up_instance(tx, again, RejectionCode.APP_START_FAILED)
        return
    since = tx.moment.boot_s - tx.settings.restart.period_s
    ends = rows.unexpected_ends(tx, again.instance_id, since)
    jitter = hashlib.sha256(ended.attempt_id.encode()).digest()[0] / 255
    decision = after_end(ends, tx.moment.boot_s, tx.settings.restart, jitter)
    if isinstance(decision, GiveUp):
        _give_up_instance(tx, again, RejectionCode.APP_CRASHED)
    else:
        after_s = max(decision.after_s, _LEAST_WAIT_S.get(ended.end_reason or "", 0.0))
        tx.follow_ups.append(InstanceWanted(again.instance_id, after_s))


def interrupt(tx: Transaction, call: CallRecord, *, counted: bool, why: str | None = None) -> None:
    """The process that had this call is gone: again, or never."""
    moved = must_advance(call, CallEvent.WORKER_LOST, at=tx.at, crashes=call.crashes + counted)
    tx.note(
        "call.interrupted",
        agent_id=call.agent_id,
        conversation_id=call.conversation_id,
        call_id=call.call_id,
        instance_id=call.instance_id,
        detail={"from": call.status, "to": moved.status, "crashes": moved.crashes},
    )
    if call.fails_on_interruption:
        endings.give_up(tx, moved, RejectionCode.OUTCOME_UNKNOWN, "its process died, and it must not run twice")
    elif moved.crashes >= MAX_CRASHES:
        died = f"the app's process died {moved.crashes} times while it ran, in the end of: {why or 'an unknown cause'}"
        endings.give_up(tx, moved, RejectionCode.APP_CRASHED, f"{died}; see: lineup logs {call.instance_id}")
    else:
        calls.save(tx, moved)


def _give_up_instance(tx: Transaction, instance: InstanceRecord, code: RejectionCode) -> None:
    closing.fail(tx, instance, code)
    why = f"the app could not go on; see: lineup logs {instance.instance_id}"
    end_open_calls(tx, instance.instance_id, code, why)


def end_open_calls(tx: Transaction, instance_id: str, code: RejectionCode, why: str) -> None:
    """End every open call of an instance as failed."""
    for call in calls.open_of_instance(tx, instance_id):
        if call.status not in FINAL:
            endings.give_up(tx, call, code, why)


def close_instance(tx: Transaction, instance: InstanceRecord, code: RejectionCode, why: str) -> None:
    """Close a live instance together with its open calls."""
    closing.close(tx, instance, code)
    end_open_calls(tx, instance.instance_id, code, why)


# --- what the sweeps ask ---


@dataclass(frozen=True, slots=True)
class Wanted:
    """Instances that need a process and have none, and attempts (with reasons) that are to end."""

    wanted: tuple[str, ...]
    unwanted: tuple[tuple[str, str], ...]
    running: frozenset[str]
    """Instances that have a process."""
    debtors: tuple[str, ...] = ()
    """Suspended ones that owe something: they are to be woken."""


def read_wanted(tx: Transaction, _nothing: object) -> Wanted:
    """What the rows say about who needs a process."""
    wanted, unwanted, running = [], [], set()
    for instance_id, attempt_id, attempt_state, end_reason in rows.with_attempts(tx):
        if attempt_id is None:
            wanted.append(instance_id)
            continue
        running.add(instance_id)
        if attempt_state == AttemptState.STOPPING:  # closing, or suspended, or woken before it had ended
            unwanted.append((attempt_id, end_reason or suspension.REASON))
    return Wanted(tuple(wanted), tuple(unwanted), frozenset(running), suspension.debtors(tx))


def read_running(tx: Transaction, _nothing: object) -> tuple[tuple[str, str], ...]:
    """Attempts that are not over: (attempt_id, instance_id)."""
    return tuple((one.attempt_id, one.instance_id) for one in rows.running_attempts(tx))
