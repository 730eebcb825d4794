"""The shell actor: sends hosts what a person may see, and has recorded what a person does."""

from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgpack

from runtime_actors.actor import RuntimeActor
from runtime_actors.channel.seldom import Seldom
from runtime_actors.commands import action_messages, artifacts, hosts, screens
from runtime_actors.commands.follow_ups import Shown
from runtime_actors.contract import envelope
from runtime_actors.contract.rejection import Rejection
from runtime_actors.shell import messages as m
from runtime_actors.shell.feed import EventFeed
from runtime_actors.shell.written import written

if TYPE_CHECKING:
    from runtime_actors.actor import Care
    from runtime_actors.channel.socket import SocketThread
    from runtime_actors.mailbox import Mailbox
    from runtime_actors.store.client import Store
    from runtime_actors.timers import Timers

seldom = Seldom(logging.getLogger(__name__))


@dataclass(slots=True)
class Attachment:
    """One connection of a host."""

    peer: int
    number: int
    """Attachments so far: a peer may attach again."""
    identity: tuple[str, str]
    """Host and nonce."""
    conversations: frozenset[str] | None
    feed: EventFeed


class ShellActor(RuntimeActor):
    """Owns attachments of hosts and their events. Keeps who is attached and what is in flight to whom."""

    def __init__(
        self, care: Care, *, store: Store, sockets: SocketThread, me: Mailbox[object], timers: Timers, sweep_s: float
    ) -> None:
        super().__init__(care)
        self._store, self._sockets, self._me, self._timers, self._sweep_s = store, sockets, me, timers, sweep_s
        self._attached: dict[int, Attachment] = {}
        self._numbers = itertools.count(1)
        self._doubtful: frozenset[int] = frozenset()
        """Peers that the rows said are attached at the latest sweep, and nobody told us of."""

    def on_start(self) -> None:
        """Begin to sweep."""
        self._timers.tell_after(self._sweep_s, self._me, m.SweepDue())

    def rebuild(self) -> None:
        """Who is attached stays; what is in flight is sent again."""
        for attachment in self._attached.values():
            attachment.feed.restart()
            self._go_on(attachment)

    def receive(self, message: object) -> None:  # noqa: C901, PLR0912 - one line a message
        """Handle one message."""
        match message:
            case Shown(number):
                for attachment in self._attached.values():
                    attachment.feed.note(number)
                    self._go_on(attachment)
            case m.Acked(peer, number):
                if (known := self._attached.get(peer)) is not None:
                    known.feed.ack(number)
                    self._go_on(known)
            case m.Write():
                self._write(message)
            case m.PageRead():
                self._take_page(message)
            case m.Attach():
                self._attach(message)
            case m.Detach(peer):
                self._attached.pop(peer, None)
                self._store.run(hosts.detach_host, peer)
            case m.Showing(peer, on_screen):
                self._store.run(hosts.show_on_screen, hosts.Showing(peer, on_screen))
            case m.Looked(found):
                if isinstance(found, hosts.There):
                    self._compare(found)
            case m.SweepDue():
                self._timers.tell_after(self._sweep_s, self._me, m.SweepDue())
                self._sweep()
            case _:
                detail = f"the shell cannot take {type(message).__name__}"
                raise TypeError(detail)

    @property
    def attachments(self) -> int:
        """How many hosts are attached."""
        return len(self._attached)

    # --- who is there ---

    def _attach(self, wanted: m.Attach) -> None:
        identity = (wanted.host, wanted.nonce)
        for other in [one for one in self._attached.values() if one.identity == identity and one.peer != wanted.peer]:
            self._hang_up(other)  # it connected again before its old connection was seen to end
        feed = EventFeed(wanted.after, wanted.after)
        attachment = Attachment(wanted.peer, next(self._numbers), identity, wanted.conversations, feed)
        self._attached[wanted.peer] = attachment
        self._read(attachment)  # there may be events that were shown between its record and now

    def _hang_up(self, attachment: Attachment) -> None:
        self._attached.pop(attachment.peer, None)
        self._sockets.close(attachment.peer)

    # --- events ---

    def _go_on(self, attachment: Attachment) -> None:
        if attachment.feed.wants_page():
            self._read(attachment)

    def _read(self, attachment: Attachment) -> None:
        feed, peer, number = attachment.feed, attachment.peer, attachment.number
        feed.reading = True
        of = hosts.EventsOf(feed.through, attachment.conversations, feed.room, feed.room_bytes)
        self._store.run(hosts.read_events, of, lambda page: self._me.tell(m.PageRead(peer, number, page)))

    def _take_page(self, read: m.PageRead) -> None:
        attachment = self._attached.get(read.peer)
        if attachment is None or attachment.number != read.attachment:
            return
        page = read.page
        if isinstance(page, Rejection):
            attachment.feed.reading = False
            return
        if page.lost:
            # It attaches again and is told `complete: false`: what it missed is in the listings.
            seldom.warning("a host is closed: it is too far behind", "host", host=attachment.identity[0])
            self._hang_up(attachment)
            return
        attachment.feed.note(page.last)
        sent: list[tuple[int, int]] = []
        for event in page.events:
            frame = _frame(event)
            self._sockets.send(attachment.peer, frame)
            sent.append((event.number, len(frame)))
        attachment.feed.take(sent, page.through)
        self._go_on(attachment)

    # --- what hosts write ---

    def _write(self, write: m.Write) -> None:
        order = written(write)
        self._store.run(order.rule, order.argument, lambda outcome: write.answer(*order.answer(outcome)))

    # --- what time brings ---

    def _sweep(self) -> None:
        self._store.run(action_messages.note_hanging, None)
        self._store.run(hosts.forget_hosts, None)
        self._store.run(screens.drop_old_events, None)
        self._store.run(artifacts.drop_unfinished, None)
        self._store.run(hosts.read_there, None, lambda found: self._me.tell(m.Looked(found)))

    def _compare(self, rows: hosts.There) -> None:
        for attachment in self._attached.values():
            attachment.feed.note(rows.last_event)
            self._go_on(attachment)
        unknown = rows.peers - self._attached.keys()
        for peer in unknown & self._doubtful:  # the news of its end, or of its attach, got lost on the way
            self._sockets.close(peer)
            self._store.run(hosts.detach_host, peer)
        self._doubtful = frozenset(unknown)


def _frame(event: hosts.EventRow) -> bytes:
    body = {
        "number": event.number,
        "at": event.at,
        "conversation_id": event.conversation_id,
        "kind": event.kind,
        "data": msgpack.unpackb(event.data),
    }
    return envelope.encode(
        "lineup.v1.host.event",
        body,
        id=f"e{event.number}",
        sent_at=event.at,
        conversation_id=event.conversation_id or None,
    )
