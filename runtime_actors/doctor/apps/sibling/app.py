from __future__ import annotations

from miniapp_worker.sdk import MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    @sdk.tools.handler("sibling.hold")
    async def hold(call: MiniAppToolCall) -> None:
        await sdk.tools.report_progress(call.call_id, note=call.message_id)

    await sdk.run_until_stopped()
