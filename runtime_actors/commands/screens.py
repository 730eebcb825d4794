"""What hosts are told: each change that a person may see is an event, written by the command that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from runtime_actors.commands.command import command
from runtime_actors.commands.follow_ups import Shown
from runtime_actors.contract import codec

if TYPE_CHECKING:
    from runtime_actors.contract.base import JsonObject
    from runtime_actors.contract.host import EventKind
    from runtime_actors.records.transaction import Transaction

KEPT: Final = 10_000
"""Newest events. A host that missed more reads the listings."""


def show(tx: Transaction, kind: EventKind, conversation_id: str, subject: str, data: JsonObject) -> None:
    """Write an event about `subject` (an id). `data` fits a frame, with an envelope around it."""
    if kind == "surface.changed":  # many of one surface must not push out what others wait for
        tx.sql.execute("delete from host_events where kind = 'surface.changed' and subject = ?", (subject,))
    added = tx.sql.execute(
        "insert into host_events (at, conversation_id, kind, subject, data) values (?, ?, ?, ?, ?)",
        (tx.at, conversation_id, kind, subject, codec.encode(data)),
    )
    tx.follow_ups.append(Shown(int(added.lastrowid or 0)))


def forget_state(tx: Transaction, surface_id: str, data: JsonObject) -> None:
    """A surface was closed: what was shown of it is not kept any longer. `data` is left of how it was opened."""
    tx.sql.execute("delete from host_events where kind = 'surface.changed' and subject = ?", (surface_id,))
    tx.sql.execute(
        "update host_events set data = ? where kind = 'surface.opened' and subject = ?",
        (codec.encode(data), surface_id),
    )


@command()
def drop_old_events(tx: Transaction, _nothing: object) -> int:
    """Keep the newest."""
    dropped = tx.sql.execute(
        "delete from host_events where number <= (select max(number) from host_events) - ?", (KEPT,)
    ).rowcount
    if dropped:
        tx.note("host_events.dropped", detail={"count": dropped})
    return dropped
