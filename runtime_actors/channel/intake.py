"""Which requests a MiniApp may make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from runtime_actors.contract.capabilities import CapabilityRequest
from runtime_actors.contract.inbox import InboxAcknowledge, InboxList
from runtime_actors.contract.interactions import UiCancel, UiGet, UiList, UiRequest
from runtime_actors.contract.lifecycle import RequestBackground, RequestClose, RequestForeground, SendText
from runtime_actors.contract.surfaces import (
    ArtifactBegin,
    ArtifactChunk,
    SurfaceClose,
    SurfaceGet,
    SurfaceList,
    SurfaceOpen,
    SurfaceUpdate,
)
from runtime_actors.contract.tools import Cancel, Complete, Fail, ReportProgress, ToolGet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime_actors.contract.base import WireModel
    from runtime_actors.contract.envelope import Envelope

REQUESTS: Final[Mapping[str, type[WireModel]]] = {
    "lineup.v1.inbox.list": InboxList,
    "lineup.v1.inbox.acknowledge": InboxAcknowledge,
    "lineup.v1.tools.get": ToolGet,
    "lineup.v1.tools.report_progress": ReportProgress,
    "lineup.v1.tools.complete": Complete,
    "lineup.v1.tools.fail": Fail,
    "lineup.v1.tools.cancel": Cancel,
    "lineup.v1.ui.request": UiRequest,
    "lineup.v1.ui.list": UiList,
    "lineup.v1.ui.get": UiGet,
    "lineup.v1.ui.cancel": UiCancel,
    "lineup.v1.lifecycle.request_foreground": RequestForeground,
    "lineup.v1.lifecycle.request_background": RequestBackground,
    "lineup.v1.lifecycle.request_close": RequestClose,
    "lineup.v1.conversation.send_text": SendText,
    "lineup.v1.surfaces.open": SurfaceOpen,
    "lineup.v1.surfaces.list": SurfaceList,
    "lineup.v1.surfaces.get": SurfaceGet,
    "lineup.v1.surfaces.update": SurfaceUpdate,
    "lineup.v1.surfaces.close": SurfaceClose,
    "lineup.v1.artifacts.begin": ArtifactBegin,
    "lineup.v1.artifacts.chunk": ArtifactChunk,
    "lineup.v1.capabilities.request": CapabilityRequest,
}

RATED: Final = frozenset(REQUESTS) - {
    "lineup.v1.inbox.list",
    "lineup.v1.inbox.acknowledge",
    "lineup.v1.tools.get",
    "lineup.v1.tools.complete",
    "lineup.v1.tools.fail",
    "lineup.v1.tools.cancel",
    "lineup.v1.ui.list",
    "lineup.v1.ui.get",
    "lineup.v1.surfaces.list",
    "lineup.v1.surfaces.get",
}
"""What an app may ask as often as its rate allows: whatever changes something and ends no call and no message."""


def read_request(said: Envelope) -> WireModel:
    """The body of a request.

    Raises:
        pydantic.ValidationError: It does not hold.

    """
    return REQUESTS[said.type].model_validate(said.body)
