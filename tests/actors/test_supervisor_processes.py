"""The supervisor with a real zygote, real workers, and the threads that watch them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil
import pytest

from runtime_actors.channel import messages as channel
from runtime_actors.commands import instances
from runtime_actors.contract.manifest import MOST_LIMITS
from runtime_actors.supervisor import messages as m
from runtime_actors.supervisor.actor import ZYGOTE, SupervisorActor
from runtime_actors.supervisor.exits import ExitWatcher
from runtime_actors.supervisor.log_files import LogFolder
from runtime_actors.supervisor.logs import LogCapture
from runtime_actors.supervisor.process import WorkerProcess, reap_strangers
from runtime_actors.supervisor.zygote import Keeps, Offers, WorkerLimits, ZygoteProcess
from tests.actor_fakes import LIMIT_S, SWEEP_S, Rig, an_instance
from tests.fakes import CATALOGUE, SNAPSHOT

_LIMITS: Final = WorkerLimits()


class Nursery(ZygoteProcess):
    """Forks what a test wants to run instead of a MiniApp."""

    def __init__(self, says_to: Path, entry: str) -> None:
        super().__init__()
        self._says_to, self.wanted = says_to, entry

    def fork(
        self,
        attempt_id: str,
        spec: Mapping[str, object],
        *,
        log_fd: int,
        limits: WorkerLimits = _LIMITS,
        keeps: Keeps | None = None,
        entry: str = "",
        limit_s: float = LIMIT_S,
    ) -> WorkerProcess:
        return super().fork(
            attempt_id,
            {**spec, "says_to": str(self._says_to), "code": 3},
            log_fd=log_fd,
            limits=limits,
            keeps=keeps if entry else None,  # a test's own code is nowhere that a MiniApp could read it
            entry=entry or f"tests.supervisor.entries:{self.wanted}",
            limit_s=limit_s,
        )


class Ward:
    """A supervisor as `boot` builds it, but for the channel, which is the test's."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.rig = rig
        self.logs = LogCapture(LogFolder(folder / "logs"))
        fifo = folder / "says"
        os.mkfifo(fifo)
        self._said = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)  # so that no worker waits for a reader
        self.zygote = Nursery(fifo, "wait")
        supervisor = rig.boxes["supervisor"]
        self.watcher = ExitWatcher(lambda key, status: supervisor.tell(m.Exited(key, status)))
        self.restarts = 0
        self.logs.start()
        self.watcher.start()
        self.start_zygote()
        self.actor = SupervisorActor(
            rig.care,
            store=rig.store,
            zygote=self.zygote,
            watcher=self.watcher,
            logs=self.logs,
            catalogue=CATALOGUE,
            channel=rig.boxes["channel"],
            orchestrator=rig.boxes["orchestrator"],
            me=supervisor,
            timers=rig.timers,
            groups=None,
            restart_zygote=self._restart_zygote,
            reap_strangers=self._reap_strangers,
            most=MOST_LIMITS,
            stop_grace_s=0.5,
            sweep_s=SWEEP_S,
        )
        rig.plug("supervisor", self.actor)
        rig.tell("supervisor", m.ZygoteReady(Offers()))

    def start_zygote(self) -> None:
        log_fd = self.logs.open(ZYGOTE, f"{ZYGOTE}-{self.restarts}")
        try:
            self.zygote.start(log_fd)
        finally:
            os.close(log_fd)
        self.zygote.wait_ready()
        self.watcher.watch(ZYGOTE, self.zygote)

    def _reap_strangers(self, workers: frozenset[int]) -> None:
        reap_strangers(workers | {self.zygote.pid or 0})

    def _restart_zygote(self) -> None:
        self.restarts += 1

    def run(self, *, attach: bool = True, **changes: str) -> tuple[str, int]:
        """An attempt, ready unless said otherwise, and its pid."""
        self.rig.tell("supervisor", m.Start(an_instance(self.rig, **changes)))
        attempt_id = self.rig.boxes["channel"].of(channel.Expect)[-1].attempt_id
        self.rig.tell("supervisor", channel.Listening(attempt_id, "/nowhere"))
        if attach:
            self.rig.run(instances.attach, instances.Attached(attempt_id, "process", SNAPSHOT))
        return attempt_id, self.rig.boxes["channel"].of(channel.Forked)[-1].pid

    def await_end(self, attempt_id: str) -> tuple[str, bool]:
        """Why it ended, and whether that counts."""
        gone = channel.ProcessGone(attempt_id)
        self.until(lambda: gone in self.rig.boxes["channel"].seen)
        self.rig.tell("supervisor", channel.SessionOver(attempt_id, ()))
        [(reason, counts)] = self.rig.rows(
            "select end_reason, unexpected from attempts where attempt_id = ?", attempt_id
        )
        return str(reason), bool(counts)

    def until(self, holds: Callable[[], bool]) -> None:
        self.rig.settle_until(holds)

    def end(self) -> None:
        self.watcher.stop()
        for pid in self.actor.worker_pids:
            os.kill(pid, signal.SIGKILL)
        self.zygote.close()
        self.logs.stop()
        os.close(self._said)
        for pid in self.actor.worker_pids:
            os.waitpid(pid, 0)
        reap_strangers(())


@pytest.fixture
def ward(rig: Rig, tmp_path: Path) -> Iterator[Ward]:
    made = Ward(rig, tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_a_killed_worker_is_seen_reaped_and_recorded(ward: Ward) -> None:
    attempt_id, pid = ward.run()

    os.kill(pid, signal.SIGKILL)

    assert ward.await_end(attempt_id) == ("signal SIGKILL", True)
    assert not psutil.pid_exists(pid)
    assert ward.actor.worker_pids == frozenset()


def test_the_exit_code_of_an_app_that_could_not_be_imported_is_known(ward: Ward) -> None:
    ward.zygote.wanted = "code"

    attempt_id, _ = ward.run(attach=False)

    assert ward.await_end(attempt_id) == ("import_failed", True)


def test_a_worker_that_does_not_heed_its_stop_is_killed_after_the_grace(ward: Ward) -> None:
    attempt_id, pid = ward.run()

    ward.rig.tell("supervisor", m.Stop(attempt_id, "closed"))
    assert psutil.pid_exists(pid)
    ward.rig.due(m.ForceStop)

    assert ward.await_end(attempt_id) == ("stopped", False)
    assert not psutil.pid_exists(pid)


def test_a_condemned_worker_is_killed_at_once(ward: Ward) -> None:
    attempt_id, pid = ward.run()

    ward.rig.tell("supervisor", channel.Condemn(attempt_id, "not_responding"))

    assert ward.await_end(attempt_id) == ("not_responding", True)
    assert not psutil.pid_exists(pid)


def test_a_killed_zygote_costs_no_worker_and_starts_go_on_with_the_next(ward: Ward) -> None:
    attempt_id, pid = ward.run()
    assert ward.zygote.pid is not None
    os.kill(ward.zygote.pid, signal.SIGKILL)
    ward.until(lambda: ward.restarts == 1)

    ward.start_zygote()
    ward.rig.tell("supervisor", m.ZygoteReady(Offers()))
    _, other = ward.run(call_id="c2", conversation_id="elsewhere")

    assert ward.actor.worker_pids == {pid, other}
    os.kill(pid, signal.SIGKILL)
    assert ward.await_end(attempt_id) == ("signal SIGKILL", True)


def test_a_fork_into_a_zygote_that_is_gone_ends_uncounted_and_asks_for_another(ward: Ward) -> None:
    ward.rig.hold("supervisor")  # so that it has not heard of the end
    assert ward.zygote.pid is not None
    os.kill(ward.zygote.pid, signal.SIGKILL)
    instance_id = an_instance(ward.rig)
    ward.rig.held.clear()

    begun = m.Start(instance_id)
    ward.rig.boxes["supervisor"].waiting.appendleft(begun)
    ward.rig.settle()
    attempt_id = ward.rig.boxes["channel"].of(channel.Expect)[-1].attempt_id
    ward.rig.tell("supervisor", channel.Listening(attempt_id, "/nowhere"))
    ward.until(lambda: ward.restarts == 1)

    reasons = [reason for (reason,) in ward.rig.rows("select end_reason from attempts")]
    if channel.ProcessGone(attempt_id) in ward.rig.boxes["channel"].seen:
        assert ward.await_end(attempt_id) == ("fork_failed", False)
    else:  # the end was told before the fork, which then waits
        assert reasons == [None]


def test_a_signal_of_an_operator_reaches_the_process_itself(ward: Ward) -> None:
    attempt_id, _ = ward.run()
    reached: list[str | None] = []

    ward.rig.tell("supervisor", m.Signal("ins-1", None, signal.SIGTERM, reached.append))

    assert reached == [attempt_id]
    assert ward.await_end(attempt_id) == ("signal SIGTERM", True)
