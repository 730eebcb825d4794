"""What the outbox is told, apart from `Post`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime_actors.commands.agents import DeliveryPage
    from runtime_actors.contract.rejection import Rejection


@dataclass(frozen=True, slots=True)
class Attach:
    """A peer wants an agent's deliveries."""

    peer: int
    agent_id: str
    conversations: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Detach:
    """The peer is gone."""

    peer: int


@dataclass(frozen=True, slots=True)
class Acked:
    """An agent acknowledged deliveries."""

    agent_id: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PageRead:
    """More of an agent's outbox, for one attachment."""

    peer: int
    attachment: int
    """The peer may have attached again since this was asked."""
    asked: frozenset[int]
    page: DeliveryPage | Rejection


@dataclass(frozen=True, slots=True)
class SweepDue:
    """Time to read again what should have been sent."""


@dataclass(frozen=True, slots=True)
class SettleDue:
    """Time to tell the store what was acknowledged."""
