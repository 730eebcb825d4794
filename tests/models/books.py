"""What the rows must say when the daemon rests: of itself, of what they said before, and of what it told the world."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack

from runtime_actors.contract import codec
from runtime_actors.records.audit import audit_entries
from runtime_actors.rules.audit import GENESIS, AuditEntry, Break, first_break
from runtime_actors.rules.calls import NEVER_S, CallKey
from runtime_actors.rules.instances import LIVE
from tests.models.people_books import PeopleBooks
from tests.models.witness import FINAL, Place, Witness, status_of

if TYPE_CHECKING:
    import sqlite3

    from tests.actor_fakes import HandMonotonic
    from tests.fakes import HandClock
    from tests.models.witness import Word

STEPS: Final = {
    "": {"waiting_for_app", "running", *FINAL - {"rejected"}},
    "waiting_for_app": {"waiting_for_app", "running", *FINAL - {"rejected"}},
    "running": {"running", "waiting_for_app", *FINAL - {"rejected"}},
} | {end: {end} for end in FINAL}
"""What the time between two rests may make of a status."""
_BY_EVENT: Final = {
    "call.admitted": "waiting_for_app",
    "call.running": "running",
    "call.redelivered": "waiting_for_app",
}
_RUNTIME_CODES: Final = {
    "outcome_unknown": "failed",
    "app_crashed": "failed",
    "app_start_failed": "failed",
    "app_disabled": "failed",
    "app_closed": "failed",
    "tool_output_invalid": "failed",
    "deadline_passed": "expired",
    "cancel_grace_passed": "cancelled",
}
_HAVING: Final = "select instance_id from attempts where state in ('ready', 'stopping')"
_LIVE: Final = f"select instance_id from instances where state in ({', '.join(map(repr, map(str, LIVE)))})"  # noqa: S608
_INBOX: Final = "select conversation_id, app_scope, number, agent_id, call_id, kind, body from inbox"
_ACTED_ON: Final = "select instance_id from actions where conversation_id = ? and app_scope = ? and message = ?"
TIMEOUT_S: Final = 60.0
"""Of every tool."""
UNREAD_S: Final = 30 * 86_400.0
GRACE_S: Final = 10.0
LATE_S: Final = 5.001
"""What a lost follow-up may cost: the next sweep finds what is due."""


class Call(NamedTuple):
    """A row of a call."""

    agent_id: str
    conversation_id: str
    call_id: str
    status: str
    digest: bytes
    result: bytes | None
    failure: bytes | None
    error_code: str | None
    instance_id: str | None
    tool_id: str
    due_boot_s: float | None
    deadline_boot_s: float
    deadline_wall_s: float
    remaining_s: float | None
    """Of its time, while that stands still because a person is asked."""
    questions: int
    """That were ever asked about it."""
    cancel_requested: int
    progress: bytes | None
    created_at: str
    updated_at: str

    @property
    def key(self) -> CallKey:
        return CallKey(self.agent_id, self.conversation_id, self.call_id)

    def left_s(self, now_s: float) -> float:
        """Of its time."""
        return self.deadline_boot_s - now_s if self.remaining_s is None else self.remaining_s


_CALLS: Final = f"select {', '.join(Call._fields)} from calls"  # noqa: S608 - our own column names


class Books:
    """The rows of one store, through all lives of its daemon."""

    def __init__(self, witness: Witness, clock: HandClock, monotonic: HandMonotonic) -> None:
        self._witness, self._clock = witness, clock
        self.people = PeopleBooks(witness, clock, monotonic)
        self._rested = clock.now()
        self.calls: dict[CallKey, Call] = {}
        self._ended: dict[CallKey, Call] = {}
        self._heads: dict[int, str] = {0: GENESIS.hex()}
        self._walked = (0, GENESIS)
        self._told: dict[CallKey, str] = {}
        """Statuses as the audit log tells them."""
        self._ends: defaultdict[CallKey, int] = defaultdict(int)
        self._dropped: set[tuple[str, int]] = set()
        self._messages: dict[Place, CallKey | str | None] = {}
        """Each with its call, or with the instance that alone it is for."""
        self._deliveries: dict[tuple[str, int], float] = {}
        """When each was posted."""
        self._seen: tuple[int, int] | None = None
        self.may_be_late = False

    def check(self, sql: sqlite3.Connection, side: tuple[int, bytes] | None, life: int) -> None:
        """Nothing may be under way: each fact of the rows is a committed one, and the side file is up to date.

        Raises:
            AssertionError: A promise is broken.

        """
        if self._seen != (life, sql.total_changes):
            self._seen = (life, sql.total_changes)
            self._read_audit(sql)
            self._read_calls(sql)
            self._read_outbox(sql)
            self._read_inbox(sql)
            self._read_focus(sql)
            self.people.read(sql, self.calls)
        assert side == self._walked, "the side file is behind"
        self._check_promises(sql)
        self._check_time()
        self.people.check()
        self._rested = self._clock.now()

    # --- the audit log ---

    def _read_audit(self, sql: sqlite3.Connection) -> None:
        entries = list(audit_entries(sql, self._walked[0]))
        found = first_break(*self._walked, entries)
        assert not isinstance(found, Break), found
        self._walked = found
        for entry, head in entries:
            self._heads[entry.seq] = head.hex()
            assert entry.event not in {"command.failed", "record.unreadable", "message.set_aside"}, entry
            self._follow(entry)
            self.people.follow(entry)

    def _follow(self, entry: AuditEntry) -> None:
        if entry.event == "delivery.dropped":
            place = entry.subject["agent_id"], entry.detail["number"]
            posted_s = self._deliveries.get(place, 0.0)
            assert posted_s <= self._clock.now().wall.timestamp() - UNREAD_S, f"delivery {place} was dropped too early"
            self._dropped.add(place)
        status = _BY_EVENT.get(entry.event) or entry.detail.get("to")
        if not entry.event.startswith("call.") or status is None:
            return
        key = CallKey(*(entry.subject[name] for name in ("agent_id", "conversation_id", "call_id")))
        assert (entry.event == "call.admitted") == (key not in self._told), entry
        self._told[key] = status
        if entry.event == "call.ended":
            self._ends[key] += 1

    # --- calls ---

    def _read_calls(self, sql: sqlite3.Connection) -> None:
        now = {one.key: one for one in map(Call._make, sql.execute(_CALLS))}
        assert set(now) >= set(self.calls), "a call is gone"
        having = {one for (one,) in sql.execute(_HAVING)}
        for key, call in now.items():
            before = self.calls.get(key)
            assert call.status in STEPS[before.status if before else ""], (key, before and before.status, call.status)
            assert call.digest in self._witness.bodies[key], f"{key} was never asked for like this"
            assert call.created_at <= call.updated_at
            assert call.status != "running" or call.instance_id in having, f"{key} runs without a process"
            assert (call.due_boot_s is None) == (call.status in FINAL)
            assert not call.cancel_requested or key in self._witness.wishes, f"nobody wished to cancel {key}"
            self._check_log(call)
            self._check_deadline(call, before)
            if key in self._ended:
                assert call == self._ended[key], f"{key} changed after its end"
            elif call.status in FINAL:
                self._check_end(call)
                self._ended[key] = call
        assert set(self._told) == set(now), "calls and audit log differ"
        self.calls = now
        self._witness.ended = set(self._ended)
        opened = sql.execute("select cast(total(open_calls) as integer) from agents").fetchone()
        assert opened == (len(now) - len(self._ended),)

    def _check_log(self, call: Call) -> None:
        told = self._told.get(call.key)
        took_over = (told, call.status) == ("waiting_for_app", "running")  # by a result that was refused
        assert told == call.status or took_over, f"the log says that {call.key} is {told}, not {call.status}"
        assert self._ends[call.key] == (call.status in FINAL)

    def _check_deadline(self, call: Call, before: Call | None) -> None:
        """Time goes on for it, on the machine's clock, except while a person is asked.

        If the machine was off meanwhile, the wall clock says how late it is.
        """
        now = self._clock.now()
        if call.status in FINAL:
            return
        is_rebooted = now.boot_id != self._rested.boot_id
        wished = call.cancel_requested and not (before is not None and before.cancel_requested)
        assert not wished or (call.due_boot_s or 0) <= now.boot_s + GRACE_S, f"{call.key} has no grace"
        if not call.cancel_requested:
            assert call.due_boot_s == (call.deadline_boot_s if call.remaining_s is None else NEVER_S)
        if before is None:
            assert call.left_s(now.boot_s) <= TIMEOUT_S + 0.001
            return
        if before.cancel_requested and not is_rebooted:
            assert call.due_boot_s is not None
            assert call.due_boot_s <= (before.due_boot_s or 0), f"the grace of {call.key} was given again"
        is_same = call.questions == before.questions
        left_s, had_s = call.left_s(now.boot_s), before.left_s(self._rested.boot_s)
        moved = f"{call.key} had {had_s} s and has {left_s} s"
        if is_same and call.remaining_s is not None:
            assert math.isclose(left_s, had_s, abs_tol=0.001), moved
        elif is_rebooted:
            if is_same and before.remaining_s is None:
                had_s = call.deadline_wall_s - now.wall.timestamp()
                assert math.isclose(left_s, had_s, abs_tol=0.001), moved
        else:
            passed_s = now.boot_s - self._rested.boot_s
            at_most_s = had_s - (passed_s if is_same and before.remaining_s is None else 0)
            assert had_s - passed_s - 0.001 <= left_s <= at_most_s + 0.001, moved

    def _check_end(self, call: Call) -> None:
        """Who said so?"""
        code = call.error_code
        if code in _RUNTIME_CODES:
            assert call.status == _RUNTIME_CODES[code]
            assert (code != "outcome_unknown") or call.tool_id == "notes.once"
            assert (code != "cancel_grace_passed") or call.cancel_requested
            assert (code != "deadline_passed") or call.deadline_boot_s <= self._now_s()
            return
        payload = call.result if call.status == "completed" else call.failure
        said = (call.instance_id, call.key.call_id, call.status, payload)
        assert said in self._witness.spoken, f"{call.key} is {call.status}, {code}, and its app did not say so"

    def _now_s(self) -> float:
        """Or for ever, if the machine was off since the daemon rested: a deadline of before means nothing now."""
        now = self._clock.now()
        return now.boot_s if now.boot_id == self._rested.boot_id else math.inf

    # --- deliveries ---

    def _read_outbox(self, sql: sqlite3.Connection) -> None:
        witness = self._witness
        now: dict[tuple[str, int], float] = {}
        unsettled = {agent: 0 for (agent,) in sql.execute("select agent_id from agents")}
        for agent, number, talk, kind, call_id, frame, posted_s in sql.execute(
            "select agent_id, number, conversation_id, kind, call_id, frame, created_wall_s from outbox"
        ):
            key = CallKey(agent, talk, call_id)
            now[agent, number] = posted_s
            unsettled[agent] += 1
            if kind == "lineup.v1.tool.result":
                assert witness.results.setdefault(key, (number, frame)) == (number, frame), f"{key} has two results"
        assert unsettled == dict(sql.execute("select agent_id, unsettled from agents").fetchall())
        assert set(witness.results) == set(self._ended), "each call that ended has one result"
        for key, (number, _) in witness.results.items():
            place = (key.agent_id, number)
            over = place in witness.settled | self._dropped
            assert place in now or over, f"the result of {key} is gone, and nobody acknowledged it"
        witness.gone_deliveries |= set(self._deliveries) - set(now)
        self._deliveries = now

    # --- messages ---

    def _read_inbox(self, sql: sqlite3.Connection) -> None:
        witness = self._witness
        live = {one for (one,) in sql.execute(_LIVE)}
        now: dict[Place, CallKey | str | None] = {}
        for talk, scope, number, agent, call_id, kind, body in sql.execute(_INBOX):
            now[talk, scope, number] = CallKey(agent, talk, call_id) if call_id is not None else None
            if kind == "interaction":
                now[talk, scope, number] = msgpack.unpackb(body)["owner"]["instance_id"]
            elif kind == "action":
                [now[talk, scope, number]] = sql.execute(_ACTED_ON, (talk, scope, number)).fetchone()
        waiting = [key for key in now.values() if isinstance(key, CallKey)]
        assert {key for key in now.values() if isinstance(key, str)} <= live, "a message waits for who is gone"
        assert len(set(waiting)) == len(waiting), "a call has two messages"
        assert not set(waiting) & set(self._ended), "a call that ended has a message"
        assert not set(now) & (witness.gone | witness.receipted), "a message came back"
        for place in set(self._messages) - set(now):
            key = self._messages[place]
            withdrawn = key not in live if isinstance(key, str) else key is not None and self._has_none(key, waiting)
            assert place in witness.acknowledged or withdrawn, f"message {place} is gone, and nobody acknowledged it"
        witness.gone |= set(self._messages) - set(now)
        self._messages = now

    def _has_none(self, key: CallKey, waiting: list[CallKey]) -> bool:
        """Whether a call needs no message: it has ended or has another, or its app has asked a person about it."""
        asked = (self.calls[key].instance_id, key.call_id) in self._witness.people.taken_over
        return key in self._ended or key in waiting or asked

    # --- who is in front ---

    def _read_focus(self, sql: sqlite3.Connection) -> None:
        states = dict(sql.execute("select instance_id, state from instances").fetchall())
        for (stack,) in sql.execute("select stack from focus"):
            ids = json.loads(stack)
            assert len(set(ids)) == len(ids)
            assert all(states[one] in LIVE for one in ids)

    # --- what the world was told ---

    def _check_promises(self, sql: sqlite3.Connection) -> None:
        promised, self._witness.promised = self._witness.promised, type(self._witness.promised)()
        for seq, head in promised.marks:
            assert self._heads.get(seq) == head, f"the chain does not have the place {seq} that an agent was told"
        for key, digest in promised.calls:
            assert key in self.calls, f"an agent was told of {key}, which was not recorded"
            assert digest in {b"", self.calls[key].digest}, f"{key} was answered for another body"
        for key, state in promised.states:
            self._check_state(self.calls[key], state)
        for word in promised.words:
            self._check_word(sql, word)

    def _check_state(self, call: Call, state: Mapping[str, Any]) -> None:
        assert call.status == state["status"], f"an agent was told that {call.key} is {state['status']}"
        assert state.get("error_code") == call.error_code
        if call.status == "completed":
            assert codec.encode(state["result"]) == call.result

    def _check_word(self, sql: sqlite3.Connection, word: Word) -> None:
        instance_id, talk, scope = self._witness.place_of(word.attempt_id)
        if word.kind == "inbox.acknowledge":
            assert (talk, scope, int(word.message_id[1:])) not in self._messages, f"{word} had a receipt"
            return
        status = status_of(word.kind)
        row = sql.execute(
            "select status, result, failure, progress from calls where instance_id = ? and call_id = ? "
            "order by seq desc",
            (instance_id, word.call_id),
        ).fetchone()
        assert row is not None
        if status is not None:
            kept = row[1] if status == "completed" else row[2]
            assert (row[0], kept) == (status, word.payload), f"{word} had a receipt, and the call is {row[0]}"
        elif word.kind == "report_progress":
            assert row[3] is not None, f"{word} had a receipt"

    # --- time ---

    def _check_time(self) -> None:
        late = LATE_S if self.may_be_late else 0.001
        now = self._clock.now().boot_s
        for call in self.calls.values():
            assert call.due_boot_s is None or call.due_boot_s > now - late, f"{call.key} is overdue"
