"""Another app beside the probe, which only says back what it is given, or holds it."""

from __future__ import annotations

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    @sdk.tools.handler("guest.echo")
    async def echo(call: MiniAppToolCall) -> JsonObject:
        return {"text": call.input["text"]}

    @sdk.tools.handler("guest.hold")
    async def hold(call: MiniAppToolCall) -> None:
        if call.message_id is not None:
            await sdk.inbox.acknowledge(call.message_id)

    @sdk.tools.subscribe_changes
    async def changed(call: MiniAppToolCall) -> None:
        if not call.is_final:
            await sdk.tools.cancel(call.call_id)

    await sdk.run_until_stopped()
