"""The interaction actor: sees to it that a question ends when its time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from runtime_actors.actor import RuntimeActor
from runtime_actors.commands.follow_ups import InteractionDueAt
from runtime_actors.commands.interactions import InteractionExpiry, expire_interactions
from runtime_actors.interaction import messages as m

if TYPE_CHECKING:
    from runtime_actors.actor import Care
    from runtime_actors.mailbox import Clock, Mailbox
    from runtime_actors.store.client import Store
    from runtime_actors.timers import Timers

_LATEST_LOOK_S: Final = 3600.0


class InteractionActor(RuntimeActor):
    """Keeps when it looks next, and nothing else: that questions are overdue is in their rows.

    They expire by wall time, which may jump: the sweep finds what a timer misses.
    """

    def __init__(
        self, care: Care, *, store: Store, me: Mailbox[object], timers: Timers, clock: Clock, sweep_s: float
    ) -> None:
        super().__init__(care)
        self._store, self._me, self._timers, self._clock, self._sweep_s = store, me, timers, clock, sweep_s
        self._next_look_s = float("inf")

    def on_start(self) -> None:
        """Begin to sweep."""
        self._timers.tell_after(self._sweep_s, self._me, m.SweepDue())

    def rebuild(self) -> None:
        """Look again."""
        self._look()

    def receive(self, message: object) -> None:
        """Handle one message."""
        match message:
            case InteractionDueAt(wall_s):
                self._look_at(wall_s)
            case m.TimeUp():
                self._look()
            case m.Looked(InteractionExpiry(_, next_due_wall_s)):
                if next_due_wall_s is not None:
                    self._look_at(next_due_wall_s)
            case m.Looked():
                pass  # the sweep looks again
            case m.SweepDue():
                self._timers.tell_after(self._sweep_s, self._me, m.SweepDue())
                self._look()
            case _:
                detail = f"the interaction actor cannot take {type(message).__name__}"
                raise TypeError(detail)

    def _look_at(self, wall_s: float) -> None:
        """Wake up when a question expires, if no earlier look is planned."""
        if wall_s < self._next_look_s:
            self._next_look_s = wall_s
            wait = min(_LATEST_LOOK_S, wall_s - self._clock.now().wall.timestamp())
            self._timers.tell_after(wait, self._me, m.TimeUp())

    def _look(self) -> None:
        self._next_look_s = float("inf")
        self._store.run(expire_interactions, None, lambda outcome: self._me.tell(m.Looked(outcome)))
