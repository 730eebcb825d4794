"""What an agent reads of the artifacts of its conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_actors.commands import artifacts
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.surfaces import ArtifactAnswer, ArtifactContent, ArtifactGet, ArtifactMeta, ArtifactRead

if TYPE_CHECKING:
    from runtime_actors.contract.envelope import Envelope
    from runtime_actors.gateway.control import Answer
    from runtime_actors.gateway.peers import Peer
    from runtime_actors.store.client import Store


def read_artifact(store: Store, peer: Peer, said: Envelope, body: ArtifactGet | ArtifactRead, answer: Answer) -> None:
    """Have it read; `answer` is called on the store's thread."""
    agent_id, conversation_id = str(peer.agent_id), str(said.conversation_id)

    def told_meta(found: ArtifactMeta | Rejection) -> None:
        if isinstance(found, Rejection):
            answer("", found)
        else:
            answer("lineup.v1.artifact", ArtifactAnswer(request_id=said.id, artifact=found))

    def told_content(found: artifacts.Content | Rejection) -> None:
        if isinstance(found, Rejection):
            answer("", found)
        else:
            content = ArtifactContent(
                request_id=said.id,
                artifact_id=found.artifact_id,
                offset=found.offset,
                content=found.text,
                size=found.size,
            )
            answer("lineup.v1.artifact.content", content)

    if isinstance(body, ArtifactGet):
        store.run(artifacts.artifact_meta, artifacts.ArtifactOf(agent_id, conversation_id, body.artifact_id), told_meta)
    else:
        of = artifacts.ArtifactOf(agent_id, conversation_id, body.artifact_id, body.offset)
        store.run(artifacts.artifact_content, of, told_content)
