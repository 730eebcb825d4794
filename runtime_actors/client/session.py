"""An agent's end of its door: attached, and attached again whenever the connection ends.

What section 8 of docs/protocol.md asks of a client: requests without an answer are repeated with their ids, deliveries
are told apart by their numbers and acknowledged after they were handled, and a quiet connection is pinged.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import zmq

from runtime_actors.client.connection import Connect, Connection, door_of
from runtime_actors.client.door import REJECTED, parsed, read, rejected, request_frame
from runtime_actors.client.errors import (
    ConnectionLost,
    DaemonNotRunning,
    NoAnswer,
    NoToken,
    Refused,
    UnreadableAnswer,
)
from runtime_actors.client.events import Answered, Attached, Delivered, InventoryChanged, Lost, PersonSaid, SessionEvent
from runtime_actors.client.times import now_text
from runtime_actors.contract import envelope
from runtime_actors.contract.agent import AgentAttach, AgentAttached, ClientInventory, DeliveryAck, PersonText, Ping
from runtime_actors.contract.base import JsonObject, WireModel
from runtime_actors.contract.envelope import Envelope
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.contract.tools import ToolProgressDelivery, ToolResultDelivery

_OPEN_S: Final = 3.0
"""How long a greeting and an attach may take before the connection is given up."""
_QUIET_S: Final = 2.0
"""A connection on which nothing came for so long is pinged; after three times that it is given up."""
_AGAIN_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Waits between tries to connect; the last one repeats."""
_CLOSE_S: Final = 0.5
"""How long closing waits for a sign that the last ACKs arrived. Those that did not are only repeated."""
_MAX_ACKS: Final = 256
"""Numbers in one `lineup.v1.delivery.ack`."""
_DELIVERIES: Final[Mapping[str, type[ToolProgressDelivery | ToolResultDelivery | PersonText]]] = {
    "lineup.v1.tool.progress": ToolProgressDelivery,
    "lineup.v1.tool.result": ToolResultDelivery,
    "lineup.v1.text": PersonText,
}


@dataclass(slots=True)
class _Open:
    """The present connection."""

    connection: Connection
    heard_at: float
    pinged_at: float = 0.0
    attached: bool = False


class AgentSession:
    """For one thread, which calls `next_event` or a method that waits. Nothing happens between the calls."""

    def __init__(
        self,
        endpoint: str,
        agent: str,
        token: str | None,
        *,
        conversations: Sequence[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        connect: Connect = Connection,
    ) -> None:
        """Make a session of `agent`, with deliveries of `conversations` or of all. It connects when waited on."""
        self.agent = agent
        self.window = 1
        self.inventory: ClientInventory | None = None
        self._endpoint = endpoint
        self._token = token
        self._conversations = tuple(conversations) if conversations is not None else None
        self._clock = clock
        self._connection_to = connect
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._open: _Open | None = None
        self._tries = 0
        self._try_at = 0.0
        self._attach_id = ""
        self._denied: Refused | None = None
        self._unanswered: dict[str, bytes] = {}
        self._events: deque[SessionEvent] = deque()
        self._stream = ""
        self._highest = 0
        self._acks: list[int] = []
        self._acks_unproven = False
        self._acknowledged: dict[int, None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def attached(self) -> bool:
        return self._open is not None and self._open.attached

    def close(self) -> None:
        """Send the last ACKs, and be gone within a second."""
        try:
            if self._open is not None and self._open.attached and (self._acks or self._acks_unproven):
                self._prove_acks(self._open.connection)
        except (ConnectionLost, UnreadableAnswer):
            self._drop()
        if self._open is not None:
            self._open.connection.close()
            self._open = None
        self._context.term()

    # --- asking ---

    def attach(self, timeout_s: float = 10.0) -> ClientInventory:
        """Wait until the session stands and the inventory is known.

        Raises:
            DaemonNotRunning: Nobody accepts on the door.
            NoAnswer: Somebody accepts and does not answer.
            Refused: The agent or its token is wrong.

        """
        deadline = self._clock() + timeout_s
        while not self.attached or self.inventory is None:
            left_s = deadline - self._clock()
            if left_s <= 0:
                raise NoAnswer("the attach", timeout_s)
            self._step(left_s)
            if self._open is None and self._tries:
                raise DaemonNotRunning(self._endpoint)
        return self.inventory

    def send(
        self,
        kind: str,
        body: WireModel | Mapping[str, Any],
        *,
        conversation_id: str | None = None,
        request_id: str | None = None,
    ) -> str:
        """Send a request whose answer arrives as an `Answered` of the id returned; until then it is repeated.

        The same `request_id` again is the same request again.

        Raises:
            Refused: The body breaks the intake rule (`message_invalid`, `message_too_large`) and was not sent.

        """
        request_id = request_id or str(uuid.uuid4())
        frame = request_frame(kind, body, request_id, conversation_id)
        self._unanswered[request_id] = frame
        if self.attached:
            self._send(frame)
        return request_id

    def request(
        self,
        kind: str,
        body: WireModel | Mapping[str, Any],
        *,
        conversation_id: str | None = None,
        timeout_s: float = 10.0,
    ) -> tuple[str, JsonObject]:
        """Ask and wait for the answer; what else arrives meanwhile is kept for `next_event`.

        Raises:
            Refused: The daemon answered `lineup.v1.rejected`.
            NoAnswer: The time is over; it may have been done. It is not repeated any more.

        """
        request_id = self.send(kind, body, conversation_id=conversation_id)
        deadline = self._clock() + timeout_s
        try:
            while (left_s := deadline - self._clock()) > 0:
                answer = self._find_answer(request_id)
                if answer is None:
                    self._step(left_s)
                elif answer.refused is not None:
                    raise answer.refused
                else:
                    return answer.kind, answer.body
        finally:
            self._unanswered.pop(request_id, None)
        raise NoAnswer(kind, timeout_s)

    def next_event(self, timeout_s: float) -> SessionEvent | None:
        """What happened next, or None when nothing did in time.

        Raises:
            Refused: The daemon does not let this agent attach (`attach_denied`).

        """
        deadline = self._clock() + timeout_s
        while not self._events:
            left_s = deadline - self._clock()
            self._step(max(0.0, left_s))
            if left_s <= 0:
                break
        return self._events.popleft() if self._events else None

    def forget(self, request_id: str) -> None:
        """Wait for this answer no longer."""
        self._unanswered.pop(request_id, None)

    def acknowledge(self, number: int) -> None:
        """Settle a delivery. The ACK leaves with the next wait; if it is lost, it is repeated when the delivery is."""
        self._acks.append(number)
        self._acknowledged[number] = None
        # At most `window` unsettled deliveries are ahead of their ACKs, so older ones cannot come again.
        while len(self._acknowledged) > max(2 * self.window, _MAX_ACKS):
            del self._acknowledged[next(iter(self._acknowledged))]

    # --- the connection ---

    def _step(self, timeout_s: float) -> None:
        """Do one thing: connect, read one frame, or wait at most `timeout_s`."""
        if self._denied is not None:
            raise self._denied
        try:
            self._flush_acks()
            if self._open is None:
                self._connect(timeout_s)
            else:
                self._receive(self._open, timeout_s)
        except ConnectionLost:
            self._drop()

    def _connect(self, timeout_s: float) -> None:
        wait_s = self._try_at - self._clock()
        if wait_s > 0:
            time.sleep(min(wait_s, timeout_s))
            return
        connection = self._connection_to(self._context, self._endpoint)
        try:
            connection.wait_open(_OPEN_S)
        except (DaemonNotRunning, NoAnswer):
            connection.close()
            self._try_at = self._clock() + _AGAIN_S[min(self._tries, len(_AGAIN_S) - 1)]
            self._tries += 1
            return
        self._open = _Open(connection, heard_at=self._clock())
        self._ask_to_attach(self._open)

    def _ask_to_attach(self, at: _Open) -> None:
        at.attached = False
        self._attach_id = str(uuid.uuid4())
        body = AgentAttach(agent=self.agent, token=self._token, conversations=self._conversations)
        frame = envelope.encode("lineup.v1.agent.attach", body, id=self._attach_id, sent_at=now_text())
        at.connection.send(frame)

    def _receive(self, at: _Open, timeout_s: float) -> None:
        quiet_s = self._clock() - at.heard_at
        if quiet_s > (3 * _QUIET_S if at.attached else _OPEN_S):
            raise ConnectionLost(self._endpoint)
        if at.attached and quiet_s > _QUIET_S and self._clock() - at.pinged_at > _QUIET_S:
            at.pinged_at = self._clock()
            at.connection.send(envelope.encode("lineup.v1.ping", Ping(), id=str(uuid.uuid4()), sent_at=now_text()))
        frame = at.connection.receive(min(timeout_s, _QUIET_S / 4))
        if frame is not None:
            at.heard_at = self._clock()
            self._handle(at, read(frame))

    def _drop(self) -> None:
        if self._open is not None:
            self._open.connection.close()
            if self._open.attached:
                self._events.append(Lost())
            else:  # accepted and not answered: do not try again at once
                self._try_at = self._clock() + _AGAIN_S[min(self._tries, len(_AGAIN_S) - 1)]
                self._tries += 1
            self._open = None

    def _send(self, frame: bytes) -> None:
        if self._open is not None:
            try:
                self._open.connection.send(frame)
            except ConnectionLost:
                self._drop()

    def _flush_acks(self) -> None:
        while self._acks and self.attached:
            numbers, self._acks = self._acks[:_MAX_ACKS], self._acks[_MAX_ACKS:]
            body = DeliveryAck(numbers=tuple(numbers))
            self._acks_unproven = True
            self._send(envelope.encode("lineup.v1.delivery.ack", body, id=str(uuid.uuid4()), sent_at=now_text()))

    def _prove_acks(self, connection: Connection) -> None:
        """Wait until a ping that was sent behind the ACKs is answered."""
        self._flush_acks()
        ping_id = str(uuid.uuid4())
        connection.send(envelope.encode("lineup.v1.ping", Ping(), id=ping_id, sent_at=now_text()))
        deadline = time.monotonic() + _CLOSE_S
        while (left_s := deadline - time.monotonic()) > 0:
            frame = connection.receive(left_s)
            if frame is not None and read(frame).body.get("request_id") == ping_id:
                return

    # --- what arrives ---

    def _handle(self, at: _Open, message: Envelope) -> None:
        request_id = message.body.get("request_id")
        if request_id is not None and request_id == self._attach_id:
            self._attach_answered(at, message)
        elif message.type in _DELIVERIES:
            self._delivered(message)
        elif message.type == "lineup.v1.client.inventory" and request_id not in self._unanswered:
            self.inventory = parsed(ClientInventory, message.body)
            self._events.append(InventoryChanged(self.inventory))
        elif request_id in self._unanswered:
            if message.type == REJECTED and message.body.get("code") == RejectionCode.NOT_ATTACHED:
                self._ask_to_attach(at)  # the request is repeated once that was answered
                return
            del self._unanswered[str(request_id)]
            self._events.append(Answered(str(request_id), message.type, message.body))

    def _attach_answered(self, at: _Open, message: Envelope) -> None:
        if message.type == REJECTED:
            refusal = rejected(message.body)
            if refusal.code in {RejectionCode.BUSY, RejectionCode.STORE_UNAVAILABLE, RejectionCode.INTERNAL_ERROR}:
                raise ConnectionLost(self._endpoint)
            self._denied = Refused(refusal)
            raise self._denied
        answer = parsed(AgentAttached, message.body)
        if answer.stream != self._stream:  # a new or restored store, whose numbers start over
            self._stream, self._highest, self._acks, self._acknowledged = answer.stream, 0, [], {}
        self.window = answer.window
        at.attached = True
        self._tries = 0
        self._events.append(Attached())
        for frame in tuple(self._unanswered.values()):
            self._send(frame)

    def _delivered(self, message: Envelope) -> None:
        delivery = parsed(_DELIVERIES[message.type], message.body)
        number = delivery.number
        if number > self._highest:
            self._highest = number
            if isinstance(delivery, PersonText):
                self._events.append(PersonSaid(delivery, message.conversation_id, message.body))
            else:
                self._events.append(Delivered(delivery, message.conversation_id, message.body))
        elif number in self._acknowledged:
            self._acks.append(number)

    def _find_answer(self, request_id: str) -> Answered | None:
        for event in self._events:
            if isinstance(event, Answered) and event.request_id == request_id:
                self._events.remove(event)
                return event
        return None


def read_token(state: Path, agent: str) -> str:
    """The token that the state folder keeps for `agent`.

    Raises:
        NoToken: There is none, or it cannot be read.
        DaemonNotRunning: There is none, and no daemon that would make it.

    """
    path = state / "tokens" / agent
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        if not (state / "run" / "agent.sock").exists():
            raise DaemonNotRunning(door_of(state, "agent")) from None
        raise NoToken(agent, path) from None
