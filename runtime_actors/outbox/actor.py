"""The outbox actor: sends what was committed for agents, until it is acknowledged."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from runtime_actors.actor import RuntimeActor
from runtime_actors.commands import agents
from runtime_actors.commands.follow_ups import Post
from runtime_actors.contract.rejection import Rejection
from runtime_actors.outbox import messages as m
from runtime_actors.rules.delivery import AGENT_WINDOW, WINDOW_BYTES, Feed

if TYPE_CHECKING:
    from runtime_actors.actor import Care
    from runtime_actors.channel.socket import SocketThread
    from runtime_actors.mailbox import Mailbox
    from runtime_actors.records.boxes import Delivery
    from runtime_actors.store.client import Store
    from runtime_actors.timers import Timers

_PAGE: Final = AGENT_WINDOW
_SETTLE_S: Final = 0.01
_SETTLE_AT: Final = 32
"""Nobody waits until one is recorded, so a few share a transaction. Those that a crash takes come again."""


@dataclass(slots=True)
class Attachment:
    """One connection that gets an agent's deliveries."""

    peer: int
    agent_id: str
    conversations: frozenset[str] | None
    number: int
    """Attachments so far: a peer may attach again."""
    feed: Feed = field(default_factory=lambda: Feed(window=AGENT_WINDOW))

    def wants(self, delivery: Delivery) -> bool:
        """Whether this attachment gets deliveries of that conversation."""
        return self.conversations is None or delivery.conversation_id in self.conversations


class OutboxActor(RuntimeActor):
    """Owns deliveries. Keeps who is attached and what is in flight to whom."""

    def __init__(
        self, care: Care, *, store: Store, sockets: SocketThread, me: Mailbox[object], timers: Timers, sweep_s: float
    ) -> None:
        super().__init__(care)
        self._store, self._sockets, self._me, self._timers, self._sweep_s = store, sockets, me, timers, sweep_s
        self._attached: dict[int, Attachment] = {}
        self._of_agent: dict[str, dict[int, Attachment]] = {}
        self._numbers = itertools.count(1)
        self._unsettled: dict[str, list[int]] = {}
        """Acknowledged by an agent, and not yet told to the store."""

    def on_start(self) -> None:
        """Begin to sweep."""
        self._timers.tell_after(self._sweep_s, self._me, m.SweepDue())

    def on_stop(self) -> None:
        """What was acknowledged is not to come again."""
        self._settle()

    def rebuild(self) -> None:
        """Who is attached stays; what is in flight is sent again."""
        for attachment in self._attached.values():
            attachment.feed.restart()
            self._read(attachment)

    def receive(self, message: object) -> None:
        """Handle one message."""
        match message:
            case Post(delivery):
                self._post(delivery)
            case m.Acked(agent_id, numbers):
                self._acked(agent_id, numbers)
            case m.Attach(peer, agent_id, conversations):
                self._attach(Attachment(peer, agent_id, conversations, next(self._numbers)))
            case m.Detach(peer):
                self._detach(peer)
            case m.PageRead():
                self._take_page(message)
            case m.SettleDue():
                self._settle()
            case m.SweepDue():
                self._timers.tell_after(self._sweep_s, self._me, m.SweepDue())
                for attachment in self._attached.values():
                    if not attachment.feed.reading:
                        self._read(attachment)
            case _:
                detail = f"the outbox cannot take {type(message).__name__}"
                raise TypeError(detail)

    @property
    def attachments(self) -> int:
        """How many connections are attached."""
        return len(self._attached)

    def _attach(self, attachment: Attachment) -> None:
        self._detach(attachment.peer)
        self._attached[attachment.peer] = attachment
        self._of_agent.setdefault(attachment.agent_id, {})[attachment.peer] = attachment
        self._read(attachment)

    def _detach(self, peer: int) -> None:
        attachment = self._attached.pop(peer, None)
        if attachment is not None:
            siblings = self._of_agent[attachment.agent_id]
            del siblings[peer]
            if not siblings:
                del self._of_agent[attachment.agent_id]

    def _post(self, delivery: Delivery) -> None:
        for attachment in self._of_agent.get(delivery.agent_id, {}).values():
            if not attachment.wants(delivery):
                attachment.feed.skip(delivery.number)
            elif attachment.feed.offer(delivery.number, len(delivery.frame)):
                self._sockets.send(attachment.peer, delivery.frame)
            elif attachment.feed.wants_page():
                self._read(attachment)

    def _acked(self, agent_id: str, numbers: tuple[int, ...]) -> None:
        if not self._unsettled:
            self._timers.tell_after(_SETTLE_S, self._me, m.SettleDue())
        waiting = self._unsettled.setdefault(agent_id, [])
        waiting += numbers
        if len(waiting) >= _SETTLE_AT:
            self._settle()
        # The window opens at once. If the store could not record it, the sweep finds them again.
        for attachment in self._of_agent.get(agent_id, {}).values():
            for number in numbers:
                attachment.feed.settle(number)
            if attachment.feed.wants_page():
                self._read(attachment)

    def _settle(self) -> None:
        for agent_id, numbers in self._unsettled.items():
            self._store.run(agents.settle_deliveries, agents.Settle(agent_id, tuple(numbers)))
        self._unsettled.clear()

    def _read(self, attachment: Attachment) -> None:
        self._settle()  # or it would be read, and sent, again
        attachment.feed.reading = True
        asked, peer, number = frozenset(attachment.feed.in_flight), attachment.peer, attachment.number
        of = agents.PageOf(attachment.agent_id, asked, attachment.conversations, _PAGE, WINDOW_BYTES)
        self._store.run(agents.read_deliveries, of, lambda page: self._me.tell(m.PageRead(peer, number, asked, page)))

    def _take_page(self, read: m.PageRead) -> None:
        attachment = self._attached.get(read.peer)
        if attachment is None or attachment.number != read.attachment:
            return
        feed, page = attachment.feed, read.page
        if isinstance(page, Rejection):
            feed.reading = False
            return
        feed.keep(page.still, read.asked)
        frames = {one.number: one.frame for one in page.deliveries}
        sizes = [(number, len(frame)) for number, frame in frames.items()]
        for number in feed.take(sizes, page.through, complete=page.complete):
            self._sockets.send(attachment.peer, frames[number])
        if feed.wants_page():
            self._read(attachment)
