"""Returns what its manifest does not allow. Breaks `valid-outputs`, on purpose."""

from __future__ import annotations

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    sdk.actions.subscribe(lambda _: None, kinds=["close"])

    @sdk.tools.handler("lies.echo")
    async def echo(call: MiniAppToolCall) -> JsonObject:
        return {"text": call.input["text"] + "!"}  # the fault: one more than the most

    await sdk.run_until_stopped()
