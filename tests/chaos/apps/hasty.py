"""Says that it is done before it has reported what must last."""

from __future__ import annotations

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall

from .tally import Tally


async def main(sdk: MiniAppSDK) -> None:
    await Hasty(sdk).serve()


class Hasty(Tally):
    async def settle(self, call: MiniAppToolCall, result: JsonObject) -> None:
        await self.sdk.tools.complete(call.call_id, result)
        await self.report()
