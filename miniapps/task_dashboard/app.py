"""Task Dashboard. The call that opens a task stays open as long as the task.

It keeps nothing that it cannot get back: the state of a task is the progress of its call. After a restart the call
comes again with its input and its newest progress, and the task goes on from there.
"""

from __future__ import annotations

from miniapp_worker.sdk import CallFailed, CommandReceipt, JsonObject, MiniAppSDK, MiniAppToolCall

from .board import Board, Task


async def main(sdk: MiniAppSDK) -> None:
    dashboard = Dashboard(sdk)
    sdk.tools.handler("task-dashboard.open")(dashboard.open)
    sdk.tools.handler("task-dashboard.update")(dashboard.update)
    sdk.tools.subscribe_changes(dashboard.changed)
    await sdk.run_until_stopped()


class Dashboard:
    """The board, and the calls that it answers."""

    def __init__(self, sdk: MiniAppSDK) -> None:
        self._sdk = sdk
        self._board = Board()

    async def open(self, call: MiniAppToolCall) -> JsonObject | None:
        """Serve `task-dashboard.open`; the call is ended by an update, or by a wish to cancel it."""
        task = self._board.open(call.call_id, call.input, call.progress.data if call.progress else None)
        if task.has_ended:  # and the process did before it could say so
            return {"status": task.status}
        if call.cancel_requested:
            await self._cancel(call)
            return None
        await self._report(task)
        if call.message_id is not None and not call.is_final:
            await self._sdk.inbox.acknowledge(call.message_id)
        return None

    async def update(self, call: MiniAppToolCall) -> None:
        """Serve `task-dashboard.update`."""
        task = self._board.update(call.input, repeated=call.repeated)
        if not task.has_ended or not call.repeated:
            # First of all, because this is what makes the change last.
            receipt = await self._report(task)
            if not receipt.accepted:
                raise CallFailed("app.task_not_found", "the task has ended meanwhile")
        await self._sdk.tools.complete(call.call_id, task.summary())
        if task.has_ended:
            await self._sdk.tools.complete(self._board.call_of(task.task_id), {"status": task.status})

    async def changed(self, call: MiniAppToolCall) -> None:
        """Follow what becomes of open calls without the app's doing."""
        if call.is_final:
            self._board.end_call(call.call_id)
        elif self._board.has_call(call.call_id):
            await self._cancel(call)

    async def _cancel(self, call: MiniAppToolCall) -> None:
        self._board.end_call(call.call_id)
        await self._sdk.tools.cancel(call.call_id, "the task was cancelled")

    async def _report(self, task: Task) -> CommandReceipt:
        return await self._sdk.tools.report_progress(
            self._board.call_of(task.task_id), percent=task.progress, note=task.status, data=task.summary()
        )
