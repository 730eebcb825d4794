"""What an app may wish about its own life (seed section 3.3), and what a person does to it in a host."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, StringConstraints

from runtime_actors.contract.base import Reason, WireModel
from runtime_actors.contract.payload import SideData

ActionName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]
ActionId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
MAX_TEXT_BYTES: Final = 65_536


def _check_size(text: str) -> str:
    if len(text.encode()) > MAX_TEXT_BYTES:
        detail = f"it takes more than {MAX_TEXT_BYTES} bytes"
        raise ValueError(detail)
    return text


PersonsText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT_BYTES), AfterValidator(_check_size)]
ActionKind = Literal["focus", "close", "force_close", "app", "text", "surface.update", "surface.submit", "surface.ask"]


class RequestForeground(WireModel):
    """`lineup.v1.lifecycle.request_foreground`, answered with a receipt."""


class RequestBackground(WireModel):
    """`lineup.v1.lifecycle.request_background`, answered with a receipt."""


class RequestClose(WireModel):
    """`lineup.v1.lifecycle.request_close`, answered with a receipt."""

    reason: Reason | None = None


class SendText(WireModel):
    """`lineup.v1.conversation.send_text`: what a person wrote, for the agent. Only for apps of kind `system`."""

    text: PersonsText
    action_id: ActionId | None = None
    """The action that brought it: sent once for it, and acknowledged with it."""


class RuntimeAction(WireModel):
    """What a person did in a host, as the app's inbox brings it. Who it was stays with the runtime."""

    action_id: str
    kind: ActionKind
    name: ActionName | None = None
    """Of an app's own action."""
    text: str | None = None
    surface_id: str | None = None
    revision: int | None = None
    """Of the surface after a `surface.update`."""
    data: SideData | None = None
