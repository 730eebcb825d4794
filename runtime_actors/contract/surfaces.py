"""Surfaces (what an app shows in a container of its own) and artifacts (what it made): seed sections 3.5 and 5.3."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from runtime_actors.contract.base import CallId, JsonObject, Key, WireModel, check_line

MAX_SURFACE_STATE_BYTES: Final = 64 * 1024
"""Of the canonical state of one surface, and of one patch."""
MAX_ARTIFACT_BYTES: Final = 8 * 1024 * 1024
CHUNK_BYTES: Final = 96 * 1024
"""Of the content of an artifact in one frame, before base64 (RFC 4648, section 4)."""
_MAX_CHUNK_TEXT: Final = (CHUNK_BYTES + 2) // 3 * 4

SurfaceId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
ArtifactId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
SurfaceKind = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,63}$")]
"""What a host has to be able to draw; each app chooses its own words."""
SurfaceTitle = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(check_line)]
SurfaceStatus = Literal["open", "closed"]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
MediaType = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+-]{0,63}/[a-z0-9][a-z0-9.+-]{0,63}$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,119}$")]
"""No path, no leading dot: whoever saves it may use it as it is."""


class SurfaceRequest(WireModel):
    """MiniAppSurfaceRequest of the seed, section 3.5."""

    kind: SurfaceKind
    title: SurfaceTitle
    state: JsonObject = Field(default_factory=dict)


class SurfaceRecord(WireModel):
    """A surface as its owner, and hosts, see it."""

    surface_id: SurfaceId
    app_scope: str
    instance_id: str
    conversation_id: str
    call_id: str | None = None
    kind: str
    title: str
    state: JsonObject | None = None
    """Absent in lists."""
    revision: int = Field(ge=1)
    """Grows by one with each update that changed the state."""
    status: SurfaceStatus
    created_at: str
    updated_at: str


# --- the worker channel ---


class SurfaceOpen(WireModel):
    """`lineup.v1.surfaces.open`, answered with `lineup.v1.surfaces.receipt`."""

    surface: SurfaceRequest
    call_id: CallId | None = None
    """An open call of this instance that it belongs to, whose end closes it."""
    key: Key | None = None
    """The app's own name for it: opened again with it, also by a later process, it is the same surface."""


class SurfaceReceipt(WireModel):
    """`lineup.v1.surfaces.receipt`: what became of a request about a surface."""

    request_id: str
    accepted: bool
    surface_id: str | None = None
    revision: int | None = None
    """The surface's now; also with a refusal for a revision that is not the present one."""
    code: str | None = None
    detail: str | None = None


class SurfaceList(WireModel):
    """`lineup.v1.surfaces.list`: answered with `lineup.v1.surfaces.surfaces`."""


class SurfaceListed(WireModel):
    """`lineup.v1.surfaces.surfaces`: the open ones of this instance, oldest first, without their states."""

    request_id: str
    surfaces: Annotated[tuple[SurfaceRecord, ...], Field(strict=False)]


class SurfaceGet(WireModel):
    """`lineup.v1.surfaces.get`."""

    surface_id: SurfaceId


class SurfaceReply(WireModel):
    """`lineup.v1.surfaces.surface`: the answer to `lineup.v1.surfaces.get`; empty if it is not this instance's."""

    request_id: str
    surface: SurfaceRecord | None = None


class SurfaceUpdate(WireModel):
    """`lineup.v1.surfaces.update`: a JSON merge patch (RFC 7396) of the state."""

    surface_id: SurfaceId
    patch: JsonObject
    revision: int | None = Field(default=None, ge=1)
    """Only if the surface still has this one."""


class SurfaceClose(WireModel):
    """`lineup.v1.surfaces.close`."""

    surface_id: SurfaceId


# --- artifacts ---


class ArtifactMeta(WireModel):
    """What is known of an artifact without its content."""

    artifact_id: ArtifactId
    name: FileName
    media_type: MediaType
    size: int = Field(ge=0, le=MAX_ARTIFACT_BYTES)
    sha256: Sha256
    app_scope: str
    conversation_id: str
    call_id: CallId | None = None
    created_at: str


class ArtifactBegin(WireModel):
    """`lineup.v1.artifacts.begin`: announce content. Answered with `lineup.v1.artifacts.receipt`."""

    name: FileName
    media_type: MediaType
    size: int = Field(ge=0, le=MAX_ARTIFACT_BYTES)
    sha256: Sha256
    call_id: CallId | None = None
    """A call of this instance that it is a result of."""


class ArtifactReceipt(WireModel):
    """`lineup.v1.artifacts.receipt`: `complete` says that all of the content is there and was checked."""

    request_id: str
    accepted: bool
    artifact_id: str | None = None
    complete: bool = False
    """Also at once, if this instance stored it before."""
    code: str | None = None
    detail: str | None = None


class ArtifactChunk(WireModel):
    """`lineup.v1.artifacts.chunk`: the content from `offset`, in order; a repeated one is harmless."""

    artifact_id: ArtifactId
    offset: int = Field(ge=0, le=MAX_ARTIFACT_BYTES)
    content: Annotated[str, StringConstraints(max_length=_MAX_CHUNK_TEXT)]
    """Base64; `CHUNK_BYTES` of content, less in the last one."""


# --- the agent door ---


class ArtifactGet(WireModel):
    """`lineup.v1.artifact.get`: answered with `lineup.v1.artifact`. Only in conversations of this agent."""

    artifact_id: ArtifactId


class ArtifactAnswer(WireModel):
    """`lineup.v1.artifact`."""

    request_id: str
    artifact: ArtifactMeta


class ArtifactRead(WireModel):
    """`lineup.v1.artifact.read`: answered with `lineup.v1.artifact.content`."""

    artifact_id: ArtifactId
    offset: int = Field(ge=0, le=MAX_ARTIFACT_BYTES)


class ArtifactContent(WireModel):
    """`lineup.v1.artifact.content`: up to `CHUNK_BYTES` from `offset`; fewer only at the end."""

    request_id: str
    artifact_id: ArtifactId
    offset: int = Field(ge=0)
    content: str
    """Base64."""
    size: int = Field(ge=0)
    """Of the whole."""
