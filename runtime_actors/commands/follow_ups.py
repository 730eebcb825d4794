"""What commands leave to be done after the COMMIT. Losing one loses no work: its receiver finds it in the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime_actors.contract.inbox import MiniAppMessage
    from runtime_actors.contract.interactions import InteractionRecord
    from runtime_actors.contract.tools import CallChanged
    from runtime_actors.records.boxes import Delivery
    from runtime_actors.rules.inventory import Inventory


# --- to the channel ---


@dataclass(frozen=True, slots=True)
class Deliver:
    """A message was put into the inbox of a live instance."""

    instance_id: str
    message: MiniAppMessage


@dataclass(frozen=True, slots=True)
class Settled:
    """A message left the inbox: acknowledged, or withdrawn."""

    instance_id: str
    number: int


@dataclass(frozen=True, slots=True)
class TellCallChanged:
    """A call of the instance is wanted no longer, or was ended by the runtime."""

    instance_id: str
    change: CallChanged


@dataclass(frozen=True, slots=True)
class TellContext:
    """The state in an instance's context changed."""

    instance_id: str
    state: str


@dataclass(frozen=True, slots=True)
class TellInteraction:
    """An interaction of the instance has news that is not its end."""

    instance_id: str
    record: InteractionRecord


# --- to the shell ---


@dataclass(frozen=True, slots=True)
class Shown:
    """There is a host event of this number."""

    number: int


# --- to the interaction actor ---


@dataclass(frozen=True, slots=True)
class InteractionDueAt:
    """An interaction expires then, by wall time (seconds since 1970)."""

    wall_s: float


# --- to the outbox ---


@dataclass(frozen=True, slots=True)
class Post:
    """A delivery for an agent."""

    delivery: Delivery


# --- to the orchestrator ---


@dataclass(frozen=True, slots=True)
class InstanceWanted:
    """An instance needs a process, after so many seconds."""

    instance_id: str
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class InstanceDone:
    """An instance needs its process no longer; it has to end, forced after the grace."""

    instance_id: str
    attempt_id: str | None
    reason: str


# --- to the router ---


@dataclass(frozen=True, slots=True)
class DueAt:
    """Something about a call is due then, on CLOCK_BOOTTIME."""

    boot_s: float


@dataclass(frozen=True, slots=True)
class InventoryChanged:
    """What agents may use changed."""

    inventory: Inventory
