"""What a command is handed: the records as they are, the time, names, and a place for follow-ups."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.contract.base import AuditMark, JsonObject
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.rules.audit import AuditEntry, next_head
from runtime_actors.rules.policy import NO_RULES, Policy

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from runtime_actors.config import Bounds
    from runtime_actors.mailbox import Ids, Moment
    from runtime_actors.rules.flood import FloodMeter
    from runtime_actors.rules.inventory import Catalogue
    from runtime_actors.rules.restart import RestartPolicy


_AT_ONCE: Final = 8
_ONE: Final = "insert into audit values (?, ?, ?, ?, ?, ?, ?)"
_INSERT: Final = {1: _ONE, _AT_ONCE: _ONE + ", (?, ?, ?, ?, ?, ?, ?)" * (_AT_ONCE - 1)}


@dataclass(slots=True)
class Chain:
    """The newest place on the audit chain, and the entries up to it that are not written yet."""

    seq: int
    head: bytes
    unwritten: list[tuple[object, ...]] = field(default_factory=list)

    def kept(self) -> Chain:
        """The place as it is now, with everything written."""
        return Chain(self.seq, self.head)

    def go_back(self, to: Chain) -> None:
        """What was noted since then is not."""
        self.seq, self.head = to.seq, to.head
        self.unwritten.clear()

    def write(self, sql: sqlite3.Connection) -> None:
        """Bring the log up to what was noted: before it is read, and before the COMMIT.

        Many entries in one statement, for each statement is a hand-over between threads.
        """
        while self.unwritten:
            rows = self.unwritten[: _AT_ONCE if len(self.unwritten) >= _AT_ONCE else 1]
            sql.execute(_INSERT[len(rows)], [value for row in rows for value in row])
            del self.unwritten[: len(rows)]


@dataclass(frozen=True, slots=True)
class Settings:
    """What commands need to know of how the daemon runs."""

    catalogue: Catalogue
    bounds: Bounds
    restart: RestartPolicy
    cancel_grace_s: float
    stop_grace_s: float
    policy: Policy = NO_RULES
    """Replaced with all the rest as a whole, between two groups of commands."""


@dataclass(slots=True)
class Transaction:
    """One command's view. Whatever it does is undone if it raises."""

    sql: sqlite3.Connection
    chain: Chain
    settings: Settings
    ids: Ids
    moment: Moment
    floods: FloodMeter
    follow_ups: list[object] = field(default_factory=list)
    """Left for whom they concern once all is committed. Each can be derived again from the rows."""

    @property
    def at(self) -> str:
        """Now, as records spell it."""
        return rfc3339(self.moment.wall)

    def note(self, event: str, *, digest: bytes = b"", detail: JsonObject | None = None, **subject: str | None) -> None:
        """Append an audit entry; `subject` holds ids."""
        self.record(event, subject, detail or {}, digest)

    def record(self, event: str, subject: Mapping[str, str | None], detail: JsonObject, digest: bytes = b"") -> None:
        """Append an audit entry."""
        names = {key: value for key, value in subject.items() if value is not None}
        entry = AuditEntry(self.chain.seq + 1, self.at, event, names, _plain(detail), digest)
        written = entry.written()
        head = next_head(self.chain.head, entry, written)
        row = (entry.seq, entry.at, event, *written, digest, head)
        self.chain.unwritten.append(row)
        self.chain.seq, self.chain.head = entry.seq, head

    def refuse(self, event: str, code: RejectionCode, detail: str, *, who: str, **subject: str | None) -> Rejection:
        """Refuse: an audit entry (or a count, in a flood), and nothing else. `who` is the agent or instance refused."""
        if self.floods.wants_entry((who, code), self.moment.boot_s):
            self.record(event, subject | {"who": who}, {"code": code})
        return Rejection(code=code, detail=detail)

    def note_often(self, event: str, *, who: str, digest: bytes, detail: JsonObject, **subject: str | None) -> None:
        """Record what an app may do as often as it likes: an audit entry, or in a flood a count."""
        if self.floods.wants_entry((who, event), self.moment.boot_s):
            self.note(event, digest=digest, detail=detail, **subject)

    def mark(self) -> AuditMark:
        """Where the chain is after what was noted so far."""
        return AuditMark(audit_seq=self.chain.seq, head_hash=self.chain.head.hex())

    def row(self, sql: str, *arguments: object) -> tuple[Any, ...] | None:
        """The first row, or None."""
        found: tuple[Any, ...] | None = self.sql.execute(sql, arguments).fetchone()
        return found

    def rows(self, sql: str, *arguments: object) -> list[tuple[Any, ...]]:
        """All rows; queries carry their own limit."""
        return self.sql.execute(sql, arguments).fetchall()


def _plain(detail: JsonObject) -> JsonObject:
    """Statuses and codes as the strings they are."""
    return {
        key: [str(one) if isinstance(one, str) else one for one in value]
        if isinstance(value, list)
        else str(value)
        if isinstance(value, str)
        else value
        for key, value in detail.items()
    }


_spelled: tuple[datetime, str] = (datetime.min.replace(tzinfo=UTC), "")
"""The latest one: a group of commands spells its moment many times."""


def rfc3339(wall: datetime) -> str:
    """As every record and envelope spells it: UTC, milliseconds."""
    global _spelled  # noqa: PLW0603 - replaced as a whole, so that any thread may
    known, text = _spelled
    if known is not wall:
        text = wall.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        _spelled = wall, text
    return text
