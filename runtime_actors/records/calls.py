"""Rows of calls."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgpack

from runtime_actors.contract.tools import CallState, CallStatus, Failure, MiniAppToolCall, ToolProgressReport
from runtime_actors.records.instances import IS_LIVE
from runtime_actors.rules.calls import CallKey, CallRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from runtime_actors.records.transaction import Transaction

_COLUMNS: Final = tuple(CallRecord.__dataclass_fields__)
_SELECT: Final = f"select {', '.join(_COLUMNS)} from calls"  # noqa: S608 - our own column names
_OF_INSTANCE: Final = """
from instances i join conversations v on v.conversation_id = i.conversation_id
    join calls c on c.agent_id = v.agent_id and c.conversation_id = i.conversation_id and c.call_id = ?2
where i.instance_id = ?1 and c.instance_id = ?1
"""
"""By way of the conversation, in which a call's id is its own: one index names a call, for agents and for apps."""
_COLUMNS_OF_CALL: Final = ", ".join(f"c.{name}" for name in _COLUMNS)
_FOR_REPORT: Final = f"""
select {_COLUMNS_OF_CALL}, i.{IS_LIVE},
    exists (select 1 from switched_off
        where (kind = 'app' and name = c.app_scope) or (kind = 'tool' and name = c.tool_id)),
    (select last_number from agents where agent_id = c.agent_id)
{_OF_INSTANCE}
"""  # noqa: S608 - our own words
_INSERT: Final = f"insert into calls ({', '.join(_COLUMNS)}) values ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608
_CHANGING: Final = (
    "status",
    "result",
    "error_code",
    "failure",
    "progress",
    "cancel_requested",
    "crashes",
    "refused_outputs",
    "deadline_boot_s",
    "deadline_wall_s",
    "due_boot_s",
    "remaining_s",
    "questions",
    "surfaces",
    "message",
    "updated_at",
)
_UPDATE: Final = f"update calls set {', '.join(f'{name} = ?' for name in _CHANGING)} where seq = ?"  # noqa: S608


def find(tx: Transaction, key: CallKey) -> CallRecord | None:
    """By name."""
    return _record(
        tx.row(
            f"{_SELECT} where agent_id = ? and conversation_id = ? and call_id = ?",
            key.agent_id,
            key.conversation_id,
            key.call_id,
        )
    )


def of_instance(tx: Transaction, instance_id: str, call_id: str) -> CallRecord | None:
    """A call that was given to this instance: another instance's is not found."""
    return _record(tx.row(f"select {_COLUMNS_OF_CALL} {_OF_INSTANCE}", instance_id, call_id))


@dataclass(frozen=True, slots=True)
class ReportedCall:
    """A call that its instance speaks about."""

    call: CallRecord
    is_live: bool
    """The instance is."""
    is_off: bool
    """The app or the tool is switched off."""
    last_delivery: int
    """The highest number of the agent's deliveries."""


def for_report(tx: Transaction, instance_id: str, call_id: str) -> ReportedCall | None:
    """As `of_instance`, with everything that a report needs to know, in one look."""
    row = tx.row(_FOR_REPORT, instance_id, call_id)
    return None if row is None else ReportedCall(_made(row[:-3]), bool(row[-3]), bool(row[-2]), row[-1])


def open_of_instance(tx: Transaction, instance_id: str) -> list[CallRecord]:
    """Calls of an instance that are not final, oldest first."""
    rows = tx.rows(f"{_SELECT} where instance_id = ? and due_boot_s is not null order by seq", instance_id)
    return [_made(row) for row in rows]


def count_open_of_instance(tx: Transaction, instance_id: str) -> int:
    """How many calls of an instance are not final."""
    row = tx.row("select count(*) from calls where instance_id = ? and due_boot_s is not null", instance_id)
    return int(row[0]) if row else 0


def every_open(tx: Transaction) -> Iterator[CallRecord]:
    """All calls that are not final, oldest first."""
    for row in tx.rows(f"{_SELECT} where due_boot_s is not null order by seq"):
        yield _made(row)


def open_of_other_tools(tx: Transaction, known: Collection[str]) -> list[CallRecord]:
    """Calls that are not final, of tools that are not among `known`; oldest first."""
    rows = tx.rows(
        f"{_SELECT} where due_boot_s is not null and tool_id not in (select value from json_each(?)) order by seq",  # noqa: S608
        json.dumps(sorted(known)),
    )
    return [_made(row) for row in rows]


def running(tx: Transaction) -> list[CallKey]:
    """Calls that an app has taken over, oldest first."""
    rows = tx.rows(
        "select agent_id, conversation_id, call_id from calls where due_boot_s is not null and status = ? order by seq",
        CallStatus.RUNNING,
    )
    return [CallKey(*row) for row in rows]


def due(tx: Transaction, limit: int) -> list[CallRecord]:
    """Calls whose deadline or grace has passed, the longest overdue first."""
    rows = tx.rows(
        f"{_SELECT} where due_boot_s is not null and due_boot_s <= ? order by due_boot_s limit ?",
        tx.moment.boot_s,
        limit,
    )
    return [_made(row) for row in rows]


def next_due(tx: Transaction) -> float | None:
    """When, on CLOCK_BOOTTIME, the next call is due."""
    row = tx.row("select min(due_boot_s) from calls where due_boot_s is not null")
    return row[0] if row else None


def add(tx: Transaction, call: CallRecord) -> int:
    """Insert; `call.seq` is ignored and the one given is returned."""
    values = [getattr(call, name) for name in _COLUMNS]
    values[0] = None
    return int(tx.sql.execute(_INSERT, values).lastrowid or 0)


def save(tx: Transaction, call: CallRecord) -> None:
    """Write what can change."""
    tx.sql.execute(_UPDATE, (*(getattr(call, name) for name in _CHANGING), call.seq))


def save_place(tx: Transaction, call: CallRecord) -> None:
    """Write where a call goes that waited to be let in."""
    tx.sql.execute(
        "update calls set instance_id = ?, fronted_over = ? where seq = ?",
        (call.instance_id, call.fronted_over, call.seq),
    )


def not_let_in(tx: Transaction, app_scope: str) -> list[CallRecord]:
    """Calls of an app that wait for a person's yes, oldest first."""
    rows = tx.rows(
        f"{_SELECT} where due_boot_s is not null and status = ? and app_scope = ? order by seq",
        CallStatus.RECEIVED,
        app_scope,
    )
    return [_made(row) for row in rows]


def count_open(tx: Transaction) -> int:
    """How many calls are not final."""
    row = tx.row("select total(open_calls) from agents")
    return int(row[0]) if row else 0


def state(call: CallRecord, *, with_progress: bool = True) -> CallState:
    """As its agent sees it."""
    return CallState.model_construct(  # a record needs no validation
        call_id=call.call_id,
        tool_id=call.tool_id,
        inventory_revision=call.inventory_revision,
        app_scope=call.app_scope,
        instance_id=call.instance_id,
        conversation_id=call.conversation_id,
        status=call.status,
        cancel_requested=call.cancel_requested,
        progress=_progress(call) if with_progress else None,
        result=None if call.result is None else msgpack.unpackb(call.result),
        error_code=call.error_code,
        failure=None if call.failure is None else Failure.model_validate(msgpack.unpackb(call.failure)),
        created_at=call.created_at,
        updated_at=call.updated_at,
    )


def for_app(call: CallRecord) -> MiniAppToolCall:
    """As its MiniApp sees it."""
    return MiniAppToolCall.model_construct(
        call_id=call.call_id,
        tool_id=call.tool_id,
        input=msgpack.unpackb(call.input),
        status=call.status,
        cancel_requested=call.cancel_requested,
        progress=_progress(call),
        created_at=call.created_at,
    )


def _progress(call: CallRecord) -> ToolProgressReport | None:
    return None if call.progress is None else ToolProgressReport.model_validate(msgpack.unpackb(call.progress))


def _record(row: tuple[Any, ...] | None) -> CallRecord | None:
    return None if row is None else _made(row)


def _made(row: tuple[Any, ...]) -> CallRecord:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["status"] = CallStatus(values["status"])
    values["cancel_requested"] = bool(values["cancel_requested"])
    values["fails_on_interruption"] = bool(values["fails_on_interruption"])
    return CallRecord(**values)
