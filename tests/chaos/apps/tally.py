"""A tally in a call that stays open. Healthy: what must last is the progress of that call, and is reported first."""

from __future__ import annotations

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall


class Tally:
    """Each variant does one thing wrong, in the methods that it overrides."""

    def __init__(self, sdk: MiniAppSDK) -> None:
        self.sdk = sdk
        self.open_call = ""
        self.count: float = 0
        self.last = ""
        """The call that was added last, so that one that comes again is not added twice."""

    async def serve(self) -> None:
        self.sdk.tools.handler("tally.open")(self.open)
        self.sdk.tools.handler("tally.add")(self.add)
        self.sdk.tools.handler("tally.close")(self.close)
        self.sdk.tools.subscribe_changes(self.changed)
        await self.sdk.run_until_stopped()

    async def open(self, call: MiniAppToolCall) -> None:
        self.open_call = call.call_id
        self.remember(call)
        if call.cancel_requested:
            await self.changed(call)
            return
        await self.report()
        if call.message_id is not None:
            await self.sdk.inbox.acknowledge(call.message_id)

    def remember(self, call: MiniAppToolCall) -> None:
        """Go on where the process before this one was."""
        kept = call.progress.data if call.progress and call.progress.data else {}
        self.count, self.last = kept.get("count", 0), kept.get("last", "")

    async def add(self, call: MiniAppToolCall) -> None:
        if self.last != call.call_id:
            self.count += call.input["number"]
            self.last = call.call_id
        await self.settle(call, {"count": self.count})

    async def settle(self, call: MiniAppToolCall, result: JsonObject) -> None:
        await self.report()
        await self.sdk.tools.complete(call.call_id, result)

    async def close(self, call: MiniAppToolCall) -> None:
        await self.sdk.tools.complete(self.open_call, {"count": self.count})
        await self.sdk.tools.complete(call.call_id, {})

    async def changed(self, call: MiniAppToolCall) -> None:
        if call.cancel_requested and not call.is_final:
            await self.sdk.tools.cancel(call.call_id, "as you wish")

    async def report(self) -> None:
        kept: JsonObject = {"count": self.count, "last": self.last}
        await self.sdk.tools.report_progress(self.open_call, percent=self.count, data=kept)
