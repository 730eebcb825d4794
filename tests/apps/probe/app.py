"""The MiniApp of the fault tests: its log says what it was given and said, and its results prove that it made them."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable

from miniapp_worker.sdk import CommandReceipt, JsonObject, MiniAppMessage, MiniAppSDK, MiniAppToolCall

BEHAVIOURS = ("echo", "slow", "hold", "once", "brief", "fail", "bad", "die", "exact", "late", "operate")


async def main(sdk: MiniAppSDK) -> None:
    probe = Probe(sdk)
    scope = sdk.context.app_scope
    for name in (*BEHAVIOURS, "move", "leave"):
        sdk.tools.handler(f"{scope}.{name}")(probe.logged(getattr(probe, name)))
    sdk.tools.subscribe_changes(probe.changed)
    sdk.inbox.subscribe(probe.text)
    await sdk.run_until_stopped()


Serve = Callable[[MiniAppToolCall], Awaitable[JsonObject | None]]


class Probe:
    """One behaviour a tool."""

    def __init__(self, sdk: MiniAppSDK) -> None:
        self._sdk = sdk
        self._requests = itertools.count(1)
        self._held: dict[str, MiniAppToolCall] = {}
        self._ends: dict[str, asyncio.Event] = {}

    def log(self, what: str, **fields: object) -> None:
        """A line of this process's history (docs/history.md)."""
        context = self._sdk.context
        row = {"what": what, "at": time.monotonic(), "by": f"{context.app_scope}-{os.getpid()}", "pid": os.getpid()}
        row |= {"conversation": context.conversation_id, "scope": context.app_scope}
        print(json.dumps(row | fields), flush=True)  # noqa: T201 - the worker's log

    async def ask(self, kind: str, body: JsonObject, asking: Awaitable[CommandReceipt]) -> CommandReceipt:
        """Send a request, and write down before and after what it is and how it went."""
        request = f"{os.getpid()}/{next(self._requests)}"
        self.log("invoke", id=request, kind=kind, body=body)
        receipt = await asking
        self.log("ok" if receipt.accepted else "fail", id=request, code=receipt.code)
        return receipt

    def logged(self, serve: Serve) -> Serve:
        async def logging(call: MiniAppToolCall) -> JsonObject | None:
            self.log(
                "given", message_id=call.message_id, call_id=call.call_id, tool=call.tool_id, repeated=call.repeated
            )
            return await serve(call)

        return logging

    # --- tools ---

    async def echo(self, call: MiniAppToolCall) -> JsonObject:
        return self._result(call)

    async def exact(self, call: MiniAppToolCall) -> JsonObject:
        """The same bytes whatever process answers."""
        return {"text": call.input["text"]}

    async def operate(self, call: MiniAppToolCall) -> JsonObject:
        return self._result(call)

    async def slow(self, call: MiniAppToolCall) -> None:
        await self._take_over(call)
        begun = call.progress.percent if call.progress and call.progress.percent else 0
        for step in range(int(begun), int(call.input.get("steps", 3))):
            progress = self._sdk.tools.report_progress(call.call_id, percent=step + 1, note=f"step {step + 1}")
            await self.ask("tools.report_progress", {"call_id": call.call_id, "percent": step + 1}, progress)
            await asyncio.sleep(call.input.get("step_ms", 20) / 1000)
        await self._complete(call)

    async def hold(self, call: MiniAppToolCall) -> None:
        await self._take_over(call)
        self._held[call.call_id] = call
        if call.cancel_requested:
            await self.changed(call)

    async def once(self, call: MiniAppToolCall) -> None:
        await self.slow(call)

    async def brief(self, call: MiniAppToolCall) -> None:
        await self._take_over(call)

    async def late(self, call: MiniAppToolCall) -> None:
        """Answer after the deadline of the tool."""
        await self._take_over(call)
        ended = self._ends.setdefault(call.call_id, asyncio.Event())
        await ended.wait()
        await self._complete(call)

    async def move(self, call: MiniAppToolCall) -> JsonObject:
        """To the front, if it may, and out of the way again."""
        await self._sdk.lifecycle.request_foreground()
        await self._sdk.lifecycle.request_background()
        return self._result(call)

    async def leave(self, call: MiniAppToolCall) -> None:
        """End the instance, unless it has other calls."""
        await self._complete(call)
        await self._sdk.lifecycle.request_close()

    async def fail(self, call: MiniAppToolCall) -> None:
        failing = self._sdk.tools.fail(call.call_id, code="app.nope", message="it was asked to")
        await self.ask("tools.fail", {"call_id": call.call_id}, failing)

    async def bad(self, call: MiniAppToolCall) -> None:
        """Say the wrong thing three times."""
        for _ in range(3):
            await self._complete(call, {"wrong": True})

    async def die(self, call: MiniAppToolCall) -> JsonObject | None:
        """Be killed in the middle, as often as the input says."""
        if not call.repeated or call.input.get("always"):
            if call.input.get("after_ack"):
                await self._take_over(call)
            os.kill(os.getpid(), signal.SIGKILL)
        return self._result(call)

    # --- news ---

    async def changed(self, call: MiniAppToolCall) -> None:
        self.log("changed", call_id=call.call_id, status=call.status, cancel_requested=call.cancel_requested)
        if call.is_final and call.call_id in self._ends:
            self._ends.pop(call.call_id).set()
        held = self._held.pop(call.call_id, None)
        if held is None or call.is_final:
            return
        if call.input.get("complete_on_cancel"):
            await self._complete(call)
        else:
            cancelling = self._sdk.tools.cancel(call.call_id, "as you wish")
            await self.ask("tools.cancel", {"call_id": call.call_id}, cancelling)

    async def text(self, message: MiniAppMessage) -> None:
        text = message.message.text if message.message else ""
        self.log("given", message_id=message.message_id, text=text, repeated=message.repeated)
        if text == "release":
            for call in list(self._held.values()):
                self._held.pop(call.call_id)
                await self._complete(call)
        if text != "keep":
            await self._acknowledge(message.message_id)

    # --- saying ---

    async def _take_over(self, call: MiniAppToolCall) -> None:
        if call.message_id is not None:
            await self._acknowledge(call.message_id)

    async def _acknowledge(self, message_id: str) -> None:
        await self.ask("inbox.acknowledge", {"message_id": message_id}, self._sdk.inbox.acknowledge(message_id))

    async def _complete(self, call: MiniAppToolCall, result: JsonObject | None = None) -> None:
        result = self._result(call) if result is None else result
        body: JsonObject = {"call_id": call.call_id, "result": result}
        await self.ask("tools.complete", body, self._sdk.tools.complete(call.call_id, result))

    def _result(self, call: MiniAppToolCall) -> JsonObject:
        return {"text": call.input["text"], "by": os.getpid()}
