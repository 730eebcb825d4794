"""An agent that knows the state of each call it made, however often its connection or the daemon goes away."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

from runtime_actors.client import AgentSession, Attached, Delivered, NoAnswer, PersonSaid, Refused, SessionEvent, parsed
from runtime_actors.contract.agent import AgentMessage, MessageReceipt
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.contract.tools import (
    CallState,
    CallStatus,
    ToolCancel,
    ToolGet,
    ToolInvoke,
    ToolResultDelivery,
    ToolState,
)

CallKey = tuple[str, str]
"""Conversation and call id: an agent's calls are told apart by both."""

FINAL: Final = frozenset(
    {CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.CANCELLED, CallStatus.EXPIRED, CallStatus.REJECTED}
)

_LOOK_S: Final = 2.0
"""How often a waiting agent reads the state itself: another attachment may have settled the delivery."""
_LOOK_SOON_S: Final = 0.2
"""As above, when unsettled deliveries of others fill the window, so that nothing more is sent."""
_SETTLE_S: Final = 0.5
_PATIENCE_S: Final = 60.0
"""How long a wait goes on while no daemon answers."""
NOT_NOW_WAITS_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
NOT_NOW: Final = frozenset({RejectionCode.BUSY, RejectionCode.STORE_UNAVAILABLE, RejectionCode.INTERNAL_ERROR})
"""Refusals upon which the same id is to be repeated."""


@dataclass(slots=True)
class KnownCall:
    """What the agent knows of a call."""

    state: CallState
    invoke: ToolInvoke | None = None
    """How it was made; None for a call of an earlier process."""
    results: set[int] = field(default_factory=set)
    """Numbers of the result deliveries that came. Exactly one in the end, or none if another attachment took it."""

    @property
    def is_final(self) -> bool:
        return self.state.status in FINAL


class SimulatedAgent:
    """For one thread. What arrives is handled, and then acknowledged, while it waits for something."""

    def __init__(
        self, session: AgentSession, *, only_own: bool = False, on_event: Callable[[SessionEvent], None] | None = None
    ) -> None:
        """Take over `session`. With `only_own`, deliveries of calls it did not make are left to other attachments."""
        self.session = session
        self.calls: dict[CallKey, KnownCall] = {}
        self._only_own = only_own
        self._on_event = on_event
        self._left_alone = 0
        self._attachments = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def invoke(
        self,
        tool_id: str,
        given: JsonObject,
        *,
        conversation_id: str,
        call_id: str | None = None,
        revision: str | None = None,
        timeout_s: float = 10.0,
    ) -> ToolState:
        """Ask for a tool to be run, and wait for the answer. Without a `revision` the newest inventory's is meant.

        Raises:
            Refused: It was refused, and the id is free. `busy` and its like only after repeated tries.
            NoAnswer: The time is over.
            ValueError: An id is not spelled as it must be (a pydantic ValidationError).

        """
        inventory = self.session.attach(timeout_s)
        body = ToolInvoke(
            call_id=call_id or f"call-{uuid.uuid4().hex[:12]}",
            tool_id=tool_id,
            inventory_revision=revision or inventory.revision,
            input=given,
        )
        try:
            answer = self._ask("lineup.v1.tool.invoke", body, conversation_id, timeout_s)
        except Refused as refused:
            current = refused.rejected.inventory_revision
            if revision or refused.code != RejectionCode.INVENTORY_REVISION_MISMATCH or not current:
                raise
            # The inventory changed while we asked: once more with the new one.
            body = body.model_copy(update={"inventory_revision": current})
            answer = self._ask("lineup.v1.tool.invoke", body, conversation_id, timeout_s)
        self._learn(answer.call, body)
        return answer

    def repeat(self, conversation_id: str, call_id: str, timeout_s: float = 10.0) -> ToolState:
        """Send the invocation of a call once more, unchanged, as a client does that is not sure."""
        known = self.calls[conversation_id, call_id]
        if known.invoke is None:
            raise KeyError(call_id)
        return self._ask("lineup.v1.tool.invoke", known.invoke, conversation_id, timeout_s)

    def cancel(
        self, conversation_id: str, call_id: str, *, reason: str | None = None, timeout_s: float = 10.0
    ) -> ToolState:
        """Say that an answer is wanted no longer."""
        body = ToolCancel(call_id=call_id, reason=reason)
        return self._known(self._ask("lineup.v1.tool.cancel", body, conversation_id, timeout_s))

    def get(self, conversation_id: str, call_id: str, timeout_s: float = 10.0) -> ToolState:
        """Read the present state of a call."""
        return self._known(self._ask("lineup.v1.tool.get", ToolGet(call_id=call_id), conversation_id, timeout_s))

    def say(
        self,
        text: str,
        *,
        conversation_id: str,
        app_scope: str,
        data: JsonObject | None = None,
        message_id: str | None = None,
        timeout_s: float = 10.0,
    ) -> MessageReceipt:
        """Put a text into a MiniApp's inbox."""
        message_id = message_id or f"msg-{uuid.uuid4().hex[:12]}"
        body = AgentMessage(message_id=message_id, app_scope=app_scope, text=text, data=data)
        _, answer = self.session.request(
            "lineup.v1.message", body, conversation_id=conversation_id, timeout_s=timeout_s
        )
        return parsed(MessageReceipt, answer)

    def wait(
        self,
        conversation_id: str,
        call_id: str,
        wanted: Callable[[KnownCall], bool] = lambda known: known.is_final,
        timeout_s: float | None = None,
    ) -> KnownCall:
        """Wait until what is known of the call is as wanted.

        Without a limit its own deadline ends the call, and a minute without a daemon ends the wait.

        Raises:
            NoAnswer: The time is over. The call goes on.
            Refused: There is no such call.

        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        look_at = time.monotonic() + (_LOOK_S if (conversation_id, call_id) in self.calls else 0)
        attached_at = time.monotonic()
        while True:
            known = self.calls.get((conversation_id, call_id))
            if known is not None and wanted(known):
                return known
            now = time.monotonic()
            attached_at = now if self.session.attached else attached_at
            if (deadline is not None and now >= deadline) or now - attached_at > _PATIENCE_S:
                raise NoAnswer(f"call {call_id}", timeout_s if timeout_s is not None else _PATIENCE_S)
            if now >= look_at and self.session.attached:
                left_s = 10.0 if deadline is None else max(0.1, deadline - now)
                self.get(conversation_id, call_id, min(10.0, left_s))
                full = self._left_alone >= self.session.window
                look_at = time.monotonic() + (_LOOK_SOON_S if full else _LOOK_S)
                continue
            until = look_at if self.session.attached else now + _LOOK_S
            if isinstance(self.pump(max(0.0, min(until, deadline or until) - now)), Attached) and self._attachments > 1:
                look_at = 0.0

    def settle(self, known: KnownCall, timeout_s: float = _SETTLE_S) -> None:
        """Give the delivery of a final state that was read a little time to arrive, so that it does not come again."""
        deadline = time.monotonic() + timeout_s
        while known.is_final and not known.results and (left_s := deadline - time.monotonic()) > 0:
            self.pump(left_s)

    def pump(self, timeout_s: float) -> SessionEvent | None:
        """Wait for one event, handle it, and acknowledge it if it was a delivery."""
        event = self.session.next_event(timeout_s)
        if event is None:
            return None
        mine = isinstance(event, Delivered) and self._take(event)
        for_others = isinstance(event, Delivered | PersonSaid) and self._only_own and not mine
        if self._on_event is not None and not for_others:
            self._on_event(event)
        if isinstance(event, Attached):
            self._attachments += 1
            self._left_alone = 0
        elif for_others:
            self._left_alone += 1
        elif isinstance(event, Delivered):
            self.session.acknowledge(event.delivery.number)
        elif isinstance(event, PersonSaid):
            self.session.acknowledge(event.said.number)
        return event

    def _take(self, event: Delivered) -> bool:
        one = event.delivery
        if isinstance(one, ToolResultDelivery):
            known = self.calls.get((one.call.conversation_id, one.call.call_id))
            if known is None and self._only_own:
                return False
            known = self._learn(one.call)
            known.results.add(one.number)
            return True
        known = self.calls.get((event.conversation_id or "", one.call_id))
        if known is None:
            return False
        if not known.is_final:
            known.state = known.state.model_copy(update={"progress": one.progress, "status": CallStatus.RUNNING})
        return True

    def _learn(self, state: CallState, invoke: ToolInvoke | None = None) -> KnownCall:
        key = (state.conversation_id, state.call_id)
        known = self.calls.setdefault(key, KnownCall(state))
        known.invoke = known.invoke or invoke
        if not known.is_final:
            known.state = state
        return known

    def _known(self, answer: ToolState) -> ToolState:
        self._learn(answer.call)
        return answer

    def _ask(
        self, kind: str, body: ToolInvoke | ToolCancel | ToolGet, conversation_id: str, timeout_s: float
    ) -> ToolState:
        deadline = time.monotonic() + timeout_s
        tries = 0
        while True:
            try:
                left_s = max(0.0, deadline - time.monotonic())
                _, answer = self.session.request(kind, body, conversation_id=conversation_id, timeout_s=left_s)
                return parsed(ToolState, answer)
            except Refused as refused:
                if refused.code not in NOT_NOW or tries >= len(NOT_NOW_WAITS_S) or time.monotonic() >= deadline:
                    raise
            time.sleep(NOT_NOW_WAITS_S[tries])
            tries += 1
