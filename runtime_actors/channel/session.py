"""What the channel knows about one attempt's session. No I/O: the actor owns the sockets."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from runtime_actors.rules.delivery import WINDOW, Feed

if TYPE_CHECKING:
    from runtime_actors.contract.session import IsolationLevel, MiniAppContextModel, SdkCapability

RESET_AFTER_BEATS: Final = 3
LOST_AFTER_BEATS: Final = 6
MAX_INVALID: Final = 64
"""Frames that could not be read, after which the attempt is ended."""


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
    """Number of a message in flight to the call it gives."""
    highest: int = 0
    """The highest message number ever sent to this process."""
    undecided: dict[str, float] = field(default_factory=dict)
    """Requests without an answer, and since when."""
    beat: int = 0
    unanswered: int = 0
    """Beats since the last pong."""
    invalid: int = 0
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

    def lost_view(self) -> None:
        """A new connection, or a reset: whatever is not settled goes out again."""
        self.feed.restart()
        self.calls.clear()
        self.undecided.clear()
        self.unanswered = 0

    def settle(self, number: int) -> None:
        """A message left the inbox."""
        self.feed.settle(number)
        self.calls.pop(number, None)
