"""What the worker and the runtime say to each other, whatever connection there is (`docs/protocol.md`, section 6)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from miniapp_worker.calls import Calls
from miniapp_worker.context import State
from miniapp_worker.inbox import Handed
from miniapp_worker.layers import Applied
from miniapp_worker.link import Link
from miniapp_worker.listeners import Listeners, Work, print_error
from miniapp_worker.pending import REJECTED, Pending
from miniapp_worker.questions import Questions
from runtime_actors.contract import codec, envelope
from runtime_actors.contract import session as wire
from runtime_actors.contract.base import WireModel
from runtime_actors.contract.inbox import MiniAppMessage
from runtime_actors.contract.interactions import UiChanged
from runtime_actors.contract.tools import CallChanged

RECONNECT_WITHIN_S: Final = 5.0
"""Without a connection for this long the process ends: the runtime has given it up by then."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this process is to the runtime."""

    attempt_id: str
    token: str


class SessionEnded(Exception):
    """The runtime does not want this process, or cannot be reached."""


class SessionRefused(SessionEnded):
    """The runtime answered the hello with a refusal."""


class ConnectionLost(SessionEnded):
    """There was no connection for `RECONNECT_WITHIN_S`, or it broke and there can be no other."""


class Session:
    """The worker's end of the channel. Lives on the thread of its event loop."""

    def __init__(self, identity: Identity, socket_path: str, make_link: Callable[..., Link] = Link) -> None:
        self._identity = identity
        self._loop = asyncio.get_running_loop()
        self._link = make_link(socket_path, on_up=self._greet, on_down=self._mourn, on_frame=self._read)
        self._is_open = False
        self._loaded = False
        self._welcome: wire.Welcome | None = None
        self._context: wire.MiniAppContextModel | None = None
        self._welcomed = asyncio.Event()
        self._report: wire.Confined | None = None
        self._waits_no_more = asyncio.Event()
        self._is_sealed = False
        self._give_up: asyncio.TimerHandle | None = None

        self.ended: asyncio.Future[SessionEnded] = self._loop.create_future()
        self.stopping = asyncio.Event()
        self.grace_s = 0.0
        """How long the runtime waits after `stopping`."""
        self.pending = Pending(identity.attempt_id, self._transmit)
        self.work = Work()
        self.handed = Handed()
        self.calls = Calls(self.pending, self.handed, self.work)
        self.questions = Questions(self.pending, self.work)
        self.states: Listeners[State] = Listeners(self.work, lambda _, error: print_error(error))
        self.texts: Listeners[MiniAppMessage] = Listeners(self.work, lambda _, error: print_error(error))
        self.actions: Listeners[MiniAppMessage] = Listeners(self.work, lambda _, error: print_error(error))
        self.decisions: Listeners[MiniAppMessage] = Listeners(self.work, lambda _, error: print_error(error))
        self._readers: Final[Mapping[str, Callable[[envelope.Envelope], None]]] = {
            "lineup.v1.session.welcome": self._on_welcome,
            "lineup.v1.session.refused": self._on_refused,
            "lineup.v1.session.go": self._on_go,
            "lineup.v1.session.reset": self._on_reset,
            "lineup.v1.session.ping": self._on_ping,
            "lineup.v1.session.stop": self._on_stop,
            "lineup.v1.context.changed": self._on_context,
            "lineup.v1.inbox.message": self._on_message,
            "lineup.v1.call.changed": self._on_call_changed,
            "lineup.v1.ui.changed": self._on_ui_changed,
            "lineup.v1.receipt": self.pending.take_answer,
            "lineup.v1.inbox.page": self.pending.take_answer,
            "lineup.v1.tools.call": self.pending.take_answer,
            "lineup.v1.ui.receipt": self.pending.take_answer,
            "lineup.v1.ui.interactions": self.pending.take_answer,
            "lineup.v1.surfaces.surfaces": self.pending.take_answer,
            "lineup.v1.ui.interaction": self.pending.take_answer,
            "lineup.v1.surfaces.receipt": self.pending.take_answer,
            "lineup.v1.surfaces.surface": self.pending.take_answer,
            "lineup.v1.artifacts.receipt": self.pending.take_answer,
            "lineup.v1.capabilities.receipt": self.pending.take_answer,
            REJECTED: self._on_rejected,
        }

    def context(self) -> wire.MiniAppContextModel:
        """What the runtime said last. Known from the first welcome on."""
        assert self._context is not None  # noqa: S101 - an app is loaded only after the welcome
        return self._context

    async def open(self) -> None:
        """Connect, say hello, and wait for the first welcome."""
        self._count_down()
        self._link.connect()
        await self._welcomed.wait()

    async def report(self, applied: Applied, canaries: Mapping[str, bool], *, sealed: bool) -> None:
        """Say what this process gave up, and wait until the runtime lets it import the app, or wants it to stop."""
        self._is_sealed = sealed
        self._report = wire.Confined(
            namespaces=tuple(sorted(applied.namespaces)), landlock_abi=applied.landlock_abi, canaries=dict(canaries)
        )
        self._say_report()
        await self._waits_no_more.wait()

    def _say_report(self) -> None:
        if self._report is not None and not self._waits_no_more.is_set():
            self._say("lineup.v1.session.confined", self._report)

    def say_ready(self) -> None:
        """The app is loaded. If the connection is gone just now, the next hello says so."""
        self._loaded = True
        self._say("lineup.v1.session.ready", wire.Ready())

    def say_bye(self, reason: str) -> None:
        """The last word: nothing is said after it."""
        self._say("lineup.v1.session.bye", wire.Bye(reason=reason))
        self._is_open = False

    def hand_out_no_more(self) -> None:
        """What still comes is not given to the app: it is not acknowledged, and so the next process gets it."""
        self.calls.arrivals.close()
        self.texts.close()
        self.actions.close()
        self.decisions.close()
        self.questions.ends.close()

    def close(self, *, linger_ms: int) -> None:
        self._is_open = False
        if self._give_up is not None:
            self._give_up.cancel()
        self._link.close(linger_ms=linger_ms)

    # --- the connection

    def _greet(self) -> None:
        if self._give_up is not None:
            self._give_up.cancel()
        hello = wire.Hello(
            attempt_id=self._identity.attempt_id,
            token=self._identity.token,
            sdk_version=wire.SDK_VERSION,
            sdkCapabilities=wire.CORE_CAPABILITIES,
            ready=self._loaded,
        )
        self._link.send(self.pending.frame("lineup.v1.session.hello", hello.to_wire()))

    def _mourn(self) -> None:
        self._is_open = False
        if self._is_sealed:
            self._end(ConnectionLost("the connection broke, and a sealed process cannot make another"))
        else:
            self._count_down()

    def _count_down(self) -> None:
        if self._give_up is None or self._give_up.cancelled():
            self._give_up = self._loop.call_later(
                RECONNECT_WITHIN_S, self._end, ConnectionLost(f"no connection for {RECONNECT_WITHIN_S:g} s")
            )

    def _end(self, reason: SessionEnded) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    def _say(self, kind: str, body: WireModel) -> None:
        self._transmit(self.pending.frame(kind, body.to_wire()))

    def _transmit(self, frame: bytes) -> None:
        # Between a hello, or a resume, and its welcome nothing else may be said. Requests follow after the welcome.
        if self._is_open:
            self._link.send(frame)

    # --- what the runtime says

    def _read(self, frame: bytes) -> None:
        try:
            said = envelope.decode(frame)
            reader = self._readers.get(said.type)
            if reader is None:
                _note(f"a frame of the runtime was ignored: {said.type}")
            else:
                reader(said)
        except codec.IntakeError as error:
            _note(f"a frame of the runtime was ignored: {error}")
        except ValidationError as error:
            _note(f"a frame of the runtime was ignored: {envelope.describe(error)}")

    def _on_welcome(self, said: envelope.Envelope) -> None:
        welcome = wire.Welcome.model_validate(said.body)
        is_first = self._welcome is None
        self._welcome = welcome
        self._context = welcome.context
        self._is_open = True
        if is_first:
            self.pending.grant(welcome.window)
            self._welcomed.set()
        else:
            self._say_report()
            self.pending.repeat()
            self.calls.refresh()
            self.questions.refresh()

    def _on_go(self, said: envelope.Envelope) -> None:
        wire.Go.model_validate(said.body)
        self._waits_no_more.set()

    def _on_refused(self, said: envelope.Envelope) -> None:
        refused = wire.SessionRefused.model_validate(said.body)
        self._end(SessionRefused(f"{refused.code}: {refused.detail}"))

    def _on_reset(self, said: envelope.Envelope) -> None:
        reset = wire.Reset.model_validate(said.body)
        resume = wire.Resume(
            attempt_id=self._identity.attempt_id,
            session=reset.session,
            snapshot_digest=self._welcome.snapshot_digest if self._welcome else "",
            sdkCapabilities=wire.CORE_CAPABILITIES,
            last_number=self.handed.last_number,
            ready=self._loaded,
        )
        self._say("lineup.v1.session.resume", resume)
        self._is_open = False  # until the welcome that answers it

    def _on_ping(self, said: envelope.Envelope) -> None:
        # Answered also while the session is being resumed: it asks for the process, not for the session.
        pong = wire.Ping.model_validate(said.body)
        self._link.send(self.pending.frame("lineup.v1.session.pong", pong.to_wire()))

    def _on_stop(self, said: envelope.Envelope) -> None:
        self.grace_s = wire.Stop.model_validate(said.body).grace_ms / 1000
        self.stopping.set()
        self._waits_no_more.set()

    def _on_context(self, said: envelope.Envelope) -> None:
        changed = wire.ContextChanged.model_validate(said.body)
        if self._context is not None:  # before the welcome there is nothing to change
            before, self._context = self._context, self._context.model_copy(update={"state": changed.state})
            if before.state != changed.state:
                self.states.tell(changed.state)

    def _on_message(self, said: envelope.Envelope) -> None:
        message = MiniAppMessage.model_validate(said.body)
        is_new = self.handed.is_new(message)
        if message.call is not None:
            self.calls.take(message, message.call, is_new=is_new)
        elif message.interaction is not None:
            if is_new:
                self.questions.take(message, message.interaction)
        elif is_new and message.capability is not None:
            self.decisions.hand(message.message_id, message)
        elif is_new and message.action is not None:
            self.actions.hand(message.message_id, message)
        elif is_new:
            self.texts.hand(message.message_id, message)

    def _on_ui_changed(self, said: envelope.Envelope) -> None:
        self.questions.change(UiChanged.model_validate(said.body).interaction)

    def _on_call_changed(self, said: envelope.Envelope) -> None:
        self.calls.change(CallChanged.model_validate(said.body))

    def _on_rejected(self, said: envelope.Envelope) -> None:
        if said.body.get("request_id") is None:
            _note(f"the runtime could not read a frame: {said.body.get('code')}")
        self.pending.take_answer(said)


def _note(line: str) -> None:
    print(f"lineup: {line}", file=sys.stderr)  # noqa: T201 - standard error is the worker's log
