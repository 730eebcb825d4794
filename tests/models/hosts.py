"""Model hosts: what shows questions to a person does at the hosts' door (docs/protocol.md, sections 5.1 and 8)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.contract import envelope
from tests.actor_fakes import SENT_AT
from tests.models.questions import END, KINDS
from tests.models.wire import read

if TYPE_CHECKING:
    from tests.models.life import Life
    from tests.models.wire import Connection

_LONG: Final = "lineup.v1."
_UNANSWERED: Final = frozenset({"host.ack", "host.show"})


@dataclass(slots=True, eq=False)
class Host:
    """One host, through all of its connections."""

    name: str
    pid: int
    follows: tuple[str, ...] | None = None
    """Conversations; None for all."""
    on_screen: str | None = None
    lives: int = 1
    connections: list[Connection] = field(default_factory=list)
    stream: str | None = None
    taken_over: int | None = None
    """The last event that it keeps; None if it begins anew."""
    highest: int = 0
    """The last event that it heard."""
    last_number: int = 0
    """Of all events, as it was told at its attach."""
    drawn: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Questions that are open, as far as it knows."""
    ended: set[str] = field(default_factory=set)
    """Those it heard the end of: no listing brings them back."""
    unanswered: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    said: list[bytes] = field(default_factory=list)
    """What it wrote for its person."""
    _requests: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def nonce(self) -> str:
        return f"{self.name}-{self.lives:016}"

    # --- coming and going ---

    def attach(self, life: Life, **claims: Any) -> None:  # noqa: ANN401 - fields of the attach
        """Go on behind what it took over, or as it claims."""
        connection = life.wire.connect("host", self.pid)
        if connection is None:
            return
        self.connections.append(connection)
        body: dict[str, Any] = {"host": self.name, "nonce": self.nonce}
        if self.follows is not None:
            body["conversations"] = self.follows
        if self.on_screen is not None:
            body["on_screen"] = self.on_screen
        if self.taken_over is not None:
            body |= {"stream": self.stream, "after_number": self.taken_over}
        self._put(connection, *self._frame("host.attach", body | claims))

    def detach(self, life: Life, *, reads: bool = True) -> None:
        for connection in self.connections:
            life.wire.hang_up(connection, read=reads)
        self.connections.clear()

    def begin_anew(self) -> None:
        """Another process under the same name, which knows nothing."""
        self.lives += 1
        self.stream = self.taken_over = None
        self.highest = 0
        self.drawn.clear()
        self.ended.clear()
        self.unanswered.clear()

    # --- what it says ---

    def _frame(self, kind: str, body: Mapping[str, Any], talk: str | None = None) -> tuple[str, bytes]:
        said_as = f"{self.name}/{next(self._requests)}"
        return said_as, envelope.encode(f"{_LONG}{kind}", body, id=said_as, sent_at=SENT_AT, conversation_id=talk)

    def _put(self, connection: Connection | None, _said_as: str, frame: bytes) -> None:
        if connection is not None and connection.is_open:
            connection.up.append(frame)

    @property
    def newest(self) -> Connection | None:
        return self.connections[-1] if self.connections else None

    def say(self, kind: str, body: Mapping[str, Any]) -> None:
        """For its person: it is repeated until it is answered."""
        said_as, frame = self._frame(f"host.{kind}", body)
        if f"host.{kind}" not in _UNANSWERED:
            self.unanswered[said_as] = (kind, frame)
            self.said.append(frame)
        self._put(self.newest, said_as, frame)

    def list_questions(self, after: str | None = None) -> None:
        query = {"what": "interactions", "filter": {}, "limit": 100} | ({} if after is None else {"after": after})
        self._put(self.newest, *self._frame("control.query", query))

    def acknowledge(self) -> None:
        """All that it heard."""
        if self.stream is not None:
            self.taken_over = self.highest
            self.say("ack", {"number": self.highest})

    def answer_all(self) -> None:
        """A person who answers whatever is to be seen, or does not want to."""
        for name, record in list(self.drawn.items()):
            answers = KINDS[record["request"]["title"]].answers
            if answers:
                self.say("answer", {"interaction_id": name, **answers[0][0]})
            else:
                self.say("presented", {"interaction_id": name})

    # --- what it reads ---

    def read(self) -> None:
        """All that was sent to it."""
        for connection in self.connections:
            while connection.down:
                self.read_one(connection)

    def read_one(self, connection: Connection) -> None:
        said = read(connection.down.pop(0))
        body = said.body
        self.unanswered.pop(body.get("request_id", ""), None)
        match said.kind:
            case "host.attached" if connection is self.newest:
                self._attached(body)
            case "host.event" if body["number"] > self.highest:
                self.highest = body["number"]
                if body["kind"].startswith("interaction."):
                    self._draw(body["data"]["interaction"])
            case "control.rows":
                for row in body["rows"]:
                    if row["interaction"]["interaction_id"] not in self.ended:
                        self._draw(row["interaction"])
                if body.get("next") is not None:
                    self.list_questions(body["next"])

    def _attached(self, body: Mapping[str, Any]) -> None:
        self.last_number = body["last_number"]
        if self.taken_over is None or not body["complete"]:
            self.taken_over = self.highest = body["last_number"]
            self.drawn.clear()
            self.list_questions()
        self.stream = body["stream"]
        for _, frame in self.unanswered.values():
            self._put(self.newest, "", frame)

    def _draw(self, record: Mapping[str, Any]) -> None:
        name = record["interaction_id"]
        if record["status"] in END:
            self.drawn.pop(name, None)
            self.ended.add(name)
        elif self.follows is None or record["owner"]["conversation_id"] in self.follows:
            self.drawn[name] = record
