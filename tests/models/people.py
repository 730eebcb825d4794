"""Who sees what is said about questions at the doors of workers and hosts, and what the daemon promised by it.

Belongs to the `Witness`, which hands on what concerns people.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgpack

from runtime_actors.commands import screens
from runtime_actors.contract import codec
from runtime_actors.shell import feed
from tests.models.questions import END, KINDS

if TYPE_CHECKING:
    import sqlite3

    from tests.models.life import Life
    from tests.models.wire import Connection, Said

HOSTS: Final[Mapping[int, str]] = {11: "screen", 12: "window"}
"""By the process that connects."""
_EVENT: Final = "select conversation_id, kind, data from host_events where number = ?"
_BETWEEN: Final = "select number, conversation_id from host_events where number > ? and number <= ?"
_REQUEST: Final = "select request from interactions where interaction_id = ?"


@dataclass(slots=True)
class Feed:
    """What one connection of a host was sent."""

    follows: frozenset[str] | None
    stream: str | None
    after: int | None
    reached: int = 0
    """Every event up to this one was sent, or need not be."""
    in_flight: set[int] = field(default_factory=set)
    is_doubled: bool = False
    """It attached twice, so that events may come twice."""

    def wants(self, talk: str) -> bool:
        return self.follows is None or talk in self.follows


@dataclass(slots=True)
class Told:
    """What was said since the daemon rested."""

    records: list[Mapping[str, Any]] = field(default_factory=list)
    """Questions that stood so."""
    final: list[str] = field(default_factory=list)
    """Questions that somebody was told have ended."""
    results: list[tuple[str, bytes]] = field(default_factory=list)
    """Answers that were accepted."""


class PeopleWitness:
    """See the module. `look` takes what must hold, and what is wrong otherwise."""

    def __init__(self, look: Callable[[bool, str], None], place_of: Callable[[str], tuple[str, str, str]]) -> None:
        self._look, self._place_of = look, place_of
        self.life: Life | None = None
        self.told = Told()
        self.of_worker: dict[tuple[str, str], Said] = {}
        self.of_host: dict[str, Said] = {}
        self.taken_over: set[tuple[str, str]] = set()
        """(instance, call) about which a process asked."""
        self.cancels: set[tuple[str, str, str | None]] = set()
        """(instance, question, reason) that a process said."""
        self.answers: defaultdict[str, set[bytes]] = defaultdict(set)
        """Results of the valid answers that were heard."""
        self.dismissed: set[str] = set()
        self.presented: set[str] = set()
        self.drafts: defaultdict[str, set[tuple[int, bytes]]] = defaultdict(set)
        self.drafts_kept: Counter[str] = Counter()
        """The highest sequence of a draft that was receipted; -1 has none."""
        self.news: dict[str, tuple[tuple[str, str, int], Mapping[str, Any]]] = {}
        """The message that brought the end of a question, and what it said."""
        self.feeds: dict[int, Feed] = {}
        self._winners: dict[str, str] = {}
        self._done: dict[str, Mapping[str, Any]] = {}
        self._asked: dict[tuple[str, ...], str] = {}
        """What each request, and each key, made."""
        self._events: dict[int, bytes] = {}

    def a_day_passes(self) -> None:
        """What hosts wrote is not known any longer."""
        self._done.clear()

    # --- the daemon says something to a worker ---

    def sent_to_worker(self, attempt_id: str, kind: str, body: Mapping[str, Any]) -> tuple[str, str] | None:
        """An answer as (request, code), if it is one."""
        match kind:
            case "ui.receipt":
                self._receipted(attempt_id, body)
                return body["request_id"], "ok" if body["accepted"] else body["code"]
            case "ui.interaction" | "ui.interactions":
                said = self.of_worker[attempt_id, body["request_id"]]
                one = body.get("interaction")
                found = body.get("interactions", [] if one is None else [one])
                for record in found:
                    self._told_to_owner(attempt_id, record)
                    named = said.body.get("interaction_id", record["interaction_id"])
                    self._look(record["interaction_id"] == named, f"{named} was wanted, not {record}")
                    is_listed = kind == "ui.interactions"
                    self._look(not is_listed or record["status"] not in END, "what has ended is listed as open")
                return body["request_id"], "ok" if found or kind == "ui.interactions" else "none"
            case "ui.changed":
                self._told_to_owner(attempt_id, body["interaction"])
            case "inbox.message" | "inbox.page":
                for message in body.get("messages", [body]):
                    if message["kind"] == "interaction":
                        self._brought(attempt_id, message)
        return None

    def _told_to_owner(self, attempt_id: str, record: Mapping[str, Any]) -> None:
        owner = record["owner"]["instance_id"]
        self._look(owner == self._place_of(attempt_id)[0], f"{attempt_id} was told of a question of {owner}")
        self.told.records.append(record)

    def _brought(self, attempt_id: str, message: Mapping[str, Any]) -> None:
        record = message["interaction"]
        name = record["interaction_id"]
        _, talk, scope = self._place_of(attempt_id)
        self._told_to_owner(attempt_id, record)
        self._look(record["status"] in END, f"a message brings {name}, which has not ended")
        news = ((talk, scope, message["number"]), record)
        self._look(self.news.setdefault(name, news) == news, f"the end of {name} is told twice, or changed")

    def _receipted(self, attempt_id: str, body: Mapping[str, Any]) -> None:
        said = self.of_worker[attempt_id, body["request_id"]]
        if not body["accepted"]:
            if body["code"] == "interaction_already_final":
                self.told.final.append(said.body["interaction_id"])
            return
        record = body["interaction"]
        self._told_to_owner(attempt_id, record)
        if said.kind == "ui.cancel":
            self._look(record["status"] == "cancelled", f"{record} was receipted as cancelled")
            return
        name, asked = record["interaction_id"], said.body
        instance_id = self._place_of(attempt_id)[0]
        parent, key = asked.get("parent_call_id"), asked.get("key")
        self._look(_is_of(record, asked), f"{asked} became {record}")
        ways = [(attempt_id, said.id)] + ([] if key is None else [(instance_id, parent or "", key)])
        for way in ways:
            self._look(self._asked.setdefault(way, name) == name, f"{way} has two questions")

    # --- the daemon says something to a host ---

    def sent_to_host(self, to: Connection, kind: str, body: Mapping[str, Any], frame: bytes) -> tuple[str, str] | None:
        """As `sent_to_worker`."""
        match kind:
            case "host.attached":
                to.proven = True
                self._attached(self.feeds[to.number], body)
            case "host.event":
                self._look(to.proven, "an event came before its host was attached")
                self._happened(self.feeds[to.number], body, frame)
            case "host.done":
                self._done_for_person(to, body)
                return body["request_id"], "ok"
            case "control.rows":
                for row in body["rows"]:
                    self.told.records.append(row["interaction"])
                    self._look(row["interaction"]["status"] not in END, "what has ended is listed as open")
            case "rejected":
                said = self.of_host.get(body.get("request_id", ""))
                if said is not None and body["code"] == "interaction_already_final":
                    self.told.final.append(said.body["interaction_id"])
                return str(body.get("request_id")), body["code"]
        return None

    def _attached(self, of: Feed, body: Mapping[str, Any]) -> None:
        last = body["last_number"]
        of.reached = last
        if of.after is None:
            self._look(body["complete"], "a host that begins anew misses nothing")
            return
        there = of.stream == body["stream"] and last - screens.KEPT <= of.after <= last
        self._look(body["complete"] == there, f"complete is {body['complete']} behind {of.after} of {last}")
        if body["complete"]:
            of.reached = of.after

    def _happened(self, of: Feed, body: Mapping[str, Any], frame: bytes) -> None:
        number, talk = body["number"], body["conversation_id"]
        self._look(of.is_doubled or number > of.reached, f"event {number} was sent behind {of.reached}")
        self._look(of.wants(talk), f"event {number} of {talk} is not for this host")
        missed = [one for one, where in self._sql.execute(_BETWEEN, (of.reached, number - 1)) if of.wants(where)]
        self._look(not missed, f"{missed} were left out before event {number}")
        row = self._sql.execute(_EVENT, (number,)).fetchone()
        said = (talk, body["kind"], codec.encode(body["data"]))
        self._look(row in {None, said}, f"event {number} is not as it is kept")
        self._look(self._events.setdefault(number, frame) == frame, f"event {number} was sent in two ways")
        of.reached = number
        of.in_flight.add(number)
        self._look(of.is_doubled or len(of.in_flight) <= feed.WINDOW, "a host is sent more than its window")

    def _done_for_person(self, to: Connection, body: Mapping[str, Any]) -> None:
        said_as, data = body["request_id"], body["data"]
        said = self.of_host[said_as]
        kind, name = said.kind.removeprefix("host."), said.body.get("interaction_id", "")
        if kind in {"answer", "dismiss", "act"}:  # they count once
            self._look(body["repeated"] or said_as not in self._done, f"{said_as} was done twice")
            first = self._done.setdefault(said_as, data)
            self._look(first == data, f"{said_as} was answered in two ways")
        if kind in {"answer", "dismiss"}:
            winner = self._winners.setdefault(name, said_as)
            self._look(winner == said_as, f"{winner} and {said_as} both ended {name}")
            self._look(data["status"] in END, f"{name} was answered and is {data['status']}")
            self.told.final.append(name)
        if kind == "answer":
            result = self._result_of(said)
            self._look(result is not None, f"{HOSTS[to.pid]} was told that {said.body} is an answer")
            self.told.results.append((name, result or b""))
        if kind == "draft":
            self.drafts_kept[name] = max(self.drafts_kept[name], said.body["sequence"])

    # --- the daemon hears something ---

    def heard_from_worker(self, attempt_id: str, said: Said, *, counts: bool) -> None:
        self.of_worker[attempt_id, said.id] = said
        instance_id = self._place_of(attempt_id)[0]
        if said.kind == "ui.request" and counts and said.body.get("parent_call_id") is not None:
            self.taken_over.add((instance_id, said.body["parent_call_id"]))
        elif said.kind == "ui.cancel" and counts:
            self.cancels.add((instance_id, said.body["interaction_id"], said.body.get("reason")))

    def heard_from_host(self, by: Connection, said: Said, *, counts: bool) -> None:
        body = said.body
        if said.kind == "host.attach":
            follows = body.get("conversations")
            of = Feed(None if follows is None else frozenset(follows), body.get("stream"), body.get("after_number"))
            of.is_doubled = by.number in self.feeds
            self.feeds[by.number] = of
            return
        self.of_host[said.id] = said
        if not counts:
            return
        name = body.get("interaction_id", "")
        match said.kind:
            case "host.answer":
                result = self._result_of(said)
                if result is not None:
                    self.answers[name].add(result)
            case "host.dismiss":
                self.dismissed.add(name)
            case "host.presented":
                self.presented.add(name)
            case "host.draft":
                self.drafts[name].add((body["sequence"], codec.encode(body["values"])))
            case "host.ack":
                of = self.feeds[by.number]
                of.in_flight = {one for one in of.in_flight if one > body["number"]}

    def _result_of(self, said: Said) -> bytes | None:
        given = dict(said.body)
        row = self._sql.execute(_REQUEST, (given.pop("interaction_id"),)).fetchone()
        return None if row is None else KINDS[msgpack.unpackb(row[0])["title"]].result_of(given)

    @property
    def _sql(self) -> sqlite3.Connection:
        assert self.life is not None
        return self.life.sql


def _is_of(record: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether a record is of what was asked."""
    said = (asked["request"], asked.get("parent_call_id"), asked.get("key"))
    return said == (record["request"], record["owner"].get("parent_call_id"), record.get("key"))
