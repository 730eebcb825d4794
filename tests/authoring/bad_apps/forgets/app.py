"""Thinks that a call which comes again was served already. Breaks `survives-kills`, on purpose."""

from __future__ import annotations

from miniapp_worker.sdk import MiniAppSDK, MiniAppToolCall


async def main(sdk: MiniAppSDK) -> None:
    sdk.actions.subscribe(lambda _: None, kinds=["close"])

    @sdk.tools.handler("forgets.hold")
    async def hold(call: MiniAppToolCall) -> None:
        if call.cancel_requested:
            await sdk.tools.cancel(call.call_id)
        elif not call.repeated:  # the fault
            await sdk.tools.report_progress(call.call_id, percent=0)

    async def changed(call: MiniAppToolCall) -> None:
        if not call.is_final:
            await sdk.tools.cancel(call.call_id)

    sdk.tools.subscribe_changes(changed)
    await sdk.run_until_stopped()
