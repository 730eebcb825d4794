"""What the entries of an audit log lead to, as docs/states.md and docs/protocol.md have it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from runtime_actors.checker.chain import Entry

FINAL: Final = frozenset({"completed", "failed", "cancelled", "expired", "rejected"})
LIVE: Final = frozenset({"starting", "foreground", "background", "suspended"})
READY: Final = frozenset({"foreground", "background"})
NEWS: Final = frozenset({"grant.given", "grant.denied", "interaction.ended"})
"""Entries that put a message for one instance into an inbox."""
PLAIN: Final = 20
"""Entries of one kind and subject within a period that are noted one by one; more are counted."""


class Key(NamedTuple):
    """What names a call."""

    agent: str
    conversation: str
    call_id: str

    def __str__(self) -> str:
        return f"call {'/'.join(self)}"


class Place(NamedTuple):
    """An inbox: of a scope in a conversation."""

    conversation: str
    scope: str


class Version(NamedTuple):
    """How a call stands from an entry on."""

    seq: int
    status: str
    cancel_requested: bool


@dataclass(slots=True)
class Call:
    """A call so far."""

    key: Key
    tool: str
    instance: str
    admitted: Entry
    versions: list[Version]
    message: int | None
    """Its message in the inbox, while it waits there."""
    crashes: int = 0
    cancel: Entry | None = None
    has_run: bool = False
    ended: Entry | None = None
    progress: int | None = None
    """The delivery of its newest progress, while that waits."""
    progressed: int = 0
    result: int | None = None
    """The number of its result."""

    @property
    def status(self) -> str:
        return self.versions[-1].status


@dataclass(slots=True)
class Instance:
    """An instance so far."""

    name: str
    place: Place
    state: str
    attempt: str | None = None


@dataclass(slots=True)
class Question:
    """A standard interaction so far."""

    opened: Entry
    place: Place
    instance: str
    call: Key | None
    source: str
    status: str = "pending"
    ended: Entry | None = None
    message: int | None = None
    """The message that told its owner of its end."""


@dataclass(slots=True)
class Surface:
    """A surface so far."""

    opened: Entry
    instance: str
    call: Key | None
    revision: int
    digests: dict[int, str] = field(default_factory=dict)
    """Of its state, by revision."""
    changes: int = 0
    closed: Entry | None = None


@dataclass(slots=True)
class Grant:
    """A permission so far."""

    capability: str
    question: str
    status: str
    asked: Entry


class Message(NamedTuple):
    """What was put into an inbox."""

    entry: Entry
    agent: str
    call: Key | None


@dataclass(slots=True)
class Wrong:
    """A step that the model does not allow."""

    rule: str
    subject: str
    message: str
    entries: tuple[Entry, ...]


@dataclass(slots=True)
class Model:
    """Where the log leads to."""

    once: frozenset[str]
    renamed: Mapping[str, str]
    """Instances whose name an operator changed behind the runtime's back, by the old name."""
    wrong: list[Wrong] = field(default_factory=list)
    calls: dict[Key, Call] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    live: dict[Place, str] = field(default_factory=dict)
    """The live instance of a place."""
    open: dict[Key, Call] = field(default_factory=dict)
    focus: dict[str, list[str]] = field(default_factory=dict)
    inbox: dict[Place, dict[int, Message]] = field(default_factory=lambda: defaultdict(dict))
    """What waits."""
    put: dict[tuple[Place, int], Message] = field(default_factory=dict)
    """What was ever in it."""
    put_last: Counter[Place] = field(default_factory=Counter)
    outbox: dict[str, dict[int, Call | Entry]] = field(default_factory=lambda: defaultdict(dict))
    """Of a call, or the entry of a person's text."""
    posts: dict[tuple[str, int], Call | Entry] = field(default_factory=dict)
    """What was ever in it, by agent and number."""
    posted: Counter[str] = field(default_factory=Counter)
    owners: dict[str, str] = field(default_factory=dict)
    agents: set[str] = field(default_factory=lambda: {"local"})
    """The first one is made with the store."""
    texts: dict[Key, Entry] = field(default_factory=dict)
    acknowledged: dict[tuple[Place, int], Entry] = field(default_factory=dict)
    gone: dict[tuple[str, int], Entry] = field(default_factory=dict)
    """Deliveries that were settled or dropped."""
    misreported: set[tuple[str, str]] = field(default_factory=set)
    """Calls, by instance and id, of which an invalid result was noted."""
    misreports: Counter[str] = field(default_factory=Counter)
    flooded: set[str] = field(default_factory=set)
    """Agents whose deliveries cannot be counted any more: some progress was not noted one by one."""
    metered: int = 0
    questions: dict[str, Question] = field(default_factory=dict)
    asked: dict[str, Question] = field(default_factory=dict)
    """Those that are open."""
    untold: dict[str, Question] = field(default_factory=dict)
    """Their end is not told by the inbox: what they belong to has to end at once."""
    surfaces: dict[str, Surface] = field(default_factory=dict)
    shown: dict[str, Surface] = field(default_factory=dict)
    """Those that are open."""
    actions: dict[str, tuple[Place, int]] = field(default_factory=dict)
    """The message of each action that has one."""
    sent: dict[str, Entry] = field(default_factory=dict)
    """By the action that brought it: the entry of a person's text."""
    grants: dict[str, Grant] = field(default_factory=dict)
    has_rules: bool = False
    unfloored: dict[str, Entry] = field(default_factory=dict)
    """By conversation: a stack with something below `chat`, which is right only if `chat` is about to end."""

    def blame(self, entry: Entry, message: str, *before: Entry, rule: str = "illegal-step") -> None:
        """Note that an entry may not stand where it does."""
        self.wrong.append(Wrong(rule, f"entry {entry.seq} ({entry.event})", message, (*before, entry)))

    def instance_of(self, entry: Entry) -> Instance | None:
        name = entry.subject.get("instance_id", "")
        return self.instances.get(self.renamed.get(name, name))

    def open_call(self, entry: Entry) -> Call | None:
        """The open call that an entry is about."""
        call = self.calls.get(key_of(entry))
        if call is None:
            self.blame(entry, "no such call was admitted")
        elif call.ended is not None:
            rule = "second-end" if entry.event == "call.ended" else "illegal-step"
            self.blame(entry, "the call had ended", call.ended, rule=rule)
        else:
            where = self.instance_of(entry)
            if ("" if where is None else where.name) != call.instance:
                self.blame(entry, "the call was given to another instance", call.admitted)
            return call
        return None

    def move(self, entry: Entry, call: Call, to: str, *, came_from: frozenset[str]) -> None:
        claimed = entry.detail.get("from", call.status)
        if claimed != call.status or call.status not in came_from:
            self.blame(entry, f"the call was {call.status}, not {claimed}", call.admitted)
        if entry.detail.get("to", to) != to:
            self.blame(entry, f"a call cannot become {entry.detail.get('to')} by this")
        call.versions.append(Version(entry.seq, to, call.cancel is not None))
        call.has_run = call.has_run or to == "running"

    def check_owner(self, entry: Entry) -> None:
        if self.owners.get(entry.subject["conversation_id"]) != entry.subject["agent_id"]:
            self.blame(entry, "the conversation is not this agent's")

    def put_message(self, place: Place, message: Message) -> int:
        self.put_last[place] += 1
        number = self.put_last[place]
        self.inbox[place][number] = self.put[place, number] = message
        return number

    def withdraw_news(self, place: Place) -> None:
        """What was for the instance that ended, and not for the scope's next one."""
        for number in [number for number, one in self.inbox[place].items() if one.entry.event in NEWS]:
            del self.inbox[place][number]

    def withdraw(self, call: Call) -> None:
        if call.message is not None and call.instance in self.instances:
            self.inbox[self.instances[call.instance].place].pop(call.message, None)
        call.message = None

    def post(self, call: Call) -> int:
        agent = call.key.agent
        if call.progress is not None:
            self.outbox[agent].pop(call.progress, None)
            call.progress = None
        self.posted[agent] += 1
        self.outbox[agent][self.posted[agent]] = self.posts[agent, self.posted[agent]] = call
        return self.posted[agent]


def key_of(entry: Entry) -> Key:
    """The call that an entry is about."""
    subject = entry.subject
    return Key(subject["agent_id"], subject["conversation_id"], subject["call_id"])
