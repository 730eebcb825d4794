"""Which sessions there are, and how something is said to one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from runtime_actors.channel.session import Phase, Session
from runtime_actors.contract import envelope
from runtime_actors.records.transaction import rfc3339

if TYPE_CHECKING:
    from runtime_actors.channel.socket import SocketThread
    from runtime_actors.contract.base import WireModel
    from runtime_actors.mailbox import Clock


class Sessions:
    """By attempt, by connection, and by instance: the latest attempt of each."""

    def __init__(self, sockets: SocketThread, clock: Clock) -> None:
        self._sockets, self._clock = sockets, clock
        self._frames = itertools.count(1)
        self.of_attempt: dict[str, Session] = {}
        self.of_peer: dict[int, Session] = {}
        self._of_instance: dict[str, Session] = {}

    def add(self, session: Session) -> None:
        """A new attempt."""
        self.of_attempt[session.attempt_id] = session
        self._of_instance[session.instance_id] = session

    def remove(self, attempt_id: str) -> Session | None:
        """An attempt is over; the session it had, if it was known."""
        session = self.of_attempt.pop(attempt_id, None)
        if session is None:
            return None
        if session.peer is not None:
            self.of_peer.pop(session.peer, None)
        if self._of_instance.get(session.instance_id) is session:
            del self._of_instance[session.instance_id]
        return session

    def open_of(self, instance_id: str) -> Session | None:
        """The open session of an instance."""
        session = self._of_instance.get(instance_id)
        return session if session is not None and session.phase is Phase.OPEN else None

    def latest_of(self, instance_id: str) -> Session | None:
        """The session of an instance's latest attempt, whatever its phase."""
        return self._of_instance.get(instance_id)

    def say(self, session: Session, kind: str, body: WireModel) -> None:
        """Send a message, if the worker is connected."""
        if session.peer is not None:
            self._sockets.send(session.peer, self.frame(kind, body))

    def send(self, session: Session, frame: bytes) -> None:
        """Send a frame, if the worker is connected."""
        if session.peer is not None:
            self._sockets.send(session.peer, frame)

    def frame(self, kind: str, body: WireModel) -> bytes:
        """A message as a frame."""
        return envelope.encode(kind, body, id=f"r{next(self._frames)}", sent_at=rfc3339(self._clock.now().wall))
