"""What MiniApps ask, and how they are answered."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from runtime_actors.channel import messages as m
from runtime_actors.channel.asked import Ask, ask
from runtime_actors.channel.intake import RATED, read_request
from runtime_actors.channel.session import LARGE_BYTES, MAX_INVALID, Phase, Session
from runtime_actors.commands import agents, inbox
from runtime_actors.commands import calls as call_commands
from runtime_actors.commands.asker import Asker
from runtime_actors.contract import codec, envelope
from runtime_actors.contract.inbox import InboxAcknowledge, InboxList, InboxPage, MiniAppMessage
from runtime_actors.contract.payload import node_count
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.tools import CallReply, CommandReceipt, ToolGet
from runtime_actors.records.boxes import number_of
from runtime_actors.rules.delivery import WINDOW
from runtime_actors.rules.rates import INSTANCE_RATE, Rate, Rates

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.channel.sessions import Sessions
    from runtime_actors.contract.base import WireModel
    from runtime_actors.contract.envelope import Envelope
    from runtime_actors.mailbox import Mailbox
    from runtime_actors.store.client import Store

_PAGE_BYTES_LEFT: Final = 4096
"""Of a frame, for the envelope around a page."""
_PAGE_NODES_LEFT: Final = 32
"""Likewise."""


class Requests:
    """Belongs to the channel actor, on whose thread it runs.

    `condemn` ends an attempt that misbehaves, `idle` counts what has no effect.
    """

    def __init__(
        self,
        store: Store,
        sessions: Sessions,
        router: Mailbox[object],
        me: Mailbox[object],
        *,
        condemn: Callable[[Session, str], None],
        idle: Callable[[Session], None],
        rate: Rate = INSTANCE_RATE,
    ) -> None:
        self._store, self._sessions, self._router, self._me = store, sessions, router, me
        self._condemn, self._idle = condemn, idle
        self._rates = Rates(rate)

    def take(self, session: Session, said: Envelope, size: int) -> None:
        """Have a request, from a frame of `size` bytes, decided, if the worker may make one now."""
        # A welcomed worker repeats at once; what it asks is decided behind its attach, for the store keeps the order.
        if not session.proven or session.phase not in {Phase.ATTACHING, Phase.OPEN, Phase.ENDING}:
            self._idle(session)  # it repeats what has no receipt after the next welcome
            return
        try:
            request = read_request(said)
        except ValidationError as error:
            self._refuse_request(session, said.id, RejectionCode.MESSAGE_INVALID, envelope.describe(error), size)
            return
        if said.type in RATED and not self._rates.allows(session.instance_id, time.monotonic()):
            self._refuse_for_rate(session, said.id)
            return
        taken = session.take_request(said.id, time.monotonic())
        if taken is None:
            self._condemn(session, "credit_exceeded")
        elif taken:
            session.held.append((said.id, request, size))
            self.hand_on(session)
        else:
            self._idle(session)

    def _refuse_for_rate(self, session: Session, request_id: str) -> None:
        code = RejectionCode.RATE_EXCEEDED
        if self._rates.is_news(session.instance_id, time.monotonic()):
            subject = {"who": session.instance_id, "attempt_id": session.attempt_id}
            self._store.run(agents.note_event, agents.Event("report.refused", subject, code))
        receipt = CommandReceipt(
            request_id=request_id, accepted=False, code=code, detail="this app asks too often; wait a second"
        )
        self._sessions.say(session, "lineup.v1.receipt", receipt)

    def hand_on(self, session: Session, *, last: bool = False) -> None:
        """As much as may be in work at once; with `last`, when no more will come, all."""
        while (found := session.next_request(last=last)) is not None:
            self._handle(session, *found)

    def _refuse_request(self, session: Session, request_id: str, code: RejectionCode, detail: str, size: int) -> None:
        session.invalid += 1 + size // LARGE_BYTES
        event = agents.Event("report.refused", {"who": session.instance_id, "attempt_id": session.attempt_id}, code)
        self._store.run(agents.note_event, event)
        receipt = CommandReceipt(request_id=request_id, accepted=False, code=code, detail=detail)
        self._sessions.say(session, "lineup.v1.receipt", receipt)
        if session.invalid >= MAX_INVALID:
            self._condemn(session, "protocol_error")

    def _handle(self, session: Session, request_id: str, request: Any) -> None:  # noqa: ANN401 - one of REQUESTS
        attempt_id, instance_id = session.attempt_id, session.instance_id
        match request:
            case InboxAcknowledge(message_id=message_id):
                self._store.run(
                    call_commands.acknowledge,
                    call_commands.Acknowledge(instance_id, attempt_id, number_of(message_id)),
                    lambda outcome: self._me.tell(
                        m.Decided(attempt_id, request_id, outcome if isinstance(outcome, Rejection) else None)
                    ),
                )
            case InboxList(after_message_id=after):
                number = number_of(after or "m0") or 0
                of = inbox.InboxPageOf(instance_id, frozenset(), number, WINDOW, codec.MAX_FRAME_BYTES)
                self._store.run(
                    inbox.read_inbox, of, lambda page: self._me.tell(m.Listed(attempt_id, request_id, page))
                )
            case ToolGet(call_id=call_id):
                self._store.run(
                    inbox.read_for_app,
                    (instance_id, call_id),
                    lambda call: self._me.tell(m.Looked(attempt_id, request_id, call)),
                )
            case _ if (asked := ask(Asker(instance_id, attempt_id, request_id), request)) is not None:
                self._ask(asked, attempt_id, request_id)
            case _:
                by = call_commands.Reporter(instance_id, attempt_id, request_id, request.call_id)
                self._router.tell(m.Report(by, request))

    def _ask(self, asked: Ask, attempt_id: str, request_id: str) -> None:
        def told(outcome: object) -> None:
            if not isinstance(outcome, Rejection):
                self._me.tell(m.Answered(attempt_id, request_id, *asked.answer(outcome)))
            elif asked.refusal is not None:
                self._me.tell(m.Answered(attempt_id, request_id, *asked.refusal(outcome)))
            else:
                self._me.tell(m.Decided(attempt_id, request_id, outcome))

        self._store.run(asked.rule, asked.argument, told)

    def answer_with(self, answered: m.Answered) -> None:
        """With what its command made of it."""
        self._answer(answered.attempt_id, answered.request_id, answered.kind, answered.body)

    def answer_decided(self, decided: m.Decided) -> None:
        """With a receipt."""
        refused = decided.refused
        receipt = CommandReceipt(
            request_id=decided.request_id,
            accepted=refused is None,
            code=refused.code if refused else None,
            detail=refused.detail if refused else None,
            call_status=decided.call_status,
        )
        self._answer(decided.attempt_id, decided.request_id, "lineup.v1.receipt", receipt)

    def answer_list(self, listed: m.Listed) -> None:
        """With as much of a page as fits one frame."""
        if isinstance(listed.page, Rejection):
            self.answer_decided(m.Decided(listed.attempt_id, listed.request_id, listed.page))
            return
        fitting: list[MiniAppMessage] = []
        size, nodes = _PAGE_BYTES_LEFT, _PAGE_NODES_LEFT
        for message in listed.page.messages:
            shown = message.to_wire()
            size += len(codec.encode(shown))
            nodes += node_count(shown)
            if fitting and (size > codec.MAX_FRAME_BYTES or nodes > codec.MAX_NODES):
                break
            fitting.append(message)
        more = len(fitting) < len(listed.page.messages) or not listed.page.complete
        page = InboxPage(request_id=listed.request_id, messages=tuple(fitting), more=more)
        session = self._sessions.of_attempt.get(listed.attempt_id)
        if session is not None:
            session.gave(fitting)
        self._answer(listed.attempt_id, listed.request_id, "lineup.v1.inbox.page", page)

    def answer_get(self, looked: m.Looked) -> None:
        """With a call."""
        if isinstance(looked.call, Rejection):
            self.answer_decided(m.Decided(looked.attempt_id, looked.request_id, looked.call))
            return
        reply = CallReply(request_id=looked.request_id, call=looked.call)
        self._answer(looked.attempt_id, looked.request_id, "lineup.v1.tools.call", reply)

    def _answer(self, attempt_id: str, request_id: str, kind: str, body: WireModel) -> None:
        session = self._sessions.of_attempt.get(attempt_id)
        if session is not None:
            session.decided(request_id)
            self.hand_on(session)
            self._sessions.say(session, kind, body)
