"""Who has a process, and what keeps it: in one statement, for it is asked about all of them at each sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from runtime_actors.rules.instances import AttemptState, InstanceState
from runtime_actors.rules.lifecycle import Activity

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction

HOST_LINGERS_S: Final = 15.0
"""As `commands.hosts`: one that left counts as there for so long."""

_OF_INSTANCE: Final = "where conversation_id = i.conversation_id and app_scope = i.app_scope"
_OPEN: Final = "instance_id = i.instance_id and due_boot_s is not null"
_ACTIVITY: Final = f"""
select i.instance_id, i.state, a.attempt_id, a.state,
    exists (select 1 from hosts where on_screen = i.conversation_id
        and (gone_wall_s is null or abs(gone_wall_s - ?1) <= ?2)),
    exists (select 1 from inbox {_OF_INSTANCE}),
    (select count(*) from calls where {_OPEN}
        and (remaining_s is null or fails_on_interruption or cancel_requested)),
    i.updated_at || ' ' || a.attempt_id
        || ' ' || coalesce((select last_number from inboxes {_OF_INSTANCE}), 0)
        || ' ' || coalesce((select max(number) from receipts where attempt_id = a.attempt_id), 0)
        || ' ' || coalesce((select max(updated_at) from calls where {_OPEN}), '')
        || ' ' || coalesce((select max(updated_at) from interactions where instance_id = i.instance_id
            and status in ('pending', 'presented', 'submitted')), '')
        || ' ' || coalesce((select max(updated_at) from surfaces where instance_id = i.instance_id
            and status = 'open'), '')
from attempts a join instances i on i.instance_id = a.instance_id
where a.state <> 'ended'
"""  # noqa: S608 - our own words


def activity(tx: Transaction, instance_id: str) -> Activity | None:
    """Of one instance; None if it has no process."""
    row = tx.row(f"{_ACTIVITY} and a.instance_id = ?3", tx.moment.wall.timestamp(), HOST_LINGERS_S, instance_id)
    return None if row is None else _made(row)


def activities(tx: Transaction) -> list[Activity]:
    """Of all that have a process."""
    return [_made(row) for row in tx.rows(_ACTIVITY, tx.moment.wall.timestamp(), HOST_LINGERS_S)]


def _made(row: tuple[Any, ...]) -> Activity:
    instance_id, state, attempt_id, attempt_state, on_screen, has_messages, busy_calls, touched = row
    return Activity(
        instance_id=instance_id,
        state=InstanceState(state),
        attempt_id=attempt_id,
        attempt_state=AttemptState(attempt_state),
        on_screen=bool(on_screen),
        has_messages=bool(has_messages),
        busy_calls=busy_calls,
        touched=touched,
    )
