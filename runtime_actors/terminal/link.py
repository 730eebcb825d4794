"""A host's session on a thread of its own: the screen never waits for the daemon."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from runtime_actors.client.errors import ClientError, Refused
from runtime_actors.client.events import Lost
from runtime_actors.client.host import Happened, HostReady, HostSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.contract.base import JsonObject
    from runtime_actors.contract.host import HostDone, HostEvent

_LISTEN_S: Final = 0.05
"""What the person does waits at most so long before it is sent."""


@dataclass(frozen=True, slots=True)
class Listings:
    """Everything that is open, read because events are missing."""

    interactions: list[JsonObject]
    surfaces: list[JsonObject]
    focus: list[JsonObject]
    instances: list[JsonObject]
    timeline: list[JsonObject]
    """The newest page of what happened."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The daemon does not let this host in, or what was asked of it failed."""

    why: str
    about: str | None = None
    """The question that it was about."""
    code: str | None = None
    """Of the refusal, if it was one."""


News = Listings | HostReady | Lost | Failed


@dataclass(frozen=True, slots=True)
class _Wish:
    do: Callable[[HostSession], HostDone | None]
    about: str | None
    quiet: bool


class Link:
    """Owns the session. `tell` is called on its thread, with news and with events, in order."""

    def __init__(self, session: HostSession, tell: Callable[[News | HostEvent], None]) -> None:
        self._session, self._tell = session, tell
        self._wishes: queue.SimpleQueue[_Wish | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="host", daemon=True)

    def start(self) -> None:
        """Attach, and follow."""
        self._thread.start()

    def stop(self) -> None:
        """Leave. What was wished before is done first, if the daemon is there."""
        self._wishes.put(None)
        self._thread.join(timeout=5.0)

    def do(
        self, wish: Callable[[HostSession], HostDone | None], *, about: str | None = None, quiet: bool = False
    ) -> None:
        """Have something done by the session. A refusal comes as `Failed`, unless nobody needs to know of it."""
        self._wishes.put(_Wish(wish, about, quiet))

    def _run(self) -> None:
        with self._session as session:
            try:
                while self._serve(session):
                    self._listen(session)
            except ClientError as error:
                self._tell(Failed(str(error)))

    def _serve(self, session: HostSession) -> bool:
        while True:
            try:
                wish = self._wishes.get_nowait()
            except queue.Empty:
                return True
            if wish is None:
                return False
            try:
                wish.do(session)
            except ClientError as error:
                if not wish.quiet:
                    self._tell(Failed(str(error), wish.about, error.code if isinstance(error, Refused) else None))

    def _listen(self, session: HostSession) -> None:
        news = session.next_news(_LISTEN_S)
        match news:
            case Happened(event):
                self._tell(event)
                session.acknowledge(event.number)
            case HostReady():
                self._tell(news)
                self._tell(_read(session))
            case Lost():
                self._tell(news)


def _read(session: HostSession) -> Listings:
    return Listings(
        interactions=session.rows("interactions"),
        surfaces=session.rows("surfaces"),
        focus=session.rows("focus"),
        instances=session.rows("ps"),
        timeline=session.rows("timeline"),  # last: no event of the others is newer than what it tells
    )
