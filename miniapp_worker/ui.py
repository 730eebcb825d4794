"""`sdk.ui`: standard interactions, which the runtime keeps, shows and checks (seed section 3.4)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypedDict, TypeVar, Unpack

from pydantic import BaseModel, ValidationError

from miniapp_worker.errors import RequestRefused
from miniapp_worker.listeners import Listener, Unsubscribe
from miniapp_worker.pending import Pending, refused
from miniapp_worker.questions import Questions
from runtime_actors.contract import interactions as wire
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.inbox import MiniAppMessage
from runtime_actors.contract.interactions import (
    InteractionReceipt,
    InteractionRecord,
    InteractionStatus,
    Presentation,
    StandardInteractionRequest,
)

B = TypeVar("B", bound=BaseModel)


class How(TypedDict, total=False):
    """How something is asked. All may be left out."""

    parent_call_id: str
    """An open call of this instance that it belongs to: its clock stands still, and its end cancels the question."""
    presentation: Presentation
    """A wish. Focus, policy and hosts decide."""
    expires_at: str
    """RFC 3339. A question of a call always expires."""
    key: str
    """The app's own name for the question within its call. Asked again with it, also after a restart, it is the same
    question, which may have been answered meanwhile."""


class MiniAppUi:
    """What a person is asked. Who asks is written by the runtime, and the result goes to nobody else.

    `ask` is the way to get an answer; `request` and `subscribe` are what it is made of. An end that nobody has taken
    stays in the inbox, and comes again after a restart.
    """

    def __init__(self, pending: Pending, questions: Questions, acknowledge: Callable[[str], Awaitable[object]]) -> None:
        self._pending = pending
        self._questions = questions
        self._acknowledge = acknowledge

    async def request(self, request: StandardInteractionRequest | JsonObject, **how: Unpack[How]) -> InteractionReceipt:
        """Ask, without waiting for the person. The receipt has the record, or the `code` of a refusal.

        Raises:
            PayloadRefused: an argument breaks the contract. Nothing was sent.

        """
        body = _checked(wire.UiRequest, {"request": request, **how})
        return InteractionReceipt.model_validate(await self._pending.request("lineup.v1.ui.request", body.to_wire()))

    async def ask(self, request: StandardInteractionRequest | JsonObject, **how: Unpack[How]) -> InteractionRecord:
        """Ask, and wait until the question has ended: `completed` with a result, `cancelled`, `expired` or `failed`.

        Raises:
            PayloadRefused: an argument breaks the contract. Nothing was sent.
            RequestRefused: the runtime does not ask it.

        """
        receipt = await self.request(request, **how)
        if receipt.interaction is None:
            raise RequestRefused(receipt.code or "internal_error", receipt.detail or "")
        return await self._questions.wait_end(receipt.interaction, self._acknowledge)

    async def notice(
        self, title: str, message: str, *, acknowledge_label: str | None = None, **how: Unpack[How]
    ) -> bool:
        """Show something; whether the person acknowledged it. Without a label it ends when it has been shown."""
        asked = {"kind": "notice", "title": title, "message": message, "acknowledge_label": acknowledge_label}
        return bool(_result(await self.ask(asked, **how)).get("acknowledged"))

    async def confirm(self, title: str, prompt: str, **how: Unpack[How]) -> bool:
        """Ask for a yes. Whatever else becomes of the question is a no."""
        return bool(
            _result(await self.ask({"kind": "confirm", "title": title, "prompt": prompt}, **how)).get("approved")
        )

    async def get(self, interaction_id: str) -> InteractionRecord | None:
        """Ask the runtime for a question of this instance; None if there is none of this id.

        Raises:
            PayloadRefused: `interaction_id` is no id.
            RequestRefused: the runtime cannot answer now.

        """
        _checked(wire.UiGet, {"interaction_id": interaction_id})
        return await self._questions.look_up(interaction_id)

    async def list(self) -> tuple[InteractionRecord, ...]:
        """Questions of this instance that have not ended, oldest first.

        Raises:
            RequestRefused: the runtime cannot answer now.

        """
        found: list[InteractionRecord] = []
        more = True
        while more:
            body = wire.UiList(after_interaction_id=found[-1].interaction_id if found else None)
            page = wire.UiListed.model_validate(await self._pending.question("lineup.v1.ui.list", body.to_wire()))
            found += page.interactions
            more = page.more and bool(page.interactions)
        return tuple(found)

    def subscribe(self, listener: Listener[InteractionRecord]) -> Unsubscribe:
        """Be told of what becomes of this instance's questions.

        That one is shown may be told or not; that it ended is told until the listener is through with it: what it
        raises goes to the log, and the end comes again after a restart. Ends that came before are handed over at once.
        """

        async def take(message: MiniAppMessage) -> None:
            assert message.interaction is not None  # noqa: S101 - no others are handed to `ends`
            outcome = listener(message.interaction)
            if inspect.isawaitable(outcome):
                await outcome
            await self._acknowledge(message.message_id)

        ends, news = self._questions.ends.subscribe(take), self._questions.news.subscribe(listener)

        def unsubscribe() -> None:
            ends()
            news()

        return unsubscribe

    async def cancel(self, interaction_id: str, reason: str | None = None) -> InteractionReceipt:
        """Ask no longer.

        Raises:
            PayloadRefused: an argument breaks the contract. Nothing was sent.

        """
        body = _checked(wire.UiCancel, {"interaction_id": interaction_id, "reason": reason})
        return InteractionReceipt.model_validate(await self._pending.request("lineup.v1.ui.cancel", body.to_wire()))


def _checked(model: type[B], fields: JsonObject) -> B:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise refused(error) from None


def _result(record: InteractionRecord) -> JsonObject:
    return (record.result or {}) if record.status is InteractionStatus.COMPLETED else {}
