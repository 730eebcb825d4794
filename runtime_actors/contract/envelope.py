"""The one envelope of every channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from runtime_actors.contract import codec
from runtime_actors.contract.base import ConversationId, JsonObject, RequestId, Timestamp, WireModel

if TYPE_CHECKING:
    from collections.abc import Mapping

MessageType = Annotated[str, StringConstraints(pattern=r"^lineup\.v1(?:\.[a-z_]{1,32}){1,3}$")]
Traceparent = Annotated[str, StringConstraints(pattern=r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")]
_VERSION: Final = 1
_REQUEST_ID: Final = TypeAdapter(RequestId)


class Trace(WireModel):
    """W3C trace context, section 3.2. It never reaches a MiniApp."""

    traceparent: Traceparent


class Envelope(WireModel):
    """What every frame holds. `type` stands here and never in a body."""

    v: Annotated[int, Field(ge=1, le=1)]  # not Literal[1], which `true` would pass
    id: RequestId
    """Chosen by the sender. A request that is sent again keeps it."""
    type: MessageType
    conversation_id: ConversationId | None = None
    sent_at: Timestamp
    trace: Trace | None = None
    body: JsonObject


def decode(frame: bytes) -> Envelope:
    """Read one frame.

    Raises:
        codec.IntakeError: It breaks the intake rule, or is not an envelope.

    """
    tree = codec.decode(frame)
    try:
        return Envelope.model_validate(tree)
    except ValidationError as error:
        raise codec.IntakeError(
            codec.MESSAGE_INVALID, f"not an envelope: {describe(error)}", _readable_id(tree.get("id"))
        ) from None


def _readable_id(claimed: object) -> str | None:
    try:
        return _REQUEST_ID.validate_python(claimed)
    except ValidationError:
        return None


def encode(
    kind: str,
    body: WireModel | Mapping[str, Any],
    *,
    id: str,  # noqa: A002 - the envelope's own field
    sent_at: str,
    conversation_id: str | None = None,
) -> bytes:
    """One frame. What is in it passed the intake rule before, or is of our own making."""
    tree: JsonObject = {
        "v": _VERSION,
        "id": id,
        "type": kind,
        "sent_at": sent_at,
        "body": body.to_wire() if isinstance(body, WireModel) else dict(body),
    }
    if conversation_id is not None:
        tree["conversation_id"] = conversation_id
    return codec.encode_own(tree)


def describe(error: ValidationError) -> str:
    """The first fault of a model, as a path and a reason, without the value that was sent."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    path = "/".join(str(part) for part in first["loc"])
    return f"{path or '(root)'}: {first['msg']}"
