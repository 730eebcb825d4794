"""`sdk.capabilities`: what lies beyond the app's own process, and is asked for each time (seed section 3.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from pydantic import ValidationError

from miniapp_worker.listeners import Listener, Listeners, Unsubscribe
from miniapp_worker.pending import Pending, refused
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.capabilities import CapabilityDecision, CapabilityReceipt, CapabilityRequest
from runtime_actors.contract.inbox import MiniAppMessage

_REMEMBERED: Final = 64
"""Decisions."""


class MiniAppCapabilities:
    """Only what the manifest declares can be had, and only if policy or a person allows it."""

    def __init__(
        self, pending: Pending, decisions: Listeners[MiniAppMessage], acknowledge: Callable[[str], Awaitable[object]]
    ) -> None:
        self._pending = pending
        self._decisions = decisions
        self._acknowledge = acknowledge
        self._said: dict[str, CapabilityDecision] = {}
        """By grant: another wait for the same one may begin when its message has been handed out."""

    async def request(self, capability: str, reason: str, arguments: JsonObject | None = None) -> CapabilityReceipt:
        """Ask the runtime, which decides at once or asks the person: `decision` is granted, denied or asking.

        `reason` is one line in the app's own words, shown to the person as such. A yes for once is used up by the
        request that is `granted`. A refusal for another cause has no `decision`.

        Raises:
            PayloadRefused: an argument does not hold, or breaks the intake rule. Nothing was sent.

        """
        try:
            body = CapabilityRequest(capability=capability, reason=reason, arguments=arguments or {})
        except ValidationError as error:
            raise refused(error) from None
        answer = await self._pending.request("lineup.v1.capabilities.request", body.to_wire())
        receipt = CapabilityReceipt.model_validate(
            {name: value for name, value in answer.items() if name in CapabilityReceipt.model_fields}
        )
        if receipt.decision in {"granted", "denied"}:
            await self._forget_older(capability)
        return receipt

    async def ask(self, capability: str, reason: str, arguments: JsonObject | None = None) -> CapabilityReceipt:
        """As `request`, and wait for the person: the receipt is granted, denied, or a refusal for another cause.

        A process that dies meanwhile loses nothing: the next one asks again and is told what the person said.

        Raises:
            PayloadRefused: an argument does not hold, or breaks the intake rule. Nothing was sent.

        """
        while (receipt := await self.request(capability, reason, arguments)).decision == "asking":
            decision = await self._decided(receipt.grant_id)
            if decision.decision == "denied":
                return receipt.model_copy(
                    update={"accepted": False, "decision": "denied", "code": "permission_declined"}
                )
        return receipt

    def subscribe(self, listener: Listener[CapabilityDecision]) -> Unsubscribe:
        """Be told what persons said, for those who `request` and do not wait. It is acknowledged by being told.

        What came before the first subscription is handed over at once.
        """

        async def take(message: MiniAppMessage) -> None:
            assert message.capability is not None  # noqa: S101 - the session hands on nothing else
            await self._acknowledge(message.message_id)
            outcome = listener(message.capability)
            if outcome is not None:
                await outcome

        return self._decisions.subscribe(take)

    async def _forget_older(self, capability: str) -> None:
        """What an earlier process asked was decided, and nobody here waits for it: the receipt says as much."""

        def is_older(message: MiniAppMessage) -> bool:
            return message.capability is not None and message.capability.capability == capability

        for message in self._decisions.take_kept(is_older):
            await self._acknowledge(message.message_id)

    async def _decided(self, grant_id: str | None) -> CapabilityDecision:
        known = self._said.get(grant_id or "")
        if known is not None:
            return known
        came: asyncio.Future[MiniAppMessage] = asyncio.get_running_loop().create_future()

        def take(message: MiniAppMessage) -> None:
            if message.capability is not None:
                self._said[message.capability.grant_id or ""] = message.capability
                while len(self._said) > _REMEMBERED:
                    del self._said[next(iter(self._said))]
            if not came.done():
                came.set_result(message)

        def wants(message: MiniAppMessage) -> bool:
            return message.capability is not None and message.capability.grant_id == grant_id

        unsubscribe = self._decisions.subscribe(take, wants)
        try:
            message = await came
        finally:
            unsubscribe()
        await self._acknowledge(message.message_id)
        assert message.capability is not None  # noqa: S101 - `wants` says so
        return message.capability
