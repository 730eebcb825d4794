"""Which requests a MiniApp may make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from runtime_actors.contract.inbox import InboxAcknowledge, InboxList
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
}


def read_request(said: Envelope) -> WireModel:
    """The body of a request.

    Raises:
        pydantic.ValidationError: It does not hold.

    """
    return REQUESTS[said.type].model_validate(said.body)
