"""Rows of grants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from runtime_actors.rules.grants import GrantRecord, GrantStatus

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction

_COLUMNS: Final = tuple(GrantRecord.__dataclass_fields__)
_SELECT: Final = f"select {', '.join(_COLUMNS)} from grants"  # noqa: S608 - our own column names
_INSERT: Final = f"insert into grants ({', '.join(_COLUMNS)}) values ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608
_OF: Final = "where app_scope = ? and conversation_id = ? and capability = ?"
_CHANGING: Final = ("status", "declined_wall_s", "expires_at", "expires_wall_s", "updated_at")
_UPDATE: Final = f"update grants set {', '.join(f'{name} = ?' for name in _CHANGING)} where grant_id = ?"  # noqa: S608


def get(tx: Transaction, grant_id: str) -> GrantRecord | None:
    """By id."""
    row = tx.row(f"{_SELECT} where grant_id = ?", grant_id)
    return None if row is None else _made(row)


def granted(tx: Transaction, app_scope: str, conversation_id: str, capability: str) -> list[GrantRecord]:
    """Those in force, whose time may be over; the oldest first."""
    found = tx.rows(f"{_SELECT} {_OF} and status = 'granted' order by rowid", app_scope, conversation_id, capability)
    return [_made(row) for row in found]


def asked_by_app(tx: Transaction, app_scope: str, conversation_id: str, capability: str) -> GrantRecord | None:
    """The one that a person is being asked for, for the app itself and not for a call."""
    row = tx.row(f"{_SELECT} {_OF} and status = 'asking' and call_id is null", app_scope, conversation_id, capability)
    return None if row is None else _made(row)


def asked_by_calls(tx: Transaction, app_scope: str, conversation_id: str, capability: str) -> list[GrantRecord]:
    """Those that calls wait for; the oldest first."""
    found = tx.rows(
        f"{_SELECT} {_OF} and status = 'asking' and call_id is not null order by rowid",
        app_scope,
        conversation_id,
        capability,
    )
    return [_made(row) for row in found]


def last_decline(tx: Transaction, app_scope: str, conversation_id: str, capability: str) -> float | None:
    """When a person said no last, in seconds since 1970; what is in the future was said before the clock was set."""
    row = tx.row(
        f"select max(declined_wall_s) from grants {_OF} and status = 'denied' and declined_wall_s <= ?",  # noqa: S608
        app_scope,
        conversation_id,
        capability,
        tx.moment.wall.timestamp(),
    )
    return row[0] if row else None


def of_question(tx: Transaction, interaction_id: str) -> list[GrantRecord]:
    """What a question is about, as long as it is open."""
    found = tx.rows(f"{_SELECT} where interaction_id = ? and status = 'asking' order by rowid", interaction_id)
    return [_made(row) for row in found]


def left_of_call(tx: Transaction, app_scope: str, conversation_id: str, call_id: str) -> list[GrantRecord]:
    """What was permitted for this call, once, and was not used."""
    found = tx.rows(
        f"{_SELECT} where app_scope = ? and conversation_id = ? and call_id = ? and status = 'granted' "
        "and span = 'once' order by rowid",
        app_scope,
        conversation_id,
        call_id,
    )
    return [_made(row) for row in found]


def add(tx: Transaction, grant: GrantRecord) -> None:
    """Insert."""
    tx.sql.execute(_INSERT, [getattr(grant, name) for name in _COLUMNS])


def save(tx: Transaction, grant: GrantRecord) -> None:
    """Write what can change."""
    tx.sql.execute(_UPDATE, (*(getattr(grant, name) for name in _CHANGING), grant.grant_id))


def page(tx: Transaction, after: int, limit: int, *, ended_too: bool) -> list[tuple[int, GrantRecord]]:
    """Behind a place, each with its own, the oldest first."""
    where = "rowid > ?" if ended_too else "rowid > ? and status in ('asking', 'granted')"
    sql = f"select rowid, {', '.join(_COLUMNS)} from grants where {where} order by rowid limit ?"  # noqa: S608
    return [(row[0], _made(row[1:])) for row in tx.rows(sql, after, limit)]


def _made(row: tuple[Any, ...]) -> GrantRecord:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["status"] = GrantStatus(values["status"])
    return GrantRecord(**values)
