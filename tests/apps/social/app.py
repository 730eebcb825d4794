"""The MiniApp of the fault tests that deals with a person. Its log says what it asked for and what it was told."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import time
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from miniapp_worker.sdk import (
    InteractionRecord,
    JsonObject,
    MiniAppSDK,
    MiniAppToolCall,
    RequestRefused,
    RuntimeAction,
)

_OPEN: Final = ("pending", "presented")
_SOON_S: Final = 0.3
"""How long a question that nobody answers is open."""
_PATIENCE_S: Final = 1.0
"""How long a surface waits for a submit."""


async def main(sdk: MiniAppSDK) -> None:
    social = Social(sdk)
    for name in ("ask", "draw", "move", "wish", "guarded", "show"):
        sdk.tools.handler(f"social.{name}")(getattr(social, name))
    sdk.actions.subscribe(social.acted)
    sdk.ui.subscribe(social.told)
    await sdk.run_until_stopped()


def a_question(text: str) -> dict[str, Any]:
    """By the first word of a call's text."""
    title = text.split(maxsplit=1)[0]
    match title:
        case "draft" | "wait":
            field = {"id": "name", "label": "Name", "type": "text"}
            return {"kind": "input", "title": title, "prompt": text, "fields": [field]}
        case "choose":
            actions = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]
            return {"kind": "choice", "title": title, "prompt": text, "mode": "multi-choice", "actions": actions}
        case "notice":
            return {"kind": "notice", "title": title, "message": text}
        case _:
            return {"kind": "confirm", "title": title, "prompt": text}


class Social:
    """One behaviour a tool."""

    def __init__(self, sdk: MiniAppSDK) -> None:
        self._sdk = sdk
        self._requests = itertools.count(1)
        self._submitted = asyncio.Event()

    def log(self, what: str, **fields: object) -> None:
        """A line of this process's history (docs/history.md)."""
        context = self._sdk.context
        row = {"what": what, "at": time.monotonic(), "by": f"{context.app_scope}-{os.getpid()}", "pid": os.getpid()}
        row |= {"conversation": context.conversation_id, "scope": context.app_scope}
        print(json.dumps(row | fields), flush=True)  # noqa: T201 - the worker's log

    async def said(self, kind: str, body: JsonObject, asking: Awaitable[Any]) -> Any:  # noqa: ANN401 - a receipt
        """Send a request, and write down before and after what it is and how it went."""
        request = f"{os.getpid()}/{next(self._requests)}"
        self.log("invoke", id=request, kind=kind, body=body)
        receipt = await asking
        answer = {
            name: value
            for name in ("surface_id", "revision", "decision")
            if (value := getattr(receipt, name, None)) is not None
        }
        self.log("ok" if receipt.accepted else "fail", id=request, code=receipt.code, body=answer)
        return receipt

    async def _take_over(self, call: MiniAppToolCall) -> None:
        self.log("given", message_id=call.message_id, call_id=call.call_id, tool=call.tool_id, repeated=call.repeated)
        if call.message_id is not None:
            acknowledging = self._sdk.inbox.acknowledge(call.message_id)
            await self.said("inbox.acknowledge", {"message_id": call.message_id}, acknowledging)

    def _result(self, call: MiniAppToolCall) -> JsonObject:
        return {"text": call.input["text"]}

    # --- questions ---

    async def ask(self, call: MiniAppToolCall) -> JsonObject:
        await self._take_over(call)
        text = call.input["text"]
        how: dict[str, Any] = {"key": call.call_id} if text.startswith("wait") else {"key": "q"}
        if not text.startswith("wait"):  # which outlives its call
            how["parent_call_id"] = call.call_id
        if text.startswith("expire"):
            until = datetime.now(UTC) + timedelta(seconds=_SOON_S)
            how["expires_at"] = until.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        question = a_question(text)
        asked = {"request": question, **how}
        receipt = await self.said("ui.request", asked, self._sdk.ui.request(question, **how))
        if "parent_call_id" in how and receipt.interaction is not None and receipt.interaction.status in _OPEN:
            await self._await_end(call.call_id, text, receipt.interaction)
        return self._result(call)

    async def _await_end(self, call_id: str, text: str, record: InteractionRecord) -> None:
        name = record.interaction_id
        try:
            await self._sdk.ui.get(name)
            await self._sdk.ui.list()
            if text.startswith("cancel"):
                await self.said("ui.cancel", {"interaction_id": name}, self._sdk.ui.cancel(name))
            await self._sdk.ui.ask(a_question(text), parent_call_id=call_id, key="q")
        except RequestRefused:  # its time was over, or its call ended
            return

    async def show(self, call: MiniAppToolCall) -> JsonObject:
        return await self.ask(call)

    def told(self, record: InteractionRecord) -> None:
        """News of questions; their ends are acknowledged when this returns."""
        if record.status not in _OPEN:
            self.log("given", interaction_id=record.interaction_id, status=record.status.value, result=record.result)

    # --- surfaces ---

    async def draw(self, call: MiniAppToolCall) -> JsonObject:
        await self._take_over(call)
        surface: JsonObject = {"kind": "board", "title": call.input["text"], "state": {"n": 0, "old": True}}
        of = None if call.input["text"].startswith("stay") else call.call_id
        body: JsonObject = {"surface": surface, "call_id": of, "key": "board"}
        surfaces = self._sdk.surfaces
        opened = await self.said("surfaces.open", body, surfaces.request_open(surface, call_id=of, key="board"))
        if not opened.accepted:
            return self._result(call)
        name = opened.surface_id
        patches: list[JsonObject] = [{"n": 1, "by": {"pid": os.getpid()}}, {"n": 2, "old": None}]
        for patch in patches:
            updating = surfaces.update(name, patch)
            await self.said("surfaces.update", {"surface_id": name, "patch": patch}, updating)
        content = call.input["text"].encode() * 100
        await self._sdk.artifacts.put("board.txt", "text/plain", content, call.call_id)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._submitted.wait(), _PATIENCE_S)
        if call.input["text"].startswith("shut"):
            await self.said("surfaces.close", {"surface_id": name}, surfaces.request_close(name))
        return self._result(call)

    async def acted(self, action: RuntimeAction) -> None:
        """What the person did."""
        if action.kind == "surface.submit":
            self._submitted.set()
        elif action.kind == "app" and action.name == "leave":
            await self.said("lifecycle.request_close", {}, self._sdk.lifecycle.request_close("as you wish"))

    # --- its place, and what it may ---

    async def move(self, call: MiniAppToolCall) -> JsonObject:
        await self._take_over(call)
        lifecycle = self._sdk.lifecycle
        await self.said("lifecycle.request_foreground", {}, lifecycle.request_foreground())
        await self.said("lifecycle.request_background", {}, lifecycle.request_background())
        await self.said("lifecycle.request_close", {}, lifecycle.request_close())
        return self._result(call)

    async def wish(self, call: MiniAppToolCall) -> JsonObject:
        await self._take_over(call)
        for capability in ("notify", "network"):
            asking = self._sdk.capabilities.ask(capability, "to show that it works")
            await self.said("capabilities.request", {"capability": capability}, asking)
        return self._result(call)

    async def guarded(self, call: MiniAppToolCall) -> JsonObject:
        await self._take_over(call)
        return self._result(call)
