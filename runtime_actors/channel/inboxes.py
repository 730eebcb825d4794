"""Messages on their way to workers: sent as they are committed, or read from the store as the workers keep up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_actors.channel import messages as m
from runtime_actors.channel.session import Phase, Session
from runtime_actors.commands import inbox
from runtime_actors.contract.rejection import Rejection
from runtime_actors.rules.delivery import WINDOW

if TYPE_CHECKING:
    from runtime_actors.channel.sessions import Sessions
    from runtime_actors.commands.follow_ups import Deliver
    from runtime_actors.contract.inbox import MiniAppMessage
    from runtime_actors.mailbox import Mailbox
    from runtime_actors.store.client import Store


class Inboxes:
    """Belongs to the channel actor, on whose thread it runs."""

    def __init__(self, store: Store, sessions: Sessions, me: Mailbox[object]) -> None:
        self._store, self._sessions, self._me = store, sessions, me

    def deliver(self, deliver: Deliver) -> None:
        """A message was committed: send it, or notice that the worker is behind."""
        session = self._sessions.open_of(deliver.instance_id)
        if session is None:
            return  # the page that is read at attach has it
        frame = self._sessions.frame("lineup.v1.inbox.message", deliver.message)
        if session.feed.offer(deliver.message.number, len(frame)):
            self._sent(session, deliver.message, frame)
        elif session.feed.wants_page():
            self.read_more(session)

    def _sent(self, session: Session, message: MiniAppMessage, frame: bytes) -> None:
        session.gave((message,))
        session.highest = max(session.highest, message.number)
        self._sessions.send(session, frame)

    def settle(self, instance_id: str, number: int) -> None:
        """A message left the inbox."""
        session = self._sessions.latest_of(instance_id)
        if session is not None:
            session.settle(number)
            if session.phase is Phase.OPEN and session.feed.wants_page():
                self.read_more(session)

    def read_more(self, session: Session) -> None:
        """Ask the store for what comes next."""
        session.feed.reading = True
        asked, attempt_id, number = frozenset(session.feed.in_flight), session.attempt_id, session.number
        of = inbox.InboxPageOf(session.instance_id, asked, 0, WINDOW)
        self._store.run(inbox.read_inbox, of, lambda page: self._me.tell(m.PageRead(attempt_id, number, asked, page)))

    def take_page(self, read: m.PageRead) -> None:
        """Send of a page what fits into the window."""
        session = self._sessions.of_attempt.get(read.attempt_id)
        if session is None or session.phase is not Phase.OPEN or session.number != read.session:
            return
        page = read.page
        if isinstance(page, Rejection):
            session.feed.reading = False
            return
        session.feed.keep(page.still, read.asked)
        for number in read.asked - page.still:
            session.calls.pop(number, None)
        frames = {}
        for message in page.messages:
            again = message.number <= session.highest
            shown = message.model_copy(update={"repeated": True}) if again and not message.repeated else message
            frames[message.number] = (shown, self._sessions.frame("lineup.v1.inbox.message", shown))
        sizes = [(number, len(frame)) for number, (_, frame) in frames.items()]
        for number in session.feed.take(sizes, page.through, complete=page.complete):
            self._sent(session, *frames[number])
        if session.feed.wants_page():
            self.read_more(session)
