"""An agent that speaks docs/protocol.md and spends as little as it can on that: the daemon is to be measured."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any, Final, Self

import msgpack
import zmq

from runtime_actors.bench.ground import BenchFailed, Daemon
from runtime_actors.client import Connection, door_of, read_token
from runtime_actors.contract import envelope

ECHO: Final = "bench.echo"
HOLD: Final = "bench.hold"
GIVEN: Final[Mapping[str, str]] = {"text": "hello"}
REJECTED: Final = "lineup.v1.rejected"
_STATE: Final = "lineup.v1.tool.state"
_RESULT: Final = "lineup.v1.tool.result"
_DELIVERIES: Final = ("lineup.v1.tool.progress", _RESULT)
_SENT_AT: Final = "2026-01-01T00:00:00.000Z"
_ANSWER_S: Final = 30.0
_ACKS: Final = 16
"""Deliveries that are acknowledged together while many calls are in flight."""


class Agent:
    """Attached as `local`. For one thread. Its calls have the ids that most agents would give them."""

    def __init__(self, daemon: Daemon) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._connection = Connection(self._context, door_of(daemon.state, "agent"))
        self._acks: list[int] = []
        self._highest = 0
        self.repeated = 0
        """Deliveries that came more than once."""
        self._connection.wait_open(_ANSWER_S)
        self._say("agent.attach", {"agent": "local", "token": read_token(daemon.state, "local")}, "attach")
        self._revision = str(self.wait("client.inventory")["revision"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._context.term()

    # --- one at a time ---

    def call(self, tool: str = ECHO, conversation: str = "bench") -> float:
        """Seconds from asking for a call to having its result. The ACK leaves behind the next request."""
        begun = time.perf_counter()
        self.result(tool, conversation)
        return time.perf_counter() - begun

    def result(self, tool: str, conversation: str = "bench") -> Any:  # noqa: ANN401 - the app's own
        """Call, and give the result.

        Raises:
            BenchFailed: The call did not complete.

        """
        self.invoke(tool, conversation)
        self.acknowledge()
        delivered = self.wait("tool.result")
        if delivered["call"]["status"] != "completed":
            raise BenchFailed(f"a call that is measured did not complete: {delivered['call']}")
        return delivered["call"]["result"]

    def first_word(self, conversation: str) -> float:
        """Seconds from asking for a call in a new conversation to the app's first word about it."""
        begun = time.perf_counter()
        self.invoke(HOLD, conversation)
        self.wait_word()
        return time.perf_counter() - begun

    def wait_word(self) -> None:
        """Until an app reports progress."""
        self.wait("tool.progress")
        self.acknowledge()

    def accepted(self) -> float:
        """Seconds from asking for a call to its receipt; nobody waits for its result."""
        begun = time.perf_counter()
        self.invoke(ECHO, "bench")
        self.wait("tool.state")
        return time.perf_counter() - begun

    # --- many at once ---

    def flow(self, calls: int, in_flight: int) -> float:
        """Seconds for so many calls, with so many of them under way at any time."""
        sent = got = 0
        begun = time.perf_counter()
        while got < calls:
            while sent < calls and sent - got < in_flight:
                self.invoke(ECHO, "bench")
                sent += 1
            self.wait("tool.result")
            got += 1
            if len(self._acks) >= min(_ACKS, in_flight):
                self.acknowledge()
        return time.perf_counter() - begun

    def paced(self, a_second: float, for_s: float) -> list[float]:
        """Seconds to the receipt of each call, asked for at a fixed rate however long the answers take.

        They count from when the call was due: an agent that is late would hide how long the daemon makes it wait.
        """
        begun = time.perf_counter()
        due = [begun + number / a_second for number in range(int(a_second * for_s))]
        took: list[float] = []
        sent = results = 0
        while results < len(due):
            left_s = due[sent] - time.perf_counter() if sent < len(due) else _ANSWER_S
            if left_s <= 0:
                self.invoke(ECHO, "bench")
                sent += 1
            elif (said := self._next(left_s)) is None:
                if sent == len(due):
                    raise BenchFailed(f"{len(due) - results} results did not come")
            elif said["type"] == _STATE:
                took.append(time.perf_counter() - due[len(took)])
            elif said["type"] == _RESULT:
                results += 1
                self.acknowledge()
        return took

    def settle(self) -> None:
        """Acknowledge what came, and wait until that was heard."""
        self.acknowledge()
        self._say("ping", {}, "ping")
        self.wait("pong")

    def drain(self, results: int) -> float:
        """Seconds until so many results came, and whatever was posted before them."""
        begun = time.perf_counter()
        while results:
            if (said := self._next(_ANSWER_S)) is None:
                raise BenchFailed(f"{results} results did not come")
            if said["type"] == _RESULT:
                results -= 1
            if len(self._acks) >= _ACKS or not results:
                self.acknowledge()
        return time.perf_counter() - begun

    # --- frames ---

    def invoke(self, tool: str, conversation: str) -> None:
        """Ask for a call."""
        name = uuid.uuid4().hex
        body = {"call_id": name, "tool_id": tool, "inventory_revision": self._revision, "input": GIVEN}
        self._say("tool.invoke", body, name, conversation)

    def acknowledge(self) -> None:
        """Settle what came."""
        if self._acks:
            self._say("delivery.ack", {"numbers": self._acks}, "ack")
            self._acks = []

    def wait(self, kind: str) -> dict[str, Any]:
        """The body of the next frame of this type; others are passed over.

        Raises:
            BenchFailed: It does not come, or the daemon refuses something.

        """
        while (said := self._next(_ANSWER_S)) is not None:
            if said["type"] == f"lineup.v1.{kind}":
                return dict(said["body"])
        raise BenchFailed(f"no {kind} came within {_ANSWER_S:g} s")

    def _next(self, within_s: float) -> dict[str, Any] | None:
        while (frame := self._connection.receive(within_s)) is not None:
            said: dict[str, Any] = msgpack.unpackb(frame)
            if said["type"] == REJECTED:
                raise BenchFailed(f"the daemon refused what is measured: {said['body']}")
            if said["type"] in _DELIVERIES:
                number = said["body"]["number"]
                self._acks.append(number)
                if number <= self._highest:  # it came before: deliveries come at least once
                    self.repeated += 1
                    continue
                self._highest = number
            return said
        return None

    def _say(self, kind: str, body: Mapping[str, Any], request_id: str, conversation: str | None = None) -> None:
        frame = envelope.encode(
            f"lineup.v1.{kind}", body, id=request_id, sent_at=_SENT_AT, conversation_id=conversation
        )
        self._connection.send(frame)
