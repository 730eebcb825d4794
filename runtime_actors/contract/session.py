"""The worker channel: attach, capabilities, beats, resume. What may be said when is in `docs/protocol.md`."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from runtime_actors.contract import codec
from runtime_actors.contract.base import AttemptId, Reason, WireModel

if TYPE_CHECKING:
    from collections.abc import Iterable

SDK_VERSION: Final = "1.0.0"


class SdkCapability(WireModel):
    """One line of `sdkCapabilities[]` (seed 003, support level)."""

    name: str = Field(max_length=64)
    surface: Literal["core", "platform"]
    supportLevel: Literal["native", "polyfilled", "unsupported"]  # noqa: N815 - the seed's spelling


Capabilities = Annotated[tuple[SdkCapability, ...], Field(strict=False, max_length=64)]

CORE_CAPABILITIES: Final = tuple(
    SdkCapability(name=name, surface="core", supportLevel="native") for name in ("input.receive", "output.publish")
)
"""What this SDK offers in environment `worker`: the inbox, and results."""


class Hello(WireModel):
    """`lineup.v1.session.hello`: first word of a worker on a connection, whether first or again."""

    attempt_id: AttemptId
    token: str = Field(min_length=32, max_length=128)
    sdk_version: str = Field(max_length=32)
    sdkCapabilities: Capabilities  # noqa: N815
    ready: bool
    """The MiniApp is loaded already: this is a reconnect."""


class MiniAppContextModel(WireModel):
    """MiniAppContext of the seed, section 3: written by the runtime, read-only for the app."""

    app_scope: str
    instance_id: str
    conversation_id: str
    app_version: str
    state: Literal["starting", "foreground", "background", "suspended"]
    mode: Literal["im", "audio", "video"] | None = None
    """Of Interact alone (seed section 5.1). Only `im` exists; a restart begins with it, whatever was wished."""


class Welcome(WireModel):
    """`lineup.v1.session.welcome`."""

    context: MiniAppContextModel
    session: int = Field(ge=1)
    """Counts the handshakes of this attempt."""
    window: int = Field(ge=1)
    """The most requests that may be unanswered, and the most messages that may be unacknowledged."""
    ping_ms: int = Field(ge=1)
    effectiveSdkCapabilities: Capabilities  # noqa: N815
    snapshot_digest: str


class SessionRefused(WireModel):
    """`lineup.v1.session.refused`: the connection is closed after it."""

    code: str
    detail: str


IsolationLevel = Literal["strong", "sealed", "partial", "process"]


class Confined(WireModel):
    """`lineup.v1.session.confined`: what this process gave up, said before anything of the app is imported."""

    namespaces: Annotated[tuple[Annotated[str, Field(max_length=16)], ...], Field(strict=False, max_length=8)]
    """Names in /proc/PID/ns whose inode it saw change."""
    landlock_abi: int = Field(ge=0)
    """0: none."""
    canaries: dict[Annotated[str, Field(max_length=16)], bool] = Field(max_length=8)
    """For each layer that has canaries: whether every attempt against it failed as it should."""


class Go(WireModel):
    """`lineup.v1.session.go`: the level is enough; import the app."""

    level: IsolationLevel
    """As the runtime measured it."""


class Ready(WireModel):
    """`lineup.v1.session.ready`: the app is imported and its `main` is about to run."""


class Ping(WireModel):
    """`lineup.v1.session.ping`, answered by `lineup.v1.session.pong` from the app's event loop."""

    beat: int = Field(ge=0)


class Reset(WireModel):
    """`lineup.v1.session.reset`: the runtime lost its view of the session and asks for a resume on the same stream."""

    attempt_id: AttemptId
    session: int = Field(ge=1)
    snapshot_digest: str


class Resume(WireModel):
    """`lineup.v1.session.resume`: the answer to a reset, answered with a welcome of a new session."""

    attempt_id: AttemptId
    session: int = Field(ge=1)
    snapshot_digest: str
    sdkCapabilities: Capabilities  # noqa: N815
    last_number: int = Field(ge=0)
    """The inbox message seen last, 0 for none; for diagnosis, it acknowledges nothing."""
    ready: bool


class ContextChanged(WireModel):
    """`lineup.v1.context.changed`."""

    state: Literal["starting", "foreground", "background", "suspended"]


class Stop(WireModel):
    """`lineup.v1.session.stop`: end by yourself within the grace, else you are ended."""

    reason: str
    grace_ms: int = Field(ge=0)


class Bye(WireModel):
    """`lineup.v1.session.bye`: the last word of a worker that ends by itself."""

    reason: Reason


def snapshot_digest(capabilities: Iterable[SdkCapability]) -> str:
    """Name of a capability set: order does not matter."""
    rows = sorted((one.name, one.surface, one.supportLevel) for one in capabilities)
    return hashlib.sha256(codec.encode({"capabilities": [list(row) for row in rows]})).hexdigest()


_STRENGTH: Final = {"unsupported": 0, "polyfilled": 1, "native": 2}


def effective(offered: Iterable[SdkCapability], allowed: Iterable[SdkCapability]) -> tuple[SdkCapability, ...]:
    """What an attempt gets: offered by its SDK and allowed here, sorted by name."""
    names = {(one.name, one.surface) for one in allowed}
    kept = [one for one in offered if (one.name, one.surface) in names and one.supportLevel != "unsupported"]
    return tuple(sorted(kept, key=lambda one: (one.name, one.surface)))


def covers(offered: Iterable[SdkCapability], snapshot: Iterable[SdkCapability]) -> bool:
    """Whether a reconnecting worker still has all of its snapshot, none of it weaker. More is ignored (seed 003)."""
    have = {(one.name, one.surface): _STRENGTH[one.supportLevel] for one in offered}
    return all(have.get((one.name, one.surface), 0) >= _STRENGTH[one.supportLevel] for one in snapshot)
