"""The channel actor: sessions of workers, and what goes over them."""

from __future__ import annotations

import hmac
import logging
import secrets
import time
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from runtime_actors.actor import RuntimeActor
from runtime_actors.channel import messages as m
from runtime_actors.channel.door import Door
from runtime_actors.channel.events import PeerClosed, PeerMessage, PeerOpened, PeerOversized
from runtime_actors.channel.inboxes import Inboxes
from runtime_actors.channel.intake import REQUESTS
from runtime_actors.channel.requests import Requests
from runtime_actors.channel.session import (
    LARGE_BYTES,
    LOST_AFTER_BEATS,
    MAX_IDLE_FRAMES,
    MAX_INVALID,
    RESET_AFTER_BEATS,
    Phase,
    Session,
    Verdict,
)
from runtime_actors.channel.sessions import Sessions
from runtime_actors.commands import agents, instances
from runtime_actors.commands.follow_ups import Deliver, Settled, TellCallChanged, TellContext, TellInteraction
from runtime_actors.contract import codec, envelope
from runtime_actors.contract import session as wire
from runtime_actors.contract.interactions import UiChanged
from runtime_actors.contract.rejection import Rejected, Rejection, RejectionCode
from runtime_actors.rules.delivery import WINDOW
from runtime_actors.rules.instances import InstanceState
from runtime_actors.rules.rates import INSTANCE_RATE, Rate
from runtime_actors.rules.restart import MISUSE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime_actors.actor import Care
    from runtime_actors.channel.socket import SocketThread
    from runtime_actors.mailbox import Clock, Mailbox
    from runtime_actors.store.client import Store
    from runtime_actors.timers import Timers

logger = logging.getLogger(__name__)

_READ_TO_END_S: Final = 1.0
_RECONNECT_S: Final = 5.0
_RESUME_S: Final = 3.0
_END_S: Final = 10.0


class ChannelActor(RuntimeActor):
    """Owns the sessions, which no row can tell of.

    So a rebuild keeps who is connected, forgets what was in flight, and asks every worker to resume.
    """

    def __init__(
        self,
        care: Care,
        *,
        store: Store,
        sockets: SocketThread,
        folder: Path,
        router: Mailbox[object],
        supervisor: Mailbox[object],
        me: Mailbox[object],
        backlog: Callable[[], int],
        measure: Callable[[int, wire.Confined], Verdict],
        timers: Timers,
        clock: Clock,
        ping_s: float,
        start_timeout_s: float,
        sweep_s: float,
        rate: Rate = INSTANCE_RATE,
    ) -> None:
        super().__init__(care)
        self._store, self._sockets, self._folder = store, sockets, folder
        self._router, self._supervisor, self._me, self._backlog = router, supervisor, me, backlog
        self._measure, self._timers = measure, timers
        self._ping_s, self._start_timeout_s, self._sweep_s = ping_s, start_timeout_s, sweep_s
        self._sessions = Sessions(sockets, clock)
        self._say = self._sessions.say
        self._inboxes = Inboxes(store, self._sessions, me)
        self._requests = Requests(store, self._sessions, router, me, condemn=self._condemn, idle=self._idle, rate=rate)

    def on_start(self) -> None:
        """Begin to beat and to sweep."""
        self._timers.tell_after(self._ping_s, self._me, m.BeatDue())
        self._timers.tell_after(self._sweep_s, self._me, m.SweepDue())

    def rebuild(self) -> None:
        """Forget what is in flight; the workers repeat what has no receipt."""
        for session in self._sessions.of_attempt.values():
            session.lost_view()
            if session.phase in {Phase.OPEN, Phase.RESETTING} and session.peer is not None:
                self._reset(session)

    def receive(self, message: object) -> None:  # noqa: C901, PLR0912, PLR0915 - one line a message
        """Handle one message."""
        match message:
            case PeerMessage(_, peer, frame):
                self._on_frame(peer, frame)
            case Deliver():
                self._inboxes.deliver(message)
            case m.Decided():
                self._requests.answer_decided(message)
            case m.Answered():
                self._requests.answer_with(message)
            case Settled(instance_id, number):
                self._inboxes.settle(instance_id, number)
            case TellCallChanged(instance_id, change):
                if (session := self._sessions.open_of(instance_id)) is not None:
                    self._say(session, "lineup.v1.call.changed", change)
            case TellContext(instance_id, state):
                self._say_context(instance_id, state)
            case TellInteraction(instance_id, record):
                if (session := self._sessions.open_of(instance_id)) is not None:
                    self._say(session, "lineup.v1.ui.changed", UiChanged(interaction=record))
            case m.PageRead():
                self._inboxes.take_page(message)
            case m.Expect():
                self._expect(message)
            case m.Forked(attempt_id, pid):
                self._forked(attempt_id, pid)
            case PeerOversized(_, peer, length):
                self._on_oversized(peer, length)
            case PeerOpened():
                self._on_opened(message)
            case PeerClosed():
                self._on_closed(message)
            case m.AttachDecided():
                self._attached(message)
            case m.Listed():
                self._requests.answer_list(message)
            case m.Looked():
                self._requests.answer_get(message)
            case m.StopSession():
                self._stop_session(message)
            case m.ProcessGone(attempt_id):
                self._process_gone(attempt_id)
            case m.ReadLongEnough(attempt_id):
                self._over(attempt_id)
            case m.ReconnectDue(attempt_id, number):
                self._reconnect_due(attempt_id, number)
            case m.BeatDue():
                self._beat()
            case m.SweepDue():
                self._sweep()
            case _:
                detail = f"the channel cannot take {type(message).__name__}"
                raise TypeError(detail)

    # --- the socket of an attempt ---

    def _expect(self, expect: m.Expect) -> None:
        door = f"w-{expect.attempt_id}"
        path = self._folder / secrets.token_hex(8)
        session = Session(expect.attempt_id, expect.token, expect.context, door)
        try:
            self._sockets.listen(Door(door, path, self._me, self._backlog, max_peers=4))
        except OSError:
            logger.exception("a worker's socket could not be opened", extra={"attempt_id": expect.attempt_id})
            self._supervisor.tell(m.Listening(expect.attempt_id, ""))
            return
        self._sessions.add(session)
        self._supervisor.tell(m.Listening(expect.attempt_id, str(path)))

    def _forked(self, attempt_id: str, pid: int) -> None:
        session = self._sessions.of_attempt.get(attempt_id)
        if session is not None:
            session.pid = pid
            session.enter(Phase.EXPECTED, time.monotonic())

    def _on_opened(self, opened: PeerOpened) -> None:
        session = self._sessions.of_attempt.get(opened.door.removeprefix("w-"))
        # The fork is told before the worker may run: whoever comes before that is not it.
        if session is None or session.pid is None or opened.pid not in {0, session.pid}:
            logger.warning("a stranger connected to a worker's socket", extra={"door": opened.door, "pid": opened.pid})
            self._sockets.close(opened.peer)
            return
        if session.peer is not None:  # a reconnect whose predecessor was not seen to end
            self._sessions.of_peer.pop(session.peer, None)
            self._sockets.close(session.peer)
        session.peer, session.proven = opened.peer, False
        session.unanswered = 0
        self._sessions.of_peer[opened.peer] = session

    def _on_closed(self, closed: PeerClosed) -> None:
        session = self._sessions.of_peer.pop(closed.peer, None)
        if session is None or session.peer != closed.peer:
            return
        session.peer = None
        if session.gone:
            self._over(session.attempt_id)
        elif closed.reason not in {"peer_gone", "closed"}:
            self._condemn(session, str(closed.reason))
        else:
            self._timers.tell_after(_RECONNECT_S, self._me, m.ReconnectDue(session.attempt_id, session.number))

    def _reconnect_due(self, attempt_id: str, number: int) -> None:
        session = self._sessions.of_attempt.get(attempt_id)
        if session is not None and session.peer is None and session.number == number and not session.gone:
            self._condemn(session, "connection_lost")

    def _process_gone(self, attempt_id: str) -> None:
        session = self._sessions.of_attempt.get(attempt_id)
        if session is None:
            self._router.tell(m.SessionOver(attempt_id, ()))
            return
        session.gone = True
        if session.peer is None:
            self._over(attempt_id)
        else:  # its last words may still be in the socket
            self._timers.tell_after(_READ_TO_END_S, self._me, m.ReadLongEnough(attempt_id))

    def _over(self, attempt_id: str) -> None:
        session = self._sessions.remove(attempt_id)
        if session is None:
            return
        if session.condemned not in MISUSE:
            self._requests.hand_on(session, last=True)
        self._sockets.close_door(session.door, keep_peers=False)
        if session.peer is not None:  # the door of a sealed one is closed already
            self._sockets.close(session.peer)
        # By way of the router, behind every report that this session made.
        self._router.tell(m.SessionOver(attempt_id, tuple(sorted(set(session.calls.values())))))

    def _condemn(self, session: Session, reason: str) -> None:
        # One that is only told to stop, or said goodbye, can be condemned as well.
        if session.condemned is None:
            session.condemned = reason
            session.enter(Phase.ENDING, time.monotonic())
            self._supervisor.tell(m.Condemn(session.attempt_id, reason))
            if reason in MISUSE and session.peer is not None:  # it is not listened to any more
                self._sockets.close(session.peer)

    def _idle(self, session: Session) -> None:
        """It said something that has no effect; too much of it ends the attempt."""
        session.idle += 1
        if session.idle >= MAX_IDLE_FRAMES:
            self._condemn(session, "protocol_error")

    # --- what a worker says ---

    def _on_frame(self, peer: int, frame: bytes) -> None:
        session = self._sessions.of_peer.get(peer)
        if session is None or session.condemned in MISUSE:
            return
        try:
            said = envelope.decode(frame)
        except codec.IntakeError as error:
            self._invalid(session, error.request_id, error.code, error.detail, len(frame))
            return
        if said.type in REQUESTS:
            self._requests.take(session, said, len(frame))
        else:
            self._on_session_word(session, said)

    def _on_oversized(self, peer: int, length: int) -> None:
        session = self._sessions.of_peer.get(peer)
        if session is not None and session.condemned not in MISUSE:
            self._invalid(session, None, RejectionCode.MESSAGE_TOO_LARGE, codec.too_large(length), 4 * LARGE_BYTES)

    def _invalid(self, session: Session, request_id: str | None, code: str, detail: str, size: int = 0) -> None:
        """Answer what could not be read; too much of it ends the attempt."""
        session.invalid += 1 + size // LARGE_BYTES
        event = agents.Event("frame.refused", {"who": session.instance_id, "attempt_id": session.attempt_id}, code)
        self._store.run(agents.note_event, event)
        self._say(session, "lineup.v1.rejected", Rejected(request_id=request_id, code=code, detail=detail))
        if session.invalid >= MAX_INVALID:
            self._condemn(session, "protocol_error")

    def _on_session_word(self, session: Session, said: envelope.Envelope) -> None:
        kind = said.type.removeprefix("lineup.v1.session.")
        try:
            match kind:
                case "pong":
                    wire.Ping.model_validate(said.body)
                    if session.unanswered == 0:
                        self._idle(session)
                    session.unanswered = 0
                case "hello":
                    self._on_hello(session, wire.Hello.model_validate(said.body))
                case "confined" if session.proven and session.phase in {Phase.SEALING, Phase.LOADING}:
                    self._on_confined(session, wire.Confined.model_validate(said.body))
                case "ready" if session.phase in {Phase.LOADING, Phase.ENDING}:
                    wire.Ready.model_validate(said.body)
                    self._on_ready(session)
                case "resume":
                    self._on_resume(session, wire.Resume.model_validate(said.body))
                case "bye":
                    bye = wire.Bye.model_validate(said.body)
                    logger.info("a worker says goodbye", extra={"attempt_id": session.attempt_id, "reason": bye.reason})
                    session.enter(Phase.ENDING, time.monotonic())
                case _:
                    self._invalid(session, said.id, RejectionCode.MESSAGE_INVALID, "no such type here, or not now")
        except ValidationError as error:
            self._invalid(session, said.id, RejectionCode.MESSAGE_INVALID, envelope.describe(error))

    def _on_hello(self, session: Session, hello: wire.Hello) -> None:
        shown, token = hello.token.encode(), session.token.encode()  # as text only ASCII can be compared
        proven = hello.attempt_id == session.attempt_id and hmac.compare_digest(shown, token)
        if not proven:
            self._refuse_session(session, RejectionCode.ATTACH_DENIED, "wrong attempt or token", "attach_denied")
            return
        if session.proven:  # each one gives new credit, so on one connection there is one
            detail = "hello was said on this connection"
            self._refuse_session(session, RejectionCode.SESSION_STALE, detail, "session_stale")
            return
        if session.snapshot is None:
            session.snapshot = wire.effective(hello.sdkCapabilities, wire.CORE_CAPABILITIES)
            session.digest = wire.snapshot_digest(session.snapshot)
        elif not wire.covers(hello.sdkCapabilities, session.snapshot):
            code = RejectionCode.CAPABILITY_SET_INCOMPATIBLE
            self._refuse_session(session, code, "less than the snapshot of this attempt", code)
            return
        session.proven = True
        self._welcome(session)
        if hello.ready and session.level is not None:
            self._on_ready(session)
        elif session.phase is Phase.EXPECTED:  # connecting again gives no more time
            session.enter(Phase.SEALING, time.monotonic())

    def _welcome(self, session: Session) -> None:
        session.number += 1
        session.idle = 0
        session.lost_view()
        self._say(
            session,
            "lineup.v1.session.welcome",
            wire.Welcome(
                context=session.context,
                session=session.number,
                window=WINDOW,
                ping_ms=round(self._ping_s * 1000),
                effectiveSdkCapabilities=session.snapshot or (),
                snapshot_digest=session.digest,
            ),
        )

    def _on_confined(self, session: Session, confined: wire.Confined) -> None:
        """The one word of a worker that can be believed: nothing of the app is in it yet."""
        if session.phase is Phase.SEALING:
            assert session.pid is not None  # noqa: S101 - a stranger is not listened to
            try:
                verdict = self._measure(session.pid, confined)
            except OSError as error:  # no descriptor is free to look with; the next attempt may be luckier
                logger.warning(
                    "a worker could not be measured",
                    extra={"attempt_id": session.attempt_id, "reason": error.strerror},
                )
                self._condemn(session, "not_measured")
                return
            session.level = verdict.level
            if not verdict.enough:
                logger.warning(
                    "a worker is not confined enough",
                    extra={"attempt_id": session.attempt_id, "level": verdict.level, "report": confined.to_wire()},
                )
                self._condemn(session, "isolation_too_weak")
                return
            if verdict.sealed:
                self._sockets.close_door(session.door, keep_peers=True)
            session.enter(Phase.LOADING, time.monotonic())
        if session.level is not None and session.phase is Phase.LOADING:  # said again when the answer was lost
            self._say(session, "lineup.v1.session.go", wire.Go(level=session.level))

    def _on_ready(self, session: Session) -> None:
        if session.phase is Phase.ENDING:
            return
        session.enter(Phase.ATTACHING, time.monotonic())
        self._attach(session)

    def _attach(self, session: Session) -> None:
        snapshot = codec.encode({"capabilities": [one.to_wire() for one in session.snapshot or ()]})
        attempt_id, level = session.attempt_id, session.level or "process"
        self._store.run(
            instances.attach,
            instances.Attached(attempt_id, level, snapshot),
            lambda outcome: self._me.tell(m.AttachDecided(attempt_id, outcome)),
        )

    def _attached(self, decided: m.AttachDecided) -> None:
        session = self._sessions.of_attempt.get(decided.attempt_id)
        if session is None or session.phase is not Phase.ATTACHING:
            return
        match decided.outcome:
            case instances.AttemptReady(_, _, state):
                session.enter(Phase.OPEN, time.monotonic())
                self._set_context(session, state)
                self._inboxes.read_more(session)
            case instances.AttemptOver():
                self._condemn(session, "not_wanted")
            case Rejection():
                pass  # the sweep asks again

    def _on_resume(self, session: Session, resume: wire.Resume) -> None:
        current = resume.attempt_id == session.attempt_id and resume.session == session.number
        if not current or session.phase is not Phase.RESETTING:
            self._refuse_session(session, RejectionCode.SESSION_STALE, "no resume is awaited here", "session_stale")
        elif resume.snapshot_digest != session.digest or not wire.covers(
            resume.sdkCapabilities, session.snapshot or ()
        ):
            code = RejectionCode.CAPABILITY_SET_INCOMPATIBLE
            self._refuse_session(session, code, "not, or less than, the snapshot of this attempt", code)
        else:
            self._welcome(session)
            session.enter(Phase.ATTACHING, time.monotonic())
            self._attach(session)

    def _refuse_session(self, session: Session, code: RejectionCode, detail: str, reason: str) -> None:
        event = agents.Event("session.refused", {"who": session.instance_id, "attempt_id": session.attempt_id}, code)
        self._store.run(agents.note_event, event)
        self._say(session, "lineup.v1.session.refused", wire.SessionRefused(code=code, detail=detail))
        self._condemn(session, reason)

    # --- the life of a session ---

    def _stop_session(self, stop: m.StopSession) -> None:
        session = self._sessions.of_attempt.get(stop.attempt_id)
        if session is None:
            return
        body = wire.Stop(reason=stop.reason[:200], grace_ms=round(stop.grace_s * 1000))
        self._say(session, "lineup.v1.session.stop", body)
        session.grace_s = stop.grace_s
        session.enter(Phase.ENDING, time.monotonic())

    def _say_context(self, instance_id: str, state: str) -> None:
        session = self._sessions.open_of(instance_id)
        if session is not None:
            self._set_context(session, state)
            if state == InstanceState.SUSPENDED:  # what is put from now on is for its next process
                session.enter(Phase.ENDING, time.monotonic())

    def _set_context(self, session: Session, state: str) -> None:
        session.context = session.context.model_copy(update={"state": state})
        self._say(session, "lineup.v1.context.changed", wire.ContextChanged.model_validate({"state": state}))

    def _beat(self) -> None:
        self._timers.tell_after(self._ping_s, self._me, m.BeatDue())
        now = time.monotonic()
        for session in list(self._sessions.of_attempt.values()):
            if session.gone:
                continue
            if session.phase in {Phase.EXPECTED, Phase.SEALING, Phase.LOADING}:
                if session.pid is not None and now - session.since_s > self._start_timeout_s:
                    self._condemn(session, "start_timeout")
            elif session.phase is Phase.ENDING:
                # It said goodbye and stayed, or the order to end it was lost.
                if now - session.since_s > session.grace_s + _END_S:
                    session.enter(Phase.ENDING, now)
                    self._supervisor.tell(m.Condemn(session.attempt_id, "not_ending"))
            elif session.peer is not None:
                self._beat_one(session, now)

    def _beat_one(self, session: Session, now: float) -> None:
        if session.unanswered >= LOST_AFTER_BEATS:
            self._condemn(session, "not_responding")
            return
        if session.phase is Phase.RESETTING and now - session.since_s > max(_RESUME_S, _RESUME_S * self._ping_s):
            self._condemn(session, "not_responding")
            return
        if session.unanswered == RESET_AFTER_BEATS and session.phase is Phase.OPEN:
            self._reset(session)
        session.beat += 1
        session.idle = 0
        session.unanswered += 1
        self._say(session, "lineup.v1.session.ping", wire.Ping(beat=session.beat))

    def _reset(self, session: Session) -> None:
        session.enter(Phase.RESETTING, time.monotonic())
        body = wire.Reset(attempt_id=session.attempt_id, session=session.number, snapshot_digest=session.digest)
        self._say(session, "lineup.v1.session.reset", body)

    def _sweep(self) -> None:
        """What got lost between a COMMIT and its receiver is found again."""
        self._timers.tell_after(self._sweep_s, self._me, m.SweepDue())
        now = time.monotonic()
        for session in self._sessions.of_attempt.values():
            if session.phase is Phase.ATTACHING and now - session.since_s > self._sweep_s:
                self._attach(session)
            elif session.phase is Phase.OPEN:
                if any(now - since > self._sweep_s for since in session.undecided.values()):
                    self._reset(session)  # an answer was lost: the worker repeats what has none
                else:
                    self._inboxes.read_more(session)
