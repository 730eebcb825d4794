"""Hosts: who is there, what each wrote already, and the events that they are to be sent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgpack

from runtime_actors.commands import screens, suspension
from runtime_actors.commands.command import command
from runtime_actors.contract import codec
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.rules.delivery import WINDOW_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.contract.base import AuditMark, JsonObject
    from runtime_actors.records.transaction import Transaction

A = TypeVar("A")
O = TypeVar("O")  # noqa: E741 - an outcome

LINGER_S: Final = 15.0
"""A host that left counts as there for so long: it may be back at once."""
KNOWN_S: Final = 86_400.0
"""How long a host's request is known again."""
KEPT_REQUESTS: Final = 100_000
"""At most; the oldest are forgotten first."""
_DROP_AT_ONCE: Final = 5000
_THERE: Final = "(gone_wall_s is null or abs(gone_wall_s - ?) <= ?)"


# --- who is there ---


@dataclass(frozen=True, slots=True)
class Attaching:
    """A host wants to be there."""

    peer: int
    host: str
    nonce: str
    surfaces: bool
    on_screen: str | None
    stream: str | None
    """Of the events that it has seen up to `after_number`; with None it wants those that are still to come."""
    after_number: int | None


@dataclass(frozen=True, slots=True)
class HostThere:
    """A host is there, and goes on behind `after`."""

    stream: str
    last_number: int
    complete: bool
    after: int


@command()
def attach_host(tx: Transaction, asked: Attaching) -> HostThere:
    """Note that a host is there; under its nonce it is the same one again."""
    tx.sql.execute("delete from hosts where peer = ?", (asked.peer,))  # it attached before, under another name
    tx.sql.execute(
        "insert or replace into hosts (host, nonce, peer, surfaces, on_screen) values (?, ?, ?, ?, ?)",
        (asked.host, asked.nonce, asked.peer, asked.surfaces, asked.on_screen),
    )
    _note_often(tx, "host.attached", asked.host, {"surfaces": asked.surfaces}, asked.on_screen)
    if asked.on_screen is not None:
        suspension.wake_front(tx, asked.on_screen)
    stream = tx.row("select value from meta where name = 'stream'")
    last = last_event(tx)
    there = HostThere(str(stream[0]) if stream else "", last, complete=True, after=last)
    if asked.after_number is None:
        return there
    known = asked.stream == there.stream and last - screens.KEPT <= asked.after_number <= last
    return HostThere(there.stream, last, known, asked.after_number if known else last)


@dataclass(frozen=True, slots=True)
class Showing:
    """What a host shows now."""

    peer: int
    on_screen: str | None


@command()
def show_on_screen(tx: Transaction, showing: Showing) -> None:
    """Note which conversation a person sees."""
    row = tx.row("select host, on_screen from hosts where peer = ?", showing.peer)
    if row is None or row[1] == showing.on_screen:
        return
    tx.sql.execute("update hosts set on_screen = ? where peer = ?", (showing.on_screen, showing.peer))
    _note_often(tx, "host.showed", row[0], {}, showing.on_screen)
    if showing.on_screen is not None:
        suspension.wake_front(tx, showing.on_screen)


@command()
def detach_host(tx: Transaction, peer: int) -> None:
    """A host's connection has ended. It counts as there for a while."""
    row = tx.row("select host from hosts where peer = ?", peer)
    if row is None:
        return
    tx.sql.execute("update hosts set peer = null, gone_wall_s = ? where peer = ?", (tx.moment.wall.timestamp(), peer))
    _note_often(tx, "host.left", row[0], {}, None)


def recover_hosts(tx: Transaction) -> None:
    """No connection is left of an earlier daemon; its hosts may be back at once."""
    tx.sql.execute(
        "update hosts set peer = null, gone_wall_s = ? where peer is not null", (tx.moment.wall.timestamp(),)
    )


def capable_host(tx: Transaction) -> bool:
    """Whether a host is there that can show surfaces."""
    now = tx.moment.wall.timestamp()
    return tx.row(f"select 1 from hosts where surfaces and {_THERE}", now, LINGER_S) is not None  # noqa: S608


def is_on_screen(tx: Transaction, conversation_id: str) -> bool:
    """Whether a host that is there shows this conversation."""
    now = tx.moment.wall.timestamp()
    sql = f"select 1 from hosts where on_screen = ? and {_THERE}"  # noqa: S608 - our own words
    return tx.row(sql, conversation_id, now, LINGER_S) is not None


@dataclass(frozen=True, slots=True)
class There:
    """What the rows say."""

    last_event: int
    peers: frozenset[int]
    """Who is attached."""


def read_there(tx: Transaction, _nothing: object) -> There:
    """For a sweep: the newest event, and who is attached."""
    return There(last_event(tx), frozenset(row[0] for row in tx.rows("select peer from hosts where peer is not null")))


def _note_often(tx: Transaction, event: str, host: str, detail: JsonObject, conversation_id: str | None) -> None:
    """A host may come, go and turn over as often as it likes."""
    tx.note_often(event, who=f"host {host}", digest=b"", detail=detail, host=host, conversation_id=conversation_id)


# --- what it writes counts once ---


@dataclass(frozen=True, slots=True)
class HostAsker:
    """Which host writes: the gateway's word, but for the request's own name."""

    host: str
    nonce: str
    request_id: str
    digest: bytes
    """Of type, conversation and canonical body."""


@dataclass(frozen=True, slots=True)
class Written(Generic[A]):
    """Something that a host writes."""

    by: HostAsker
    argument: A


@dataclass(frozen=True, slots=True)
class HostAnswered:
    """It was recorded, now or earlier."""

    data: JsonObject
    repeated: bool
    audit: AuditMark


def once(
    rule: Callable[[Transaction, A], O | Rejection], tell: Callable[[O], JsonObject]
) -> Callable[[Transaction, Written[A]], HostAnswered | Rejection]:
    """Make a command that does what `rule` does once for a request of a host; `tell` says what it is answered.

    It goes by the name of `rule`. A refusal changed nothing and is not kept: repeated, it is decided again.
    """

    @wraps(rule)
    def decide(tx: Transaction, written: Written[A]) -> HostAnswered | Rejection:
        by = written.by
        known = tx.row(
            "select digest, answer from host_requests where host = ? and nonce = ? and request_id = ?",
            by.host,
            by.nonce,
            by.request_id,
        )
        if known is not None:
            if known[0] == by.digest:
                return HostAnswered(msgpack.unpackb(known[1]), repeated=True, audit=tx.mark())
            detail = "this id was used for another request"
            return tx.refuse("host.refused", RejectionCode.MESSAGE_ID_CONFLICT, detail, who=f"host {by.host}")
        outcome = rule(tx, written.argument)
        if isinstance(outcome, Rejection):
            return outcome
        data = tell(outcome)
        tx.sql.execute(
            "insert into host_requests values (?, ?, ?, ?, ?, ?)",
            (by.host, by.nonce, by.request_id, by.digest, codec.encode(data), tx.moment.wall.timestamp()),
        )
        return HostAnswered(data, repeated=False, audit=tx.mark())

    return decide


# --- what it is sent ---


@dataclass(frozen=True, slots=True)
class EventsOf:
    """A request for more events."""

    after: int
    conversations: frozenset[str] | None
    """Only of these; None for all."""
    most: int
    most_bytes: int = WINDOW_BYTES
    """Of their data together; one event is given whatever its size."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event as it is kept."""

    number: int
    at: str
    conversation_id: str
    kind: str
    data: bytes
    """Canonical."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in order."""

    events: tuple[EventRow, ...]
    through: int
    """Every event up to this one is on this page or was not asked for."""
    last: int
    """The highest number given."""
    lost: bool
    """Some that were asked for are not kept any more."""


def read_events(tx: Transaction, of: EventsOf) -> EventPage:
    """One page of what hosts are to be told."""
    last = last_event(tx)
    found: list[EventRow] = []
    size = 0
    for row in tx.sql.execute(
        "select number, at, conversation_id, kind, data from host_events where number > ? order by number", (of.after,)
    ):
        event = EventRow(*row)
        if of.conversations is not None and event.conversation_id not in of.conversations:
            continue
        size += len(event.data)
        if len(found) == of.most or (found and size > of.most_bytes):
            return EventPage(tuple(found), found[-1].number if found else of.after, last, _is_lost(last, of.after))
        found.append(event)
    return EventPage(tuple(found), max(last, of.after), last, _is_lost(last, of.after))


def last_event(tx: Transaction) -> int:
    """The highest number given so far."""
    row = tx.row("select max(number) from host_events")
    return int(row[0] or 0) if row else 0


def _is_lost(last: int, after: int) -> bool:
    return after < last - screens.KEPT


# --- what time brings ---


@command()
def forget_hosts(tx: Transaction, _nothing: object) -> int:
    """Drop requests that are a day old or too many, and hosts that left and do not count any more."""
    now = tx.moment.wall.timestamp()
    crowded = tx.row("select at_wall_s from host_requests order by at_wall_s desc limit 1 offset ?", KEPT_REQUESTS - 1)
    before = max(now - KNOWN_S, crowded[0] if crowded is not None else 0.0)
    dropped = tx.sql.execute(
        "delete from host_requests where (host, nonce, request_id) in "
        "(select host, nonce, request_id from host_requests where at_wall_s < ? limit ?)",
        (before, _DROP_AT_ONCE),
    ).rowcount
    gone = tx.sql.execute(f"delete from hosts where not {_THERE}", (now, LINGER_S)).rowcount  # noqa: S608
    if dropped or gone:
        tx.note("hosts.forgotten", detail={"requests": dropped, "hosts": gone})
    return dropped + gone
