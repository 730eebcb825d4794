"""What a session at any door has in common: a connection that is made again, an attach, and requests until answered."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeVar

import zmq

from runtime_actors.client.connection import Connect, Connection
from runtime_actors.client.door import REJECTED, read, rejected, request_frame
from runtime_actors.client.errors import ConnectionLost, DaemonNotRunning, NoAnswer, Refused
from runtime_actors.client.events import Answered, Lost
from runtime_actors.client.times import now_text
from runtime_actors.contract import envelope
from runtime_actors.contract.agent import Ping
from runtime_actors.contract.base import WireModel
from runtime_actors.contract.envelope import Envelope
from runtime_actors.contract.rejection import RejectionCode

N = TypeVar("N")

OPEN_S: Final = 3.0
"""How long a greeting and an attach may take before the connection is given up."""
QUIET_S: Final = 2.0
"""A connection on which nothing came for so long is pinged; after three times that it is given up."""
_AGAIN_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Waits between tries to connect; the last one repeats."""
_LATER: Final = frozenset({RejectionCode.BUSY, RejectionCode.STORE_UNAVAILABLE, RejectionCode.INTERNAL_ERROR})
"""Refusals of an attach that may be none the next time."""


@dataclass(slots=True)
class Open:
    """The present connection."""

    connection: Connection
    heard_at: float
    pinged_at: float = 0.0
    attached: bool = False


class KeptSession(ABC, Generic[N]):
    """For one thread, which waits by its methods. Nothing happens between the calls. `N` is what it has news of."""

    def __init__(self, endpoint: str, clock: Callable[[], float], connect: Connect) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._connection_to = connect
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._open: Open | None = None
        self._tries = 0
        self._try_at = 0.0
        self._attach_id = ""
        self._denied: Refused | None = None
        self._unanswered: dict[str, bytes] = {}
        self._news: deque[N | Answered | Lost] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def attached(self) -> bool:
        return self._open is not None and self._open.attached

    def close(self) -> None:
        """Be gone at once."""
        if self._open is not None:
            self._open.connection.close()
            self._open = None
        self._context.term()

    def send(
        self,
        kind: str,
        body: WireModel | Mapping[str, Any],
        *,
        conversation_id: str | None = None,
        request_id: str | None = None,
    ) -> str:
        """Send a request whose answer arrives as an `Answered` of the id returned; until then it is repeated.

        The same `request_id` again is the same request again.

        Raises:
            Refused: The body breaks the intake rule (`message_invalid`, `message_too_large`) and was not sent.

        """
        request_id = request_id or str(uuid.uuid4())
        frame = request_frame(kind, body, request_id, conversation_id)
        self._unanswered[request_id] = frame
        if self.attached:
            self._send(frame)
        return request_id

    def forget(self, request_id: str) -> None:
        """Wait for this answer no longer."""
        self._unanswered.pop(request_id, None)

    # --- waiting ---

    def _wait_attached(self, timeout_s: float, is_attached: Callable[[], bool]) -> None:
        deadline = self._clock() + timeout_s
        while not is_attached():
            left_s = deadline - self._clock()
            if left_s <= 0:
                raise NoAnswer("the attach", timeout_s)
            self._step(left_s)
            if self._open is None and self._tries:
                raise DaemonNotRunning(self._endpoint)

    def _wait_answer(self, request_id: str, kind: str, timeout_s: float) -> Answered:
        """The answer to a request; what else arrives meanwhile is kept. In the end it is not repeated any more."""
        deadline = self._clock() + timeout_s
        try:
            while (left_s := deadline - self._clock()) > 0:
                answer = self._find_answer(request_id)
                if answer is None:
                    self._step(left_s)
                elif answer.refused is not None:
                    raise answer.refused
                else:
                    return answer
        finally:
            self._unanswered.pop(request_id, None)
        raise NoAnswer(kind, timeout_s)

    def _wait_news(self, timeout_s: float) -> N | Answered | Lost | None:
        deadline = self._clock() + timeout_s
        while not self._news:
            left_s = deadline - self._clock()
            self._step(max(0.0, left_s))
            if left_s <= 0:
                break
        return self._news.popleft() if self._news else None

    def _find_answer(self, request_id: str) -> Answered | None:
        for news in self._news:
            if isinstance(news, Answered) and news.request_id == request_id:
                self._news.remove(news)
                return news
        return None

    # --- the connection ---

    def _step(self, timeout_s: float) -> None:
        """Do one thing: connect, read one frame, or wait at most `timeout_s`."""
        if self._denied is not None:
            raise self._denied
        try:
            self._flush()
            if self._open is None:
                self._connect(timeout_s)
            else:
                self._receive(self._open, timeout_s)
        except ConnectionLost:
            self._drop()

    def _connect(self, timeout_s: float) -> None:
        wait_s = self._try_at - self._clock()
        if wait_s > 0:
            time.sleep(min(wait_s, timeout_s))
            return
        connection = self._connection_to(self._context, self._endpoint)
        try:
            connection.wait_open(OPEN_S)
        except (DaemonNotRunning, NoAnswer):
            connection.close()
            self._wait_to_try()
            return
        self._open = Open(connection, heard_at=self._clock())
        self._ask_to_attach(self._open)

    def _wait_to_try(self) -> None:
        self._try_at = self._clock() + _AGAIN_S[min(self._tries, len(_AGAIN_S) - 1)]
        self._tries += 1

    def _ask_to_attach(self, at: Open) -> None:
        at.attached = False
        self._attach_id = str(uuid.uuid4())
        at.connection.send(envelope.encode(*self._attach_body(), id=self._attach_id, sent_at=now_text()))

    def _receive(self, at: Open, timeout_s: float) -> None:
        quiet_s = self._clock() - at.heard_at
        if quiet_s > (3 * QUIET_S if at.attached else OPEN_S):
            raise ConnectionLost(self._endpoint)
        if at.attached and quiet_s > QUIET_S and self._clock() - at.pinged_at > QUIET_S:
            at.pinged_at = self._clock()
            at.connection.send(envelope.encode("lineup.v1.ping", Ping(), id=str(uuid.uuid4()), sent_at=now_text()))
        frame = at.connection.receive(min(timeout_s, QUIET_S / 4))
        if frame is not None:
            at.heard_at = self._clock()
            self._handle(at, read(frame))

    def _drop(self) -> None:
        if self._open is not None:
            self._open.connection.close()
            if self._open.attached:
                self._news.append(Lost())
            else:  # accepted and not answered: do not try again at once
                self._wait_to_try()
            self._open = None

    def _say(self, kind: str, body: WireModel) -> None:
        self._send(envelope.encode(kind, body, id=str(uuid.uuid4()), sent_at=now_text()))

    def _send(self, frame: bytes) -> None:
        if self._open is not None:
            try:
                self._open.connection.send(frame)
            except ConnectionLost:
                self._drop()

    # --- what arrives ---

    def _handle(self, at: Open, message: Envelope) -> None:
        request_id = message.body.get("request_id")
        if request_id is not None and request_id == self._attach_id:
            self._attach_answered(at, message)
        elif not self._takes(message) and request_id in self._unanswered:
            if message.type == REJECTED and message.body.get("code") == RejectionCode.NOT_ATTACHED:
                self._ask_to_attach(at)  # the request is repeated once that was answered
                return
            del self._unanswered[str(request_id)]
            self._news.append(Answered(str(request_id), message.type, message.body))

    def _attach_answered(self, at: Open, message: Envelope) -> None:
        if message.type == REJECTED:
            refusal = rejected(message.body)
            if refusal.code in _LATER:
                raise ConnectionLost(self._endpoint)
            self._denied = Refused(refusal)
            raise self._denied
        stands = self._stands(message)
        at.attached = True
        self._tries = 0
        self._news.append(stands)
        for frame in tuple(self._unanswered.values()):
            self._send(frame)

    # --- what each door has of its own ---

    @abstractmethod
    def _attach_body(self) -> tuple[str, WireModel]:
        """Type and body of the attach."""

    @abstractmethod
    def _stands(self, message: Envelope) -> N:
        """Take the answer to the attach over; the news of it."""

    @abstractmethod
    def _takes(self, message: Envelope) -> bool:
        """Take over what is no answer; whether it was such a thing."""

    @abstractmethod
    def _flush(self) -> None:
        """Send the acknowledgements that are due."""
