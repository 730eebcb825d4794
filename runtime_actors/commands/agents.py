"""Agent identities, and what was posted to them."""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from runtime_actors.commands.command import command
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.records import boxes
from runtime_actors.rules.flood import PROGRESSED, SURFACE_CHANGED

if TYPE_CHECKING:
    from runtime_actors.records.boxes import Delivery
    from runtime_actors.records.transaction import Transaction

UNREAD_DAYS: Final = 30
_DROP_AT_ONCE: Final = 500
_OPERATOR: Final = "operator"
"""Who is refused what was asked on the control door."""


@dataclass(frozen=True, slots=True)
class NewAgent:
    """An identity; only the hash of its secret is known here."""

    name: str
    token_hash: bytes
    public_key: str | None


@dataclass(frozen=True, slots=True)
class AgentAdded:
    """It may attach."""

    name: str


@command(growing=True)
def add_agent(tx: Transaction, new: NewAgent) -> AgentAdded | Rejection:
    """Make an identity; the same one again is harmless."""
    known = tx.row("select token_hash, public_key from agents where agent_id = ?", new.name)
    taken = tx.row("select agent_id from agents where public_key = ? and agent_id <> ?", new.public_key, new.name)
    if known is not None and hmac.compare_digest(known[0], new.token_hash) and known[1] == new.public_key:
        return AgentAdded(new.name)
    if known is not None or taken is not None:
        detail = f"there is an agent {new.name} with another token or key" if known else "another agent has this key"
        return tx.refuse("agent.refused", RejectionCode.AGENT_EXISTS, detail, who=_OPERATOR, agent_id=new.name)
    tx.sql.execute(
        "insert into agents (agent_id, token_hash, public_key, created_at) values (?, ?, ?, ?)",
        (new.name, new.token_hash, new.public_key, tx.at),
    )
    tx.note("agent.added", agent_id=new.name)
    return AgentAdded(new.name)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What an agent shows at attach; no token where its connection proves it."""

    name: str
    token_hash: bytes | None


@dataclass(frozen=True, slots=True)
class Identified:
    """It is who it says."""

    name: str
    last_number: int
    stream: str


def identify(tx: Transaction, shown: Credentials) -> Identified | Rejection:
    """Check an agent's token."""
    row = tx.row("select token_hash, last_number from agents where agent_id = ?", shown.name)
    if row is None or (shown.token_hash is not None and not hmac.compare_digest(row[0], shown.token_hash)):
        # Names that nobody has are one flood, however many are tried.
        who = shown.name if row is not None else ""
        detail = "no such agent, or a wrong token"
        return tx.refuse("agent.refused", RejectionCode.ATTACH_DENIED, detail, who=who, agent_id=shown.name)
    stream = tx.row("select value from meta where name = 'stream'")
    return Identified(shown.name, int(row[1]), str(stream[0]) if stream else "")


def public_keys(tx: Transaction, _nothing: object = None) -> dict[str, str]:
    """CURVE public key to agent."""
    return {
        str(key): str(name)
        for key, name in tx.rows("select public_key, agent_id from agents where public_key is not null")
    }


@dataclass(frozen=True, slots=True)
class Settle:
    """An agent acknowledged deliveries."""

    agent_id: str
    numbers: tuple[int, ...]


@command()
def settle_deliveries(tx: Transaction, settle: Settle) -> Settle:
    """They are not sent again. Unknown numbers are ignored."""
    found = tx.rows(
        "delete from outbox where agent_id = ? and number in (select value from json_each(?)) returning number",
        settle.agent_id,
        json.dumps(settle.numbers),
    )
    if found:
        gone = sorted(row[0] for row in found)
        tx.note("delivery.settled", detail={"numbers": gone}, agent_id=settle.agent_id)
    return settle


@dataclass(frozen=True, slots=True)
class PageOf:
    """A request for more of an agent's outbox."""

    agent_id: str
    in_flight: frozenset[int]
    """Sent already and not settled, as far as is known."""
    conversations: frozenset[str] | None
    """Only of these; None for all."""
    most: int
    most_bytes: int


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """Unsettled deliveries in order, without those in flight."""

    deliveries: tuple[Delivery, ...]
    still: frozenset[int]
    """Those in flight that are not settled."""
    through: int
    """The highest number given when this was read."""
    complete: bool


def read_deliveries(tx: Transaction, of: PageOf) -> DeliveryPage:
    """One page of what an agent has not settled."""
    page: list[Delivery] = []
    still: set[int] = set()
    size, complete = 0, True
    for delivery in boxes.deliveries(tx, of.agent_id):
        if delivery.number in of.in_flight:
            still.add(delivery.number)
            continue
        if of.conversations is not None and delivery.conversation_id not in of.conversations:
            continue
        size += len(delivery.frame)
        if len(page) == of.most or (page and size > of.most_bytes):
            complete = False
            break
        page.append(delivery)
    if not complete:  # what lies beyond the page may be in flight as well
        still |= of.in_flight
    return DeliveryPage(tuple(page), frozenset(still), boxes.last_delivery_number(tx, of.agent_id), complete)


_OLD: Final = """
select o.agent_id, o.number from agents a join outbox o on o.agent_id = a.agent_id
    and o.number < (select min(number) from outbox where agent_id = a.agent_id) + ?1
where a.unsettled > 0 and o.created_wall_s < ?2 limit ?1
"""
"""Looked for among the first of each agent: its numbers grow with time."""


@command()
def drop_unread(tx: Transaction, _nothing: object) -> int:
    """Drop deliveries that nobody read for 30 days; what they said stays readable in their calls."""
    before = tx.moment.wall.timestamp() - UNREAD_DAYS * 86_400
    old = tx.rows(_OLD, _DROP_AT_ONCE, before)
    for agent_id, number in old:
        tx.sql.execute("delete from outbox where agent_id = ? and number = ?", (agent_id, number))
        tx.note("delivery.dropped", detail={"number": number}, agent_id=agent_id)
    return len(old)


@command()
def count_floods(tx: Transaction, _nothing: object) -> int:
    """Write one entry for each flood that is over."""
    floods = tx.floods.over(tx.moment.boot_s)
    for (who, code), count in floods:
        if code == PROGRESSED:
            tx.note("progress.counted", detail={"count": count}, call_id=who)
        elif code == SURFACE_CHANGED:
            tx.note("surface.counted", detail={"count": count}, surface_id=who)
        elif "." in code:
            tx.note("events.counted", detail={"event": code, "count": count}, who=who)
        else:
            tx.note("refusals.counted", detail={"code": code, "count": count}, who=who)
    return len(floods)


@dataclass(frozen=True, slots=True)
class Event:
    """Something an operator or a peer did that changes no record but is to be kept."""

    event: str
    subject: dict[str, str]
    code: str | None = None


@command()
def note_event(tx: Transaction, event: Event) -> None:
    """Put it into the audit log."""
    if event.code is None:
        tx.record(event.event, event.subject, {})
    else:
        others = {key: value for key, value in event.subject.items() if key != "who"}
        tx.refuse(event.event, RejectionCode(event.code), "", who=event.subject.get("who", ""), **others)
