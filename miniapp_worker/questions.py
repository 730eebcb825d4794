"""The questions that this process has asked a person, and how news of them comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from miniapp_worker.errors import RequestRefused
from miniapp_worker.listeners import Listeners, Unsubscribe, Work, print_error
from miniapp_worker.pending import Pending
from runtime_actors.contract.inbox import MiniAppMessage
from runtime_actors.contract.interactions import InteractionRecord, InteractionStatus, UiGet, UiReply

ENDED: Final = frozenset(
    {
        InteractionStatus.COMPLETED,
        InteractionStatus.CANCELLED,
        InteractionStatus.EXPIRED,
        InteractionStatus.FAILED,
    }
)
_REMEMBERED: Final = 64


class Questions:
    """Ends come by the inbox and are kept until somebody takes them; other news may be lost with a connection."""

    def __init__(self, pending: Pending, work: Work) -> None:
        self._pending = pending
        self._work = work
        self._waiting: dict[str, list[asyncio.Future[InteractionRecord]]] = {}
        self._known: dict[str, InteractionRecord] = {}
        """Those that ended last: whoever asks may begin to wait behind the message that says so."""
        self.ends: Listeners[MiniAppMessage] = Listeners(work, lambda _, error: print_error(error))
        self.news: Listeners[InteractionRecord] = Listeners(work, lambda _, error: print_error(error))

    def take(self, message: MiniAppMessage, record: InteractionRecord) -> None:
        """A message brought an end."""
        self._note(record)
        self.ends.hand(message.message_id, message)

    def change(self, record: InteractionRecord) -> None:
        """News of one that has not ended, or that ended with its call."""
        if record.status in ENDED:
            self._note(record)
        self.news.tell(record)

    def refresh(self) -> None:
        """Look up whatever somebody waits for: news of it may have been lost with a connection."""
        for interaction_id in self._waiting:
            self._work.start(self._refresh(interaction_id))

    async def look_up(self, interaction_id: str) -> InteractionRecord | None:
        """Ask the runtime for a question of this instance.

        Raises:
            RequestRefused: the runtime cannot answer now.

        """
        body = UiGet(interaction_id=interaction_id).to_wire()
        return UiReply.model_validate(await self._pending.question("lineup.v1.ui.get", body)).interaction

    async def wait_end(
        self, asked: InteractionRecord, acknowledge: Callable[[str], Awaitable[object]]
    ) -> InteractionRecord:
        """How a question ends, or ended. The message that says so is taken over: now, or when it comes."""
        self._take_over(asked.interaction_id, acknowledge)
        known = asked if asked.status in ENDED else self._known.get(asked.interaction_id)
        if known is not None:
            return known
        ended: asyncio.Future[InteractionRecord] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(asked.interaction_id, [])
        waiting.append(ended)
        try:
            return await ended
        finally:
            waiting.remove(ended)
            if not waiting:
                self._waiting.pop(asked.interaction_id, None)

    def _take_over(self, interaction_id: str, acknowledge: Callable[[str], Awaitable[object]]) -> None:
        unsubscribe: Unsubscribe | None = None

        async def taken(message: MiniAppMessage) -> None:
            await acknowledge(message.message_id)
            if unsubscribe is not None:
                unsubscribe()

        unsubscribe = self.ends.subscribe(
            taken, lambda one: one.interaction is not None and one.interaction.interaction_id == interaction_id
        )

    def _note(self, record: InteractionRecord) -> None:
        self._known[record.interaction_id] = record
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        for one in self._waiting.get(record.interaction_id, ()):
            if not one.done():
                one.set_result(record)

    async def _refresh(self, interaction_id: str) -> None:
        with suppress(RequestRefused):
            record = await self.look_up(interaction_id)
            if record is not None and record.status in ENDED:
                self._note(record)
