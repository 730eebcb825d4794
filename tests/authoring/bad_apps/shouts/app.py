"""Prints without end. Breaks `quiet-output`, on purpose."""

from __future__ import annotations

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    sdk.actions.subscribe(lambda _: None, kinds=["close"])

    @sdk.tools.handler("shouts.echo")
    async def echo(call: MiniAppToolCall) -> JsonObject:
        for _ in range(30):
            print("x" * 100_000)  # noqa: T201 - the fault
        return {"text": call.input["text"]}

    await sdk.run_until_stopped()
