"""`sdk.inbox`: messages for this instance, each kept by the runtime until it is acknowledged."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from miniapp_worker.listeners import Listener, Listeners, Unsubscribe
from miniapp_worker.pending import Pending, refused
from runtime_actors.contract.inbox import InboxAcknowledge, InboxList, InboxPage, MiniAppMessage
from runtime_actors.contract.tools import CommandReceipt

_REMEMBERED: Final = 1024


class Handed:
    """Which messages this process has been given: one that the runtime repeats is not given to the app again."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._settled: dict[str, None] = {}
        self.last_number = 0

    def is_new(self, message: MiniAppMessage) -> bool:
        """Note that `message` came; whether it came for the first time."""
        self.last_number = max(self.last_number, message.number)
        if message.message_id in self._open or message.message_id in self._settled:
            return False
        self._open.add(message.message_id)
        return True

    def settle(self, message_id: str) -> None:
        """It will not come again, unless it is on its way already."""
        self._open.discard(message_id)
        self._settled[message_id] = None
        if len(self._settled) > _REMEMBERED:
            del self._settled[next(iter(self._settled))]


class MiniAppInbox:
    """Seed section 3.1. Only this instance's messages can be seen or acknowledged: the channel says whose they are."""

    def __init__(self, pending: Pending, handed: Handed, texts: Listeners[MiniAppMessage]) -> None:
        self._pending = pending
        self._handed = handed
        self._texts = texts

    async def list(self, after_message_id: str | None = None) -> tuple[MiniAppMessage, ...]:
        """Everything that is not acknowledged, texts and tool calls, oldest first.

        Raises:
            PayloadRefused: `after_message_id` is no id.
            RequestRefused: the runtime cannot answer now.

        """
        messages: list[MiniAppMessage] = []
        while True:
            try:
                body = InboxList(after_message_id=after_message_id)
            except ValidationError as error:
                raise refused(error) from None
            page = InboxPage.model_validate(await self._pending.question("lineup.v1.inbox.list", body.to_wire()))
            messages += page.messages
            if not page.more or not page.messages:
                return tuple(messages)
            after_message_id = page.messages[-1].message_id

    def subscribe(self, listener: Listener[MiniAppMessage]) -> Unsubscribe:
        """Be told of each text (`kind` is `message`); tool calls go to `sdk.tools`.

        Texts that came before the first subscription are handed over at once. What a listener raises goes to the log;
        the message stays unacknowledged and comes again after a restart.
        """
        return self._texts.subscribe(listener)

    async def acknowledge(self, message_id: str) -> CommandReceipt:
        """Say that the app has taken the message over; for a call's message: that it is working on the call.

        Raises:
            PayloadRefused: `message_id` is no id.

        """
        try:
            body = InboxAcknowledge(message_id=message_id)
        except ValidationError as error:
            raise refused(error) from None
        receipt = await self._pending.wish("lineup.v1.inbox.acknowledge", body.to_wire())
        if receipt.accepted:
            self._handed.settle(message_id)
            self._texts.forget(message_id)
        return receipt
