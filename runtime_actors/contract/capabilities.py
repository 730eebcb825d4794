"""What an app may ask of the host beyond its own process (seed section 3.5)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from runtime_actors.contract.base import Capability, WireModel, check_line
from runtime_actors.contract.payload import SideData

NEVER: Final = frozenset(
    {
        "fetch",
        "network",
        "filesystem",
        "tauri.invoke",
        "clipboard",
        "microphone",
        "camera",
        "host.dom",
        "appserver",
        "agent.protocol",
    }
)
"""What SDK v1 does not open (seed section 3.5), whatever policy says; also everything below each (`network.http`)."""


class CapabilityRequest(WireModel):
    """`lineup.v1.capabilities.request`, answered with `lineup.v1.capabilities.receipt`."""

    capability: Capability
    reason: Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(check_line)]
    """One line, shown to the person as the app's own words."""
    arguments: SideData = Field(default_factory=dict)


class CapabilityReceipt(WireModel):
    """`lineup.v1.capabilities.receipt`.

    `granted` and `denied` are decided; `asking` waits for the person, and the inbox brings the decision.
    """

    request_id: str
    accepted: bool
    decision: Literal["granted", "denied", "asking"] | None = None
    grant_id: str | None = None
    code: str | None = None
    detail: str | None = None


class CapabilityDecision(WireModel):
    """How a request that waited for the person was decided, as the app's inbox brings it."""

    capability: str
    decision: Literal["granted", "denied"]
    grant_id: str | None = None


def is_closed(capability: str) -> bool:
    """Whether a capability is never granted."""
    return any(capability == one or capability.startswith(f"{one}.") for one in NEVER)
