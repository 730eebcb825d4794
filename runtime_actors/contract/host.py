"""What a host says and is told: it shows questions, surfaces and the focus to a person, and acts for that person."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from runtime_actors.contract.base import AgentName, AuditMark, ConversationId, InstanceId, JsonObject, WireModel
from runtime_actors.contract.interactions import ElementId, InteractionId
from runtime_actors.contract.lifecycle import ActionName, PersonsText
from runtime_actors.contract.payload import SideData
from runtime_actors.contract.surfaces import SurfaceId

Nonce = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{16,64}$")]
EventKind = Literal[
    "interaction.opened",
    "interaction.changed",
    "surface.opened",
    "surface.changed",
    "surface.closed",
    "focus.changed",
    "instance.changed",
    "text.agent",
    "text.person",
]


class HostAttach(WireModel):
    """`lineup.v1.host.attach`: first word on the host door."""

    host: AgentName
    nonce: Nonce
    """Random; kept when this host connects again. What it wrote is known by it."""
    surfaces: bool = False
    """Whether it can show surfaces."""
    conversations: Annotated[tuple[ConversationId, ...], Field(strict=False, max_length=64)] | None = None
    """What it follows; absent for all."""
    on_screen: ConversationId | None = None
    """What the person sees now; see `lineup.v1.host.show`."""
    stream: str | None = None
    """Of the events it has seen, with `after_number`."""
    after_number: int | None = Field(default=None, ge=0)
    """Go on behind this event; absent for those that are still to come."""


class HostAttached(WireModel):
    """`lineup.v1.host.attached`."""

    request_id: str
    stream: str
    last_number: int = Field(ge=0)
    """The highest event number given so far."""
    complete: bool
    """The events asked for are all there. If not: read the listings, they hold everything that is open now."""
    window: int = Field(ge=1)
    """Events sent ahead of `host.ack`."""


class HostEvent(WireModel):
    """`lineup.v1.host.event`: something that a person may see changed. In order of `number`, perhaps more than once."""

    number: int = Field(ge=1)
    at: str
    conversation_id: str
    kind: EventKind
    data: JsonObject


class HostAck(WireModel):
    """`lineup.v1.host.ack`: every event up to this one was taken over. It has no answer."""

    number: int = Field(ge=0)


class HostShow(WireModel):
    """`lineup.v1.host.show`: the conversation that is on the screen now, or none. It has no answer."""

    on_screen: ConversationId | None = None


class HostPresented(WireModel):
    """`lineup.v1.host.presented`: the person can see the question now."""

    interaction_id: InteractionId


class HostAnswer(WireModel):
    """`lineup.v1.host.answer`: the person's answer. The first valid one counts."""

    interaction_id: InteractionId
    acknowledged: bool | None = None
    action_ids: Annotated[tuple[ElementId, ...], Field(strict=False, max_length=64)] | None = None
    approved: bool | None = None
    values: dict[Annotated[str, StringConstraints(max_length=64)], Any] | None = Field(default=None, max_length=32)


class HostDismiss(WireModel):
    """`lineup.v1.host.dismiss`: the person does not want to answer."""

    interaction_id: InteractionId


class HostDraft(WireModel):
    """`lineup.v1.host.draft`: what the person has written so far into an `input`. The newest one is kept."""

    interaction_id: InteractionId
    sequence: int = Field(ge=0)
    """Grows with each draft of this question; an older one never replaces a newer."""
    values: dict[Annotated[str, StringConstraints(max_length=64)], str | int | float | bool | None] = Field(
        max_length=32
    )
    """By field id, as far as they are written: unchecked, and shown to every host that attaches."""


class HostAct(WireModel):
    """`lineup.v1.host.act`: something the person does to an instance. It becomes a Runtime Action."""

    instance_id: InstanceId
    action: Literal["focus", "close", "force_close", "app"]
    name: ActionName | None = None
    """Of the app's own action; needed with `app` and refused otherwise."""
    data: SideData | None = None


class HostText(WireModel):
    """`lineup.v1.host.text`: the person wrote something into the conversation."""

    text: PersonsText


class HostSurface(WireModel):
    """`lineup.v1.host.surface`: what a surface's own bridge wants: an update of its state, a submit, or a question."""

    surface_id: SurfaceId
    op: Literal["update", "submit", "ask"]
    patch: JsonObject | None = None
    """Of `update`: a JSON merge patch (RFC 7396)."""
    revision: int | None = Field(default=None, ge=1)
    data: SideData | None = None


class HostDone(WireModel):
    """`lineup.v1.host.done`: it was recorded."""

    request_id: str
    repeated: bool = False
    """This very request was known already; nothing was done again."""
    data: JsonObject = Field(default_factory=dict)
    audit: AuditMark | None = None
