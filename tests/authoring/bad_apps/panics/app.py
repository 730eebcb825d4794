"""Ends when it hears of a call that is over. Breaks `late-news`, on purpose."""

from __future__ import annotations

import os

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    sdk.actions.subscribe(lambda _: None, kinds=["close"])

    @sdk.tools.handler("panics.echo")
    async def echo(call: MiniAppToolCall) -> JsonObject:
        receipt = await sdk.tools.complete(call.call_id, {"text": call.input["text"]})
        if not receipt.accepted:
            os._exit(1)  # the fault
        return {"text": call.input["text"]}

    await sdk.run_until_stopped()
