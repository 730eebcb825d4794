"""What an app may wish about its own place; the runtime decides (seed section 3.3)."""

from __future__ import annotations

from pydantic import ValidationError

from miniapp_worker.context import State
from miniapp_worker.listeners import Listener, Listeners, Unsubscribe
from miniapp_worker.pending import Pending, refused
from runtime_actors.contract.lifecycle import RequestBackground, RequestClose, RequestForeground
from runtime_actors.contract.tools import CommandReceipt


class MiniAppLifecycle:
    """Each request is answered with a receipt; a refusal has the code `lifecycle_denied` and says why."""

    def __init__(self, pending: Pending, states: Listeners[State]) -> None:
        self._pending = pending
        self._states = states

    async def request_foreground(self) -> CommandReceipt:
        """Come to the front. Refused while another app is there, and for a minute after a person sent this one away."""
        return await self._pending.wish("lineup.v1.lifecycle.request_foreground", RequestForeground().to_wire())

    async def request_background(self) -> CommandReceipt:
        """Give the front to whoever is behind. Refused while a call is open whose tool requires the foreground."""
        return await self._pending.wish("lineup.v1.lifecycle.request_background", RequestBackground().to_wire())

    async def request_close(self, reason: str | None = None) -> CommandReceipt:
        """End this instance for good. Refused while it has open calls or surfaces. Once granted, the process ends.

        Raises:
            PayloadRefused: `reason` is too long.

        """
        try:
            body = RequestClose(reason=reason)
        except ValidationError as error:
            raise refused(error) from None
        return await self._pending.wish("lineup.v1.lifecycle.request_close", body.to_wire())

    def subscribe(self, listener: Listener[State]) -> Unsubscribe:
        """Be told each state that `sdk.context.state` changes to; `suspended` shortly before the process is stopped."""
        return self._states.subscribe(listener)
