"""The MiniApp that is called: `echo` says back what it is given, `hold` says a word and keeps its call open."""

from __future__ import annotations

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    @sdk.tools.handler("bench.echo")
    async def echo(call: MiniAppToolCall) -> JsonObject:
        return {"text": call.input["text"]}

    @sdk.tools.handler("bench.hold")
    async def hold(call: MiniAppToolCall) -> None:
        await sdk.tools.report_progress(call.call_id, percent=0)

    await sdk.run_until_stopped()
