"""Completes a call twice, with different results."""

from __future__ import annotations

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall

from .tally import Tally


async def main(sdk: MiniAppSDK) -> None:
    await Fickle(sdk).serve()


class Fickle(Tally):
    async def settle(self, call: MiniAppToolCall, result: JsonObject) -> None:
        await super().settle(call, result)
        await self.sdk.tools.complete(call.call_id, {"count": -1})
