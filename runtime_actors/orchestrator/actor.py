"""The orchestrator actor: which instances get a process, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_actors.actor import RuntimeActor
from runtime_actors.commands import instances
from runtime_actors.commands.follow_ups import InstanceDone, InstanceWanted
from runtime_actors.orchestrator.messages import SweepDue
from runtime_actors.supervisor.messages import ProcessOver, Start, Stop

if TYPE_CHECKING:
    from runtime_actors.actor import Care
    from runtime_actors.mailbox import Mailbox
    from runtime_actors.store.client import Store
    from runtime_actors.timers import Timers


class OrchestratorActor(RuntimeActor):
    """Owns instances and focus (`commands.instances`). Keeps who has a process and who waits for one."""

    def __init__(
        self,
        care: Care,
        *,
        store: Store,
        supervisor: Mailbox[object],
        me: Mailbox[object],
        timers: Timers,
        live_processes: int,
        sweep_s: float,
    ) -> None:
        super().__init__(care)
        self._store, self._supervisor, self._me, self._timers = store, supervisor, me, timers
        self._live_processes, self._sweep_s = live_processes, sweep_s
        self._running: set[str] = set()
        self._waiting: dict[str, None] = {}
        self._delayed: set[str] = set()
        self._doubtful: frozenset[str] = frozenset()
        """Said to have a process, and at the latest sweep the rows knew of none."""

    def on_start(self) -> None:
        """Begin to sweep."""
        self._timers.tell_after(self._sweep_s, self._me, SweepDue())

    def rebuild(self) -> None:
        """Ask the rows again who needs a process."""
        self._waiting.clear()
        self._delayed.clear()
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
            case SweepDue():
                self._timers.tell_after(self._sweep_s, self._me, SweepDue())
                self._sweep()
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
        for instance_id in [one for one in self._waiting if one not in self._running]:
            if len(self._running) >= self._live_processes:
                return
            del self._waiting[instance_id]
            self._running.add(instance_id)
            self._supervisor.tell(Start(instance_id))

    def _sweep(self) -> None:
        self._store.run(
            instances.read_wanted,
            None,
            lambda found: self._me.tell(found) if isinstance(found, instances.Wanted) else None,
        )

    def _compare(self, rows: instances.Wanted) -> None:
        lost = self._running - rows.running
        self._running -= lost & self._doubtful  # its start, or the news of its end, got lost on the way
        self._doubtful = frozenset(lost)
        for instance_id in rows.wanted:
            if instance_id not in self._running and instance_id not in self._delayed:
                self._waiting[instance_id] = None
        for attempt_id, reason in rows.unwanted:
            self._supervisor.tell(Stop(attempt_id, reason))
