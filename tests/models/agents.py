"""Model agents and the operator: what clients do at the doors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.contract import envelope
from tests.actor_fakes import SENT_AT
from tests.models.wire import read

if TYPE_CHECKING:
    from tests.models.life import Life
    from tests.models.wire import Connection

_LONG: Final = "lineup.v1."


@dataclass(slots=True, eq=False)
class Agent:
    """One agent identity and its connections."""

    name: str
    token: str
    pid: int
    connections: list[Connection] = field(default_factory=list)
    unacknowledged: dict[int, None] = field(default_factory=dict)
    """Deliveries that it was given and has not acknowledged."""
    revision: str = ""
    """Of the inventory it was told last."""
    stale: str = "r-0"
    """Of one that it was told before."""
    said: list[bytes] = field(default_factory=list)
    _requests: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def attach(self, life: Life) -> None:
        connection = life.wire.connect("agent", self.pid)
        if connection is not None:
            self.connections.append(connection)
            self.say("agent.attach", {"agent": self.name, "token": self.token}, over=connection)

    def detach(self, life: Life, connection: Connection) -> None:
        life.wire.hang_up(connection)
        self.connections.remove(connection)

    def say(
        self,
        kind: str,
        body: Mapping[str, Any],
        *,
        over: Connection | None = None,
        talk: str | None = None,
        id: str | None = None,  # noqa: A002 - the envelope's word
    ) -> None:
        """Over its newest connection, if it has one."""
        connection = over or (self.connections[-1] if self.connections else None)
        if connection is not None:
            said_as = id or f"{self.name}/{next(self._requests)}"
            frame = envelope.encode(f"{_LONG}{kind}", body, id=said_as, sent_at=SENT_AT, conversation_id=talk)
            self.said.append(frame)
            connection.up.append(frame)

    def invoke(self, talk: str, call_id: str, tool_id: str, given: Mapping[str, Any], *, stale: bool = False) -> None:
        revision = self.stale if stale or not self.revision else self.revision
        body = {"call_id": call_id, "tool_id": tool_id, "inventory_revision": revision, "input": given}
        self.say("tool.invoke", body, talk=talk)

    def read(self) -> None:
        """All that was sent to it."""
        for connection in self.connections:
            while connection.down:
                self.read_one(connection)

    def read_one(self, connection: Connection) -> None:
        said = read(connection.down.pop(0))
        match said.kind:
            case "tool.result" | "tool.progress":
                self.unacknowledged[said.body["number"]] = None
            case "client.inventory" if said.body["revision"] != self.revision:
                self.stale = self.revision or self.stale
                self.revision = said.body["revision"]

    def acknowledge(self, numbers: list[int]) -> None:
        if not numbers:
            return
        for number in numbers:
            self.unacknowledged.pop(number, None)
        self.say("delivery.ack", {"numbers": numbers})
