"""What the rows of questions and of host events must say when the daemon rests (docs/people.md, section 9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack

from runtime_actors.contract import codec
from runtime_actors.rules.instances import LIVE
from runtime_actors.shell import feed
from tests.models.questions import END, NOTE, STEPS, UNANSWERED
from tests.models.witness import FINAL

if TYPE_CHECKING:
    import sqlite3

    from runtime_actors.rules.audit import AuditEntry
    from tests.actor_fakes import HandMonotonic
    from tests.fakes import HandClock
    from tests.models.books import Call
    from tests.models.wire import Connection
    from tests.models.witness import Place, Witness

LATE_S: Final = 5.001
"""What a lost follow-up, or a clock that jumps, may cost: the next sweep finds what is due."""


class Question(NamedTuple):
    """A row."""

    interaction_id: str
    instance_id: str
    conversation_id: str
    app_scope: str
    agent_id: str
    parent_call_id: str | None
    key: str | None
    source: str
    kind: str
    request: bytes
    created_at: str
    expires_at: str | None
    expires_wall_s: float | None
    status: str
    result: bytes | None
    reason: str | None
    updated_at: str
    listed_until: str | None
    draft: bytes | None
    draft_sequence: int
    settled: int

    @property
    def title(self) -> str:
        return str(msgpack.unpackb(self.request)["title"])

    @property
    def stops_clock(self) -> bool:
        return self.status not in END and self.title != NOTE

    @property
    def what_it_is(self) -> tuple[object, ...]:
        """What never changes."""
        return self[: Question._fields.index("status")]

    @property
    def end(self) -> tuple[object, ...]:
        return (self.status, self.result, self.reason, self.updated_at)


_SELECT: Final = f"select {', '.join(Question._fields)} from interactions"  # noqa: S608 - our own column names
_NEW_EVENTS: Final = "select number, conversation_id, kind, data from host_events where number > ? order by number"


class PeopleBooks:
    """The rows about people of one store, through all lives of its daemon."""

    def __init__(self, witness: Witness, clock: HandClock, monotonic: HandMonotonic) -> None:
        self._of_calls, self._witness, self._clock, self._monotonic = witness, witness.people, clock, monotonic
        self.questions: dict[str, Question] = {}
        self.may_be_late = False
        self.events_may_be_late = False
        self.last_event = 0
        self._shown: dict[str, Mapping[str, Any]] = {}
        """Each question as the newest event about it shows it."""
        self._events: Counter[tuple[str, str]] = Counter()
        self._entries: Counter[tuple[str, str]] = Counter()
        self._talks: dict[int, str] = {}
        self._overdue: dict[str, float] = {}
        """Since when, by the monotonic clock, it was seen to be."""
        self._wall_s = self._now_s()

    def _now_s(self) -> float:
        return self._clock.now().wall.timestamp()

    def follow(self, entry: AuditEntry) -> None:
        """Count what the audit log tells."""
        if entry.event in {"interaction.opened", "interaction.presented", "interaction.ended"}:
            self._entries[entry.subject["interaction_id"], entry.event.partition(".")[2]] += 1

    # --- rows ---

    def read(self, sql: sqlite3.Connection, calls: Mapping[Any, Call]) -> None:
        """Something has changed. Calls are those of now."""
        states = dict(sql.execute("select instance_id, state from instances").fetchall())
        ended = {(key.agent_id, key.conversation_id, key.call_id) for key, one in calls.items() if one.status in FINAL}
        now = {one.interaction_id: one for one in map(Question._make, sql.execute(_SELECT))}
        assert set(now) >= set(self.questions), "a question is gone"
        for name, row in now.items():
            before = self.questions.get(name)
            assert before is None or before.what_it_is == row.what_it_is, f"{name} is another question now"
            assert row.status in STEPS[before.status if before else ""], (name, before and before.status, row.status)
            is_live = states[row.instance_id] in LIVE
            has_parent = (row.agent_id, row.conversation_id, row.parent_call_id) not in ended
            if row.status not in END:
                assert is_live, f"{name} is open, and its owner is gone"
                assert has_parent, f"{name} is open, and its call has ended"
                assert not row.settled
                self._check_draft(row)
            elif before is not None and before.status in END:
                assert before.end == row.end, f"{name} changed after its end"
                assert before.settled <= row.settled, f"the end of {name} is to be told again"
            else:
                self._check_end(row, is_live=is_live, has_parent=has_parent)
        self.questions = now
        self._read_events(sql)
        self._check_messages(sql, states)
        self._check_clocks(calls)

    def _check_draft(self, row: Question) -> None:
        witness, name = self._witness, row.interaction_id
        if row.draft is not None:
            assert (row.draft_sequence, row.draft) in witness.drafts[name], f"nobody wrote the draft of {name}"
        if name in witness.drafts_kept:
            assert row.draft_sequence >= witness.drafts_kept[name], f"a draft of {name} that was receipted is lost"

    def _check_end(self, row: Question, *, is_live: bool, has_parent: bool) -> None:
        """Who said so?"""
        witness, name = self._witness, row.interaction_id
        assert row.draft is None
        match row.status, row.reason:
            case "completed", None if row.title == NOTE:
                assert name in witness.presented, f"{name} was shown to nobody"
                assert row.result == codec.encode(UNANSWERED[row.kind])
            case "completed", None:
                assert row.result in witness.answers[name], f"{name} has a result that nobody gave"
            case (("completed" | "cancelled"), "dismissed"):
                assert name in witness.dismissed, f"{name} was not dismissed by anybody"
                assert (row.status == "completed") == (row.kind == "confirm")
                assert row.result == (codec.encode(UNANSWERED["confirm"]) if row.kind == "confirm" else None)
            case "cancelled", "its app has ended":
                assert not is_live, f"{name} was cancelled with its owner, which lives"
            case "cancelled", "its call has ended":
                assert not has_parent, f"{name} was cancelled with its call, which is open"
            case "cancelled", reason:
                assert (row.instance_id, name, reason) in witness.cancels, f"nobody cancelled {name}"
            case "expired", None:
                latest = max(self._wall_s, self._now_s()) + 0.001
                assert row.expires_wall_s is not None
                assert row.expires_wall_s <= latest, f"{name} expired before its time"
            case _:
                raise AssertionError((name, row.status, row.reason))

    # --- what its owner is told ---

    def _check_messages(self, sql: sqlite3.Connection, states: Mapping[str, str]) -> None:
        """The end of a question is in the inbox of its owner until that has taken it over, or is gone."""
        waiting: dict[str, list[tuple[Place, bytes]]] = {}
        for talk, scope, number, body in sql.execute(
            "select conversation_id, app_scope, number, body from inbox where kind = 'interaction'"
        ):
            waiting.setdefault(msgpack.unpackb(body)["interaction_id"], []).append(((talk, scope, number), body))
        for name, row in self.questions.items():
            messages = waiting.pop(name, [])
            must_wait = row.status in END and not row.settled
            assert len(messages) == must_wait, f"{name} is {row.status}, and {len(messages)} messages wait"
            if row.status not in END:
                continue
            for place, body in messages:
                self._check_news(row, msgpack.unpackb(body))
                assert place == self._witness.news.get(name, (place,))[0]
            if row.settled and states[row.instance_id] in LIVE and row.reason != "its call has ended":
                assert name in self._witness.news, f"nobody was told how {name} ended"
                place, _ = self._witness.news[name]
                assert place in self._of_calls.acknowledged, f"the end of {name} is settled, and nobody took it over"
        assert not waiting

    @staticmethod
    def _check_news(row: Question, record: Mapping[str, Any]) -> None:
        result = None if record.get("result") is None else codec.encode(record["result"])
        assert (record["status"], result, record.get("reason"), record["updated_at"]) == row.end, (row, record)
        owner = record["owner"]
        assert (owner["instance_id"], owner.get("parent_call_id")) == (row.instance_id, row.parent_call_id)

    # --- what hosts are shown ---

    def _read_events(self, sql: sqlite3.Connection) -> None:
        for number, talk, kind, data in sql.execute(_NEW_EVENTS, (self.last_event,)).fetchall():
            assert number == self.last_event + 1, f"there is no event between {self.last_event} and {number}"
            self.last_event = number
            self._talks[number] = talk
            if kind.startswith("interaction."):
                record = msgpack.unpackb(data)["interaction"]
                status = "ended" if record["status"] in END else record["status"]
                what = "opened" if kind == "interaction.opened" else status
                self._shown[record["interaction_id"]] = record
                self._events[record["interaction_id"], what] += 1
        assert set(self._shown) == set(self.questions)
        for name, row in self.questions.items():
            shown = self._shown[name]
            for what, times in (("opened", 1), ("ended", row.status in END)):
                assert self._events[name, what] == self._entries[name, what] == times, (name, what)
            assert self._events[name, "presented"] >= self._entries[name, "presented"]
            assert shown.get("listed_until") == row.listed_until
            assert shown["status"] == row.status, f"hosts are shown {name} as {shown['status']}, and it is {row.status}"
            if row.status in END:
                self._check_news(row, shown)

    # --- the clocks of calls ---

    def _check_clocks(self, calls: Mapping[Any, Call]) -> None:
        """They stand still exactly while a person is asked."""
        stopped = {
            (one.agent_id, one.conversation_id, one.parent_call_id)
            for one in self.questions.values()
            if one.stops_clock and one.parent_call_id is not None
        }
        for key, call in calls.items():
            if call.status not in FINAL:
                stands = (key.agent_id, key.conversation_id, key.call_id) in stopped
                assert (call.remaining_s is not None) == stands, f"the clock of {key}: a person is asked, {stands}"

    # --- what the world was told, and time ---

    def check(self) -> None:
        """Whether anything has changed or not."""
        told, self._witness.told = self._witness.told, type(self._witness.told)()
        for record in told.records:
            self._check_told(record)
        for name in told.final:
            assert self.questions[name].status in END, f"somebody was told that {name} has ended"
        for name, result in told.results:
            assert self.questions[name].result == result, f"an answer to {name} was receipted, and another one counts"
        self._check_time()
        if not self.events_may_be_late:
            self._check_feeds()

    def _check_told(self, record: Mapping[str, Any]) -> None:
        row = self.questions[record["interaction_id"]]
        owner = record["owner"]
        assert (owner["app_scope"], owner["conversation_id"]) == (row.app_scope, row.conversation_id)
        assert (record["kind"], record.get("key"), record["created_at"]) == (row.kind, row.key, row.created_at)
        assert codec.encode(record["request"]) == row.request
        if record["status"] in END:
            self._check_news(row, record)
        else:
            assert row.status in STEPS[record["status"]]

    def _check_time(self) -> None:
        self._wall_s, now_s = self._now_s(), self._monotonic.now_s
        overdue = {
            name
            for name, row in self.questions.items()
            if row.status not in END and row.expires_wall_s is not None and row.expires_wall_s <= self._wall_s - 0.001
        }
        self._overdue = {name: self._overdue.get(name, now_s) for name in overdue}
        for name, since_s in self._overdue.items():
            assert self.may_be_late, f"{name} is overdue"
            assert now_s - since_s <= LATE_S, f"{name} is overdue, and the sweep did not find it"

    def _check_feeds(self) -> None:
        """Every host was sent all that there is room for."""
        for connection in self._connections():
            of = self._witness.feeds.get(connection.number)
            if of is None or not connection.proven or of.is_doubled or len(of.in_flight) == feed.WINDOW:
                continue
            newest = max((number for number, talk in self._talks.items() if of.wants(talk)), default=0)
            assert of.reached >= newest, f"event {newest} was not sent over {connection.number}"

    def _connections(self) -> list[Connection]:
        """Of hosts."""
        assert self._witness.life is not None
        return [one for one in self._witness.life.wire.connections.values() if one.door == "host"]
