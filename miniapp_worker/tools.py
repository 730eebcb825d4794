"""`sdk.tools`: the calls that agents make, and what becomes of them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from miniapp_worker.calls import Calls, MiniAppToolCall
from miniapp_worker.errors import PayloadRefused
from miniapp_worker.listeners import Listener, Unsubscribe
from miniapp_worker.pending import Pending, refused
from runtime_actors.contract import codec, payload
from runtime_actors.contract import tools as wire
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.tools import CommandReceipt

Handler = Callable[[MiniAppToolCall], Awaitable[JsonObject | None] | JsonObject | None]
H = TypeVar("H", bound=Handler)
B = TypeVar("B", bound=BaseModel)


class ResultRefused(Exception):
    """What a handler returned does not fit its tool."""


class MiniAppTools:
    """Seed section 3.2. A handler for each tool is the way to serve calls; `subscribe` is what it is made of.

    What changes something returns the runtime's receipt: `accepted`, or the `code` of its refusal. While the runtime
    cannot decide (its disk is full), the SDK waits and asks again.
    """

    def __init__(self, pending: Pending, calls: Calls) -> None:
        self._pending = pending
        self._calls = calls
        self._handled: set[str] = set()

    def handler(self, tool_id: str) -> Callable[[H], H]:
        """Decorate the function that serves a tool; it may be a coroutine function.

        What it returns completes the call. `CallFailed` fails it with the app's own code, anything else raised with
        `app.unhandled_exception`, and the traceback goes to the log. If it returns None, the app goes on with the call
        and ends it later by `complete`, `fail` or `cancel`.

        Raises:
            ValueError: the tool has a handler already.

        """

        def register(function: H) -> H:
            if tool_id in self._handled:
                raise ValueError(f"{tool_id} has a handler already")
            self._handled.add(tool_id)
            self._calls.arrivals.subscribe(
                lambda call: self._serve(call, function), wants=lambda call: call.tool_id == tool_id
            )
            return function

        return register

    def subscribe(self, listener: Listener[MiniAppToolCall]) -> Unsubscribe:
        """Be told of each call, of whatever tool. Calls that came before are handed over at once.

        Nothing is acknowledged and nothing completed by itself; a listener that raises fails the call with
        `app.unhandled_exception`.
        """
        return self._calls.arrivals.subscribe(listener)

    def subscribe_changes(self, listener: Listener[MiniAppToolCall]) -> Unsubscribe:
        """Be told when a call is wanted no longer (`cancel_requested`) or the runtime ended it (`is_final`).

        What changed before the call was handed over stands in its fields only. They are live: a listener that waits
        first may find more changed than it was told of.
        """
        return self._calls.changes.subscribe(listener)

    async def get(self, call_id: str) -> MiniAppToolCall | None:
        """Ask the runtime for a call of this instance; None if there is none of this id.

        Raises:
            PayloadRefused: `call_id` is no id.
            RequestRefused: the runtime cannot answer now.

        """
        _checked(wire.ToolGet, call_id=call_id)
        return await self._calls.look_up(call_id)

    async def report_progress(
        self, call_id: str, *, percent: float | None = None, note: str | None = None, data: JsonObject | None = None
    ) -> CommandReceipt:
        """Say how far the work is: `percent` from 0 to 100. A newer report replaces the older one.

        The newest accepted one comes back with the call (`call.progress`) when the process is started again.

        Raises:
            PayloadRefused: an argument breaks the contract. Nothing was sent.

        """
        progress = _checked(wire.ToolProgressReport, percent=percent, note=note, data=data)
        body = _checked(wire.ReportProgress, call_id=call_id, progress=progress)
        said = _filled({"percent": percent, "note": note, "data": data})
        receipt = await self._pending.wish(
            "lineup.v1.tools.report_progress", {"call_id": body.call_id, "progress": said}
        )
        self._calls.note_receipt(call_id, receipt, progress)
        return receipt

    async def complete(self, call_id: str, result: JsonObject) -> CommandReceipt:
        """End a call with its result. A result that does not fit leaves the call running; the third such one ends it.

        Raises:
            PayloadRefused: an argument breaks the contract. Nothing was sent.

        """
        _checked(wire.Complete, call_id=call_id, result=result)
        try:
            payload.canonical(result)
        except codec.IntakeError as error:
            raise PayloadRefused(error.code, error.detail) from None
        return await self._calls.end("lineup.v1.tools.complete", call_id, {"result": result})

    async def fail(
        self, call_id: str, *, code: str, message: str, retryable: bool = False, data: JsonObject | None = None
    ) -> CommandReceipt:
        """End a call as failed. `code` is the app's own, below `app.`; `message` is shown to the agent.

        Raises:
            PayloadRefused: an argument breaks the contract. Nothing was sent.

        """
        _checked(wire.ToolGet, call_id=call_id)
        _checked(wire.ToolFailure, code=code, message=message, retryable=retryable, data=data)
        failure = _filled({"code": code, "message": message, "retryable": retryable, "data": data})
        return await self._calls.end("lineup.v1.tools.fail", call_id, {"failure": failure})

    async def cancel(self, call_id: str, reason: str | None = None) -> CommandReceipt:
        """End a call as cancelled, by the agent's wish or the app's.

        Raises:
            PayloadRefused: an argument breaks the contract. Nothing was sent.

        """
        _checked(wire.Cancel, call_id=call_id, reason=reason)
        return await self._calls.end("lineup.v1.tools.cancel", call_id, _filled({"reason": reason}))

    async def _serve(self, call: MiniAppToolCall, handler: Handler) -> None:
        result = handler(call)
        if inspect.isawaitable(result):
            result = await result
        if result is None:
            return
        receipt = await self.complete(call.call_id, result)
        if receipt.code == "tool_output_invalid":
            raise ResultRefused(receipt.detail)


def _checked(model: type[B], **fields: object) -> B:
    try:
        return model(**fields)
    except ValidationError as error:
        raise refused(error) from None


def _filled(fields: JsonObject) -> JsonObject:
    """Without the fields that have no value. Payloads stay as they are: the codec refuses what is not JSON."""
    return {name: value for name, value in fields.items() if value is not None}
