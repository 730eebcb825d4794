"""Rows of instances, their attempts, and the focus."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.rules.instances import LIVE, AttemptRecord, AttemptState, InstanceRecord, InstanceState

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.focus import Stack

_COLUMNS: Final = tuple(InstanceRecord.__dataclass_fields__)
_SELECT: Final = f"select {', '.join(_COLUMNS)} from instances"  # noqa: S608 - our own column names
IS_LIVE: Final = "state in (" + ", ".join(f"'{state}'" for state in sorted(LIVE)) + ")"
_ATTEMPT_COLUMNS: Final = tuple(AttemptRecord.__dataclass_fields__)
_SELECT_ATTEMPT: Final = f"select {', '.join(_ATTEMPT_COLUMNS)} from attempts"  # noqa: S608


def get(tx: Transaction, instance_id: str) -> InstanceRecord | None:
    """By id."""
    return _record(tx.row(f"{_SELECT} where instance_id = ?", instance_id))


def live(tx: Transaction, conversation_id: str, app_scope: str) -> InstanceRecord | None:
    """The one live instance of a scope in a conversation."""
    return _record(
        tx.row(f"{_SELECT} where conversation_id = ? and app_scope = ? and {IS_LIVE}", conversation_id, app_scope)
    )


def unfinished(tx: Transaction) -> list[InstanceRecord]:
    """All that are live or closing, oldest first."""
    return [
        _made(row) for row in tx.rows(f"{_SELECT} where state not in ('closed', 'failed') order by created_at, rowid")
    ]


def with_attempts(tx: Transaction) -> list[tuple[str, str | None, str | None, str | None]]:
    """Instances that need a process or have one, oldest first, the attempt's id and state, and why they end."""
    found = tx.rows(
        "select i.instance_id, a.attempt_id, a.state, i.end_reason, i.created_at, i.rowid "
        "from attempts a join instances i on i.instance_id = a.instance_id where a.state <> 'ended' "
        "union all select instance_id, null, null, null, created_at, rowid from instances i "
        "where state = 'starting' and state not in ('closed', 'failed') "
        "and not exists (select 1 from attempts where instance_id = i.instance_id and state <> 'ended') order by 5, 6"
    )
    return [(row[0], row[1], row[2], row[3]) for row in found]


def add(tx: Transaction, instance: InstanceRecord) -> None:
    """Insert."""
    values = [getattr(instance, name) for name in _COLUMNS]
    tx.sql.execute(f"insert into instances ({', '.join(_COLUMNS)}) values (?, ?, ?, ?, ?, ?, ?, ?)", values)  # noqa: S608


def save(tx: Transaction, instance: InstanceRecord) -> None:
    """Write what can change."""
    tx.sql.execute(
        "update instances set state = ?, end_reason = ?, updated_at = ? where instance_id = ?",
        (instance.state, instance.end_reason, instance.updated_at, instance.instance_id),
    )


def stack(tx: Transaction, conversation_id: str) -> Stack:
    """The focus stack of a conversation."""
    row = tx.row("select stack from focus where conversation_id = ?", conversation_id)
    return tuple(json.loads(row[0])) if row else ()


def save_stack(tx: Transaction, conversation_id: str, stack: Stack) -> None:
    """Write it."""
    tx.sql.execute("insert or replace into focus values (?, ?)", (conversation_id, json.dumps(stack)))


def attempt(tx: Transaction, attempt_id: str) -> AttemptRecord | None:
    """By id."""
    row = tx.row(f"{_SELECT_ATTEMPT} where attempt_id = ?", attempt_id)
    return None if row is None else _attempt(row)


def running_attempt(tx: Transaction, instance_id: str) -> AttemptRecord | None:
    """The process an instance has now, if any."""
    row = tx.row(
        f"{_SELECT_ATTEMPT} where instance_id = ? and state <> 'ended' order by started_boot_s desc limit 1",
        instance_id,
    )
    return None if row is None else _attempt(row)


def running_attempts(tx: Transaction) -> list[AttemptRecord]:
    """All processes that were not seen to end."""
    return [_attempt(row) for row in tx.rows(f"{_SELECT_ATTEMPT} where state <> 'ended'")]


def unexpected_ends(tx: Transaction, instance_id: str, since_boot_s: float) -> list[float]:
    """When, on CLOCK_BOOTTIME, its processes ended unexpectedly."""
    rows = tx.rows(
        "select ended_boot_s from attempts where instance_id = ? and unexpected and ended_boot_s > ?",
        instance_id,
        since_boot_s,
    )
    return [row[0] for row in rows]


def add_attempt(tx: Transaction, one: AttemptRecord) -> None:
    """Insert."""
    values = [getattr(one, name) for name in _ATTEMPT_COLUMNS]
    marks = ", ".join("?" * len(values))
    tx.sql.execute(f"insert into attempts ({', '.join(_ATTEMPT_COLUMNS)}) values ({marks})", values)  # noqa: S608


def save_attempt(tx: Transaction, one: AttemptRecord) -> None:
    """Write what can change."""
    tx.sql.execute(
        "update attempts set state = ?, pid = ?, level = ?, snapshot = ?, end_reason = ?, unexpected = ?, "
        "ended_boot_s = ?, ended_at = ? where attempt_id = ?",
        (
            one.state,
            one.pid,
            one.level,
            one.snapshot,
            one.end_reason,
            one.unexpected,
            one.ended_boot_s,
            one.ended_at,
            one.attempt_id,
        ),
    )


def _record(row: tuple[Any, ...] | None) -> InstanceRecord | None:
    return None if row is None else _made(row)


def _made(row: tuple[Any, ...]) -> InstanceRecord:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["state"] = InstanceState(values["state"])
    return InstanceRecord(**values)


def _attempt(row: tuple[Any, ...]) -> AttemptRecord:
    values = dict(zip(_ATTEMPT_COLUMNS, row, strict=True))
    values["state"] = AttemptState(values["state"])
    values["unexpected"] = bool(values["unexpected"])
    return AttemptRecord(**values)
