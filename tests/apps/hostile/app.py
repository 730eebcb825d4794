"""A MiniApp that does all that it must not: each tool is one way of it. It says in its log what it was answered.

Where the SDK would stop it, it reaches behind the SDK, as a MiniApp can: both live in one process.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import sys
import time
from typing import Any

from miniapp_worker.sdk import CommandReceipt, JsonObject, MiniAppSDK, MiniAppToolCall

FLOOD = 3000
GARBAGE = (b"\xc1", b"", b"\x93\x01\x02\x03", b"\x80")
TOO_LARGE = bytes(262_145)


async def main(sdk: MiniAppSDK) -> None:
    app = Hostile(sdk)
    for name in ("twice", "meddle", "invalid", "late", "exits", "blocks", "floods", "garbage", "babbles", "deaf"):
        sdk.tools.handler(f"hostile.{name}")(getattr(app, name))
    await sdk.run_until_stopped()


class Hostile:
    """One misbehaviour a tool. A call that comes again is answered at once, so that it can end well."""

    def __init__(self, sdk: MiniAppSDK) -> None:
        self._sdk = sdk
        self._ids = itertools.count(1)

    # --- final words ---

    async def twice(self, call: MiniAppToolCall) -> None:
        await self._complete(call.call_id, "first")
        await self._complete(call.call_id, "first")
        await self._complete(call.call_id, "second")
        self._say(call.call_id, "failed", await self._sdk.tools.fail(call.call_id, code="app.no", message="after all"))
        self._say(call.call_id, "cancelled", await self._sdk.tools.cancel(call.call_id))

    async def meddle(self, call: MiniAppToolCall) -> JsonObject:
        """Reach for the call that the input names, which is not this instance's."""
        other, tools = call.input["text"], self._sdk.tools
        receipts = [
            await tools.complete(other, {"text": "stolen"}),
            await tools.fail(other, code="app.no", message="stolen"),
            await tools.cancel(other),
            await tools.report_progress(other, percent=1),
        ]
        codes = [str(receipt.code) for receipt in receipts]
        found = await tools.get(other)
        return {"text": " ".join([*codes, "found" if found else "nothing"])}

    async def invalid(self, call: MiniAppToolCall) -> None:
        for _ in range(4):
            self._say(call.call_id, "invalid", await self._sdk.tools.complete(call.call_id, {"wrong": True}))

    async def late(self, call: MiniAppToolCall) -> None:
        if call.message_id is not None:
            await self._sdk.inbox.acknowledge(call.message_id)
        over = asyncio.Event()
        self._sdk.tools.subscribe_changes(lambda changed: over.set() if changed.call_id == call.call_id else None)
        await over.wait()
        await self._complete(call.call_id, "late")

    # --- the process ---

    async def exits(self, call: MiniAppToolCall) -> None:
        sys.exit(call.input["text"])

    async def blocks(self, call: MiniAppToolCall) -> JsonObject:
        if not call.repeated:
            time.sleep(600)  # noqa: ASYNC251 - what it is for
        return {"text": call.input["text"]}

    # --- the channel ---

    async def floods(self, call: MiniAppToolCall) -> JsonObject:
        """Ask far more at once than the credit allows."""
        if not call.repeated:
            for number in range(FLOOD):
                self._send("tools.report_progress", {"call_id": call.call_id, "progress": {"percent": number % 100}})
            await asyncio.sleep(600)
        return {"text": call.input["text"]}

    async def garbage(self, call: MiniAppToolCall) -> JsonObject:
        """Say things that cannot be read, one that is too large, and one that is for another door."""
        link = _session()._link
        for frame in (*GARBAGE, TOO_LARGE):
            link.send(frame)
        self._send("tool.invoke", {"call_id": "mine"})
        self._send("tools.complete", {"call_id": call.call_id, "result": {}, "app_scope": "guest"})
        return {"text": call.input["text"]}

    async def babbles(self, call: MiniAppToolCall) -> JsonObject:
        if not call.repeated:
            for _ in range(100):
                _session()._link.send(b"\xc1")
            await asyncio.sleep(600)
        return {"text": call.input["text"]}

    async def deaf(self, _call: MiniAppToolCall) -> None:
        """Take nothing in any more, and say all the time that all is well."""
        connection = _session()._link._connection
        connection._on_frame = lambda _frame: None
        for beat in range(1000):
            pong = {"v": 1, "id": f"p{beat}", "type": "lineup.v1.session.pong", "sent_at": "2026-01-01T00:00:00Z"}
            connection.send(_packed(pong | {"body": {"beat": beat}}))
            await asyncio.sleep(0.05)

    # --- saying ---

    def _send(self, kind: str, body: JsonObject) -> None:
        frame = {"v": 1, "id": f"h{next(self._ids)}", "type": f"lineup.v1.{kind}", "sent_at": "2026-01-01T00:00:00Z"}
        _session()._link.send(_packed(frame | {"body": body}))

    async def _complete(self, call_id: str, text: str) -> None:
        self._say(call_id, f"completed {text}", await self._sdk.tools.complete(call_id, {"text": text}))

    def _say(self, call_id: str, word: str, receipt: CommandReceipt) -> None:
        row = {"what": "said", "conversation": self._sdk.context.conversation_id, "call_id": call_id, "word": word}
        print(json.dumps(row | {"accepted": receipt.accepted, "code": receipt.code}), flush=True)  # noqa: T201 - its log


def _session() -> Any:  # noqa: ANN401 - a MiniApp cannot import its class
    return next(one for one in gc.get_objects() if type(one).__name__ == "Session")


def _packed(tree: object) -> bytes:
    return bytes(sys.modules["msgpack"].packb(tree))
