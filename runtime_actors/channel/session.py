"""What the channel knows about one attempt's session. No I/O: the actor owns the sockets."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.rules.delivery import WINDOW, Feed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime_actors.contract.inbox import MiniAppMessage
    from runtime_actors.contract.session import IsolationLevel, MiniAppContextModel, SdkCapability

RESET_AFTER_BEATS: Final = 3
LOST_AFTER_BEATS: Final = 6
MAX_INVALID: Final = 64
"""Frames that could not be read, after which the attempt is ended; a large one counts as several."""
LARGE_BYTES: Final = 2 * 1024
"""One more for each: refusing takes time that belongs to others, and the SDK sends nothing that cannot be read."""
MAX_WORK_BYTES: Final = 16 * 1024
"""Of requests of one worker that router and store have at a time, if it is more than one: others come in between."""
MAX_IDLE_FRAMES: Final = 160
"""Frames without any effect, likewise, counted anew at each welcome and each beat: answers to beats that were not
sent, copies of requests that are being decided, requests that cannot be made now. The SDK says none of the first two,
and of the third no more than its credit."""


class Phase(StrEnum):
    """Where a session is."""

    EXPECTED = "expected"
    """The socket is open; nobody said hello."""
    SEALING = "sealing"
    """Welcomed; it takes the last steps of its confinement."""
    LOADING = "loading"
    """Measured, and let go; the MiniApp is being imported."""
    ATTACHING = "attaching"
    """It is ready, and the store is asked."""
    OPEN = "open"
    RESETTING = "resetting"
    """A resume is awaited; nothing is sent but beats."""
    ENDING = "ending"
    """Told to stop, or condemned: it is given nothing more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far a process was found to be confined."""

    level: IsolationLevel
    enough: bool
    """It meets the minimum that the operator demands."""
    sealed: bool
    """It cannot connect again."""


@dataclass(slots=True)
class Session:
    """One attempt, from the fork to the end of its socket."""

    attempt_id: str
    token: str
    context: MiniAppContextModel
    door: str
    phase: Phase = Phase.EXPECTED
    pid: int | None = None
    peer: int | None = None
    proven: bool = False
    """It said a hello with the right token on this connection."""
    number: int = 0
    """Handshakes so far."""
    since_s: float = 0.0
    """When the phase began, monotonic."""
    snapshot: tuple[SdkCapability, ...] | None = None
    digest: str = ""
    level: IsolationLevel | None = None
    """As measured; None until then."""
    feed: Feed = field(default_factory=lambda: Feed(window=WINDOW))
    calls: dict[int, str] = field(default_factory=dict)
    """Number of a message that this process was sent, in whichever session, and that is not settled, to its call."""
    highest: int = 0
    """The highest message number ever sent to this process."""
    undecided: dict[str, float] = field(default_factory=dict)
    """Requests without an answer, and since when."""
    in_work: dict[str, int] = field(default_factory=dict)
    """Bytes of those that were handed on."""
    held: deque[tuple[str, Any, int]] = field(default_factory=deque)
    """Those that were not: (request_id, request, bytes), in their order."""
    beat: int = 0
    unanswered: int = 0
    """Beats since the last pong."""
    invalid: int = 0
    idle: int = 0
    """Frames without any effect since the last welcome or beat."""
    condemned: str | None = None
    """Why it is being killed."""
    grace_s: float = 0.0
    """It was told to stop within this time."""
    gone: bool = False
    """The process has ended."""

    @property
    def instance_id(self) -> str:
        """Whose process it is."""
        return self.context.instance_id

    def enter(self, phase: Phase, now_s: float) -> None:
        """Begin a phase."""
        self.phase = phase
        self.since_s = now_s

    def take_request(self, request_id: str, now_s: float) -> bool | None:
        """Whether to handle a request; False if its first copy is undecided yet, None if the credit is used up."""
        if request_id in self.undecided:
            return False
        if len(self.undecided) >= WINDOW:
            return None
        self.undecided[request_id] = now_s
        return True

    def next_request(self, *, last: bool = False) -> tuple[str, Any] | None:
        """The next to hand on, if there is room for it; with `last` there is."""
        if not self.held:
            return None
        request_id, request, size = self.held[0]
        if self.in_work and sum(self.in_work.values()) + size > MAX_WORK_BYTES and not last:
            return None
        self.held.popleft()
        self.in_work[request_id] = size
        return request_id, request

    def decided(self, request_id: str) -> None:
        """A request is answered."""
        self.undecided.pop(request_id, None)
        self.in_work.pop(request_id, None)

    def lost_view(self) -> None:
        """A new connection, or a reset: whatever is not settled goes out again."""
        self.feed.restart()  # `calls` stays: should the process die before they do, it had them all the same
        self.undecided.clear()
        self.in_work.clear()
        self.held.clear()
        self.unanswered = 0

    def gave(self, messages: Iterable[MiniAppMessage]) -> None:
        """The process can read these: should it die, it had their calls."""
        self.calls |= {one.number: one.call.call_id for one in messages if one.call is not None}

    def settle(self, number: int) -> None:
        """A message left the inbox."""
        self.feed.settle(number)
        self.calls.pop(number, None)
