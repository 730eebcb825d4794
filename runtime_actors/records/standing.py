"""Everything that an admission needs to know, in one look: each statement is a hand-over between threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from runtime_actors.records.instances import IS_LIVE
from runtime_actors.rules.instances import InstanceState

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.calls import CallKey

_STANDING: Final = f"""
select (select agent_id from conversations where conversation_id = ?1),
    exists (select 1 from switched_off where (kind = 'app' and name = ?2) or (kind = 'tool' and name = ?3)),
    i.instance_id, i.state,
    (select count(*) from calls where instance_id = i.instance_id and due_boot_s is not null),
    (select total(open_calls) from agents),
    (select unsettled from agents where agent_id = ?4),
    (select last_number from inboxes where conversation_id = ?1 and app_scope = ?2),
    (select seq from calls where agent_id = ?4 and conversation_id = ?1 and call_id = ?5)
from (select 1) left join instances i on i.conversation_id = ?1 and i.app_scope = ?2 and i.{IS_LIVE}
"""  # noqa: S608 - our own words


@dataclass(frozen=True, slots=True)
class Standing:
    """How things stand for one invocation."""

    owner: str | None
    """Whose conversation it is; None if nobody has opened it."""
    switched_off: bool
    """The app or the tool is."""
    instance_id: str | None
    """The live instance of the scope in the conversation."""
    is_suspended: bool
    """It has no process until it is woken."""
    open_of_instance: int
    open_calls: int
    unsettled: int
    """Deliveries that the agent has not acknowledged."""
    last_message: int
    """The highest number given in the inbox."""
    is_known: bool
    """The call has a record."""


def standing(tx: Transaction, key: CallKey, app_scope: str, tool_id: str) -> Standing:
    """Look."""
    row = tx.row(_STANDING, key.conversation_id, app_scope, tool_id, key.agent_id, key.call_id)
    assert row is not None  # noqa: S101 - the outer table has one row
    owner, switched_off, instance_id, state, of_instance, of_all, unsettled, last_message, known = row
    return Standing(
        owner,
        bool(switched_off),
        instance_id,
        state == InstanceState.SUSPENDED,
        of_instance,
        of_all,
        unsettled or 0,
        last_message or 0,
        known is not None,
    )
