"""A checklist: the call of `example.start` stays open until each of its steps was ticked by `example.tick`.

What was ticked is kept in the progress of the open call, and nowhere else. The runtime has that on its disk: when this
process dies, the next one is given the same call with the newest progress, and goes on.
"""

from __future__ import annotations

from miniapp_worker.sdk import CallFailed, JsonObject, MiniAppSDK, MiniAppToolCall, RuntimeAction


async def main(sdk: MiniAppSDK) -> None:
    checklist = Checklist(sdk)
    sdk.tools.handler("example.start")(checklist.start)
    sdk.tools.handler("example.tick")(checklist.tick)
    sdk.tools.handler("example.clear")(checklist.clear)
    sdk.tools.subscribe_changes(checklist.changed)
    sdk.actions.subscribe(checklist.close, kinds=["close"])
    await sdk.run_until_stopped()


class Checklist:
    """One at a time in a conversation."""

    def __init__(self, sdk: MiniAppSDK) -> None:
        self._sdk = sdk
        self._call: MiniAppToolCall | None = None
        self._ticked: list[str] = []
        self._is_closing = False

    async def start(self, call: MiniAppToolCall) -> JsonObject | None:
        """Returning None leaves the call open: it is ended later."""
        if self._call and not self._call.is_final:
            raise CallFailed("app.already_open", "end the checklist that is open first")
        self._call = call
        known = call.progress.data if call.progress else None  # reported by an earlier process
        self._ticked = list(known["ticked"]) if known else []
        if call.cancel_requested or (self._is_closing and call.repeated):  # wished while no process was there
            await self._sdk.tools.cancel(call.call_id)
        elif not self._left:
            return {"ticked": self._ticked}
        else:
            await self._remember(call)
        return None

    async def tick(self, call: MiniAppToolCall) -> JsonObject | None:
        opened = self._call
        if opened is None or opened.is_final:
            return _without_checklist(call)
        step = call.input["step"]
        if step not in opened.input["steps"]:
            raise CallFailed("app.unknown_step", "the checklist has no such step")
        if step not in self._ticked:  # the same call may come twice
            self._ticked.append(step)
        # In this order a kill in between loses nothing: remember, then answer, then end the call that remembers.
        if not await self._remember(opened):
            return _without_checklist(call)
        await self._sdk.tools.complete(call.call_id, {"left": len(self._left)})
        if not self._left:
            await self._sdk.tools.complete(opened.call_id, {"ticked": self._ticked})
        return None

    async def clear(self, call: MiniAppToolCall) -> JsonObject | None:
        opened = self._call
        if opened is None or opened.is_final:
            return _without_checklist(call)
        if call.cancel_requested:
            await self._sdk.tools.cancel(call.call_id)
            return None
        # By its key it is the same question after a restart, which may have been answered meanwhile.
        approved = await self._sdk.ui.confirm(
            "Start over?", "Every step counts as not done.", parent_call_id=call.call_id, key="clear"
        )
        if approved:
            self._ticked = []
            await self._remember(opened)
        return {"left": len(self._left)}

    async def changed(self, call: MiniAppToolCall) -> None:
        """The agent wants a call no longer, or the runtime has ended it."""
        if call.tool_id != "example.tick" and not call.is_final:  # a tick is over in no time
            await self._sdk.tools.cancel(call.call_id)

    async def close(self, _: RuntimeAction) -> None:
        """The person wants the app closed, and hosts show one as hanging that does not listen: nothing more is ticked.

        After a restart this may come before the open call does.
        """
        self._is_closing = True
        if self._call and not self._call.is_final:
            await self._sdk.tools.cancel(self._call.call_id, "the person closed the checklist")
        await self._sdk.lifecycle.request_close("closed by the person")  # refused while a call is open

    @property
    def _left(self) -> set[str]:
        return set(self._call.input["steps"]) - set(self._ticked) if self._call else set()

    async def _remember(self, call: MiniAppToolCall) -> bool:
        percent = 100 * len(self._ticked) / len(set(call.input["steps"]))
        receipt = await self._sdk.tools.report_progress(call.call_id, percent=percent, data={"ticked": self._ticked})
        return receipt.accepted


def _without_checklist(call: MiniAppToolCall) -> JsonObject:
    if call.repeated:  # the checklist has ended since, perhaps by this very call: the process died before it said so
        return {"left": 0}
    raise CallFailed("app.nothing_open", "start a checklist first")
