"""Where a MiniApp runs, as far as it may know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from runtime_actors.contract.session import MiniAppContextModel

State = Literal["starting", "foreground", "background", "suspended"]
Mode = Literal["im", "audio", "video"]


class MiniAppContext:
    """Written by the runtime and always current; an app can only read it (seed section 3)."""

    __slots__ = ("__now",)

    def __init__(self, now: Callable[[], MiniAppContextModel]) -> None:
        self.__now = now

    @property
    def app_scope(self) -> str:
        return self.__now().app_scope

    @property
    def instance_id(self) -> str:
        return self.__now().instance_id

    @property
    def conversation_id(self) -> str:
        return self.__now().conversation_id

    @property
    def app_version(self) -> str:
        return self.__now().app_version

    @property
    def state(self) -> State:
        return self.__now().state

    @property
    def mode(self) -> Mode | None:
        """How Interact talks with the person: always `im` now. None for every other app."""
        return self.__now().mode

    def __repr__(self) -> str:
        return f"MiniAppContext({self.__now()!r})"
