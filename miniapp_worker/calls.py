"""The tool calls that this process has in hand."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from pydantic import ValidationError

from miniapp_worker.errors import CallFailed, PayloadRefused, RequestRefused
from miniapp_worker.exhaustion import limit_met
from miniapp_worker.inbox import Handed
from miniapp_worker.listeners import Listeners, Work, print_error
from miniapp_worker.pending import Pending
from runtime_actors.contract import tools as wire
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.envelope import describe
from runtime_actors.contract.inbox import MiniAppMessage
from runtime_actors.contract.tools import CallStatus

FINAL: Final = frozenset(
    {CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.CANCELLED, CallStatus.EXPIRED, CallStatus.REJECTED}
)

_STATUSES: Final = frozenset(CallStatus)


class MiniAppToolCall:
    """A call that was given to this app. Its fields are always what the runtime said last; an app cannot write them."""

    __slots__ = ("_message_id", "_record", "_repeated")

    def __init__(self, record: wire.MiniAppToolCall, message_id: str | None = None, *, repeated: bool = False) -> None:
        self._record = record
        self._message_id = message_id
        self._repeated = repeated

    @property
    def call_id(self) -> str:
        return self._record.call_id

    @property
    def tool_id(self) -> str:
        return self._record.tool_id

    @property
    def input(self) -> JsonObject:
        """Fits the tool's `input_schema`."""
        return self._record.input

    @property
    def status(self) -> str:
        """One of `CallStatus`."""
        return self._record.status.value  # a plain string, because apps put it into results

    @property
    def cancel_requested(self) -> bool:
        """The agent no longer wants it. The app decides: it may cancel, or still complete."""
        return self._record.cancel_requested

    @property
    def progress(self) -> wire.ToolProgressReport | None:
        """The newest report that was accepted, also of an earlier process of this instance."""
        return self._record.progress

    @property
    def created_at(self) -> str:
        return self._record.created_at

    @property
    def is_final(self) -> bool:
        """It has ended, by the app's word or the runtime's: nothing more can be said about it."""
        return self._record.status in FINAL

    @property
    def message_id(self) -> str | None:
        """Of the message that brought it, for `sdk.inbox.acknowledge`; None for a call that was only looked up."""
        return self._message_id

    @property
    def repeated(self) -> bool:
        """An earlier process may have worked on it already."""
        return self._repeated

    def __repr__(self) -> str:
        return f"MiniAppToolCall({self.call_id} of {self.tool_id}, {self.status})"


_MOST_CHARACTERS: Final = 2000


class Calls:
    """Keeps each open call once, whatever way news of it comes, and tells the app's listeners."""

    def __init__(self, pending: Pending, handed: Handed, work: Work) -> None:
        self._pending = pending
        self._handed = handed
        self._work = work
        self._open: dict[str, MiniAppToolCall] = {}
        self.arrivals: Listeners[MiniAppToolCall] = Listeners(work, self._failed)
        self.changes: Listeners[MiniAppToolCall] = Listeners(work, lambda _, error: print_error(error))

    def take(self, message: MiniAppMessage, record: wire.MiniAppToolCall, *, is_new: bool) -> None:
        """A message brought a call: the app is given it, or learns news of it if it has it already."""
        if not is_new or record.call_id in self._open:
            self._renew(record)
            return
        call = MiniAppToolCall(record, message.message_id, repeated=message.repeated)
        self._open[record.call_id] = call
        self.arrivals.hand(record.call_id, call)

    def change(self, change: wire.CallChanged) -> None:
        """The runtime says that a call is wanted no longer, or has ended."""
        call = self._open.get(change.call_id)
        if call is not None:
            known = call._record  # noqa: SLF001 - read and written here and nowhere else
            self._renew(known.model_copy(update={"status": change.status, "cancel_requested": change.cancel_requested}))

    def _renew(self, record: wire.MiniAppToolCall) -> None:
        """Write down what is known now, and tell the app if a call is wanted no longer, or has ended."""
        call = self._open.get(record.call_id)
        if call is None:
            return
        asked_before = call.cancel_requested
        self._write(call, record)
        if call.is_final or (call.cancel_requested and not asked_before):
            self.changes.tell(call)

    def note_receipt(
        self, call_id: str, receipt: wire.CommandReceipt, progress: wire.ToolProgressReport | None = None
    ) -> None:
        """Learn from a receipt what became of the call. The app has the receipt, so no listener is told."""
        call = self._open.get(call_id)
        if call is None:
            return
        news: dict[str, object] = {}
        if receipt.call_status in _STATUSES:
            news["status"] = CallStatus(receipt.call_status)
        if receipt.accepted and progress is not None:
            news["progress"] = progress
        self._write(call, call._record.model_copy(update=news))  # noqa: SLF001 - as above

    async def look_up(self, call_id: str) -> MiniAppToolCall | None:
        """Ask the runtime for a call, in hand or not.

        Raises:
            RequestRefused: the runtime cannot answer now.

        """
        body = wire.ToolGet(call_id=call_id).to_wire()
        answer = wire.CallReply.model_validate(await self._pending.question("lineup.v1.tools.get", body))
        if answer.call is None:
            return None
        known = self._open.get(call_id)
        self._renew(answer.call)
        return known or MiniAppToolCall(answer.call)

    def refresh(self) -> None:
        """Look up every call in hand: news of it may have been lost with a connection."""
        for call_id in self._open:
            self._work.start(self._refresh(call_id))

    async def _refresh(self, call_id: str) -> None:
        with suppress(RequestRefused):
            await self.look_up(call_id)

    async def end(self, kind: str, call_id: str, said: dict[str, Any]) -> wire.CommandReceipt:
        """Say the final word on a call, and learn from the receipt."""
        receipt = await self._pending.wish(kind, {"call_id": call_id, **said})
        self.note_receipt(call_id, receipt)
        return receipt

    def _failed(self, call: MiniAppToolCall, error: BaseException) -> None:
        failure = _failure(error)
        said = {"failure": failure.to_wire()}
        self._work.start(self.end("lineup.v1.tools.fail", call.call_id, said))

    def _write(self, call: MiniAppToolCall, record: wire.MiniAppToolCall) -> None:
        call._record = record  # noqa: SLF001 - as above
        if call.is_final:
            del self._open[call.call_id]
            self.arrivals.forget(call.call_id)
            if call.message_id is not None:
                self._handed.settle(call.message_id)


def _failure(error: BaseException) -> wire.ToolFailure:
    """What the agent is told of an exception: the app's own words, or only its class. The rest goes to the log."""
    if isinstance(error, CallFailed):
        try:
            return wire.ToolFailure(code=error.code, message=error.message, retryable=error.retryable, data=error.data)
        except ValidationError as wrong:
            error.add_note(describe(wrong))
    print_error(error)
    told = f"the MiniApp raised {type(error).__name__}"
    if isinstance(error, PayloadRefused):
        told = f"what the MiniApp wanted to send was refused: {error.detail}"
    elif isinstance(error, RequestRefused):
        told = f"the runtime refused what the MiniApp asked for: {error.code}: {error.detail}"
    elif (met := limit_met(error)) is not None:
        told = f"{told}: its process met its limit of {met}"
    return wire.ToolFailure(code="app.unhandled_exception", message=told[:_MOST_CHARACTERS])
