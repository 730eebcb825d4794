"""The supervisor actor: worker processes, from the fork to the reaping."""

from __future__ import annotations

import logging
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runtime_actors.actor import RuntimeActor
from runtime_actors.channel import messages as channel
from runtime_actors.commands import instances
from runtime_actors.contract.session import MiniAppContextModel
from runtime_actors.errors import RuntimeActorsError
from runtime_actors.supervisor import messages as m
from runtime_actors.supervisor.ends import BY_OUR_DOING, reason_of
from runtime_actors.supervisor.keeps import Place, limits_of, sharing_a_uid
from runtime_actors.supervisor.zygote import Offers

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.actor import Care
    from runtime_actors.contract.manifest import Limits
    from runtime_actors.mailbox import Mailbox
    from runtime_actors.rules.inventory import Catalogue
    from runtime_actors.rules.registration import RegisteredApp
    from runtime_actors.store.client import Store
    from runtime_actors.supervisor.cgroups import Group, Parents
    from runtime_actors.supervisor.exits import ExitWatcher
    from runtime_actors.supervisor.logs import LogCapture
    from runtime_actors.supervisor.process import ExitStatus, WorkerProcess
    from runtime_actors.supervisor.zygote import WorkerLimits, ZygoteProcess
    from runtime_actors.timers import Timers

logger = logging.getLogger(__name__)

ZYGOTE: Final = "zygote"
_BESIDE_HEAP_BYTES: Final = 32 * 2**20
"""What a worker's cgroup may hold on top of its heap: files that it read first, and shared memory."""


@dataclass(slots=True)
class Attempt:
    """One process, as far as it is known here."""

    attempt_id: str
    instance_id: str
    app: RegisteredApp
    token: str
    worker: WorkerProcess | None = None
    uid: int | None = None
    """Its own, where it has one."""
    group: Group | None = None
    exited: bool = False
    reason: str | None = None
    """Why it ends, once that is decided."""
    counted: bool = True
    stopping: bool = False
    over: channel.SessionOver | None = None


class SupervisorActor(RuntimeActor):
    """Owns attempts. Processes are this daemon's alone; what the rows say about them is compared at every sweep."""

    def __init__(
        self,
        care: Care,
        *,
        store: Store,
        zygote: ZygoteProcess,
        watcher: ExitWatcher,
        logs: LogCapture,
        catalogue: Catalogue,
        channel: Mailbox[object],
        orchestrator: Mailbox[object],
        me: Mailbox[object],
        timers: Timers,
        groups: Parents | None,
        restart_zygote: Callable[[], None],
        reap_strangers: Callable[[frozenset[int]], None],
        most: Limits,
        stop_grace_s: float,
        sweep_s: float,
    ) -> None:
        super().__init__(care)
        self._store, self._zygote, self._watcher, self._logs = store, zygote, watcher, logs
        self._catalogue, self._channel, self._orchestrator, self._me = catalogue, channel, orchestrator, me
        self._most = most
        self._groups, self._place = groups, Place(Offers())
        self._timers, self._restart_zygote, self._reap_strangers = timers, restart_zygote, reap_strangers
        self._stop_grace_s, self._sweep_s = stop_grace_s, sweep_s
        self._attempts: dict[str, Attempt] = {}
        self._zygote_ready = False
        self._ending = False
        self._waiting: dict[str, str] = {}
        """Attempts whose socket is open while there is no zygote, with the socket's path."""

    def on_start(self) -> None:
        """Begin to sweep."""
        self._timers.tell_after(self._sweep_s, self._me, m.SweepDue())

    def rebuild(self) -> None:
        """Processes are known only here: they stay known, and the sweep finds what differs from the rows."""
        self._sweep_now()

    def receive(self, message: object) -> None:  # noqa: C901, PLR0912 - one line a message
        """Handle one message."""
        match message:
            case m.Start(instance_id):
                self._start(instance_id)
            case m.Begun(instance_id, outcome):
                self._begun(instance_id, outcome)
            case channel.Listening(attempt_id, path):
                self._listening(attempt_id, path)
            case m.ZygoteReady(offers):
                self._place = Place(offers)
                self._zygote_is_ready()
            case m.Exited(key, status):
                self._exited(key, status)
            case channel.SessionOver():
                self._session_over(message)
            case m.EndRecorded(attempt_id, outcome):
                self._end_recorded(attempt_id, outcome)
            case channel.Condemn(attempt_id, reason):
                self._condemn(attempt_id, reason)
            case m.Stop(attempt_id, reason):
                self._stop_attempt(attempt_id, reason)
            case m.ForceStop(attempt_id):
                self._force(attempt_id)
            case m.Signal():
                self._signal(message)
            case m.RunningRead(attempts):
                self._compare(attempts)
            case m.StopAll():
                self._stop_all()
            case m.SweepDue():
                self._timers.tell_after(self._sweep_s, self._me, m.SweepDue())
                self._sweep_now()
            case _:
                detail = f"the supervisor cannot take {type(message).__name__}"
                raise TypeError(detail)

    # --- start ---

    def _start(self, instance_id: str) -> None:
        if self._ending:
            return
        self._store.run(
            instances.begin_attempt, instance_id, lambda outcome: self._me.tell(m.Begun(instance_id, outcome))
        )

    def _begun(self, instance_id: str, outcome: object) -> None:
        if not isinstance(outcome, instances.AttemptBegun):
            self._orchestrator.tell(m.ProcessOver(instance_id))
            return
        instance, attempt_id = outcome.instance, outcome.attempt_id
        app = self._catalogue.apps[instance.app_scope]
        token = secrets.token_hex(32)
        self._attempts[attempt_id] = Attempt(attempt_id, instance_id, app, token)
        context = MiniAppContextModel(
            app_scope=instance.app_scope,
            instance_id=instance_id,
            conversation_id=instance.conversation_id,
            app_version=instance.app_version,
            state="starting",
            mode="im" if app.manifest.kind == "system" else None,
        )
        self._channel.tell(channel.Expect(attempt_id, token, context))

    def _listening(self, attempt_id: str, path: str) -> None:
        attempt = self._attempts.get(attempt_id)
        if attempt is None:
            return
        if attempt.stopping or attempt.reason is not None:  # nobody waits for it any more
            self._never_ran(attempt, "stopped")
        elif not path:
            self._never_ran(attempt, "no_socket")
        elif self._zygote_ready:
            self._fork(attempt, path)
        else:
            self._waiting[attempt_id] = path

    def _fork(self, attempt: Attempt, path: str) -> None:
        log = -1
        try:
            log = self._logs.open(attempt.instance_id, attempt.attempt_id)
            limits = limits_of(attempt.app.manifest.extensions.limits.within(self._most))
            taken = {one.uid for one in self._attempts.values() if one.uid is not None and not one.exited}
            keeps = self._place.keeps(Path(attempt.app.folder), Path(path), taken)
            attempt.uid = keeps.uid
            if keeps.uid is None:
                limits = sharing_a_uid(limits)
            worker = self._zygote.fork(
                attempt.attempt_id, self._spec(attempt, path), log_fd=log, limits=limits, keeps=keeps
            )
        except (OSError, RuntimeError, RuntimeActorsError):
            logger.exception("a worker could not be forked", extra={"attempt_id": attempt.attempt_id})
            self._never_ran(attempt, "fork_failed")
            return
        finally:
            if log >= 0:
                os.close(log)
        attempt.worker = worker
        self._store.run(instances.note_spawned, instances.Spawned(attempt.attempt_id, worker.pid))
        self._channel.tell(channel.Forked(attempt.attempt_id, worker.pid))
        worker.release(attempt.token, held=True)
        self._count(attempt, worker.pid, limits)
        self._watcher.watch(attempt.attempt_id, worker)
        worker.admit()

    def _count(self, attempt: Attempt, pid: int, limits: WorkerLimits) -> None:
        """Where there are cgroups, its memory and its threads are counted as a whole.

        Moving it takes the kernel up to 10 ms (a grace period of RCU); it confines itself meanwhile, and is admitted
        to MiniApp code only after.
        """
        if self._groups is None:
            return
        try:
            attempt.group = self._groups.make(
                attempt.attempt_id,
                memory_bytes=limits.memory_bytes + _BESIDE_HEAP_BYTES,
                processes=limits.threads,
            )
            attempt.group.take(pid)
        except OSError:  # no room for another group, or it is gone already: the rlimits stand
            logger.warning("a worker has no cgroup", extra={"attempt_id": attempt.attempt_id}, exc_info=True)

    def _spec(self, attempt: Attempt, path: str) -> dict[str, object]:
        return {
            "attempt_id": attempt.attempt_id,
            "socket_path": path,
            "app_folder": attempt.app.folder,
            "app_scope": attempt.app.manifest.app_scope,
        }

    def _never_ran(self, attempt: Attempt, reason: str) -> None:
        attempt.exited = True
        attempt.counted = False
        attempt.reason = attempt.reason or reason
        self._channel.tell(channel.ProcessGone(attempt.attempt_id))

    def _zygote_is_ready(self) -> None:
        self._zygote_ready = True
        waiting, self._waiting = self._waiting, {}
        for attempt_id, path in waiting.items():
            # Each a message of its own: one that cannot be forked must not cost the others their start.
            self._me.tell(channel.Listening(attempt_id, path))

    # --- end ---

    def _exited(self, key: str, status: ExitStatus) -> None:
        if key == ZYGOTE:
            logger.warning("the zygote ended; workers go on", extra={"status": str(status)})
            self._zygote_ready = False
            self._restart_zygote()
            return
        attempt = self._attempts.get(key)
        if attempt is None or attempt.exited:
            return
        attempt.exited = True
        if attempt.reason is None:
            attempt.reason = "stopped" if attempt.stopping else self._reason(attempt, status)
        if attempt.group is not None:
            attempt.group.remove()
        logger.info(
            "a worker ended",
            extra={
                "attempt_id": key,
                "instance_id": attempt.instance_id,
                "status": str(status),
                "reason": attempt.reason,
            },
        )
        self._channel.tell(channel.ProcessGone(key))

    def _reason(self, attempt: Attempt, status: ExitStatus) -> str:
        limits = attempt.app.manifest.extensions.limits.within(self._most)
        oom_kills = attempt.group.oom_kills() if attempt.group is not None else 0
        return reason_of(status, cpu_limit_s=limits.cpu_s, oom_kills=oom_kills)

    def _session_over(self, over: channel.SessionOver) -> None:
        attempt = self._attempts.get(over.attempt_id)
        if attempt is not None:
            attempt.over = over
            self._record_end(attempt)

    def _record_end(self, attempt: Attempt) -> None:
        if not attempt.exited or attempt.over is None:
            return
        counted = attempt.counted and not attempt.stopping
        end = instances.AttemptEnd(attempt.attempt_id, attempt.reason or "ended", counted, attempt.over.delivered)
        attempt_id = attempt.attempt_id
        self._store.run(instances.end_attempt, end, lambda outcome: self._me.tell(m.EndRecorded(attempt_id, outcome)))

    def _end_recorded(self, attempt_id: str, outcome: object) -> None:
        if outcome is not None and not isinstance(outcome, instances.Ended):
            return  # the store could not; the sweep asks again
        attempt = self._attempts.pop(attempt_id, None)
        if attempt is not None:
            self._orchestrator.tell(m.ProcessOver(attempt.instance_id))

    def _condemn(self, attempt_id: str, reason: str) -> None:
        attempt = self._attempts.get(attempt_id)
        if attempt is None:
            return
        if attempt.reason is None or (attempt.exited and attempt.reason in BY_OUR_DOING):
            attempt.reason = reason
        if attempt.exited:
            return
        logger.warning("a worker is ended", extra={"attempt_id": attempt_id, "reason": reason})
        self._kill(attempt)

    def _stop_attempt(self, attempt_id: str, reason: str) -> None:
        attempt = self._attempts.get(attempt_id)
        if attempt is None or attempt.exited or attempt.stopping:
            return
        attempt.stopping = True
        if self._waiting.pop(attempt_id, None) is not None:
            self._never_ran(attempt, "stopped")
            return
        self._channel.tell(channel.StopSession(attempt_id, reason, self._stop_grace_s))
        self._timers.tell_after(self._stop_grace_s, self._me, m.ForceStop(attempt_id))

    def _force(self, attempt_id: str) -> None:
        attempt = self._attempts.get(attempt_id)
        if attempt is not None and not attempt.exited:
            self._kill(attempt)

    def _kill(self, attempt: Attempt) -> None:
        if attempt.worker is not None:
            attempt.worker.kill_group()
        elif self._waiting.pop(attempt.attempt_id, None) is not None:
            self._never_ran(attempt, "stopped")
        else:
            attempt.reason = attempt.reason or "stopped"  # its socket is not open yet: it will not be forked

    def _stop_all(self) -> None:
        """The daemon ends: workers are told, and what is left is killed. The next start brings the rows in order."""
        self._ending = True
        for attempt_id in list(self._attempts):
            self._stop_attempt(attempt_id, "daemon_stops")

    @property
    def worker_pids(self) -> frozenset[int]:
        """Of the processes that were not seen to end. May be read from any thread."""
        return frozenset(
            attempt.worker.pid for attempt in list(self._attempts.values()) if attempt.worker and not attempt.exited
        )

    def _signal(self, order: m.Signal) -> None:
        for attempt in self._attempts.values():
            matches = attempt.instance_id == order.instance_id and order.attempt_id in {None, attempt.attempt_id}
            if matches and attempt.worker is not None and not attempt.exited:
                order.answer(attempt.attempt_id if attempt.worker.signal(order.number) else None)
                return
        order.answer(None)

    # --- what got lost ---

    def _sweep_now(self) -> None:
        self._reap_strangers(self.worker_pids)
        for attempt in self._attempts.values():
            self._record_end(attempt)
        self._store.run(
            instances.read_running,
            None,
            lambda found: self._me.tell(m.RunningRead(found)) if isinstance(found, tuple) else None,
        )

    def _compare(self, attempts: tuple[tuple[str, str], ...]) -> None:
        """An attempt that was begun and of which nobody here was told: its start was lost on the way."""
        for attempt_id, instance_id in attempts:
            if attempt_id not in self._attempts:
                end = instances.AttemptEnd(attempt_id, "start_lost", counted=False)
                self._store.run(instances.end_attempt, end)
                self._orchestrator.tell(m.ProcessOver(instance_id))
