"""What every actor of the runtime shares: nothing escapes it, and it is rebuilt in place.

pykka stops an actor whose `tell` raised and drops its mailbox. Here the actor keeps thread and mailbox, forgets what
it kept in memory, loads it again from the store, and tries the message once more. A message that fails again is set
aside.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pykka

from runtime_actors.contract.rejection import Rejection, RejectionCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykka._envelope import Envelope

    from runtime_actors.rules.calls import CallKey

logger = logging.getLogger(__name__)

MAX_REBUILDS: Final = 10
"""Within `REBUILD_PERIOD_S`; one more and the runtime ends, to recover as a whole."""
REBUILD_PERIOD_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Beat:
    """Asks an actor to show that it is not stuck, by calling back."""

    answer: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SetAside:
    """A message that failed twice."""

    actor: str
    message: str
    """Its class and ids, never its payload."""
    error: str
    call: CallKey | None
    """The call it was about, by an agent's name for it ..."""
    reported: tuple[str, str] | None = None
    """... or by a MiniApp's: (instance_id, call_id)."""


@dataclass(frozen=True, slots=True)
class Care:
    """Who is told when an actor is in trouble."""

    set_aside: Callable[[SetAside], None]
    give_up: Callable[[str, BaseException], None]
    """Ends the runtime with exit code 6."""
    born: Callable[[RuntimeActor], None]
    """Makes the actor known for `status`; its counters may be read from any thread."""


class Inbox:
    """What waits for an actor. Anybody puts; only the actor's thread takes, and may look at what it would take next.

    pykka's own is a `queue.Queue`, which wakes its reader by way of locks and conditions written in Python: several
    times the cost, at each of the dozen hand-overs of a call.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Envelope[Any]] = queue.SimpleQueue()
        self._seen: deque[Envelope[Any]] = deque()
        """One at most: looked at, and not taken yet."""

    def put(self, item: Envelope[Any], /) -> None:
        """Leave it; never blocks."""
        self._queue.put(item)

    def get(self) -> Envelope[Any]:
        """Take what waits longest; wait for it."""
        return self._seen.popleft() if self._seen else self._queue.get()

    def next(self) -> Envelope[Any] | None:
        """What waits longest, left where it is; None if nothing waits."""
        if not self._seen:
            try:
                self._seen.append(self._queue.get_nowait())
            except queue.Empty:
                return None
        return self._seen[0]

    def empty(self) -> bool:
        """Whether nothing waits."""
        return not len(self)

    def __len__(self) -> int:
        """How much waits; from any thread."""
        return len(self._seen) + self._queue.qsize()


class RuntimeActor(pykka.ThreadingActor):
    """Base of all actors. A subclass defines `receive`, and `rebuild`, which forgets and loads again."""

    use_daemon_thread = True  # a stuck actor must not keep a process that gave up alive
    actor_inbox: Inbox

    def __init__(self, care: Care) -> None:
        super().__init__()
        self._care = care
        self._rebuilds: deque[float] = deque(maxlen=MAX_REBUILDS)
        self.handled = 0
        self.rebuilt = 0
        care.born(self)

    @staticmethod
    def _create_actor_inbox() -> Inbox:
        return Inbox()

    @property
    def name(self) -> str:
        """As people know it."""
        return type(self).__name__.removesuffix("Actor").lower()

    def receive(self, message: object) -> None:
        """Handle one message."""
        raise NotImplementedError

    def rebuild(self) -> None:
        """Forget everything kept in memory and ask the store for it again."""
        raise NotImplementedError

    def on_receive(self, message: object) -> None:
        """Handle a message; if that fails, rebuild and try once more."""
        self.handled += 1
        if isinstance(message, Beat):
            message.answer(self.name)
            return
        try:
            self.receive(message)
        except BaseException as error:
            logger.exception("an actor failed", extra={"actor": self.name, "kind": type(message).__name__})
            self._again(message, error)

    def _again(self, message: object, error: BaseException) -> None:
        now = time.monotonic()
        if len(self._rebuilds) == MAX_REBUILDS and now - self._rebuilds[0] < REBUILD_PERIOD_S:
            self._care.give_up(self.name, error)
            return
        self._rebuilds.append(now)
        self.rebuilt += 1
        try:
            self.rebuild()
            self.receive(message)
        except BaseException as second:
            logger.exception("a message was set aside", extra={"actor": self.name, "kind": type(message).__name__})
            self._set_aside(message, second)

    def _set_aside(self, message: object, error: BaseException) -> None:
        by, call = getattr(message, "by", None), getattr(message, "call_key", None)
        reported = None if by is None else (by.instance_id, by.call_id)
        self._care.set_aside(SetAside(self.name, type(message).__name__, repr(error)[:500], call, reported))
        answer = getattr(message, "answer", None)
        if call is not None and answer is not None:  # an agent waits
            answer(Rejection(code=RejectionCode.INTERNAL_ERROR, detail="the runtime failed on this; its log says how"))


class Ref:
    """An actor's mailbox, known before the actor is started: `boot` makes all of them first.

    What is told before that waits; what is told after the actor stopped is dropped, for it is in the rows.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._ref: pykka.ActorRef[Any] | None = None
        self._early: list[object] = []
        self._lock = threading.Lock()

    @property
    def is_filled(self) -> bool:
        """Whether the actor was started."""
        return self._ref is not None

    def fill(self, ref: pykka.ActorRef[Any]) -> None:
        """From now on messages reach this actor."""
        with self._lock:
            for message in self._early:
                ref.tell(message)
            self._early.clear()
            self._ref = ref

    def tell(self, message: object) -> None:
        """Leave a message."""
        if self._ref is None:
            with self._lock:
                if self._ref is None:
                    self._early.append(message)
                    return
        try:
            self._ref.tell(message)
        except pykka.ActorDeadError:
            logger.debug("told a stopped actor", extra={"actor": self.name})

    def backlog(self) -> int:
        """How many messages wait."""
        if self._ref is None:
            return len(self._early)
        waiting = self._ref.actor_inbox
        assert isinstance(waiting, Inbox)  # noqa: S101 - what a RuntimeActor has
        return len(waiting)

    def stop(self, within_s: float) -> None:
        """End the actor after what is in its mailbox, or give it up after a while."""
        if self._ref is not None:
            with contextlib.suppress(pykka.ActorDeadError, pykka.Timeout):
                self._ref.stop(timeout=within_s)
