"""`sdk.conversation`: what a person wrote, for the agent. A system extension (seed section 5.1): others are refused."""

from __future__ import annotations

from pydantic import ValidationError

from miniapp_worker.pending import Pending, refused
from runtime_actors.contract.lifecycle import SendText
from runtime_actors.contract.tools import CommandReceipt


class MiniAppConversation:
    """`conversation.sendText`, by way of the runtime's outbox."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending

    async def send_text(self, text: str, *, action_id: str | None = None) -> CommandReceipt:
        """Have a person's text delivered to the conversation's agent.

        With the `action_id` of the action that brought it, it is sent once however often this is asked, also by a later
        process, and the action's message is acknowledged with it.

        Raises:
            PayloadRefused: an argument breaks the contract. Nothing was sent.

        """
        try:
            body = SendText(text=text, action_id=action_id)
        except ValidationError as error:
            raise refused(error) from None
        return await self._pending.wish("lineup.v1.conversation.send_text", body.to_wire())
