"""Artifacts: their bounds, and which piece may come next (docs/people.md, section 6)."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.surfaces import CHUNK_BYTES

if TYPE_CHECKING:
    from runtime_actors.contract.surfaces import ArtifactBegin

MAX_OF_CONVERSATION: Final = 256
MAX_BYTES_OF_CONVERSATION: Final = 64 * 1024 * 1024
MAX_BYTES: Final = 1024 * 1024 * 1024
"""Of all together."""
UNFINISHED_S: Final = 3600.0
"""After which one that is not complete is dropped."""
EMPTY: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """An artifact as it is kept, without its content."""

    artifact_id: str
    instance_id: str
    conversation_id: str
    app_scope: str
    call_id: str | None
    name: str
    media_type: str
    size: int
    sha256: str
    received: int
    """Bytes of content that are here."""
    status: Literal["receiving", "complete"]
    created_at: str


@dataclass(frozen=True, slots=True)
class Sums:
    """How many artifacts there are, and their bytes as announced."""

    artifacts: int
    bytes: int


def may_begin(asked: ArtifactBegin, of_conversation: Sums, of_all: Sums) -> Rejection | None:
    """Whether there is room for another one."""
    if asked.size == 0 and asked.sha256 != EMPTY:
        return _invalid("no content has this digest and this size")
    if of_conversation.artifacts >= MAX_OF_CONVERSATION:
        return _busy(f"the conversation has {MAX_OF_CONVERSATION} artifacts")
    if of_conversation.bytes + asked.size > MAX_BYTES_OF_CONVERSATION:
        return _busy(f"the artifacts of a conversation hold at most {MAX_BYTES_OF_CONVERSATION} bytes")
    if of_all.bytes + asked.size > MAX_BYTES:
        return _busy("there is no room for more artifacts here")
    return None


def next_piece(artifact: Artifact, offset: int, text: str) -> bytes | Rejection | None:
    """The content of a piece that comes next; None for one that is here already."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return _invalid("the content is not base64")
    end = offset + len(content)
    if end <= artifact.received and (content or artifact.status == "complete"):
        return None
    if offset != artifact.received:
        return _invalid(f"the content from {artifact.received} on is awaited")
    if end > artifact.size:
        return _invalid(f"{artifact.size} bytes were announced")
    if end < artifact.size and len(content) != CHUNK_BYTES:
        return _invalid(f"a piece that is not the last one has {CHUNK_BYTES} bytes")
    return content


def _invalid(detail: str) -> Rejection:
    return Rejection(code=RejectionCode.ARTIFACT_INVALID, detail=detail)


def _busy(detail: str) -> Rejection:
    return Rejection(code=RejectionCode.BUSY, detail=detail)
