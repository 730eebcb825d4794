"""Does not expect the shortest input that its manifest allows. Breaks `valid-inputs`, on purpose."""

from __future__ import annotations

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    sdk.actions.subscribe(lambda _: None, kinds=["close"])

    @sdk.tools.handler("stumbles.echo")
    async def echo(call: MiniAppToolCall) -> JsonObject:
        first, *rest = call.input["text"]  # the fault: there may be none
        return {"text": first + "".join(rest)}

    await sdk.run_until_stopped()
