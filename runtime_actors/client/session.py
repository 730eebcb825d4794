"""An agent's end of its door: attached, and attached again whenever the connection ends.

What section 8 of docs/protocol.md asks of a client: requests without an answer are repeated with their ids, deliveries
are told apart by their numbers and acknowledged after they were handled, and a quiet connection is pinged.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from runtime_actors.client.connection import Connect, Connection, door_of
from runtime_actors.client.door import parsed, read
from runtime_actors.client.errors import (
    ConnectionLost,
    DaemonNotRunning,
    NoToken,
    UnreadableAnswer,
)
from runtime_actors.client.events import Attached, Delivered, InventoryChanged, PersonSaid, SessionEvent
from runtime_actors.client.kept import KeptSession
from runtime_actors.client.times import now_text
from runtime_actors.contract import envelope
from runtime_actors.contract.agent import AgentAttach, AgentAttached, ClientInventory, DeliveryAck, PersonText, Ping
from runtime_actors.contract.base import JsonObject, WireModel
from runtime_actors.contract.envelope import Envelope
from runtime_actors.contract.tools import ToolProgressDelivery, ToolResultDelivery

_CLOSE_S: Final = 0.5
"""How long closing waits for a sign that the last ACKs arrived. Those that did not are only repeated."""
_MAX_ACKS: Final = 256
"""Numbers in one `lineup.v1.delivery.ack`."""
_DELIVERIES: Final[Mapping[str, type[ToolProgressDelivery | ToolResultDelivery | PersonText]]] = {
    "lineup.v1.tool.progress": ToolProgressDelivery,
    "lineup.v1.tool.result": ToolResultDelivery,
    "lineup.v1.text": PersonText,
}


class AgentSession(KeptSession[Attached | Delivered | InventoryChanged | PersonSaid]):
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
        super().__init__(endpoint, clock, connect)
        self.agent = agent
        self.window = 1
        self.inventory: ClientInventory | None = None
        self._token = token
        self._conversations = tuple(conversations) if conversations is not None else None
        self._stream = ""
        self._highest = 0
        self._acks: list[int] = []
        self._acks_unproven = False
        self._acknowledged: dict[int, None] = {}

    def close(self) -> None:
        """Send the last ACKs, and be gone within a second."""
        try:
            if self._open is not None and self._open.attached and (self._acks or self._acks_unproven):
                self._prove_acks(self._open.connection)
        except (ConnectionLost, UnreadableAnswer):
            self._drop()
        super().close()

    # --- asking ---

    def attach(self, timeout_s: float = 10.0) -> ClientInventory:
        """Wait until the session stands and the inventory is known.

        Raises:
            DaemonNotRunning: Nobody accepts on the door.
            NoAnswer: Somebody accepts and does not answer.
            Refused: The agent or its token is wrong.

        """
        self._wait_attached(timeout_s, lambda: self.attached and self.inventory is not None)
        assert self.inventory is not None  # noqa: S101 - that was waited for
        return self.inventory

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
        answer = self._wait_answer(request_id, kind, timeout_s)
        return answer.kind, answer.body

    def next_event(self, timeout_s: float) -> SessionEvent | None:
        """What happened next, or None when nothing did in time.

        Raises:
            Refused: The daemon does not let this agent attach (`attach_denied`).

        """
        return self._wait_news(timeout_s)

    def acknowledge(self, number: int) -> None:
        """Settle a delivery. The ACK leaves with the next wait; if it is lost, it is repeated when the delivery is."""
        self._acks.append(number)
        self._acknowledged[number] = None
        # At most `window` unsettled deliveries are ahead of their ACKs, so older ones cannot come again.
        while len(self._acknowledged) > max(2 * self.window, _MAX_ACKS):
            del self._acknowledged[next(iter(self._acknowledged))]

    # --- the connection ---

    def _attach_body(self) -> tuple[str, WireModel]:
        body = AgentAttach(agent=self.agent, token=self._token, conversations=self._conversations)
        return "lineup.v1.agent.attach", body

    def _flush(self) -> None:
        while self._acks and self.attached:
            numbers, self._acks = self._acks[:_MAX_ACKS], self._acks[_MAX_ACKS:]
            body = DeliveryAck(numbers=tuple(numbers))
            self._acks_unproven = True
            self._say("lineup.v1.delivery.ack", body)

    def _prove_acks(self, connection: Connection) -> None:
        """Wait until a ping that was sent behind the ACKs is answered."""
        self._flush()
        ping_id = str(uuid.uuid4())
        connection.send(envelope.encode("lineup.v1.ping", Ping(), id=ping_id, sent_at=now_text()))
        deadline = time.monotonic() + _CLOSE_S
        while (left_s := deadline - time.monotonic()) > 0:
            frame = connection.receive(left_s)
            if frame is not None and read(frame).body.get("request_id") == ping_id:
                return

    # --- what arrives ---

    def _takes(self, message: Envelope) -> bool:
        if message.type in _DELIVERIES:
            self._delivered(message)
        elif message.type == "lineup.v1.client.inventory" and message.body.get("request_id") not in self._unanswered:
            self.inventory = parsed(ClientInventory, message.body)
            self._news.append(InventoryChanged(self.inventory))
        else:
            return False
        return True

    def _stands(self, message: Envelope) -> Attached:
        answer = parsed(AgentAttached, message.body)
        if answer.stream != self._stream:  # a new or restored store, whose numbers start over
            self._stream, self._highest, self._acks, self._acknowledged = answer.stream, 0, [], {}
        self.window = answer.window
        return Attached()

    def _delivered(self, message: Envelope) -> None:
        delivery = parsed(_DELIVERIES[message.type], message.body)
        number = delivery.number
        if number > self._highest:
            self._highest = number
            if isinstance(delivery, PersonText):
                self._news.append(PersonSaid(delivery, message.conversation_id, message.body))
            else:
                self._news.append(Delivered(delivery, message.conversation_id, message.body))
        elif number in self._acknowledged:
            self._acks.append(number)


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
