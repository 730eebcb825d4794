"""Ends its process when it has served a call. Breaks `stays-alive`, on purpose."""

from __future__ import annotations

import asyncio

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    sdk.actions.subscribe(lambda _: None, kinds=["close"])

    served = asyncio.Event()

    @sdk.tools.handler("leaves.echo")
    async def echo(call: MiniAppToolCall) -> JsonObject:
        served.set()
        return {"text": call.input["text"]}

    await served.wait()  # the fault: it returns
