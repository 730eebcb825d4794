"""Rows of inboxes (to MiniApps) and outboxes (to agents)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime_actors.records.transaction import Transaction


_MOST_DIGITS: Final = 15


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A message that is not acknowledged yet."""

    conversation_id: str
    app_scope: str
    number: int
    kind: str
    agent_id: str
    call_id: str | None
    body: bytes
    """Canonical: the text of a message; empty for a call, whose record has all."""
    repeated: bool
    created_at: str

    @property
    def message_id(self) -> str:
        """Its name on the channel: unique within a scope of a conversation."""
        return f"m{self.number}"


def number_of(message_id: str) -> int | None:
    """The number in a message id, or None if it is not one of ours."""
    digits = message_id[1:]
    ours = message_id[:1] == "m" and digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS
    return int(digits) if ours else None


@dataclass(frozen=True, slots=True)
class Delivery:
    """Something an agent is to be told. `frame` is what is sent, byte for byte, each time."""

    agent_id: str
    number: int
    conversation_id: str
    kind: str
    call_id: str | None
    frame: bytes


_INBOX: Final = (
    "select conversation_id, app_scope, number, kind, agent_id, call_id, body, repeated, created_at from inbox"
)
_OUTBOX: Final = "select agent_id, number, conversation_id, kind, call_id, frame from outbox"


def last_inbox_number(tx: Transaction, conversation_id: str, app_scope: str) -> int:
    """The highest number given so far; they grow by one within a scope of a conversation."""
    row = tx.row(
        "select last_number from inboxes where conversation_id = ? and app_scope = ?", conversation_id, app_scope
    )
    return int(row[0]) if row else 0


def put(tx: Transaction, row: InboxRow) -> None:
    """Insert; its number is the last one from now on."""
    tx.sql.execute(
        "insert into inbox values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            row.conversation_id,
            row.app_scope,
            row.number,
            row.kind,
            row.agent_id,
            row.call_id,
            row.body,
            row.repeated,
            row.created_at,
        ),
    )


def message(tx: Transaction, conversation_id: str, app_scope: str, number: int) -> InboxRow | None:
    """By number."""
    row = tx.row(
        f"{_INBOX} where conversation_id = ? and app_scope = ? and number = ?", conversation_id, app_scope, number
    )
    return None if row is None else _inbox(row)


def remove(tx: Transaction, conversation_id: str, app_scope: str, number: int) -> bool:
    """It was acknowledged, or is withdrawn; False if it was before."""
    done = tx.sql.execute(
        "delete from inbox where conversation_id = ? and app_scope = ? and number = ?",
        (conversation_id, app_scope, number),
    )
    return done.rowcount > 0


def page(tx: Transaction, conversation_id: str, app_scope: str, after: int, limit: int) -> list[InboxRow]:
    """Unacknowledged messages with a higher number, in order."""
    rows = tx.rows(
        f"{_INBOX} where conversation_id = ? and app_scope = ? and number > ? order by number limit ?",
        conversation_id,
        app_scope,
        after,
        limit,
    )
    return [_inbox(row) for row in rows]


def count(tx: Transaction, conversation_id: str, app_scope: str) -> int:
    """How many messages wait."""
    row = tx.row("select count(*) from inbox where conversation_id = ? and app_scope = ?", conversation_id, app_scope)
    return int(row[0]) if row else 0


def last_delivery_number(tx: Transaction, agent_id: str) -> int:
    """The highest number given so far; they grow by one within an agent."""
    row = tx.row("select last_number from agents where agent_id = ?", agent_id)
    return int(row[0]) if row else 0


def post(tx: Transaction, delivery: Delivery) -> None:
    """Insert; its number is the last one from now on."""
    one = delivery
    tx.sql.execute(
        "insert into outbox values (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            one.agent_id,
            one.number,
            one.conversation_id,
            one.kind,
            one.call_id,
            tx.at,
            tx.moment.wall.timestamp(),
            one.frame,
        ),
    )


def deliveries(tx: Transaction, agent_id: str) -> Iterator[Delivery]:
    """Unsettled deliveries in order, read as far as the caller goes on."""
    for row in tx.sql.execute(f"{_OUTBOX} where agent_id = ? order by number", (agent_id,)):
        yield Delivery(*row)


def drop_progress(tx: Transaction, agent_id: str, conversation_id: str, call_id: str) -> None:
    """Newer words replace what was not settled."""
    tx.sql.execute(
        "delete from outbox "
        "where agent_id = ? and conversation_id = ? and call_id = ? and kind = 'lineup.v1.tool.progress'",
        (agent_id, conversation_id, call_id),
    )


def _inbox(row: tuple[Any, ...]) -> InboxRow:
    return InboxRow(row[0], row[1], row[2], row[3], row[4], row[5], row[6], repeated=bool(row[7]), created_at=row[8])
