"""A MiniApp's requests, from the wish to the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

from pydantic import ValidationError

from miniapp_worker.errors import PayloadRefused, RequestRefused
from runtime_actors.contract import codec, envelope
from runtime_actors.contract.rejection import Rejected
from runtime_actors.contract.tools import CommandReceipt

_PREFIX_CHARACTERS: Final = 96
_NOT_DONE: Final = frozenset({"store_unavailable", "internal_error", "rate_exceeded"})
"""Refusals that say: not now, ask again."""
_FIRST_RETRY_S: Final = 0.1
_LONGEST_RETRY_S: Final = 5.0

RECEIPT: Final = "lineup.v1.receipt"
REJECTED: Final = "lineup.v1.rejected"


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    frame: bytes
    """As it was sent first: repeating must not change what was asked."""
    answered: asyncio.Future[envelope.Envelope]


class Pending:
    """Requests without an answer, oldest first; never more than the runtime gave credit for."""

    def __init__(self, attempt_id: str, transmit: Callable[[bytes], None]) -> None:
        self._prefix = attempt_id[:_PREFIX_CHARACTERS]
        self._numbers = count(1)
        self._transmit = transmit
        self._waiting: dict[str, _Request] = {}
        self._credit = asyncio.Semaphore(0)
        self._empty = asyncio.Event()
        self._empty.set()

    def grant(self, window: int) -> None:
        """Allow `window` requests without an answer. Said once, before the first request."""
        self._credit = asyncio.Semaphore(window)

    def next_id(self) -> str:
        return f"{self._prefix}/{next(self._numbers)}"

    def frame(self, kind: str, body: Mapping[str, Any], *, id: str | None = None) -> bytes:  # noqa: A002 - the envelope's word
        return envelope.encode(kind, body, id=id or self.next_id(), sent_at=_now())

    async def wish(self, kind: str, body: Mapping[str, Any]) -> CommandReceipt:
        """Ask for a change; whether it was made stands in the receipt. Asks again while the runtime cannot decide.

        Raises:
            PayloadRefused: it breaks the intake rule. Nothing was sent.

        """
        return CommandReceipt.model_validate(await self.request(kind, body))

    async def request(self, kind: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """As `wish`, for what has a receipt of its own shape; a refusal has `accepted`, `code` and `detail` in each.

        Raises:
            PayloadRefused: it breaks the intake rule. Nothing was sent.

        """
        request_id = self.next_id()
        frame = self._freeze(kind, body, request_id)
        pause_s = _FIRST_RETRY_S
        while (receipt := _receipt(await self._ask(request_id, frame))).get("code") in _NOT_DONE:
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_RETRY_S)
        return receipt

    async def question(self, kind: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask for something to read.

        Raises:
            PayloadRefused: it breaks the intake rule. Nothing was sent.
            RequestRefused: the runtime does not answer it.

        """
        request_id = self.next_id()
        answer = await self._ask(request_id, self._freeze(kind, body, request_id))
        if answer.type in {RECEIPT, REJECTED}:
            raise RequestRefused(answer.body.get("code") or "internal_error", answer.body.get("detail") or "")
        return answer.body

    def take_answer(self, answer: envelope.Envelope) -> None:
        """Give an answer to whoever waits for it. One to an id that is not open is a repeat: nobody needs it."""
        request_id = answer.body.get("request_id")
        request = self._waiting.pop(request_id, None) if isinstance(request_id, str) else None
        if request is None:
            return
        self._credit.release()
        if not self._waiting:
            self._empty.set()
        if not request.answered.done():  # whoever asked may have been cancelled
            request.answered.set_result(answer)

    def repeat(self) -> None:
        """Say everything again that has no answer, in the order in which it was said first."""
        for request in self._waiting.values():
            self._transmit(request.frame)

    async def wait_empty(self) -> None:
        await self._empty.wait()

    async def _ask(self, request_id: str, frame: bytes) -> envelope.Envelope:
        await self._credit.acquire()
        request = _Request(frame, asyncio.get_running_loop().create_future())
        self._waiting[request_id] = request
        self._empty.clear()
        self._transmit(frame)
        return await request.answered

    def _freeze(self, kind: str, body: Mapping[str, Any], request_id: str) -> bytes:
        try:
            return self.frame(kind, body, id=request_id)
        except codec.IntakeError as error:
            raise PayloadRefused(error.code, error.detail) from None


def _receipt(answer: envelope.Envelope) -> Mapping[str, Any]:
    if answer.type != REJECTED:
        return answer.body
    rejected = Rejected.model_validate(answer.body)
    return CommandReceipt(
        request_id=rejected.request_id or "", accepted=False, code=rejected.code, detail=rejected.detail
    ).to_wire()


def refused(error: ValidationError) -> PayloadRefused:
    """What is wrong with an argument that its wire model does not hold."""
    cause = error.errors(include_url=False)[0].get("ctx", {}).get("error")
    if isinstance(cause, codec.IntakeError):
        return PayloadRefused(cause.code, cause.detail)
    return PayloadRefused(codec.MESSAGE_INVALID, envelope.describe(error))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
