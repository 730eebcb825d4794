"""A worker's life in the zygote, against a runtime that is made up.

What Python builds at first use, and how its interpreter adapts to what runs often (PEP 659), is written into memory.
Done here once, it lies in pages that all workers share; done in each of them, it would be theirs alone, and cost time
at each start. No MiniApp takes part, and nothing stays open.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from miniapp_worker.context import MiniAppContext
from miniapp_worker.inbox import MiniAppInbox
from miniapp_worker.layers import NOTHING
from miniapp_worker.link import Link
from miniapp_worker.sdk import MiniAppSDK, MiniAppToolCall
from miniapp_worker.session import Identity, Session
from miniapp_worker.tools import MiniAppTools
from runtime_actors.contract import envelope
from runtime_actors.contract import session as wire
from runtime_actors.contract.base import JsonObject, WireModel
from runtime_actors.contract.inbox import MiniAppMessage
from runtime_actors.contract.tools import CallStatus, CommandReceipt
from runtime_actors.contract.tools import MiniAppToolCall as WireCall

_LIVES: Final = 3
_CALLS: Final = 12
"""In each life: the interpreter adapts to what ran some ten times."""
_WITHIN_S: Final = 5.0
_AT: Final = "2026-01-01T00:00:00Z"


def warm_up() -> None:
    """Live, a few times; some 10 ms in all."""
    for _ in range(_LIVES):
        loop = asyncio.new_event_loop()
        try:
            with contextlib.suppress(TimeoutError):  # on a stalled machine workers start less warm
                loop.run_until_complete(asyncio.wait_for(_live(), _WITHIN_S))
        finally:
            loop.close()


async def _live() -> None:
    session = Session(Identity("att-0", "0" * 64), "", make_link=_Nowhere)
    await session.open()
    await session.report(*NOTHING.seal(), sealed=False)
    sdk = MiniAppSDK(
        MiniAppContext(session.context),
        MiniAppInbox(session.pending, session.handed, session.texts),
        MiniAppTools(session.pending, session.calls),
        session.stopping,
    )

    @sdk.tools.handler("warm.up")
    async def serve(call: MiniAppToolCall) -> JsonObject:
        await sdk.tools.report_progress(call.call_id, percent=50.0, note="warm", data={"step": 1})
        return {"text": call.input["text"]}

    session.say_ready()
    await sdk.run_until_stopped()
    session.close(linger_ms=0)


class _Nowhere(Link):
    """A link whose other end is in this process and answers at once. It opens no ZeroMQ context."""

    def __init__(
        self, _path: str, *, on_up: Callable[[], None], on_down: Callable[[], None], on_frame: Callable[[bytes], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_up, self._on_down, self._on_frame = on_up, on_down, on_frame
        self._given = 0

    def connect(self) -> None:
        self._loop.call_soon(self._on_up)

    def close(self, *, linger_ms: int) -> None:
        """Nothing is open."""

    def send(self, frame: bytes) -> None:
        said = envelope.decode(frame)
        match said.type.removeprefix("lineup.v1."):
            case "session.hello":
                self._say("session.welcome", _WELCOME)
            case "session.confined":
                self._say("session.go", wire.Go(level="sealed"))
            case "session.ready":
                self._say("session.ping", wire.Ping(beat=1))
                self._give()
            case "tools.report_progress":
                self._receipt(said.id, CallStatus.RUNNING)
            case "tools.complete":
                self._receipt(said.id, CallStatus.COMPLETED)
                self._give()

    def _receipt(self, request_id: str, status: CallStatus) -> None:
        self._say("receipt", CommandReceipt(request_id=request_id, accepted=True, call_status=status))

    def _give(self) -> None:
        self._given += 1
        if self._given > _CALLS:
            self._say("session.stop", wire.Stop(reason="warm", grace_ms=0))
            return
        call = WireCall(
            call_id=f"c{self._given}",
            tool_id="warm.up",
            input={"text": "x"},
            status=CallStatus.WAITING_FOR_APP,
            created_at=_AT,
        )
        message = MiniAppMessage(
            message_id=f"m{self._given}",
            number=self._given,
            kind="tool.call",
            repeated=False,
            created_at=_AT,
            call=call,
        )
        self._say("inbox.message", message)

    def _say(self, kind: str, body: WireModel) -> None:
        frame = envelope.encode(f"lineup.v1.{kind}", body, id="r1", sent_at=_AT)
        self._loop.call_soon(self._on_frame, frame)


_WELCOME: Final = wire.Welcome(
    context=wire.MiniAppContextModel(
        app_scope="warm", instance_id="ins-0", conversation_id="main", app_version="1.0.0", state="starting"
    ),
    session=1,
    window=64,
    ping_ms=1000,
    effectiveSdkCapabilities=wire.CORE_CAPABILITIES,
    snapshot_digest="0",
)
