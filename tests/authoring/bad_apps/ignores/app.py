"""Declares a tool that nobody serves. Breaks `serves-tools`, on purpose."""

from __future__ import annotations

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    sdk.actions.subscribe(lambda _: None, kinds=["close"])

    @sdk.tools.handler("ignores.echo")
    async def echo(call: MiniAppToolCall) -> JsonObject:
        return {"text": call.input["text"]}

    await sdk.run_until_stopped()  # the fault: nobody serves ignores.hold
