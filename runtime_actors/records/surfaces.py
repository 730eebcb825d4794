"""Rows of surfaces."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import msgpack

from runtime_actors.contract.surfaces import SurfaceRecord
from runtime_actors.rules.surfaces import Surface

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction

_COLUMNS: Final = tuple(one.name for one in fields(Surface))
_SELECT: Final = f"select {', '.join(_COLUMNS)} from surfaces"  # noqa: S608 - our own column names
_INSERT: Final = f"insert into surfaces ({', '.join(_COLUMNS)}) values ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608


def get(tx: Transaction, surface_id: str) -> Surface | None:
    """By id, open or closed."""
    return _record(tx.row(f"{_SELECT} where surface_id = ?", surface_id))


def of_instance(tx: Transaction, instance_id: str, surface_id: str) -> Surface | None:
    """As `get`: another instance's is not found."""
    return _record(tx.row(f"{_SELECT} where surface_id = ? and instance_id = ?", surface_id, instance_id))


def by_key(tx: Transaction, instance_id: str, call_id: str | None, key: str) -> Surface | None:
    """What the app called so within this instance and call."""
    return _record(
        tx.row(
            f"{_SELECT} where instance_id = ? and coalesce(call_id, '') = ? and key = ?",
            instance_id,
            call_id or "",
            key,
        )
    )


def open_of_instance(tx: Transaction, instance_id: str) -> list[Surface]:
    """Open ones, in order of opening."""
    return [
        _made(row)
        for row in tx.rows(f"{_SELECT} where instance_id = ? and status = 'open' order by rowid", instance_id)
    ]


def page(tx: Transaction, after: int, limit: int, *, closed_too: bool, of: dict[str, str]) -> list[tuple[int, Surface]]:
    """Surfaces behind a place, each with its own place, in order of opening; `of` names columns and their values."""
    terms = ["rowid > ?", *(f"{name} = ?" for name in of), *([] if closed_too else ["status = 'open'"])]
    rows = tx.rows(
        f"select rowid, {', '.join(_COLUMNS)} from surfaces where {' and '.join(terms)} order by rowid limit ?",  # noqa: S608
        after,
        *of.values(),
        limit,
    )
    return [(row[0], _made(row[1:])) for row in rows]


def add(tx: Transaction, surface: Surface) -> None:
    """Insert."""
    tx.sql.execute(_INSERT, [getattr(surface, name) for name in _COLUMNS])


def save(tx: Transaction, surface: Surface) -> None:
    """Write what can change."""
    tx.sql.execute(
        "update surfaces set state = ?, revision = ?, status = ?, updated_at = ? where surface_id = ?",
        (surface.state, surface.revision, surface.status, surface.updated_at, surface.surface_id),
    )


def shown(surface: Surface, *, with_state: bool) -> SurfaceRecord:
    """As its owner and hosts see it."""
    return SurfaceRecord.model_construct(  # a record needs no validation
        surface_id=surface.surface_id,
        app_scope=surface.app_scope,
        instance_id=surface.instance_id,
        conversation_id=surface.conversation_id,
        call_id=surface.call_id,
        kind=surface.kind,
        title=surface.title,
        state=msgpack.unpackb(surface.state) if with_state and surface.status == "open" else None,
        revision=surface.revision,
        status=surface.status,
        created_at=surface.created_at,
        updated_at=surface.updated_at,
    )


def _record(row: tuple[Any, ...] | None) -> Surface | None:
    return None if row is None else _made(row)


def _made(row: tuple[Any, ...]) -> Surface:
    return Surface(**dict(zip(_COLUMNS, row, strict=True)))
