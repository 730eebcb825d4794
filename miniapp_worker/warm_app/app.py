"""Serves calls as most apps do: with a board, reports of progress, and results."""

from __future__ import annotations

from miniapp_worker.sdk import CallFailed, InteractionRecord, JsonObject, MiniAppSDK, MiniAppToolCall, RuntimeAction

from .board import Board, Item


async def main(sdk: MiniAppSDK) -> None:
    service = Service(sdk)
    sdk.tools.handler("warm.up")(service.serve)
    sdk.tools.handler("warm.other")(service.serve)
    sdk.tools.subscribe_changes(service.changed)
    sdk.actions.subscribe(service.acted, kinds=["close"])
    sdk.ui.subscribe(service.answered)
    await sdk.run_until_stopped()


class Service:
    """The board, and the calls that it answers."""

    def __init__(self, sdk: MiniAppSDK) -> None:
        self._sdk = sdk
        self._board = Board()

    async def serve(self, call: MiniAppToolCall) -> JsonObject:
        """Serve a call. Raises CallFailed if the runtime takes no report."""
        item = self._board.put(call.call_id, call.input["text"], call.progress.data if call.progress else None)
        receipt = await self._report(call, item)
        if not receipt or call.cancel_requested:
            raise CallFailed("app.not_taken", "a report was refused")
        if call.message_id is not None and not call.is_final:
            await self._sdk.inbox.acknowledge(call.message_id)
        return {"text": item.text}

    async def changed(self, call: MiniAppToolCall) -> None:
        """Nothing changes here."""

    async def acted(self, action: RuntimeAction) -> None:
        """Nobody does anything here."""

    async def answered(self, asked: InteractionRecord) -> None:
        """Nothing is asked here."""

    async def _report(self, call: MiniAppToolCall, item: Item) -> bool:
        receipt = await self._sdk.tools.report_progress(
            call.call_id, percent=item.seen, note=item.name, data=item.summary()
        )
        return receipt.accepted
