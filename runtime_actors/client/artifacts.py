"""How an agent gets an artifact: in pieces, checked against its digest, into a file that is whole or not there."""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from runtime_actors.client.door import parsed
from runtime_actors.client.errors import ClientError, UnreadableAnswer
from runtime_actors.client.session import AgentSession
from runtime_actors.contract.surfaces import ArtifactAnswer, ArtifactContent, ArtifactGet, ArtifactMeta, ArtifactRead


class ArtifactDamaged(ClientError):
    """What came is not what was announced."""

    def __init__(self, artifact_id: str) -> None:
        super().__init__(f"the content of {artifact_id} has another digest than was announced; nothing was written")
        self.artifact_id = artifact_id


@dataclass(frozen=True, slots=True)
class Artifact:
    """Content and what is known of it."""

    meta: ArtifactMeta
    content: bytes


def fetch_artifact(
    session: AgentSession, artifact_id: str, *, conversation_id: str, timeout_s: float = 10.0
) -> Artifact:
    """Read an artifact of a conversation of the session's agent. `timeout_s` is for each answer.

    Raises:
        Refused: `conversation_denied`, `artifact_not_found`, or the id is not one.
        NoAnswer: The time is over.
        ArtifactDamaged: The content does not have the digest that was announced.

    """
    _, body = session.request(
        "lineup.v1.artifact.get", ArtifactGet(artifact_id=artifact_id),
        conversation_id=conversation_id, timeout_s=timeout_s,
    )  # fmt: skip
    meta = parsed(ArtifactAnswer, body).artifact
    content = bytearray()
    while len(content) < meta.size:
        asked = ArtifactRead(artifact_id=artifact_id, offset=len(content))
        _, body = session.request(
            "lineup.v1.artifact.read", asked, conversation_id=conversation_id, timeout_s=timeout_s
        )
        piece = _decoded(parsed(ArtifactContent, body).content)
        if not piece or len(content) + len(piece) > meta.size:
            raise ArtifactDamaged(artifact_id)
        content += piece
    if hashlib.sha256(content).hexdigest() != meta.sha256:
        raise ArtifactDamaged(artifact_id)
    return Artifact(meta, bytes(content))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UnreadableAnswer("the content is not base64") from None


def write_whole(path: Path, content: bytes, *, replace: bool) -> None:
    """Write a file that is there with all of its content, or not at all.

    Raises:
        FileExistsError: There is something at `path`, and `replace` is not set.
        OSError: It cannot be written there.

    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    made = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            made.replace(path)
        else:
            _link(made, path)
    finally:
        made.unlink(missing_ok=True)


def _link(made: Path, path: Path) -> None:
    """Give a file its name; unlike a rename, this fails if there is something of that name."""
    try:
        path.hardlink_to(made)
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP} or path.exists():
            raise
        made.replace(path)  # a file system without links
