"""The orchestrator actor: which instances get a process, and when; and which can do without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from runtime_actors.actor import RuntimeActor
from runtime_actors.commands import instances, suspension
from runtime_actors.commands.follow_ups import InstanceDone, InstanceWanted
from runtime_actors.orchestrator.messages import PressureDue, SweepDue
from runtime_actors.supervisor.messages import ProcessOver, Start, Stop

if TYPE_CHECKING:
    from runtime_actors.actor import Care
    from runtime_actors.mailbox import Clock, Mailbox
    from runtime_actors.store.client import Store
    from runtime_actors.timers import Timers

_PRESSURE_S: Final = 0.1
"""Between two looks for a process to end, while others wait for one."""


class OrchestratorActor(RuntimeActor):
    """Owns instances and focus (`commands.instances`). Keeps who has a process, who waits for one, and who is quiet."""

    def __init__(
        self,
        care: Care,
        *,
        store: Store,
        supervisor: Mailbox[object],
        me: Mailbox[object],
        timers: Timers,
        clock: Clock,
        live_processes: int,
        suspend_after_s: float,
        sweep_s: float,
    ) -> None:
        super().__init__(care)
        self._store, self._supervisor, self._me, self._timers, self._clock = store, supervisor, me, timers, clock
        self._live_processes, self._suspend_after_s, self._sweep_s = live_processes, suspend_after_s, sweep_s
        self._running: set[str] = set()
        self._waiting: dict[str, None] = {}
        self._delayed: set[str] = set()
        self._doubtful: frozenset[str] = frozenset()
        """Said to have a process, and at the latest sweep the rows knew of none."""
        self._quiet: dict[str, tuple[str, float]] = {}
        """What each quiet instance was touched by last, and when that was seen first, on CLOCK_BOOTTIME."""
        self._looks = False
        """A look at who is quiet is under way, or due."""

    def on_start(self) -> None:
        """Begin to sweep."""
        self._timers.tell_after(self._sweep_s, self._me, SweepDue())

    def rebuild(self) -> None:
        """Ask the rows again who needs a process."""
        self._waiting.clear()
        self._delayed.clear()
        self._quiet.clear()
        self._looks = False
        self._sweep()

    def receive(self, message: object) -> None:
        """Handle one message."""
        match message:
            case InstanceWanted(instance_id, after_s) if after_s > 0:
                self._delayed.add(instance_id)
                self._timers.tell_after(after_s, self._me, InstanceWanted(instance_id))
            case InstanceWanted(instance_id):
                self._delayed.discard(instance_id)
                self._waiting[instance_id] = None
            case ProcessOver(instance_id):
                self._running.discard(instance_id)
            case InstanceDone(instance_id, attempt_id, reason):
                self._waiting.pop(instance_id, None)
                if attempt_id is not None:
                    self._supervisor.tell(Stop(attempt_id, reason))
            case instances.Wanted():
                self._compare(message)
            case suspension.QuietOnes():
                self._looks = False
                self._suspend(message)
            case SweepDue():
                self._timers.tell_after(self._sweep_s, self._me, SweepDue())
                self._sweep()
            case PressureDue():
                self._look()
            case _:
                detail = f"the orchestrator cannot take {type(message).__name__}"
                raise TypeError(detail)
        self._launch()

    @property
    def queued(self) -> int:
        """Instances that wait for a process."""
        return len(self._waiting) + len(self._delayed)

    def _launch(self) -> None:
        """Start what may start: one process an instance, a bounded number of them in all, first come first served."""
        for instance_id in self._startable():
            if len(self._running) >= self._live_processes:
                if not self._looks:
                    self._looks = True
                    self._timers.tell_after(_PRESSURE_S, self._me, PressureDue())
                return
            del self._waiting[instance_id]
            self._running.add(instance_id)
            self._supervisor.tell(Start(instance_id))

    def _startable(self) -> list[str]:
        return [one for one in self._waiting if one not in self._running]

    def _sweep(self) -> None:
        self._store.run(
            instances.read_wanted,
            None,
            lambda found: self._me.tell(found) if isinstance(found, instances.Wanted) else None,
        )
        self._look()

    def _look(self) -> None:
        self._looks = True
        self._store.run(
            suspension.read_quiet,
            None,
            lambda found: self._me.tell(found if isinstance(found, suspension.QuietOnes) else suspension.NOTHING_SEEN),
        )

    def _suspend(self, found: suspension.QuietOnes) -> None:
        """Who has been quiet for long enough; and the longest quiet ones, as many as are in the way of others."""
        now = self._clock.now().boot_s
        before, self._quiet = self._quiet, {}
        for one in found.quiet:
            touched, since = before.get(one.instance_id, ("", now))
            self._quiet[one.instance_id] = (one.touched, since if touched == one.touched else now)
        longest = sorted(found.quiet, key=lambda one: self._quiet[one.instance_id][1])
        free = self._live_processes - len(self._running) + len(found.ending)
        in_the_way = len(self._startable()) - free
        for place, one in enumerate(longest):
            if place < in_the_way or now - self._quiet[one.instance_id][1] >= self._suspend_after_s:
                self._store.run(suspension.suspend, one)

    def _compare(self, rows: instances.Wanted) -> None:
        lost = self._running - rows.running
        self._running -= lost & self._doubtful  # its start, or the news of its end, got lost on the way
        self._doubtful = frozenset(lost)
        for instance_id in rows.wanted:
            if instance_id not in self._running and instance_id not in self._delayed:
                self._waiting[instance_id] = None
        for attempt_id, reason in rows.unwanted:
            self._supervisor.tell(Stop(attempt_id, reason))
        for instance_id in rows.debtors:
            self._store.run(suspension.wake_debtor, instance_id)
