"""Who sees every frame at the doors: what was asked, what was said to whom, and what the daemon promised by it.

A promise is kept once it was sent: when the daemon rests, the rows must be as it said, also if it was killed in
between and has recovered. So an answer that ran ahead of its COMMIT is found out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.contract import codec
from runtime_actors.contract.tools import CallStatus, Failure, ToolInvoke
from runtime_actors.rules.calls import CallKey
from tests.models.people import PeopleWitness
from tests.models.wire import read

if TYPE_CHECKING:
    from tests.models.life import Life
    from tests.models.wire import Connection, Said

Place = tuple[str, str, int]
"""A message: (conversation, scope, number)."""
AGENTS: Final[Mapping[int, str]] = {1: "local", 2: "other"}
"""By the process that connects."""
FINAL: Final = frozenset({"completed", "failed", "cancelled", "expired", "rejected"})
_ABOUT_CALLS: Final = frozenset({"tool.invoke", "tool.cancel", "tool.get"})
_STATUS: Final = {"complete": "completed", "fail": "failed", "cancel": "cancelled"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request at the agents' door."""

    kind: str
    key: CallKey
    digest: bytes = b""
    tool_id: str = ""
    revision: str = ""


@dataclass(frozen=True, slots=True)
class Word:
    """A request of a worker."""

    attempt_id: str
    kind: str
    call_id: str = ""
    payload: bytes = b""
    message_id: str = ""


@dataclass(slots=True)
class Promised:
    """What was sent since the daemon rested."""

    calls: list[tuple[CallKey, bytes]] = field(default_factory=list)
    """They are recorded, with this body (any, if empty)."""
    states: list[tuple[CallKey, Mapping[str, Any]]] = field(default_factory=list)
    """They ended so."""
    words: list[Word] = field(default_factory=list)
    """They were taken."""
    marks: list[tuple[int, str]] = field(default_factory=list)
    """Places on the audit chain."""


class Witness:
    """See the module. What it finds wrong on the way is kept in `wrong`, for an actor survives what is raised in it."""

    def __init__(self, wrong: list[str]) -> None:
        self.wrong = wrong
        self.people = PeopleWitness(self._look, self.place_of)
        self._life: Life | None = None
        self.promised = Promised()
        self.asked: dict[str, Asked] = {}
        self.words: dict[tuple[str, str], Word] = {}
        self.answers: list[tuple[str, str]] = []
        """Request and code, `ok` if it was not refused; of what was answered since somebody looked."""
        self.bodies: defaultdict[CallKey, set[bytes]] = defaultdict(set)
        """What agents really asked for."""
        self.wishes: set[CallKey] = set()
        self.spoken: set[tuple[str, str, str, bytes]] = set()
        """(instance, call, status, payload) that its process said."""
        self.acknowledged: set[Place] = set()
        """Messages whose acknowledgement was heard."""
        self.receipted: set[Place] = set()
        self.settled: set[tuple[str, int]] = set()
        """Deliveries whose acknowledgement was heard."""
        self.gone: set[Place] = set()
        """Messages that had left the inbox when the daemon rested."""
        self.gone_deliveries: set[tuple[str, int]] = set()
        self.ended: set[CallKey] = set()
        """Calls that had ended when the daemon rested."""
        self.results: dict[CallKey, tuple[int, bytes]] = {}
        self.given: defaultdict[CallKey, set[str]] = defaultdict(set)
        """The attempts that were sent a call."""
        self.sent_to: dict[Place, set[str]] = {}
        self._last: dict[tuple[str, int], int] = {}
        """The highest number sent over a connection since it was welcomed."""
        self._places: dict[str, tuple[str, str, str]] = {}
        self._tools: dict[CallKey, str] = {}

    # --- the daemon says something ---

    def sent(self, to: Connection, frame: bytes) -> None:
        said = read(frame)
        kind, body = said.kind, said.body
        mark = body.get("audit")
        if mark is not None:
            self.promised.marks.append((mark["audit_seq"], mark["head_hash"]))
        if to.door.startswith("w-"):
            self._sent_to_worker(to, kind, body)
            self._note_answer(self.people.sent_to_worker(to.door.removeprefix("w-"), kind, body))
        elif to.door == "host":
            self._note_answer(self.people.sent_to_host(to, kind, body, frame))
        elif to.door == "agent":
            self._sent_to_agent(to, kind, body, frame)

    def _note_answer(self, answer: tuple[str, str] | None) -> None:
        if answer is not None:
            self.answers.append(answer)

    def _sent_to_agent(self, to: Connection, kind: str, body: Mapping[str, Any], frame: bytes) -> None:
        agent = AGENTS[to.pid]
        match kind:
            case "agent.attached":
                to.proven = True
                self._last.pop((to.door, to.number), None)
            case "tool.state":
                self._answered(agent, body)
            case "rejected":
                self.answers.append((str(body.get("request_id")), body["code"]))
            case "tool.result" | "tool.progress":
                self._delivered(agent, to, body, frame)

    def _answered(self, agent: str, body: Mapping[str, Any]) -> None:
        self.answers.append((body["request_id"], "ok"))
        asked = self.asked[body["request_id"]]
        call = body["call"]
        key = CallKey(agent, call["conversation_id"], call["call_id"])
        self._look(key == asked.key, f"{agent} asked about {asked.key} and was answered about {key}")
        self.promised.calls.append((key, asked.digest))
        if call["status"] in FINAL:
            self.promised.states.append((key, call))

    def _delivered(self, agent: str, to: Connection, body: Mapping[str, Any], frame: bytes) -> None:
        number = body["number"]
        self._in_order(to, number)
        self._look((agent, number) not in self.gone_deliveries, f"delivery {number} of {agent} was sent after its end")
        if "call" not in body:
            return
        call = body["call"]
        key = CallKey(agent, call["conversation_id"], call["call_id"])
        first = self.results.setdefault(key, (number, frame))
        self._look(first == (number, frame), f"{key} has two results")
        self.promised.calls.append((key, b""))
        self.promised.states.append((key, call))

    def _sent_to_worker(self, to: Connection, kind: str, body: Mapping[str, Any]) -> None:
        attempt_id = to.door.removeprefix("w-")
        match kind:
            case "session.reset":
                to.resets.add(body["session"])
            case "session.welcome":
                self._look(to.welcomes > 0, f"{attempt_id} was welcomed, and had no right to it")
                to.welcomes -= 1
                to.proven = True
                self._last.pop((to.door, to.number), None)
            case "inbox.message":
                self._in_order(to, body["number"])
                self._given(attempt_id, body)
            case "inbox.page":
                self.answers.append((body["request_id"], "ok"))
                for message in body["messages"]:
                    self._given(attempt_id, message)
            case "receipt":
                self._receipted(attempt_id, body)

    def _given(self, attempt_id: str, body: Mapping[str, Any]) -> None:
        _, talk, scope = self.place_of(attempt_id)
        place = (talk, scope, body["number"])
        self._look(place not in self.gone | self.receipted, f"message {place} was sent after its end")
        earlier = self.sent_to.setdefault(place, set())
        call = body.get("call")
        if call is not None:
            key = self._key_of(talk, call["call_id"])
            self._look(key not in self.ended, f"{key} was given after its end")
            earlier = earlier | self.given[key]
            self.given[key].add(attempt_id)
            once = self._tool_of(key) == "notes.once"
            self._look(not once or len(self.given[key]) == 1, f"{key} must not run twice and was given again")
        self._look(
            body.get("repeated", False) or not earlier - {attempt_id}, f"message {place} does not say it repeats"
        )
        self.sent_to[place].add(attempt_id)

    def _receipted(self, attempt_id: str, body: Mapping[str, Any]) -> None:
        self.answers.append((body["request_id"], "ok" if body["accepted"] else body["code"]))
        word = self.words[attempt_id, body["request_id"]]
        if body["accepted"]:
            self.promised.words.append(word)
            if word.kind == "inbox.acknowledge":
                _, talk, scope = self.place_of(attempt_id)
                self.receipted.add((talk, scope, int(word.message_id[1:])))

    def _in_order(self, to: Connection, number: int) -> None:
        last = self._last.get((to.door, to.number), 0)
        self._look(number > last, f"{number} was sent behind {last} over {to.door}")
        self._last[to.door, to.number] = number

    # --- the daemon hears something ---

    def heard(self, by: Connection, frame: bytes) -> None:
        said = read(frame)
        kind, body = said.kind, said.body
        if kind in {"session.hello", "agent.attach", "host.attach"} and not by.greeted:
            by.greeted = True
            by.welcomes += 1
        elif kind == "session.resume" and body["session"] in by.resets:
            by.resets.discard(body["session"])
            by.welcomes += 1
        if kind.startswith("ui."):
            self.people.heard_from_worker(by.door.removeprefix("w-"), said, counts=by.is_open and by.greeted)
        elif by.door == "host":
            self.people.heard_from_host(by, said, counts=by.is_open and by.greeted)
        elif by.door.startswith("w-"):
            self._heard_worker(by, said.id, kind, body)
        elif by.door == "agent":
            self._heard_agent(by, said, kind, body)

    def _heard_agent(self, by: Connection, said: Said, kind: str, body: Mapping[str, Any]) -> None:
        agent, counts = AGENTS[by.pid], by.is_open and by.greeted
        if kind == "delivery.ack" and counts:
            self.settled |= {(agent, number) for number in body["numbers"]}
        if kind not in _ABOUT_CALLS:
            return
        key = CallKey(agent, str(said.talk), body["call_id"])
        if kind != "tool.invoke":
            self.asked[said.id] = Asked(kind, key)
            if kind == "tool.cancel" and counts:
                self.wishes.add(key)
            return
        digest = codec.digest(ToolInvoke.model_validate(body).to_wire())
        self.asked[said.id] = Asked(kind, key, digest, body["tool_id"], body["inventory_revision"])
        if counts:
            self.bodies[key].add(digest)

    def _heard_worker(self, by: Connection, request_id: str, kind: str, body: Mapping[str, Any]) -> None:
        attempt_id, short = by.door.removeprefix("w-"), kind.removeprefix("tools.")
        if kind == "inbox.acknowledge":
            word = Word(attempt_id, kind, message_id=body["message_id"])
        elif kind.startswith("tools."):
            word = Word(attempt_id, short, body["call_id"], payload_of(short, body))
        elif kind == "inbox.list":
            word = Word(attempt_id, kind)
        else:
            return
        self.words[attempt_id, request_id] = word
        if not by.is_open or not by.greeted:
            return
        instance_id, talk, scope = self.place_of(attempt_id)
        if kind == "inbox.acknowledge":
            self.acknowledged.add((talk, scope, int(word.message_id[1:])))
        elif short in _STATUS:
            self.spoken.add((instance_id, word.call_id, _STATUS[short], word.payload))

    def lives(self, life: Life) -> None:
        """From now on it is this one."""
        self._life = self.people.life = life

    # --- rows that never change ---

    def place_of(self, attempt_id: str) -> tuple[str, str, str]:
        """(instance, conversation, scope)."""
        found = self._places.get(attempt_id)
        if found is None:
            found = self._row(
                "select i.instance_id, i.conversation_id, i.app_scope "
                "from attempts a join instances i using (instance_id) where a.attempt_id = ?",
                attempt_id,
            )
            assert found is not None
            self._places[attempt_id] = found
        return found

    def _key_of(self, talk: str, call_id: str) -> CallKey:
        """A conversation has one agent."""
        row = self._row("select agent_id from conversations where conversation_id = ?", talk)
        assert row is not None
        return CallKey(row[0], talk, call_id)

    def _tool_of(self, key: CallKey) -> str:
        if key not in self._tools:
            row = self._row(
                "select tool_id from calls where agent_id = ? and conversation_id = ? and call_id = ?",
                key.agent_id, key.conversation_id, key.call_id,
            )  # fmt: skip
            self._tools[key] = row[0] if row is not None else ""
        return self._tools[key]

    def _row(self, sql: str, *arguments: object) -> Any:  # noqa: ANN401 - a row
        assert self._life is not None
        return self._life.sql.execute(sql, arguments).fetchone()

    def _look(self, holds: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as an assertion
        if not holds:
            self.wrong.append(otherwise)


def payload_of(kind: str, body: Mapping[str, Any]) -> bytes:
    """What a call's record keeps of a worker's last word."""
    match kind:
        case "complete":
            return codec.encode(body["result"])
        case "fail":
            return codec.encode(Failure(**body["failure"]).to_wire())
        case "cancel":
            return codec.encode(Failure(code="app.cancelled", message=body.get("reason") or "").to_wire())
    return b""


def status_of(kind: str) -> CallStatus | None:
    """The status that a word asks for; None if it is not a last one."""
    return CallStatus(_STATUS[kind]) if kind in _STATUS else None
