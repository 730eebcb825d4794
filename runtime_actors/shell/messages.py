"""What the shell is told, apart from `Shown`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.commands.hosts import EventPage, HostAsker, There
    from runtime_actors.contract.base import WireModel
    from runtime_actors.contract.rejection import Rejection


@dataclass(frozen=True, slots=True)
class Attach:
    """A host is there, and is to be sent what comes behind `after`."""

    peer: int
    host: str
    nonce: str
    conversations: frozenset[str] | None
    """Only events of these; None for all."""
    after: int


@dataclass(frozen=True, slots=True)
class Detach:
    """The peer is gone."""

    peer: int


@dataclass(frozen=True, slots=True)
class Acked:
    """A host took over every event up to this one."""

    peer: int
    number: int


@dataclass(frozen=True, slots=True)
class Showing:
    """What a host has on its screen."""

    peer: int
    on_screen: str | None


@dataclass(frozen=True, slots=True)
class Write:
    """A host writes something for its person."""

    by: HostAsker
    conversation_id: str | None
    body: WireModel
    answer: Callable[[str, Any], None]
    """Gets a message type and a body, or a `Rejection`; from any thread."""


@dataclass(frozen=True, slots=True)
class PageRead:
    """More events, for one attachment."""

    peer: int
    attachment: int
    """The peer may have attached again since this was asked."""
    page: EventPage | Rejection


@dataclass(frozen=True, slots=True)
class Looked:
    """What the rows say about events and hosts."""

    found: There | Rejection


@dataclass(frozen=True, slots=True)
class SweepDue:
    """Time to look for what should have been sent, and for what is over."""
