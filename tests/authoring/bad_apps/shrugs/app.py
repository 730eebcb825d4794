"""Does not listen when the person wants it closed. Breaks `takes-close`, on purpose."""

from __future__ import annotations

from miniapp_worker.sdk import MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    @sdk.tools.handler("shrugs.hold")
    async def hold(call: MiniAppToolCall) -> None:
        if call.cancel_requested:
            await sdk.tools.cancel(call.call_id)
        else:
            await sdk.tools.report_progress(call.call_id, percent=0)

    async def changed(call: MiniAppToolCall) -> None:
        if not call.is_final:
            await sdk.tools.cancel(call.call_id)

    sdk.tools.subscribe_changes(changed)
    await sdk.run_until_stopped()  # the fault: nobody subscribed to sdk.actions
