"""`sdk.artifacts`: content that the app made, for the agents of its conversation."""

from __future__ import annotations

import base64
import hashlib

from pydantic import ValidationError

from miniapp_worker.pending import Pending, refused
from runtime_actors.contract import surfaces as wire
from runtime_actors.contract.surfaces import CHUNK_BYTES, ArtifactReceipt


class MiniAppArtifacts:
    """Content of up to 8 MiB under a name. What was stored is never changed."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending

    async def put(self, name: str, media_type: str, content: bytes, call_id: str | None = None) -> ArtifactReceipt:
        """Store content, and get the `artifact_id` for the result of a call once it is `complete`.

        The same content under the same name is the same artifact, so that this may be done again after a restart.
        `name` holds no path, such as `board.svg`; `call_id` is a call of this instance that it is a result of.

        Raises:
            PayloadRefused: an argument breaks the contract. Nothing was sent.

        """
        try:
            begin = wire.ArtifactBegin(
                name=name,
                media_type=media_type,
                size=len(content),
                sha256=hashlib.sha256(content).hexdigest(),
                call_id=call_id,
            )
        except ValidationError as error:
            raise refused(error) from None
        receipt = ArtifactReceipt.model_validate(
            await self._pending.request("lineup.v1.artifacts.begin", begin.to_wire())
        )
        for offset in range(0, len(content), CHUNK_BYTES):
            if not receipt.accepted or receipt.complete:
                break
            piece = {
                "artifact_id": receipt.artifact_id,
                "offset": offset,
                "content": base64.b64encode(content[offset : offset + CHUNK_BYTES]).decode(),
            }
            receipt = ArtifactReceipt.model_validate(await self._pending.request("lineup.v1.artifacts.chunk", piece))
        return receipt
