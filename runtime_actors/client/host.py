"""A host's end of its door: attached, and attached again whenever the connection ends.

What section 5 of docs/protocol.md asks of a host: it keeps its nonce, repeats what has no answer with the same ids,
goes on behind the last event it took over, and reads the listings when it is told that events are missing.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import zmq
from pydantic import ValidationError

from runtime_actors.client.connection import Connect, Connection
from runtime_actors.client.door import REJECTED, parsed, read, rejected, request_frame
from runtime_actors.client.errors import ConnectionLost, DaemonNotRunning, NoAnswer, Refused
from runtime_actors.client.events import Answered, Lost
from runtime_actors.client.times import now_text
from runtime_actors.contract import envelope
from runtime_actors.contract import host as h
from runtime_actors.contract.agent import Listing, Ping, Query, Rows
from runtime_actors.contract.base import JsonObject, WireModel
from runtime_actors.contract.envelope import Envelope
from runtime_actors.contract.rejection import Rejected, RejectionCode

_OPEN_S: Final = 3.0
"""How long a greeting and an attach may take before the connection is given up."""
_QUIET_S: Final = 2.0
"""A connection on which nothing came for so long is pinged; after three times that it is given up."""
_AGAIN_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Waits between tries to connect; the last one repeats."""
_LATER: Final = frozenset({RejectionCode.BUSY, RejectionCode.STORE_UNAVAILABLE, RejectionCode.INTERNAL_ERROR})
"""Refusals of an attach that may be none the next time."""


@dataclass(frozen=True, slots=True)
class HostReady:
    """The session stands (again), and what had no answer was repeated.

    If `attached.complete` is false, events are missing: read the listings, then follow.
    """

    attached: h.HostAttached


@dataclass(frozen=True, slots=True)
class Happened:
    """An event, seen for the first time by this session. Acknowledge it once it is handled."""

    event: h.HostEvent

    @property
    def number(self) -> int:
        return self.event.number


HostNews = HostReady | Lost | Answered | Happened


@dataclass(slots=True)
class _Open:
    """The present connection."""

    connection: Connection
    heard_at: float
    pinged_at: float = 0.0
    attached: bool = False


class HostSession:
    """For one thread, which calls `next_news` or a method that waits. Nothing happens between the calls."""

    def __init__(
        self,
        endpoint: str,
        host: str,
        *,
        nonce: str | None = None,
        surfaces: bool = False,
        conversations: Sequence[str] | None = None,
        on_screen: str | None = None,
        stream: str | None = None,
        after_number: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        connect: Connect = Connection,
    ) -> None:
        """Make a session; it connects when waited on.

        A host that was killed goes on where it was with the `nonce`, the `stream` and the number of the last event it
        had taken over; without them it begins with what is still to come.
        """
        self.host = host
        self.nonce = nonce or secrets.token_urlsafe(24)
        self.stream = stream
        self.acknowledged = after_number
        """The last event that was taken over."""
        self._surfaces = surfaces
        self._conversations = tuple(conversations) if conversations is not None else None
        self._on_screen = on_screen
        self._endpoint = endpoint
        self._clock = clock
        self._connection_to = connect
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._open: _Open | None = None
        self._tries = 0
        self._try_at = 0.0
        self._attach_id = ""
        self._denied: Refused | None = None
        self._unanswered: dict[str, bytes] = {}
        self._news: deque[HostNews] = deque()
        self._highest = after_number or 0
        self._ack_due = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def attached(self) -> bool:
        return self._open is not None and self._open.attached

    def close(self) -> None:
        """Be gone at once. An acknowledgement that was lost with it only has events come again."""
        if self._open is not None:
            self._open.connection.close()
            self._open = None
        self._context.term()

    # --- attaching, and what is heard ---

    def attach(self, timeout_s: float = 10.0) -> None:
        """Wait until the session stands.

        Raises:
            DaemonNotRunning: Nobody accepts on the door.
            NoAnswer: Somebody accepts and does not answer.
            Refused: The attach is wrong.

        """
        deadline = self._clock() + timeout_s
        while not self.attached:
            left_s = deadline - self._clock()
            if left_s <= 0:
                raise NoAnswer("the attach", timeout_s)
            self._step(left_s)
            if self._open is None and self._tries:
                raise DaemonNotRunning(self._endpoint)

    def next_news(self, timeout_s: float) -> HostNews | None:
        """What happened next, or None when nothing did in time.

        Raises:
            Refused: The daemon does not let this host attach.

        """
        deadline = self._clock() + timeout_s
        while not self._news:
            left_s = deadline - self._clock()
            self._step(max(0.0, left_s))
            if left_s <= 0:
                break
        return self._news.popleft() if self._news else None

    def events(self, timeout_s: float) -> Iterator[h.HostEvent]:
        """Events as they come, until none came for so long; each is acknowledged when the next one is asked for.

        Other news are left out: whoever must know of missing events uses `next_news`.
        """
        while (news := self.next_news(timeout_s)) is not None:
            if isinstance(news, Happened):
                yield news.event
                self.acknowledge(news.number)

    def acknowledge(self, number: int) -> None:
        """Every event up to this one was taken over. It leaves with the next wait."""
        self.acknowledged = max(self.acknowledged or 0, number)
        self._ack_due = True

    # --- asking ---

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

    def request(
        self,
        kind: str,
        body: WireModel | Mapping[str, Any],
        *,
        conversation_id: str | None = None,
        request_id: str | None = None,
        timeout_s: float = 10.0,
    ) -> JsonObject:
        """Ask and wait for the body of the answer; what else arrives meanwhile is kept for `next_news`.

        Raises:
            Refused: The daemon answered `lineup.v1.rejected`.
            NoAnswer: The time is over; it may have been done. It is not repeated any more.

        """
        request_id = self.send(kind, body, conversation_id=conversation_id, request_id=request_id)
        deadline = self._clock() + timeout_s
        try:
            while (left_s := deadline - self._clock()) > 0:
                answer = self._find_answer(request_id)
                if answer is None:
                    self._step(left_s)
                elif answer.refused is not None:
                    raise answer.refused
                else:
                    return answer.body
        finally:
            self._unanswered.pop(request_id, None)
        raise NoAnswer(kind, timeout_s)

    def forget(self, request_id: str) -> None:
        """Wait for this answer no longer."""
        self._unanswered.pop(request_id, None)

    def rows(self, what: Listing, wanted: JsonObject | None = None, *, timeout_s: float = 10.0) -> list[JsonObject]:
        """All rows of a listing that hosts may read.

        Raises:
            Refused, NoAnswer: As in `request`.

        """
        found: list[JsonObject] = []
        after: str | None = None
        while True:
            query = Query(what=what, filter=wanted or {}, after=after)
            page = parsed(Rows, self.request("lineup.v1.control.query", query, timeout_s=timeout_s))
            found += page.rows
            after = page.next
            if after is None:
                return found

    # --- what a person does: each waits, and raises as `request` ---

    def answer(self, interaction_id: str, given: Mapping[str, Any], *, request_id: str | None = None) -> h.HostDone:
        """Answer a question; `given` is one of `acknowledged`, `action_ids`, `approved` and `values`."""
        return self._write("answer", h.HostAnswer, {"interaction_id": interaction_id, **given}, request_id=request_id)

    def dismiss(self, interaction_id: str, *, request_id: str | None = None) -> h.HostDone:
        return self._write("dismiss", h.HostDismiss, {"interaction_id": interaction_id}, request_id=request_id)

    def draft(self, interaction_id: str, sequence: int, values: JsonObject) -> h.HostDone:
        body = {"interaction_id": interaction_id, "sequence": sequence, "values": values}
        return self._write("draft", h.HostDraft, body)

    def presented(self, interaction_id: str) -> h.HostDone:
        return self._write("presented", h.HostPresented, {"interaction_id": interaction_id})

    def act(
        self,
        instance_id: str,
        action: Literal["focus", "close", "force_close", "app"],
        *,
        name: str | None = None,
        data: JsonObject | None = None,
        request_id: str | None = None,
    ) -> h.HostDone:
        body = {"instance_id": instance_id, "action": action, "name": name, "data": data}
        return self._write("act", h.HostAct, body, request_id=request_id)

    def text(self, conversation_id: str, text: str, *, request_id: str | None = None) -> h.HostDone:
        return self._write("text", h.HostText, {"text": text}, conversation_id=conversation_id, request_id=request_id)

    def surface(
        self,
        surface_id: str,
        op: Literal["update", "submit", "ask"],
        *,
        patch: JsonObject | None = None,
        revision: int | None = None,
        data: JsonObject | None = None,
        request_id: str | None = None,
    ) -> h.HostDone:
        body = {"surface_id": surface_id, "op": op, "patch": patch, "revision": revision, "data": data}
        return self._write("surface", h.HostSurface, body, request_id=request_id)

    def show(self, conversation_id: str | None) -> None:
        """What the person sees from now on; said again at each attach."""
        self._on_screen = conversation_id
        if self.attached:
            self._say("lineup.v1.host.show", h.HostShow(on_screen=conversation_id))

    def _write(
        self,
        word: str,
        model: type[WireModel],
        body: JsonObject,
        *,
        conversation_id: str | None = None,
        request_id: str | None = None,
    ) -> h.HostDone:
        try:
            checked = model.model_validate(body)
        except ValidationError as error:  # as the daemon would say it
            detail = f"not sent: {envelope.describe(error)}"
            raise Refused(Rejected(code=RejectionCode.MESSAGE_INVALID, detail=detail)) from None
        kind = f"lineup.v1.host.{word}"
        return parsed(h.HostDone, self.request(kind, checked, conversation_id=conversation_id, request_id=request_id))

    # --- the connection ---

    def _step(self, timeout_s: float) -> None:
        """Do one thing: connect, read one frame, or wait at most `timeout_s`."""
        if self._denied is not None:
            raise self._denied
        try:
            if self._open is None:
                self._connect(timeout_s)
                return
            if self._ack_due and self._open.attached:
                self._ack_due = False
                self._say("lineup.v1.host.ack", h.HostAck(number=self.acknowledged or 0))
            if self._open is not None:
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
            connection.wait_open(_OPEN_S)
        except (DaemonNotRunning, NoAnswer):
            connection.close()
            self._wait_to_try()
            return
        self._open = _Open(connection, heard_at=self._clock())
        self._ask_to_attach(self._open)

    def _wait_to_try(self) -> None:
        self._try_at = self._clock() + _AGAIN_S[min(self._tries, len(_AGAIN_S) - 1)]
        self._tries += 1

    def _ask_to_attach(self, at: _Open) -> None:
        at.attached = False
        self._attach_id = str(uuid.uuid4())
        body = h.HostAttach(
            host=self.host,
            nonce=self.nonce,
            surfaces=self._surfaces,
            conversations=self._conversations,
            on_screen=self._on_screen,
            stream=self.stream if self.acknowledged is not None else None,
            after_number=self.acknowledged,
        )
        at.connection.send(envelope.encode("lineup.v1.host.attach", body, id=self._attach_id, sent_at=now_text()))

    def _receive(self, at: _Open, timeout_s: float) -> None:
        quiet_s = self._clock() - at.heard_at
        if quiet_s > (3 * _QUIET_S if at.attached else _OPEN_S):
            raise ConnectionLost(self._endpoint)
        if at.attached and quiet_s > _QUIET_S and self._clock() - at.pinged_at > _QUIET_S:
            at.pinged_at = self._clock()
            at.connection.send(envelope.encode("lineup.v1.ping", Ping(), id=str(uuid.uuid4()), sent_at=now_text()))
        frame = at.connection.receive(min(timeout_s, _QUIET_S / 4))
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

    def _handle(self, at: _Open, message: Envelope) -> None:
        request_id = message.body.get("request_id")
        if request_id is not None and request_id == self._attach_id:
            self._attach_answered(at, message)
        elif message.type == "lineup.v1.host.event":
            event = parsed(h.HostEvent, message.body)
            if event.number > self._highest:
                self._highest = event.number
                self._news.append(Happened(event))
        elif request_id in self._unanswered:
            if message.type == REJECTED and message.body.get("code") == RejectionCode.NOT_ATTACHED:
                self._ask_to_attach(at)  # the request is repeated once that was answered
                return
            del self._unanswered[str(request_id)]
            self._news.append(Answered(str(request_id), message.type, message.body))

    def _attach_answered(self, at: _Open, message: Envelope) -> None:
        if message.type == REJECTED:
            refusal = rejected(message.body)
            if refusal.code in _LATER:
                raise ConnectionLost(self._endpoint)
            self._denied = Refused(refusal)
            raise self._denied
        answer = parsed(h.HostAttached, message.body)
        if self.acknowledged is None or not answer.complete:  # it goes on with what is still to come
            self.acknowledged = self._highest = answer.last_number
            self._news = deque(one for one in self._news if not isinstance(one, Happened))
        self.stream = answer.stream
        at.attached = True
        self._tries = 0
        self._news.append(HostReady(answer))
        for frame in tuple(self._unanswered.values()):
            self._send(frame)

    def _find_answer(self, request_id: str) -> Answered | None:
        for news in self._news:
            if isinstance(news, Answered) and news.request_id == request_id:
                self._news.remove(news)
                return news
        return None
