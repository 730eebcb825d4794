"""What the gateway is told, apart from what peers say and `InventoryChanged`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.commands.agents import Identified
    from runtime_actors.commands.hosts import HostThere
    from runtime_actors.contract.host import HostAttach
    from runtime_actors.contract.rejection import Rejection


@dataclass(frozen=True, slots=True)
class Finish:
    """An answer is decided: build and send it on the gateway's thread."""

    send: Callable[[], None]


@dataclass(frozen=True, slots=True)
class IdentityChecked:
    """Whether a peer is the agent it says."""

    peer: int
    request_id: str
    conversations: frozenset[str] | None
    outcome: Identified | Rejection


@dataclass(frozen=True, slots=True)
class HostNoted:
    """Whether it is recorded that a host is there."""

    peer: int
    request_id: str
    wanted: HostAttach
    outcome: HostThere | Rejection
