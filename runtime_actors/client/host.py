"""A host's end of its door: attached, and attached again whenever the connection ends.

What section 5 of docs/protocol.md asks of a host: it keeps its nonce, repeats what has no answer with the same ids,
goes on behind the last event it took over, and reads the listings when it is told that events are missing.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from runtime_actors.client.connection import Connect, Connection
from runtime_actors.client.door import parsed
from runtime_actors.client.errors import Refused
from runtime_actors.client.events import Answered, Lost
from runtime_actors.client.kept import KeptSession
from runtime_actors.contract import envelope
from runtime_actors.contract import host as h
from runtime_actors.contract.agent import Listing, Query, Rows
from runtime_actors.contract.base import JsonObject, WireModel
from runtime_actors.contract.envelope import Envelope
from runtime_actors.contract.rejection import Rejected, RejectionCode


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


class HostSession(KeptSession[HostReady | Happened]):
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
        super().__init__(endpoint, clock, connect)
        self.host = host
        self.nonce = nonce or secrets.token_urlsafe(24)
        self.stream = stream
        self.acknowledged = after_number
        """The last event that was taken over."""
        self._surfaces = surfaces
        self._conversations = tuple(conversations) if conversations is not None else None
        self._on_screen = on_screen
        self._highest = after_number or 0
        self._ack_due = False

    # --- attaching, and what is heard ---

    def attach(self, timeout_s: float = 10.0) -> None:
        """Wait until the session stands.

        Raises:
            DaemonNotRunning: Nobody accepts on the door.
            NoAnswer: Somebody accepts and does not answer.
            Refused: The attach is wrong.

        """
        self._wait_attached(timeout_s, lambda: self.attached)

    def next_news(self, timeout_s: float) -> HostNews | None:
        """What happened next, or None when nothing did in time.

        Raises:
            Refused: The daemon does not let this host attach.

        """
        return self._wait_news(timeout_s)

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
        return self._wait_answer(request_id, kind, timeout_s).body

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

    def _flush(self) -> None:
        if self._ack_due and self.attached:
            self._ack_due = False
            self._say("lineup.v1.host.ack", h.HostAck(number=self.acknowledged or 0))

    def _attach_body(self) -> tuple[str, WireModel]:
        body = h.HostAttach(
            host=self.host,
            nonce=self.nonce,
            surfaces=self._surfaces,
            conversations=self._conversations,
            on_screen=self._on_screen,
            stream=self.stream if self.acknowledged is not None else None,
            after_number=self.acknowledged,
        )
        return "lineup.v1.host.attach", body

    # --- what arrives ---

    def _takes(self, message: Envelope) -> bool:
        if message.type != "lineup.v1.host.event":
            return False
        event = parsed(h.HostEvent, message.body)
        if event.number > self._highest:
            self._highest = event.number
            self._news.append(Happened(event))
        return True

    def _stands(self, message: Envelope) -> HostReady:
        answer = parsed(h.HostAttached, message.body)
        if self.acknowledged is None or not answer.complete:  # it goes on with what is still to come
            self.acknowledged = self._highest = answer.last_number
            self._news = deque(one for one in self._news if not isinstance(one, Happened))
        self.stream = answer.stream
        return HostReady(answer)
