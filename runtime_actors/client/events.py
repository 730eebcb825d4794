"""What an agent's session tells its owner."""

from __future__ import annotations

from dataclasses import dataclass

from runtime_actors.client.door import REJECTED, rejected
from runtime_actors.client.errors import Refused
from runtime_actors.contract.agent import ClientInventory, PersonText
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.tools import ToolProgressDelivery, ToolResultDelivery

Delivery = ToolProgressDelivery | ToolResultDelivery


@dataclass(frozen=True, slots=True)
class Attached:
    """The session stands (again): requests without an answer were repeated."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection ended; the session is looking for the daemon."""


@dataclass(frozen=True, slots=True)
class InventoryChanged:
    inventory: ClientInventory


@dataclass(frozen=True, slots=True)
class Answered:
    """The one answer to a request. `body` of a refusal is that of `lineup.v1.rejected`."""

    request_id: str
    kind: str
    body: JsonObject

    @property
    def refused(self) -> Refused | None:
        return Refused(rejected(self.body)) if self.kind == REJECTED else None


@dataclass(frozen=True, slots=True)
class Delivered:
    """A numbered delivery, seen for the first time by this session. Acknowledge it once it is handled."""

    delivery: Delivery
    conversation_id: str | None
    body: JsonObject
    """As it came."""

    @property
    def call_id(self) -> str:
        one = self.delivery
        return one.call.call_id if isinstance(one, ToolResultDelivery) else one.call_id


@dataclass(frozen=True, slots=True)
class PersonSaid:
    """A numbered delivery of what the person wrote, seen for the first time. Acknowledge it once it is handled."""

    said: PersonText
    conversation_id: str | None
    body: JsonObject
    """As it came."""


SessionEvent = Attached | Lost | InventoryChanged | Answered | Delivered | PersonSaid
