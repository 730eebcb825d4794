"""Its own channel to the daemon: pretending to be somebody else. Who speaks is known from the socket alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from miniapp_worker.sdk import CommandReceipt, MiniAppSDK, RequestRefused

from .attempt import Refused
from .decoys import Decoys

Say = Callable[[MiniAppSDK, Decoys], Awaitable[None]]
_ANSWER_S: Final = 5.0


def _must_be_accepted(receipt: CommandReceipt) -> None:
    if not receipt.accepted:
        raise Refused


async def _complete(sdk: MiniAppSDK, decoys: Decoys) -> None:
    _must_be_accepted(await sdk.tools.complete(decoys.sibling_call, {}))


async def _cancel(sdk: MiniAppSDK, decoys: Decoys) -> None:
    _must_be_accepted(await sdk.tools.cancel(decoys.sibling_call))


async def _progress(sdk: MiniAppSDK, decoys: Decoys) -> None:
    _must_be_accepted(await sdk.tools.report_progress(decoys.sibling_call, percent=100))


async def _acknowledge(sdk: MiniAppSDK, decoys: Decoys) -> None:
    """The same id is another message in each inbox: only the doctor can see whose was acknowledged."""
    await sdk.inbox.acknowledge(decoys.sibling_message)
    raise Refused


async def _read(sdk: MiniAppSDK, decoys: Decoys) -> None:
    if await sdk.tools.get(decoys.sibling_call) is None:
        raise Refused


def _say(kind: str, body: Callable[[Decoys], dict[str, Any]]) -> Say:
    """Send what the SDK has no word for."""

    async def say(sdk: MiniAppSDK, decoys: Decoys) -> None:
        question = sdk.tools._pending.question(kind, body(decoys))  # noqa: SLF001 - an intruder does not ask
        try:
            await asyncio.wait_for(question, _ANSWER_S)
        except (RequestRefused, TimeoutError) as refused:
            raise Refused from refused

    return say


ALL: Final[dict[str, Say]] = {
    "complete_call": _complete,
    "cancel_call": _cancel,
    "report_on_call": _progress,
    "read_call": _read,
    "acknowledge_message": _acknowledge,
    "order_as_operator": _say("lineup.v1.control.kill", lambda _: {"instance_id": "i", "signal": "SIGKILL"}),
    "invoke_as_agent": _say("lineup.v1.tool.get", lambda decoys: {"call_id": decoys.sibling_call}),
    "greet_as_other": _say(
        "lineup.v1.session.hello",
        lambda _: {"attempt_id": "other", "token": "0" * 32, "pid": 1, "sdkCapabilities": [], "ready": False},
    ),
}
