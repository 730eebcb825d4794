"""Pretends to be others: it reaches behind the SDK and says on its channel what is not its to say."""

from __future__ import annotations

import asyncio
import gc
import sys
from itertools import count
from typing import Any, Final

from miniapp_worker.sdk import CommandReceipt, JsonObject, MiniAppSDK, MiniAppToolCall

NOW: Final = "2026-01-01T00:00:00Z"
CAPABILITIES: Final = [
    {"name": name, "surface": "core", "supportLevel": "native"} for name in ("input.receive", "output.publish")
]


async def main(sdk: MiniAppSDK) -> None:
    app = Impostor(sdk)
    for name in ("meddle", "forge", "says", "twice"):
        sdk.tools.handler(f"identity.{name}")(getattr(app, name))
    await sdk.run_until_stopped()


class Impostor:
    def __init__(self, sdk: MiniAppSDK) -> None:
        self._sdk = sdk
        self._numbers = count(1)

    async def meddle(self, call: MiniAppToolCall) -> JsonObject:
        """Answer, end and acknowledge for others; the codes."""
        tools = self._sdk.tools
        found: dict[str, str] = {}
        for other in call.input["calls"]:
            receipts = {
                "complete": await tools.complete(other, {"text": "stolen"}),
                "fail": await tools.fail(other, code="app.stolen", message="stolen"),
                "cancel": await tools.cancel(other),
                "progress": await tools.report_progress(other, percent=99, note="stolen"),
            }
            found |= {f"{word} {other}": _code(receipt) for word, receipt in receipts.items()}
            found[f"get {other}"] = "open" if await tools.get(other) else "nothing"
        for message in call.input["messages"]:
            found[f"acknowledge {message}"] = _code(await self._sdk.inbox.acknowledge(message))
        return found

    async def forge(self, call: MiniAppToolCall) -> JsonObject:
        """Name somebody else in every field that a frame could have."""
        found = {}
        for name, value in call.input["others"].items():
            stolen = {"call_id": call.input["call_id"], "result": {"text": "stolen"}}
            found[f"{name} in the body"] = await self._ask("tools.complete", {**stolen, name: value})
            found[f"{name} in the envelope"] = await self._ask("tools.complete", stolen, **{name: value})
        return found

    async def twice(self, call: MiniAppToolCall) -> None:
        """Two results and a failure, as fast as the channel takes them and under one id."""
        for result in ("first", "second"):
            self._say("tools.complete", {"call_id": call.call_id, "result": {"text": result}}, id="one-id")
        failure = {"code": "app.no", "message": "no", "retryable": False}
        self._say("tools.fail", {"call_id": call.call_id, "failure": failure}, id="one-id")
        self._say("tools.fail", {"call_id": call.call_id, "failure": failure}, id="other-id")

    async def says(self, call: MiniAppToolCall) -> JsonObject:
        """Say one word of the session, with its own secrets `filled_in`; then go on, or wait for the end."""
        if call.repeated:
            return {"repeated": True}
        own = _session()._identity
        filled = {"attempt_id": own.attempt_id, "token": own.token, "sdkCapabilities": CAPABILITIES}
        body = {**{name: filled[name] for name in call.input["filled_in"]}, **call.input["body"]}
        self._say(f"session.{call.input['word']}", body)
        if not call.input["goes_on"]:
            await asyncio.Event().wait()
        await self._sdk.tools.get(call.call_id)  # answered behind the word
        return {"repeated": False}

    def _say(self, kind: str, body: JsonObject, **more: object) -> str:
        said = {
            "v": 1,
            "id": f"h{next(self._numbers)}",
            "type": f"lineup.v1.{kind}",
            "sent_at": NOW,
            "body": body,
            **more,
        }
        _session()._link.send(sys.modules["msgpack"].packb(said))
        return str(said["id"])

    async def _ask(self, kind: str, body: JsonObject, **more: object) -> str:
        """Send a request of its own making, and wait as the SDK waits: the code of its answer."""
        pending = _session().pending
        request_id = pending.next_id()
        said = {"v": 1, "id": request_id, "type": f"lineup.v1.{kind}", "sent_at": NOW, "body": body, **more}
        answer = await pending._ask(request_id, sys.modules["msgpack"].packb(said))
        return str(answer.body.get("code") or "open")


def _code(receipt: CommandReceipt) -> str:
    return "open" if receipt.accepted else str(receipt.code)


def _session() -> Any:  # noqa: ANN401 - a MiniApp cannot import its class
    return next(one for one in gc.get_objects() if type(one).__name__ == "Session")
