"""What the channel is told, and what it tells others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime_actors.channel.events import PeerClosed, PeerMessage, PeerOpened, PeerOversized
from runtime_actors.commands.follow_ups import Deliver, Settled, TellCallChanged, TellContext, TellInteraction

if TYPE_CHECKING:
    from runtime_actors.commands.calls import Reporter
    from runtime_actors.commands.inbox import InboxRead
    from runtime_actors.commands.instances import AttemptOver, AttemptReady
    from runtime_actors.contract.base import WireModel
    from runtime_actors.contract.rejection import Rejection
    from runtime_actors.contract.session import MiniAppContextModel
    from runtime_actors.contract.tools import Cancel, Complete, Fail, MiniAppToolCall, ReportProgress


# --- from the supervisor ---


@dataclass(frozen=True, slots=True)
class Expect:
    """Open a socket for an attempt that is about to be forked."""

    attempt_id: str
    token: str
    context: MiniAppContextModel


@dataclass(frozen=True, slots=True)
class Forked:
    """The attempt is this process; it may connect from now on."""

    attempt_id: str
    pid: int


@dataclass(frozen=True, slots=True)
class StopSession:
    """Tell the worker to end by itself."""

    attempt_id: str
    reason: str
    grace_s: float


@dataclass(frozen=True, slots=True)
class ProcessGone:
    """The process has ended: read its socket to the end, then say that the session is over."""

    attempt_id: str


# --- to the supervisor ---


@dataclass(frozen=True, slots=True)
class Listening:
    """The attempt's socket is open; empty when it could not be."""

    attempt_id: str
    path: str


@dataclass(frozen=True, slots=True)
class Condemn:
    """The attempt has to end: its worker misbehaved, or cannot be reached."""

    attempt_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class SessionOver:
    """Nothing more will come from this attempt, and all that came was handed on before this."""

    attempt_id: str
    delivered: tuple[str, ...]
    """Calls whose message it was sent and never settled."""


# --- to the router ---


@dataclass(frozen=True, slots=True)
class Report:
    """A MiniApp's word about a call."""

    by: Reporter
    word: ReportProgress | Complete | Fail | Cancel


# --- from the store and the router: what became of a request ---


@dataclass(frozen=True, slots=True)
class Decided:
    """Answer a worker's request with a receipt."""

    attempt_id: str
    request_id: str
    refused: Rejection | None
    call_status: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """Answer a worker's request with this body."""

    attempt_id: str
    request_id: str
    kind: str
    body: WireModel


@dataclass(frozen=True, slots=True)
class Listed:
    """Answer `inbox.list`."""

    attempt_id: str
    request_id: str
    page: InboxRead | Rejection


@dataclass(frozen=True, slots=True)
class Looked:
    """Answer `tools.get`."""

    attempt_id: str
    request_id: str
    call: MiniAppToolCall | Rejection | None


@dataclass(frozen=True, slots=True)
class PageRead:
    """More of an inbox, for the feed of an attempt."""

    attempt_id: str
    session: int
    """The handshake it was asked for: what was in flight before another one counts no more."""
    asked: frozenset[int]
    page: InboxRead | Rejection


@dataclass(frozen=True, slots=True)
class AttachDecided:
    """Whether an attempt may be given work."""

    attempt_id: str
    outcome: AttemptReady | AttemptOver | Rejection


# --- from timers ---


@dataclass(frozen=True, slots=True)
class BeatDue:
    """Time for a beat to every session."""


@dataclass(frozen=True, slots=True)
class SweepDue:
    """Time to derive again, from the rows, what should have been done."""


@dataclass(frozen=True, slots=True)
class ReadLongEnough:
    """The end of a dead worker's socket did not come in time: somebody holds it open."""

    attempt_id: str


@dataclass(frozen=True, slots=True)
class ReconnectDue:
    """A worker without a connection has had its time."""

    attempt_id: str
    session: int


ChannelMessage = (
    Expect
    | Forked
    | StopSession
    | ProcessGone
    | Decided
    | Answered
    | Listed
    | Looked
    | PageRead
    | AttachDecided
    | BeatDue
    | SweepDue
    | ReadLongEnough
    | ReconnectDue
    | PeerOpened
    | PeerMessage
    | PeerOversized
    | PeerClosed
    | Deliver
    | Settled
    | TellCallChanged
    | TellContext
    | TellInteraction
)
