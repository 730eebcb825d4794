"""Surfaces: their bounds, and what a patch makes of one (docs/people.md, section 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import msgpack

from runtime_actors.contract import codec, payload
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.surfaces import MAX_SURFACE_STATE_BYTES
from runtime_actors.rules.instances import InstanceState
from runtime_actors.rules.merge_patch import merged

if TYPE_CHECKING:
    from runtime_actors.contract.base import JsonObject
    from runtime_actors.contract.surfaces import SurfaceStatus

MAX_OPEN: Final = 4
"""Surfaces of one instance at a time."""
MAY_OPEN: Final = frozenset({InstanceState.FOREGROUND, InstanceState.BACKGROUND})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """A surface as it is kept."""

    surface_id: str
    instance_id: str
    conversation_id: str
    app_scope: str
    call_id: str | None
    """The call whose end closes it."""
    key: str | None
    """The app's name for it, within its instance and call."""
    digest: bytes
    """Of the request that opened it."""
    kind: str
    title: str
    state: bytes
    """Canonical; that of an empty object once it is closed."""
    revision: int
    status: SurfaceStatus
    created_at: str
    updated_at: str


def canonical_state(state: JsonObject) -> bytes | Rejection:
    """How a state is kept, if it may be one."""
    return _bounded(state, "the state")


def patched(surface: Surface, patch: JsonObject, revision: int | None, at: str) -> Surface | Rejection:
    """The surface after a merge patch, the same one if that changes nothing.

    `revision` is the one that the patch was made for, if that matters.
    """
    if surface.status != "open":
        return Rejection(code=RejectionCode.SURFACE_CLOSED, detail=f"{surface.surface_id} is closed")
    if revision is not None and revision != surface.revision:
        detail = f"{surface.surface_id} has revision {surface.revision} by now"
        return Rejection(code=RejectionCode.SURFACE_STALE, detail=detail)
    too_much = _bounded(patch, "the patch")
    if isinstance(too_much, Rejection):
        return too_much
    state = _bounded(merged(msgpack.unpackb(surface.state), patch), "the state after it")
    if isinstance(state, Rejection) or state == surface.state:
        return state if isinstance(state, Rejection) else surface
    return replace(surface, state=state, revision=surface.revision + 1, updated_at=at)


def closed(surface: Surface, at: str) -> Surface:
    """What is left of a surface at its end: nobody draws its state any more."""
    status: Literal["closed"] = "closed"
    return replace(surface, state=codec.encode({}), status=status, updated_at=at)


def _bounded(value: JsonObject, what: str) -> bytes | Rejection:
    try:
        written = payload.canonical(value)
    except codec.IntakeError as error:
        return Rejection(code=RejectionCode.SURFACE_INVALID, detail=f"{what} cannot be kept: {error.detail}")
    if len(written) > MAX_SURFACE_STATE_BYTES:
        detail = f"{what} takes {len(written)} bytes; {MAX_SURFACE_STATE_BYTES} are allowed"
        return Rejection(code=RejectionCode.SURFACE_INVALID, detail=detail)
    return written
