"""Sleeps on the event loop. Breaks `answers-beats`, on purpose."""

from __future__ import annotations

import time

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    sdk.actions.subscribe(lambda _: None, kinds=["close"])

    @sdk.tools.handler("blocks.echo")
    async def echo(call: MiniAppToolCall) -> JsonObject:
        if call.input["text"]:
            time.sleep(8)  # noqa: ASYNC251 - the fault
        return {"text": call.input["text"]}

    await sdk.run_until_stopped()
