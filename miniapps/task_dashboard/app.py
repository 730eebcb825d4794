"""Task Dashboard. The call that opens a task stays open as long as the task.

It keeps nothing that it cannot get back: the state of a task is the progress of its call. After a restart the call
comes again with its input and its newest progress, and the task goes on from there. Its questions have keys, so that
what was asked before a restart is not asked again after it.
"""

from __future__ import annotations

import asyncio

from miniapp_worker.sdk import (
    CallFailed,
    CommandReceipt,
    InteractionRecord,
    JsonObject,
    MiniAppSDK,
    MiniAppToolCall,
    RequestRefused,
    RuntimeAction,
)

from .board import Board, Task

CLOSING = "close-"
"""Begins the key of a question whether to close."""


async def main(sdk: MiniAppSDK) -> None:
    dashboard = Dashboard(sdk)
    sdk.tools.handler("task-dashboard.open")(dashboard.open)
    sdk.tools.handler("task-dashboard.update")(dashboard.update)
    sdk.tools.subscribe_changes(dashboard.changed)
    sdk.actions.subscribe(dashboard.close, kinds=["close"])
    sdk.ui.subscribe(dashboard.answered)
    await sdk.run_until_stopped()


class Dashboard:
    """The board, and the calls that it answers."""

    def __init__(self, sdk: MiniAppSDK) -> None:
        self._sdk = sdk
        self._board = Board()
        self._is_closing = False
        """The person closed it; after a restart this may be known before the calls have come again."""
        self._news = asyncio.Event()
        """Set, and replaced, when tasks or calls have changed."""

    async def open(self, call: MiniAppToolCall) -> JsonObject | None:
        """Serve `task-dashboard.open`; the call is ended by an update, or by a wish to cancel it."""
        task = self._board.open(call.call_id, call.input, call.progress.data if call.progress else None)
        self._tell()
        if task.has_ended:  # and the process did before it could say so
            return {"status": task.status}
        if call.cancel_requested:
            await self._cancel(call)
            return None
        self._is_closing = self._is_closing and call.repeated
        if self._is_closing:
            await self._close_task(call.call_id)
            return None
        await self._report(task)
        if call.message_id is not None and not call.is_final:
            await self._sdk.inbox.acknowledge(call.message_id)
        if call.input.get("ask_description") and task.description is None:
            await self._ask_description(call, task)
        return None

    async def _ask_description(self, call: MiniAppToolCall, task: Task) -> None:
        """Ask the person what the task is about. Without an answer it goes on without a description."""
        field = {"id": "description", "label": "Description", "type": "textarea", "required": True, "max_length": 2000}
        asked = {"kind": "input", "title": "What is this task about?", "prompt": task.title, "fields": [field]}
        try:
            answer = await self._sdk.ui.ask(asked, parent_call_id=call.call_id, key="description")
        except RequestRefused:
            return
        written = (answer.result or {}).get("values", {}).get("description")
        if written and self._board.has_call(call.call_id):
            await self._report(self._board.describe(task.task_id, written))

    async def close(self, action: RuntimeAction) -> None:
        """The person wants to close the dashboard: with unfinished tasks, only if that is meant."""
        while not (unfinished := self._board.open_tasks()):
            news = self._news
            receipt = await self._sdk.lifecycle.request_close("closed by the person")
            if receipt.code != "lifecycle_denied":
                return
            await news.wait()  # a call is open: after a restart it may come behind this action
        titles = ", ".join(task.title for task in unfinished)[:1000]
        asked = {"kind": "confirm", "title": "Close the dashboard?", "prompt": f"Not finished yet: {titles}"}
        await self._sdk.ui.request(asked, key=f"{CLOSING}{action.action_id}")

    async def answered(self, asked: InteractionRecord) -> None:
        """Close the dashboard if the person meant it: the end of the last task's call does that."""
        if (asked.key or "").startswith(CLOSING) and (asked.result or {}).get("approved"):
            self._is_closing = True
            for task in self._board.open_tasks():
                await self._close_task(self._board.call_of(task.task_id))

    async def _close_task(self, call_id: str) -> None:
        self._board.end_call(call_id)
        await self._sdk.tools.cancel(call_id, "the person closed the dashboard")

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

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
        self._tell()

    async def changed(self, call: MiniAppToolCall) -> None:
        """Follow what becomes of open calls without the app's doing."""
        if call.is_final:
            self._board.end_call(call.call_id)
        elif self._board.has_call(call.call_id):
            await self._cancel(call)
        self._tell()

    async def _cancel(self, call: MiniAppToolCall) -> None:
        self._board.end_call(call.call_id)
        await self._sdk.tools.cancel(call.call_id, "the task was cancelled")

    async def _report(self, task: Task) -> CommandReceipt:
        return await self._sdk.tools.report_progress(
            self._board.call_of(task.task_id), percent=task.progress, note=task.status, data=task.summary()
        )
