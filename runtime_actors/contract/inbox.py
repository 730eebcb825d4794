"""A MiniApp's inbox on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from runtime_actors.contract.base import JsonObject, MessageId, WireModel
from runtime_actors.contract.capabilities import CapabilityDecision
from runtime_actors.contract.interactions import InteractionRecord
from runtime_actors.contract.lifecycle import RuntimeAction
from runtime_actors.contract.tools import MiniAppToolCall


class AgentText(WireModel):
    """A `lineup.v1.message` as its MiniApp gets it. Who sent it stays with the runtime."""

    text: str
    data: JsonObject | None = None


class MiniAppMessage(WireModel):
    """`lineup.v1.inbox.message`: delivered until acknowledged, in order of `number`."""

    message_id: MessageId
    number: int = Field(ge=1)
    kind: Literal["tool.call", "message", "interaction", "action", "capability"]
    repeated: bool = False
    """An earlier attempt, or an earlier session of this one, may have seen it."""
    created_at: str
    call: MiniAppToolCall | None = None
    message: AgentText | None = None
    interaction: InteractionRecord | None = None
    """One of this instance's that has ended."""
    action: RuntimeAction | None = None
    capability: CapabilityDecision | None = None


class InboxList(WireModel):
    """`lineup.v1.inbox.list`."""

    after_message_id: MessageId | None = None


class InboxPage(WireModel):
    """`lineup.v1.inbox.page`: what is not acknowledged yet, oldest first, as much as one frame holds."""

    request_id: str
    messages: Annotated[tuple[MiniAppMessage, ...], Field(strict=False)]
    more: bool = False


class InboxAcknowledge(WireModel):
    """`lineup.v1.inbox.acknowledge`."""

    message_id: MessageId
