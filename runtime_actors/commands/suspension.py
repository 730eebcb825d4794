"""An instance stays and its process ends, to save memory; and what brings it back (docs/people.md, section 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from runtime_actors.commands import states
from runtime_actors.commands.command import command
from runtime_actors.commands.follow_ups import InstanceDone, TellContext
from runtime_actors.records import activity
from runtime_actors.records import instances as rows
from runtime_actors.rules import focus
from runtime_actors.rules.instances import AttemptEvent, InstanceEvent, InstanceState, attempt_after, must_move
from runtime_actors.rules.lifecycle import why_awake

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction

REASON: Final = "suspended"
"""Of the end of its process."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """An instance that may be suspended, as far as one look can tell."""

    instance_id: str
    touched: str
    """What it was touched by last: the same at another look, it has been quiet between them."""


@dataclass(frozen=True, slots=True)
class QuietOnes:
    """What one look found."""

    quiet: tuple[Quiet, ...]
    ending: frozenset[str]
    """Instances whose process is about to end, so that another's can begin."""


NOTHING_SEEN: Final = QuietOnes((), frozenset())


def read_quiet(tx: Transaction, _nothing: object) -> QuietOnes:
    """Instances that nothing but their quietness keeps awake, or lets sleep."""
    found = activity.activities(tx)
    return QuietOnes(
        tuple(Quiet(one.instance_id, one.touched) for one in found if why_awake(one) is None),
        frozenset(one.instance_id for one in found if one.attempt_state == "stopping"),
    )


@dataclass(frozen=True, slots=True)
class Suspended:
    """Its process is told to end."""

    instance_id: str


@dataclass(frozen=True, slots=True)
class NotSuspended:
    """Something happened to it since it was looked at."""

    instance_id: str
    why: str


@command()
def suspend(tx: Transaction, quiet: Quiet) -> Suspended | NotSuspended:
    """Suspend an instance, if all that was seen of it holds still."""
    now = activity.activity(tx, quiet.instance_id)
    if now is None:
        return NotSuspended(quiet.instance_id, "it has no process")
    why = why_awake(now)
    if why is None and now.touched != quiet.touched:
        why = "it was not quiet"
    instance, attempt = rows.get(tx, quiet.instance_id), rows.attempt(tx, now.attempt_id)
    if why is not None or instance is None or attempt is None:
        return NotSuspended(quiet.instance_id, why or "it is gone")
    moved = must_move(instance, InstanceEvent.SUSPENDED, at=tx.at)
    rows.save(tx, moved)
    state = attempt_after(attempt, AttemptEvent.STOP_ORDERED) or attempt.state
    rows.save_attempt(tx, replace(attempt, state=state))
    states.note_state(tx, moved)
    tx.follow_ups.append(TellContext(moved.instance_id, moved.state))
    tx.follow_ups.append(InstanceDone(moved.instance_id, attempt.attempt_id, REASON))
    return Suspended(moved.instance_id)


@command()
def wake_debtor(tx: Transaction, instance_id: str) -> None:
    """Wake a suspended instance whose inbox is not empty: whoever put something there should have."""
    instance = rows.get(tx, instance_id)
    if instance is not None and owes(tx, instance.conversation_id, instance.app_scope):
        states.wake(tx, instance)


def wake_debtors(tx: Transaction) -> None:
    """At the boot: as `wake_debtor`, all of them."""
    for instance_id in debtors(tx):
        states.wake_by_id(tx, instance_id)


def debtors(tx: Transaction) -> tuple[str, ...]:
    """Suspended instances whose inbox is not empty."""
    found = tx.rows(
        "select instance_id from instances i where state = 'suspended' and state not in ('closed', 'failed') "
        "and exists (select 1 from inbox where conversation_id = i.conversation_id and app_scope = i.app_scope) "
        "order by created_at, rowid"
    )
    return tuple(row[0] for row in found)


def owes(tx: Transaction, conversation_id: str, app_scope: str) -> bool:
    """Whether something in an inbox was not acknowledged."""
    row = tx.row("select 1 from inbox where conversation_id = ? and app_scope = ? limit 1", conversation_id, app_scope)
    return row is not None


def wake_front(tx: Transaction, conversation_id: str) -> None:
    """A person sees this conversation now: whoever is in front of it is to be there."""
    front = focus.front(rows.stack(tx, conversation_id))
    instance = rows.get(tx, front) if front else None
    if instance is not None and instance.state is InstanceState.SUSPENDED:
        states.wake(tx, instance)
