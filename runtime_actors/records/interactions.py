"""Rows of interactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgpack
from pydantic import TypeAdapter

from runtime_actors.contract import codec
from runtime_actors.contract.interactions import (
    InteractionOwner,
    InteractionRecord,
    InteractionStatus,
    NoticeRequest,
    StandardInteractionRequest,
)
from runtime_actors.rules.interactions import FINAL, InteractionRow

if TYPE_CHECKING:
    from runtime_actors.contract.base import JsonObject
    from runtime_actors.records.transaction import Transaction

OPEN: Final = "status in ('pending', 'presented', 'submitted')"
"""Spelled as the partial indexes spell it."""
_COLUMNS: Final = tuple(InteractionRow.__dataclass_fields__)
_SELECT: Final = f"select {', '.join(_COLUMNS)} from interactions"  # noqa: S608 - our own column names
_INSERT: Final = f"insert into interactions ({', '.join(_COLUMNS)}) values ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608
_CHANGING: Final = ("status", "result", "draft", "draft_sequence", "listed_until", "reason", "settled", "updated_at")
_UPDATE: Final = f"update interactions set {', '.join(f'{name} = ?' for name in _CHANGING)} where interaction_id = ?"  # noqa: S608
_LOST: Final = NoticeRequest(kind="notice", title="It cannot be read any more", message="")
_REQUEST: Final[TypeAdapter[StandardInteractionRequest]] = TypeAdapter(StandardInteractionRequest)


def get(tx: Transaction, interaction_id: str) -> InteractionRow | None:
    """By id."""
    return _record(tx.row(f"{_SELECT} where interaction_id = ?", interaction_id))


def of_request(tx: Transaction, instance_id: str, request_id: str) -> InteractionRow | None:
    """What this very request made."""
    return _record(tx.row(f"{_SELECT} where instance_id = ? and request_id = ?", instance_id, request_id))


def of_key(tx: Transaction, instance_id: str, parent_call_id: str | None, key: str) -> InteractionRow | None:
    """What the app named so, within the instance and the call."""
    return _record(
        tx.row(
            f"{_SELECT} where instance_id = ? and coalesce(parent_call_id, '') = ? and key = ? and key is not null",
            instance_id,
            parent_call_id or "",
            key,
        )
    )


def open_of_instance(tx: Transaction, instance_id: str, after: str | None = None) -> list[InteractionRow]:
    """Those of an instance that have not ended, oldest first; those of policy about it are among them.

    `after` is one of its own, however that stands now: those that were asked later.
    """
    return _made(
        tx.rows(
            f"{_SELECT} where instance_id = ?1 and {OPEN} and rowid > coalesce("  # noqa: S608 - our own words
            "(select rowid from interactions where interaction_id = ?2 and instance_id = ?1), 0) order by rowid",
            instance_id,
            after,
        )
    )


def open_of_call(tx: Transaction, conversation_id: str, call_id: str) -> list[InteractionRow]:
    """Those with this parent that have not ended, oldest first."""
    return _made(
        tx.rows(
            f"{_SELECT} where conversation_id = ? and parent_call_id = ? and parent_call_id is not null and {OPEN} "
            "order by rowid",
            conversation_id,
            call_id,
        )
    )


def every_open(tx: Transaction) -> list[InteractionRow]:
    """All that have not ended, oldest first."""
    return _made(tx.rows(f"{_SELECT} where {OPEN} order by rowid"))


def page(
    tx: Transaction, after: int, limit: int, *, conversation_id: object, ended_too: bool
) -> list[tuple[int, InteractionRow]]:
    """Behind a place, each with its own, oldest first: those that can be answered now, or all.

    Of one conversation if its name is given.
    """
    terms, values = ["rowid > ?"], list[object]([after])
    if not ended_too:
        terms += [OPEN, "(expires_wall_s is null or expires_wall_s > ?)"]
        values.append(tx.moment.wall.timestamp())
    if isinstance(conversation_id, str):
        terms.append("conversation_id = ?")
        values.append(conversation_id)
    found = tx.rows(
        f"select rowid, {', '.join(_COLUMNS)} from interactions where {' and '.join(terms)} order by rowid limit ?",  # noqa: S608
        *values,
        limit,
    )
    return list(zip([row[0] for row in found], _made([row[1:] for row in found]), strict=True))


def due(tx: Transaction, limit: int) -> list[InteractionRow]:
    """Those whose time is over, the longest overdue first."""
    return _made(
        tx.rows(
            f"{_SELECT} where expires_wall_s <= ? and expires_wall_s is not null and {OPEN} "
            "order by expires_wall_s limit ?",
            tx.moment.wall.timestamp(),
            limit,
        )
    )


def next_due(tx: Transaction) -> float | None:
    """When, by wall time, the next one expires."""
    row = tx.row(
        f"select min(expires_wall_s) from interactions where expires_wall_s is not null and {OPEN}"  # noqa: S608
    )
    return row[0] if row else None


@dataclass(frozen=True, slots=True)
class Unsettled:
    """How many questions are open, or ended without their owner knowing."""

    of_instance: int
    of_app: int
    """Its own."""
    about_app: int
    """Of policy."""
    of_apps: int
    """Of all but `chat`."""
    of_runtime: int
    """Of `chat` and of policy."""


def unsettled(tx: Transaction, instance_id: str | None, app_scope: str) -> Unsettled:
    """Where there is no instance yet, it has none."""
    row = tx.row(
        "select total(instance_id = ?1), total(app_scope = ?2 and source <> 'runtime_policy'), "
        "total(app_scope = ?2 and source = 'runtime_policy'), "
        "total(app_scope <> 'chat' and source <> 'runtime_policy'), "
        "total(app_scope = 'chat' or source = 'runtime_policy') from interactions where not settled",
        instance_id,
        app_scope,
    )
    return Unsettled(*(int(count) for count in row or (0, 0, 0, 0, 0)))


def add(tx: Transaction, row: InteractionRow) -> None:
    """Insert."""
    tx.sql.execute(_INSERT, [getattr(row, name) for name in _COLUMNS])


def save(tx: Transaction, row: InteractionRow) -> None:
    """Write what can change."""
    tx.sql.execute(_UPDATE, (*(getattr(row, name) for name in _CHANGING), row.interaction_id))


def settle(tx: Transaction, interaction_id: str) -> None:
    """Its owner knows how it ended, or is gone."""
    tx.sql.execute("update interactions set settled = 1 where interaction_id = ?", (interaction_id,))


def settle_all(tx: Transaction, instance_id: str) -> None:
    """Their owner is gone; there is none that is open."""
    tx.sql.execute("update interactions set settled = 1 where instance_id = ? and not settled", (instance_id,))


def drop_settled(tx: Transaction, instance_id: str, keep: int) -> None:
    """Forget those that ended and whose owner knows it, but for the newest."""
    tx.sql.execute(
        "delete from interactions where rowid in (select rowid from interactions where instance_id = ? and settled "
        "order by rowid desc limit -1 offset ?)",
        (instance_id, keep),
    )


def is_readable(row: InteractionRow) -> bool:
    """Whether it can be shown to a person."""
    try:
        shown(row, "")
    except (ValueError, TypeError):  # what msgpack and pydantic raise
        return False
    return True


def request_of(row: InteractionRow) -> StandardInteractionRequest:
    """What was asked.

    Raises:
        ValueError: It cannot be read any more, and has not ended.

    """
    try:
        return _REQUEST.validate_python(msgpack.unpackb(row.request))
    except (ValueError, TypeError):
        if row.status in FINAL:
            return _LOST
        raise


def record(row: InteractionRow) -> InteractionRecord:
    """As its owner, and hosts, see it.

    Raises:
        ValueError: It cannot be read any more.

    """
    return InteractionRecord(
        interaction_id=row.interaction_id,
        owner=InteractionOwner(
            app_scope=row.app_scope,
            instance_id=row.instance_id,
            conversation_id=row.conversation_id,
            parent_call_id=row.parent_call_id,
            surface_id=row.surface_id,
            source=row.source,
        ),
        kind=row.kind,
        key=row.key,
        request=request_of(row),
        status=row.status,
        result=None if row.result is None else msgpack.unpackb(row.result),
        reason=row.reason,
        presentation=row.presentation,
        listed_until=row.listed_until,
        created_at=row.created_at,
        updated_at=row.updated_at,
        expires_at=row.expires_at,
    )


def shown(row: InteractionRow, app_title: str) -> JsonObject:
    """As a host draws it: the data of its events, and of the listing."""
    data: JsonObject = {"interaction": record(row).to_wire(), "app_title": app_title}
    if row.draft is not None and row.status not in FINAL:
        data["draft"] = msgpack.unpackb(row.draft)
    return data


def spelled(request: StandardInteractionRequest) -> bytes:
    """Canonical, as it is kept."""
    return codec.encode(request.to_wire())


def _record(row: tuple[Any, ...] | None) -> InteractionRow | None:
    return None if row is None else _made([row])[0]


def _made(rows: list[tuple[Any, ...]]) -> list[InteractionRow]:
    made = []
    for row in rows:
        values = dict(zip(_COLUMNS, row, strict=True))
        values["status"] = InteractionStatus(values["status"])
        values["settled"] = bool(values["settled"])
        made.append(InteractionRow(**values))
    return made
