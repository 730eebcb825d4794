"""What can become of an artifact, and who may read it (docs/people.md, section 6)."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from runtime_actors.commands import receipts
from runtime_actors.commands.command import command
from runtime_actors.commands.conversations import belongs_to
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.surfaces import CHUNK_BYTES, ArtifactReceipt
from runtime_actors.records import artifacts as rows
from runtime_actors.records import calls, instances
from runtime_actors.records.transaction import rfc3339
from runtime_actors.rules.artifacts import UNFINISHED_S, Artifact, may_begin, next_piece
from runtime_actors.rules.instances import LIVE

if TYPE_CHECKING:
    from runtime_actors.commands.asker import Asker
    from runtime_actors.contract.surfaces import ArtifactBegin, ArtifactChunk, ArtifactMeta
    from runtime_actors.records.transaction import Transaction

_DROP_AT_ONCE: Final = 16
"""Up to 8 MiB each."""


# --- what an app stores ---


@dataclass(frozen=True, slots=True)
class Beginning:
    """An app announces content."""

    by: Asker
    asked: ArtifactBegin


@command(growing=True)
def begin_artifact(tx: Transaction, beginning: Beginning) -> ArtifactReceipt | Rejection:
    """Make room for content. The same words of the same instance name again what they named before."""
    by, asked = beginning.by, beginning.asked
    known = rows.same(tx, by.instance_id, asked)
    if known is not None:
        return _receipt(by, known)
    instance = instances.get(tx, by.instance_id)
    if instance is None or instance.state not in LIVE:
        return _refuse(tx, by, RejectionCode.APP_INSTANCE_NOT_FOUND, "the instance is closing")
    if asked.call_id is not None and calls.of_instance(tx, by.instance_id, asked.call_id) is None:
        return _refuse(tx, by, RejectionCode.CALL_NOT_FOUND, "this instance was given no such call")
    no_room = may_begin(asked, rows.sums(tx, instance.conversation_id), rows.sums(tx))
    if no_room is not None:
        return _refuse(tx, by, no_room.code, no_room.detail)
    artifact = Artifact(
        artifact_id=tx.ids.new("art"),
        instance_id=instance.instance_id,
        conversation_id=instance.conversation_id,
        app_scope=instance.app_scope,
        call_id=asked.call_id,
        name=asked.name,
        media_type=asked.media_type,
        size=asked.size,
        sha256=asked.sha256,
        received=0,
        status="complete" if asked.size == 0 else "receiving",
        created_at=tx.at,
    )
    rows.add(tx, artifact)
    _note(tx, "artifact.stored" if artifact.status == "complete" else "artifact.begun", artifact)
    return _receipt(by, artifact)


@dataclass(frozen=True, slots=True)
class Piece:
    """An app brings content."""

    by: Asker
    asked: ArtifactChunk


@command(growing=True)
def add_chunk(tx: Transaction, piece: Piece) -> ArtifactReceipt | Rejection:
    """Take the next piece; with the last one the whole must have the digest that was announced."""
    by, asked = piece.by, piece.asked
    failed = receipts.known(tx, by, ArtifactReceipt)  # this very piece, and it was the wrong one
    if failed is not None:
        return failed
    artifact = rows.of_instance(tx, by.instance_id, asked.artifact_id)
    if artifact is None:
        return _refuse(tx, by, RejectionCode.ARTIFACT_NOT_FOUND, "this instance announced no such artifact")
    content = next_piece(artifact, asked.offset, asked.content)
    if isinstance(content, Rejection):
        return _refuse(tx, by, content.code, content.detail)
    if content is None:
        return _receipt(by, artifact)
    rows.add_piece(tx, artifact.artifact_id, asked.offset, content)
    received = artifact.received + len(content)
    if received < artifact.size:
        artifact = replace(artifact, received=received)
    elif _digest(tx, artifact.artifact_id) == artifact.sha256:
        artifact = replace(artifact, received=received, status="complete")
        _note(tx, "artifact.stored", artifact)
    else:
        return _forget(tx, by, artifact)
    rows.save(tx, artifact)
    return _receipt(by, artifact)


def _digest(tx: Transaction, artifact_id: str) -> str:
    """Some 10 ms for the largest one; other threads run meanwhile."""
    digest = hashlib.sha256()
    for _, content in rows.pieces(tx, artifact_id):
        digest.update(content)
    return digest.hexdigest()


def _forget(tx: Transaction, by: Asker, artifact: Artifact) -> ArtifactReceipt:
    rows.drop(tx, artifact.artifact_id)
    code, detail = RejectionCode.ARTIFACT_INVALID, "the content has another digest; it is forgotten"
    _refuse(tx, by, code, detail)
    _note(tx, "artifact.dropped", artifact)
    receipt = ArtifactReceipt(
        request_id=by.request_id, accepted=False, artifact_id=artifact.artifact_id, code=code, detail=detail
    )
    return receipts.keep(tx, by, receipt)


@command()
def drop_unfinished(tx: Transaction, _nothing: object) -> int:
    """Forget what was announced an hour ago and is not complete."""
    before = rfc3339(tx.moment.wall - timedelta(seconds=UNFINISHED_S))
    found = rows.unfinished(tx, before, _DROP_AT_ONCE)
    for artifact in found:
        rows.drop(tx, artifact.artifact_id)
        _note(tx, "artifact.dropped", artifact)
    return len(found)


# --- what an agent reads ---


@dataclass(frozen=True, slots=True)
class ArtifactOf:
    """An agent wants to read an artifact of a conversation."""

    agent_id: str
    conversation_id: str
    artifact_id: str
    offset: int = 0
    """Of the content."""


def artifact_meta(tx: Transaction, of: ArtifactOf) -> ArtifactMeta | Rejection:
    """What is known of it. Only the agent of its conversation learns whether it exists."""
    found = _readable(tx, of)
    return found if isinstance(found, Rejection) else rows.shown(found)


@dataclass(frozen=True, slots=True)
class Content:
    """Part of the content of an artifact."""

    artifact_id: str
    offset: int
    text: str
    """Base64 of up to `CHUNK_BYTES`; fewer only at the end."""
    size: int
    """Of the whole."""


def artifact_content(tx: Transaction, of: ArtifactOf) -> Content | Rejection:
    """Its content from an offset on, for the agent of its conversation."""
    found = _readable(tx, of)
    if isinstance(found, Rejection):
        return found
    if of.offset > found.size:
        return _refuse_agent(tx, of, RejectionCode.ARTIFACT_INVALID, f"it has {found.size} bytes")
    first = of.offset - of.offset % CHUNK_BYTES
    part = bytearray()
    for start, content in rows.pieces(tx, found.artifact_id, first):
        if start >= of.offset + CHUNK_BYTES:
            break
        part += content
    skipped = of.offset - first
    text = base64.b64encode(part[skipped : skipped + CHUNK_BYTES]).decode()
    return Content(found.artifact_id, of.offset, text, found.size)


def _readable(tx: Transaction, of: ArtifactOf) -> Artifact | Rejection:
    if not belongs_to(tx, of.conversation_id, of.agent_id):
        return _refuse_agent(tx, of, RejectionCode.CONVERSATION_DENIED, "the conversation belongs to another agent")
    found = rows.complete_in(tx, of.conversation_id, of.artifact_id)
    if found is None:
        return _refuse_agent(tx, of, RejectionCode.ARTIFACT_NOT_FOUND, "this conversation has no such artifact")
    return found


def _refuse_agent(tx: Transaction, of: ArtifactOf, code: RejectionCode, detail: str) -> Rejection:
    return tx.refuse("artifact.refused", code, detail, who=of.agent_id, conversation_id=of.conversation_id)


def _note(tx: Transaction, event: str, artifact: Artifact) -> None:
    tx.note(
        event,
        digest=bytes.fromhex(artifact.sha256),
        detail={"size": artifact.size, "media_type": artifact.media_type},
        conversation_id=artifact.conversation_id,
        instance_id=artifact.instance_id,
        call_id=artifact.call_id,
        artifact_id=artifact.artifact_id,
    )


def _receipt(by: Asker, artifact: Artifact) -> ArtifactReceipt:
    return ArtifactReceipt(
        request_id=by.request_id,
        accepted=True,
        artifact_id=artifact.artifact_id,
        complete=artifact.status == "complete",
    )


def _refuse(tx: Transaction, by: Asker, code: RejectionCode, detail: str) -> Rejection:
    return tx.refuse("artifact.refused", code, detail, who=by.instance_id, attempt_id=by.attempt_id)
