"""Goes on when it is told to stop. Breaks `honours-stop`, on purpose."""

from __future__ import annotations

import asyncio
import contextlib

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    sdk.actions.subscribe(lambda _: None, kinds=["close"])

    @sdk.tools.handler("clings.echo")
    async def echo(call: MiniAppToolCall) -> JsonObject:
        return {"text": call.input["text"]}

    while True:  # the fault
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
