"""What a MiniApp asks that concerns no call: which command decides it, and how its outcome is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.commands import actions, artifacts, capabilities, interactions, lifecycle, surfaces
from runtime_actors.contract import codec
from runtime_actors.contract.capabilities import CapabilityReceipt, CapabilityRequest
from runtime_actors.contract.interactions import (
    InteractionReceipt,
    UiCancel,
    UiGet,
    UiList,
    UiListed,
    UiReply,
    UiRequest,
)
from runtime_actors.contract.lifecycle import RequestBackground, RequestClose, RequestForeground, SendText
from runtime_actors.contract.payload import node_count
from runtime_actors.contract.surfaces import (
    ArtifactBegin,
    ArtifactChunk,
    SurfaceClose,
    SurfaceGet,
    SurfaceList,
    SurfaceListed,
    SurfaceOpen,
    SurfaceReply,
    SurfaceUpdate,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.commands.asker import Asker
    from runtime_actors.contract.base import WireModel
    from runtime_actors.contract.interactions import InteractionRecord
    from runtime_actors.contract.rejection import Rejection
    from runtime_actors.contract.surfaces import ArtifactReceipt, SurfaceReceipt
    from runtime_actors.contract.tools import CommandReceipt

_ENVELOPE_BYTES: Final = 4096
"""Of a frame, for what is around a list."""
_ENVELOPE_NODES: Final = 32
"""Likewise."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A command with its argument, and how to answer with its outcome: a message type and a body."""

    rule: Callable[..., Any]
    argument: object
    answer: Callable[[Any], tuple[str, WireModel]]
    refusal: Callable[[Rejection], tuple[str, WireModel]] | None = None
    """How to answer with a refusal that has a receipt of its own shape; without it, that is `lineup.v1.receipt`."""


def ask(by: Asker, request: WireModel) -> Ask | None:
    """How a request is decided; None if it is about a call, which is the router's."""
    match request:
        case UiRequest() | UiCancel() | UiGet() | UiList():
            return _of_questions(by, request)
        case SurfaceOpen() | SurfaceList() | SurfaceGet() | SurfaceUpdate() | SurfaceClose():
            return _of_surfaces(by, request)
        case ArtifactBegin():
            return Ask(artifacts.begin_artifact, artifacts.Beginning(by, request), _with_artifact)
        case ArtifactChunk():
            return Ask(artifacts.add_chunk, artifacts.Piece(by, request), _with_artifact)
        case SendText(text=text, action_id=action_id):
            return Ask(actions.send_text, actions.SendText(by, text, action_id), _with_receipt)
        case CapabilityRequest():
            return Ask(
                capabilities.request_capability,
                capabilities.CapabilityWish(by, request),
                _with_capability,
                lambda refused: _with_capability(capabilities.denied(by, refused)),
            )
        case RequestForeground():
            return Ask(lifecycle.request_foreground, by, _with_receipt)
        case RequestBackground():
            return Ask(lifecycle.request_background, by, _with_receipt)
        case RequestClose(reason=reason):
            return Ask(lifecycle.request_close, lifecycle.CloseWish(by, reason), _with_receipt)
        case _:
            return None


def _of_questions(by: Asker, request: UiRequest | UiCancel | UiGet | UiList) -> Ask:
    match request:
        case UiRequest():
            return Ask(
                interactions.request_interaction,
                interactions.AskPerson(by, request),
                lambda asked: (
                    "lineup.v1.ui.receipt",
                    InteractionReceipt(request_id=by.request_id, accepted=True, interaction=asked.record),
                ),
                lambda refused: _not_asked(by, refused),
            )
        case UiCancel():
            return Ask(
                interactions.cancel_interaction,
                interactions.CancelOwn(by, request),
                lambda receipt: ("lineup.v1.ui.receipt", receipt),
                lambda refused: _not_asked(by, refused),
            )
        case UiGet(interaction_id=interaction_id):
            return Ask(
                interactions.read_own,
                interactions.OwnOne(by, interaction_id),
                lambda found: (
                    "lineup.v1.ui.interaction",
                    UiReply(request_id=by.request_id, interaction=found.record),
                ),
            )
        case UiList(after_interaction_id=after):
            return Ask(
                interactions.list_own,
                interactions.OwnList(by, after),
                lambda found: ("lineup.v1.ui.interactions", _as_many_as_fit(by, found.records, more=found.more)),
            )


def _not_asked(by: Asker, refused: Rejection) -> tuple[str, WireModel]:
    return "lineup.v1.ui.receipt", InteractionReceipt(
        request_id=by.request_id, accepted=False, code=refused.code, detail=refused.detail
    )


def _as_many_as_fit(by: Asker, records: tuple[InteractionRecord, ...], *, more: bool) -> UiListed:
    """Of one frame, in their order; one fits always."""
    size, nodes, count = _ENVELOPE_BYTES, _ENVELOPE_NODES, 0
    for record in records:
        shown = record.to_wire()
        size += len(codec.encode(shown))
        nodes += node_count(shown)
        if count and (size > codec.MAX_FRAME_BYTES or nodes > codec.MAX_NODES):
            break
        count += 1
    return UiListed(request_id=by.request_id, interactions=records[:count], more=more or count < len(records))


def _of_surfaces(by: Asker, request: SurfaceOpen | SurfaceList | SurfaceGet | SurfaceUpdate | SurfaceClose) -> Ask:
    match request:
        case SurfaceOpen():
            return Ask(surfaces.open_surface, surfaces.Opening(by, request), _with_surface)
        case SurfaceUpdate():
            return Ask(surfaces.update_surface, surfaces.Updating(by, request), _with_surface)
        case SurfaceClose():
            return Ask(surfaces.close_surface, surfaces.Closing(by, request), _with_surface)
        case SurfaceGet(surface_id=surface_id):
            return Ask(
                surfaces.read_surface,
                (by.instance_id, surface_id),
                lambda found: (
                    "lineup.v1.surfaces.surface",
                    SurfaceReply(request_id=by.request_id, surface=found),
                ),
            )
        case SurfaceList():
            return Ask(
                surfaces.list_surfaces,
                by.instance_id,
                lambda found: (
                    "lineup.v1.surfaces.surfaces",
                    SurfaceListed(request_id=by.request_id, surfaces=found),
                ),
            )


def _with_receipt(receipt: CommandReceipt) -> tuple[str, WireModel]:
    return "lineup.v1.receipt", receipt


def _with_capability(receipt: CapabilityReceipt) -> tuple[str, WireModel]:
    return "lineup.v1.capabilities.receipt", receipt


def _with_surface(receipt: SurfaceReceipt) -> tuple[str, WireModel]:
    return "lineup.v1.surfaces.receipt", receipt


def _with_artifact(receipt: ArtifactReceipt) -> tuple[str, WireModel]:
    return "lineup.v1.artifacts.receipt", receipt
