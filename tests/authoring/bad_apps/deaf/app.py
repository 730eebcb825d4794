"""Does not look whether a call was cancelled before it came. Breaks `honours-cancel`, on purpose."""

from __future__ import annotations

from miniapp_worker.sdk import MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    sdk.actions.subscribe(lambda _: None, kinds=["close"])

    @sdk.tools.handler("deaf.hold")
    async def hold(call: MiniAppToolCall) -> None:
        await sdk.tools.report_progress(call.call_id, percent=0)  # the fault: not a look at call.cancel_requested

    async def changed(call: MiniAppToolCall) -> None:
        if not call.is_final:
            await sdk.tools.cancel(call.call_id)

    sdk.tools.subscribe_changes(changed)
    await sdk.run_until_stopped()
