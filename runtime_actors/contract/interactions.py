"""Standard interactions (seed section 3.4): what a person is asked, by whom, and what became of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from runtime_actors.contract.base import (
    CallId,
    JsonObject,
    Key,
    Reason,
    Revision,
    Timestamp,
    WireModel,
    check_line,
    check_prose,
)

MAX_ACTIONS: Final = 64
MAX_FIELDS: Final = 32
MAX_VALUE_CHARACTERS: Final = 10_000
"""Of one text that a person writes into a field, whatever the field allows."""

InteractionId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
ElementId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$")]
"""Of an action or a field, chosen by whoever asks; unique within the question."""
Headline = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(check_line)]
Prose = Annotated[str, StringConstraints(max_length=4000), AfterValidator(check_prose)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=120), AfterValidator(check_line)]


class InteractionStatus(StrEnum):
    """Seed section 3.4."""

    PENDING = "pending"
    PRESENTED = "presented"
    SUBMITTED = "submitted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"


class NoticeRequest(WireModel):
    """Something to read. Without an `acknowledge_label` it needs no answer and ends when it has been shown."""

    kind: Literal["notice"]
    title: Headline
    message: Prose
    acknowledge_label: Label | None = None


class ChoiceAction(WireModel):
    """One of what can be chosen."""

    id: ElementId
    label: Label
    description: Annotated[str, StringConstraints(max_length=500), AfterValidator(check_line)] | None = None


class ChoiceRequest(WireModel):
    """One, or several, of a few actions."""

    kind: Literal["choice"]
    title: Headline
    prompt: Prose
    mode: Literal["single-choice", "multi-choice", "button"]
    actions: Annotated[tuple[ChoiceAction, ...], Field(strict=False, min_length=1, max_length=MAX_ACTIONS)]

    @model_validator(mode="after")
    def _has_no_twins(self) -> ChoiceRequest:
        _check_unique([action.id for action in self.actions])
        return self


class ConfirmRequest(WireModel):
    """A yes or a no to something that can be explained."""

    kind: Literal["confirm"]
    title: Headline
    prompt: Prose
    approve_label: Label | None = None
    cancel_label: Label | None = None


class InputField(WireModel):
    """One value that a person writes. Lengths count code points."""

    id: ElementId
    label: Label
    type: Literal["text", "textarea", "number"]
    required: bool = False
    placeholder: Annotated[str, StringConstraints(max_length=200), AfterValidator(check_line)] | None = None
    min_length: Annotated[int, Field(ge=0, le=MAX_VALUE_CHARACTERS)] | None = None
    max_length: Annotated[int, Field(ge=0, le=MAX_VALUE_CHARACTERS)] | None = None
    minimum: float | None = None
    maximum: float | None = None

    @model_validator(mode="after")
    def _can_be_filled(self) -> InputField:
        limits_length = self.min_length is not None or self.max_length is not None
        limits_value = self.minimum is not None or self.maximum is not None
        if limits_length if self.type == "number" else limits_value:
            detail = f"a {self.type} has no such limit"
            raise ValueError(detail)
        if self.min_length is not None and self.max_length is not None and self.min_length > self.max_length:
            raise ValueError("min_length is above max_length")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError("minimum is above maximum")
        return self


class InputRequest(WireModel):
    """A few values."""

    kind: Literal["input"]
    title: Headline
    prompt: Prose
    fields: Annotated[tuple[InputField, ...], Field(strict=False, min_length=1, max_length=MAX_FIELDS)]
    submit_label: Label | None = None
    cancel_label: Label | None = None

    @model_validator(mode="after")
    def _has_no_twins(self) -> InputRequest:
        _check_unique([field.id for field in self.fields])
        return self


def _check_unique(ids: list[str]) -> None:
    if len(set(ids)) < len(ids):
        raise ValueError("an id is there twice")


StandardInteractionRequest = Annotated[
    NoticeRequest | ChoiceRequest | ConfirmRequest | InputRequest, Field(discriminator="kind")
]
InteractionKind = Literal["notice", "choice", "confirm", "input"]
Source = Literal["agent_tool", "miniapp_tool", "runtime_policy"]
Presentation = Literal["default", "inline", "modal"]


class InteractionOwner(WireModel):
    """Written by the runtime alone, from whose channel the request came."""

    app_scope: str
    instance_id: str | None = None
    """None only for a question of policy about a call that has no instance yet."""
    conversation_id: str
    parent_call_id: str | None = None
    surface_id: str | None = None
    source: Source


class InteractionRecord(WireModel):
    """StandardInteractionRecord of the seed: as its owner, and hosts, see it."""

    interaction_id: InteractionId
    owner: InteractionOwner
    kind: InteractionKind
    key: str | None = None
    """The app's own name for it."""
    request: StandardInteractionRequest
    status: Annotated[InteractionStatus, Field(strict=False)]
    result: JsonObject | None = None
    """notice: `{acknowledged}`; choice: `{action_ids}` in the order of the actions; confirm: `{approved}`; input:
    `{values}` by field id."""
    reason: str | None = None
    """Why it was cancelled or failed, if somebody said so."""
    presentation: Presentation = "default"
    """The wish, as far as policy lets it pass."""
    listed_until: str | None = None
    """Hosts do not open it by themselves before: a person had put its owner off when it was asked."""
    created_at: str
    updated_at: str
    expires_at: str | None = None


# --- the worker channel ---


class UiRequest(WireModel):
    """`lineup.v1.ui.request`: ask the person something. The owner is the instance that this channel belongs to."""

    request: StandardInteractionRequest
    parent_call_id: CallId | None = None
    """An open call of this instance that the question belongs to; its clock stands still meanwhile."""
    presentation: Presentation = "default"
    """A wish: focus, policy and what hosts can do decide."""
    expires_at: Timestamp | None = None
    key: Key | None = None
    """The app's own name for this question within its call: asked again with it, also by a later process, it is the
    same question."""


class InteractionReceipt(WireModel):
    """`lineup.v1.ui.receipt`: what became of a `ui.request`."""

    request_id: str
    accepted: bool
    interaction: InteractionRecord | None = None
    """As it stands now: a repeated request may find it ended."""
    code: str | None = None
    detail: str | None = None


class UiList(WireModel):
    """`lineup.v1.ui.list`: the open ones of this instance, answered with `lineup.v1.ui.interactions`."""

    after_interaction_id: InteractionId | None = None


class UiListed(WireModel):
    """`lineup.v1.ui.interactions`: oldest first, as many as one frame holds."""

    request_id: str
    interactions: Annotated[tuple[InteractionRecord, ...], Field(strict=False)]
    more: bool = False


class UiGet(WireModel):
    """`lineup.v1.ui.get`."""

    interaction_id: InteractionId


class UiReply(WireModel):
    """`lineup.v1.ui.interaction`: the answer to `lineup.v1.ui.get`; empty if this instance owns no such one."""

    request_id: str
    interaction: InteractionRecord | None = None


class UiCancel(WireModel):
    """`lineup.v1.ui.cancel`, answered with a receipt."""

    interaction_id: InteractionId
    reason: Reason | None = None


class UiChanged(WireModel):
    """`lineup.v1.ui.changed`: news of an interaction that has not ended. Its end comes by the inbox."""

    interaction: InteractionRecord


# --- the agent door: the old form ---


class OldToolCall(WireModel):
    """`lineup.v1.tool.call`: a question by its old name. It is a call of the tool `chat.TOOL`."""

    call_id: CallId
    tool: InteractionKind
    input: JsonObject
    inventory_revision: Revision | None = None
    """Without one the current revision counts."""
