"""Worker processes, from the fork to the reaping. `test_supervisor_processes.py` does it with real ones."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from runtime_actors.channel import messages as channel
from runtime_actors.commands import instances
from runtime_actors.commands.follow_ups import InstanceWanted
from runtime_actors.contract.manifest import MOST_LIMITS, Limits
from runtime_actors.errors import ZygoteLost
from runtime_actors.rules.instances import AttemptState
from runtime_actors.store.messages import Run
from runtime_actors.supervisor import messages as m
from runtime_actors.supervisor.actor import ZYGOTE, SupervisorActor
from runtime_actors.supervisor.cgroups import Parents
from runtime_actors.supervisor.exits import ExitWatcher
from runtime_actors.supervisor.logs import LogCapture
from runtime_actors.supervisor.process import ExitStatus, WorkerProcess
from runtime_actors.supervisor.zygote import ForkRefused, Keeps, Offers, WorkerLimits, ZygoteProcess
from tests.actor_fakes import SWEEP_S, Rig, an_instance
from tests.fakes import CATALOGUE, SNAPSHOT

GRACE_S = 2.0
KILLED = ExitStatus(signal=signal.SIGKILL)


@dataclass
class PlannedWorker:
    """A process that does what its test says."""

    pid: int
    did: list[str] = field(default_factory=list)
    gone: bool = False
    token: str = ""

    def release(self, token: str, *, held: bool = False) -> None:
        self.did.append("let begin" if held else "released")
        self.token = token

    def admit(self) -> None:
        self.did.append("released")

    def signal(self, number: int) -> bool:
        self.did.append(f"signal {number}")
        return not self.gone

    def kill_group(self) -> None:
        self.did.append("killed")


class PlannedZygote:
    """Forks, or fails as planned."""

    def __init__(self) -> None:
        self.fails_with: Exception | None = None
        self.specs: list[Mapping[str, object]] = []
        self.limits: list[WorkerLimits] = []
        self.keeps: list[Keeps] = []
        self.workers: list[PlannedWorker] = []

    def fork(
        self, attempt_id: str, spec: Mapping[str, object], *, log_fd: int, limits: WorkerLimits, keeps: Keeps
    ) -> PlannedWorker:
        assert os.fstat(log_fd)
        assert attempt_id == spec["attempt_id"]
        if self.fails_with is not None:
            raise self.fails_with
        self.specs.append(spec)
        self.limits.append(limits)
        self.keeps.append(keeps)
        self.workers.append(PlannedWorker(5000 + len(self.workers)))
        return self.workers[-1]


class NullLogs:
    """Opens a log that nobody reads."""

    def __init__(self) -> None:
        self.fails = False

    def open(self, _instance_id: str, _attempt_id: str) -> int:
        if self.fails:
            raise OSError("no descriptors")
        return os.open(os.devnull, os.O_WRONLY)


class Watched:
    """Whose end would be told."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def watch(self, key: str, _process: object) -> None:
        self.keys.append(key)


@dataclass
class Ward:
    """A supervisor and what it works with."""

    rig: Rig
    groups: Parents | None = None
    most: Limits = MOST_LIMITS
    zygote: PlannedZygote = field(default_factory=PlannedZygote)
    watched: Watched = field(default_factory=Watched)
    logs: NullLogs = field(default_factory=NullLogs)
    restarts: list[str] = field(default_factory=list)
    known: list[frozenset[int]] = field(default_factory=list)
    actor: SupervisorActor = field(init=False)

    def __post_init__(self) -> None:
        rig = self.rig
        self.actor = SupervisorActor(
            rig.care,
            store=rig.store,
            zygote=cast("ZygoteProcess", self.zygote),
            watcher=cast("ExitWatcher", self.watched),
            logs=cast("LogCapture", self.logs),
            catalogue=CATALOGUE,
            channel=rig.boxes["channel"],
            orchestrator=rig.boxes["orchestrator"],
            me=rig.boxes["supervisor"],
            timers=rig.timers,
            groups=self.groups,
            restart_zygote=lambda: self.restarts.append("asked"),
            reap_strangers=self.known.append,
            most=self.most,
            stop_grace_s=GRACE_S,
            sweep_s=SWEEP_S,
        )
        rig.plug("supervisor", self.actor)

    def tell(self, *messages: object) -> None:
        self.rig.tell("supervisor", *messages)

    def begin(self, tool_id: str = "notes.write", **changes: str) -> str:
        """An attempt whose socket is being opened."""
        self.tell(m.Start(an_instance(self.rig, tool_id, **changes)))
        return self.to_channel(channel.Expect)[-1].attempt_id

    def run(self, tool_id: str = "notes.write", **changes: str) -> str:
        """An attempt with a process."""
        attempt_id = self.begin(tool_id, **changes)
        self.tell(m.ZygoteReady(Offers()), channel.Listening(attempt_id, "/run/w/1"))
        return attempt_id

    def run_ready(self, tool_id: str = "notes.write", **changes: str) -> str:
        """An attempt whose app is loaded."""
        attempt_id = self.run(tool_id, **changes)
        self.rig.run(instances.attach, instances.Attached(attempt_id, "process", SNAPSHOT))
        return attempt_id

    def end(self, attempt_id: str, status: ExitStatus = KILLED, *delivered: str) -> None:
        """The process is gone, and its socket was read to its end."""
        self.tell(m.Exited(attempt_id, status))
        self.over(attempt_id, *delivered)

    def over(self, attempt_id: str, *delivered: str) -> None:
        self.tell(channel.SessionOver(attempt_id, delivered))

    def to_channel(self, kind: type[channel.Expect]) -> list[channel.Expect]:
        return self.rig.boxes["channel"].of(kind)

    def attempt(self, attempt_id: str) -> tuple[str, str | None, bool]:
        """State, why it ended, and whether that counts."""
        sql = "select state, end_reason, unexpected from attempts where attempt_id = ?"
        [(state, reason, unexpected)] = self.rig.rows(sql, attempt_id)
        return str(state), reason, bool(unexpected)

    def freed(self) -> int:
        """How many processes the orchestrator was told to be over."""
        return len(self.rig.boxes["orchestrator"].of(m.ProcessOver))

    def wanted(self) -> list[float]:
        """After how long an instance was wanted (again)."""
        return [one.after_s for one in self.rig.boxes["orchestrator"].of(InstanceWanted)]


@pytest.fixture
def ward(rig: Rig) -> Ward:
    return Ward(rig)


# --- start ---


def test_a_socket_is_open_before_the_fork_and_the_pid_is_told_before_the_worker_may_run(ward: Ward) -> None:
    attempt_id = ward.begin()
    [expect] = ward.to_channel(channel.Expect)
    assert (ward.zygote.workers, len(expect.token)) == ([], 64)
    assert (expect.context.app_scope, expect.context.state) == ("notes", "starting")

    ward.tell(m.ZygoteReady(Offers()), channel.Listening(attempt_id, "/run/w/1"))

    [worker] = ward.zygote.workers
    assert ward.rig.boxes["channel"].of(channel.Forked) == [channel.Forked(attempt_id, worker.pid)]
    assert (worker.did, worker.token) == (["let begin", "released"], expect.token)  # by no way that the zygote sees
    assert ward.watched.keys == [attempt_id]
    assert ward.zygote.specs == [
        {
            "attempt_id": attempt_id,
            "socket_path": "/run/w/1",
            "app_folder": "/apps/notes",
            "app_scope": "notes",
        }
    ]
    assert ward.zygote.keeps == [Keeps(Path("/apps/notes"), Path("/run/w/1"), None)]
    assert ward.rig.rows("select pid from attempts") == [(worker.pid,)]
    assert ward.actor.worker_pids == {worker.pid}


def test_an_instance_that_needs_no_process_is_given_none(ward: Ward) -> None:
    ward.tell(m.Start("ins-99"))

    assert ward.to_channel(channel.Expect) == []
    assert ward.freed() == 1


def test_an_instance_that_has_a_process_is_given_no_other(ward: Ward) -> None:
    ward.run()

    ward.tell(m.Start("ins-1"))

    assert len(ward.zygote.workers) == 1
    assert ward.rig.rows("select count(*) from attempts") == [(1,)]


def test_a_start_that_the_store_cannot_record_is_over_at_once(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("the planted fault")

    instance_id = an_instance(ward.rig)
    monkeypatch.setattr("runtime_actors.records.instances.running_attempt", fail)

    ward.tell(m.Start(instance_id))

    assert ward.freed() == 1
    assert ward.to_channel(channel.Expect) == []


@pytest.mark.parametrize(
    "fault", [ForkRefused("no room"), ZygoteLost("gone"), OSError("no descriptors"), RuntimeError("stopped")]
)
def test_a_fork_that_fails_ends_the_attempt_uncounted_and_is_tried_again_after_a_while(
    ward: Ward, fault: Exception
) -> None:
    ward.zygote.fails_with = fault
    attempt_id = ward.run()
    assert ward.rig.boxes["channel"].of(channel.ProcessGone) == [channel.ProcessGone(attempt_id)]

    ward.over(attempt_id)

    assert ward.attempt(attempt_id) == (AttemptState.ENDED, "fork_failed", False)
    assert ward.freed() == 1
    assert ward.wanted()[1:] == [instances.NO_ROOM_WAIT_S]
    assert ward.rig.status() == "waiting_for_app"


def test_a_log_that_cannot_be_opened_is_like_a_fork_that_fails(ward: Ward) -> None:
    ward.logs.fails = True
    attempt_id = ward.run()

    ward.over(attempt_id)

    assert ward.attempt(attempt_id) == (AttemptState.ENDED, "fork_failed", False)


def test_a_socket_that_cannot_be_opened_ends_the_attempt_uncounted(ward: Ward) -> None:
    attempt_id = ward.begin()

    ward.tell(m.ZygoteReady(Offers()), channel.Listening(attempt_id, ""))
    ward.over(attempt_id)

    assert ward.zygote.workers == []
    assert ward.attempt(attempt_id) == (AttemptState.ENDED, "no_socket", False)
    assert ward.wanted()[1:] == [instances.NO_ROOM_WAIT_S]


# --- the zygote ---


def test_starts_wait_for_the_zygote(ward: Ward) -> None:
    attempt_id = ward.begin()
    ward.tell(channel.Listening(attempt_id, "/run/w/1"))
    assert ward.zygote.workers == []

    ward.tell(m.ZygoteReady(Offers()))

    assert len(ward.zygote.workers) == 1


def test_the_end_of_the_zygote_has_it_started_again_and_touches_no_worker(ward: Ward) -> None:
    first = ward.run()
    ward.tell(m.Exited(ZYGOTE, KILLED))
    second = ward.begin("board.open", call_id="c2")
    ward.tell(channel.Listening(second, "/run/w/2"))
    assert ward.restarts == ["asked"]
    assert [worker.did for worker in ward.zygote.workers] == [["let begin", "released"]]

    ward.tell(m.ZygoteReady(Offers()))

    assert ward.watched.keys == [first, second]
    assert ward.attempt(first)[0] == AttemptState.STARTING


def test_a_stop_that_comes_while_a_start_waits_for_the_zygote_forks_nothing(ward: Ward) -> None:
    attempt_id = ward.begin()
    ward.tell(channel.Listening(attempt_id, "/run/w/1"))

    ward.tell(m.Stop(attempt_id, "closed"), m.ZygoteReady(Offers()))
    ward.over(attempt_id)

    assert ward.zygote.workers == []
    assert ward.attempt(attempt_id) == (AttemptState.ENDED, "stopped", False)
    assert ward.freed() == 1


def test_a_stop_that_comes_before_the_socket_is_open_forks_nothing(ward: Ward) -> None:
    attempt_id = ward.begin()

    ward.tell(m.ZygoteReady(Offers()), m.Stop(attempt_id, "closed"), channel.Listening(attempt_id, "/run/w/1"))
    ward.over(attempt_id)
    ward.rig.due(m.ForceStop)

    assert ward.zygote.workers == []
    assert ward.attempt(attempt_id) == (AttemptState.ENDED, "stopped", False)


def test_a_condemned_attempt_that_waits_for_the_zygote_is_not_forked(ward: Ward) -> None:
    attempt_id = ward.begin()
    ward.tell(channel.Listening(attempt_id, "/run/w/1"))

    ward.tell(channel.Condemn(attempt_id, "start_timeout"), m.ZygoteReady(Offers()))
    ward.over(attempt_id)

    assert ward.zygote.workers == []
    assert ward.attempt(attempt_id)[:2] == (AttemptState.ENDED, "start_timeout")


# --- end ---


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (ExitStatus(code=0), "exit 0"),
        (ExitStatus(code=1), "exit 1"),
        (ExitStatus(code=3), "ended"),  # it was imported: an app may exit as it likes, and is not believed
        (ExitStatus(signal=signal.SIGKILL), "signal SIGKILL"),
        (ExitStatus(signal=signal.SIGSEGV), "signal SIGSEGV"),
        (ExitStatus(signal=63), "signal 63"),
        (ExitStatus(signal=99), "signal 99"),
        (ExitStatus(), "ended"),
    ],
)
def test_an_end_is_recorded_with_how_the_process_ended(ward: Ward, status: ExitStatus, reason: str) -> None:
    attempt_id = ward.run_ready()

    ward.end(attempt_id, status)

    assert ward.attempt(attempt_id) == (AttemptState.ENDED, reason, True)
    assert ward.freed() == 1
    assert ward.actor.worker_pids == frozenset()


def test_an_app_that_cannot_be_imported_is_not_started_again(ward: Ward) -> None:
    attempt_id = ward.run()

    ward.end(attempt_id, ExitStatus(code=3))

    assert ward.rig.rows("select status, error_code from calls") == [("failed", "app_start_failed")]
    assert ward.wanted() == [0.0]


def test_an_end_is_recorded_only_once_the_socket_was_read_to_its_end(ward: Ward) -> None:
    attempt_id = ward.run_ready()

    ward.tell(m.Exited(attempt_id, KILLED))
    assert ward.attempt(attempt_id)[0] == AttemptState.READY
    assert ward.rig.boxes["channel"].of(channel.ProcessGone) == [channel.ProcessGone(attempt_id)]
    ward.over(attempt_id)

    assert ward.attempt(attempt_id)[0] == AttemptState.ENDED


def test_a_session_that_is_over_ends_no_attempt_whose_process_runs(ward: Ward) -> None:
    attempt_id = ward.run_ready()

    ward.over(attempt_id)

    assert ward.attempt(attempt_id)[0] == AttemptState.READY
    ward.end(attempt_id)
    assert ward.attempt(attempt_id)[0] == AttemptState.ENDED


def test_the_calls_that_were_handed_over_are_interrupted(ward: Ward) -> None:
    attempt_id = ward.run_ready("notes.once")

    ward.end(attempt_id, KILLED, "c1")

    assert ward.rig.rows("select status, error_code from calls") == [("failed", "outcome_unknown")]


def test_an_end_that_is_told_twice_is_recorded_once(ward: Ward) -> None:
    attempt_id = ward.run_ready()

    ward.end(attempt_id)
    ward.end(attempt_id)

    assert ward.rig.events().count("attempt.ended") == 1
    assert ward.freed() == 1


def test_an_end_that_the_store_could_not_record_is_recorded_by_the_sweep(ward: Ward) -> None:
    attempt_id = ward.run_ready()
    ward.tell(m.Exited(attempt_id, KILLED))
    ward.rig.hold("store")
    ward.over(attempt_id)
    ward.rig.boxes["store"].waiting.clear()
    ward.rig.let_go("store")
    assert (ward.attempt(attempt_id)[0], ward.freed()) == (AttemptState.READY, 0)

    ward.rig.due(m.SweepDue)

    assert ward.attempt(attempt_id)[0] == AttemptState.ENDED
    assert ward.freed() == 1


@pytest.mark.parametrize("reason", ["credit_exceeded", "not_responding", "connection_lost", "protocol_error"])
def test_a_condemned_worker_is_killed_and_its_end_has_that_reason(ward: Ward, reason: str) -> None:
    attempt_id = ward.run_ready()

    ward.tell(channel.Condemn(attempt_id, reason), channel.Condemn(attempt_id, "another"))
    ward.end(attempt_id)

    assert ward.zygote.workers[0].did == ["let begin", "released", "killed", "killed"]
    assert ward.attempt(attempt_id) == (AttemptState.ENDED, reason, True)


@pytest.mark.parametrize("code", [4, 5], ids=["refused", "closed"])
def test_a_worker_that_is_ended_for_misuse_ends_for_that_also_if_it_is_quicker(ward: Ward, code: int) -> None:
    attempt_id = ward.run_ready()
    ward.tell(m.Exited(attempt_id, ExitStatus(code=code)))

    ward.tell(channel.Condemn(attempt_id, "protocol_error"), channel.SessionOver(attempt_id, ()))

    assert ward.zygote.workers[0].did == ["let begin", "released"]
    assert ward.attempt(attempt_id) == (AttemptState.ENDED, "protocol_error", True)


def test_nobody_is_killed_after_the_end(ward: Ward) -> None:
    attempt_id = ward.run_ready()
    ward.tell(m.Exited(attempt_id, KILLED))

    ward.tell(channel.Condemn(attempt_id, "late"), m.Stop(attempt_id, "late"), m.ForceStop(attempt_id))
    ward.tell(channel.Condemn("att-99", "unknown"), m.Stop("att-99", "unknown"), m.ForceStop("att-99"))

    assert ward.zygote.workers[0].did == ["let begin", "released"]
    assert ward.rig.boxes["channel"].of(channel.StopSession) == []


# --- stop ---


def test_a_stop_is_asked_for_first_and_forced_after_the_grace(ward: Ward) -> None:
    attempt_id = ward.run_ready()

    ward.tell(m.Stop(attempt_id, "closed"), m.Stop(attempt_id, "again"))
    assert ward.rig.boxes["channel"].of(channel.StopSession) == [channel.StopSession(attempt_id, "closed", GRACE_S)]
    assert [timer.after_s for timer in ward.rig.timers.of(m.ForceStop)] == [GRACE_S]
    assert ward.zygote.workers[0].did == ["let begin", "released"]
    ward.rig.due(m.ForceStop)

    assert ward.zygote.workers[0].did == ["let begin", "released", "killed"]
    ward.end(attempt_id)
    assert ward.attempt(attempt_id) == (AttemptState.ENDED, "stopped", False)


def test_a_worker_that_ends_within_its_grace_is_not_killed(ward: Ward) -> None:
    attempt_id = ward.run_ready()
    ward.tell(m.Stop(attempt_id, "closed"))

    ward.end(attempt_id, ExitStatus(code=0))
    ward.rig.due(m.ForceStop)

    assert ward.zygote.workers[0].did == ["let begin", "released"]
    assert ward.attempt(attempt_id) == (AttemptState.ENDED, "stopped", False)


def test_stopping_all_counts_against_no_call_and_starts_nothing_more(ward: Ward) -> None:
    running = ward.run_ready()
    waiting = ward.begin("board.open", call_id="c2")
    ward.tell(m.Exited(ZYGOTE, KILLED), channel.Listening(waiting, "/run/w/2"))

    ward.tell(m.StopAll(), m.Start("ins-1"))
    ward.end(running, ExitStatus(code=0), "c1")

    assert ward.rig.boxes["channel"].of(channel.StopSession) == [channel.StopSession(running, "daemon_stops", GRACE_S)]
    assert ward.rig.rows("select crashes from calls") == [(0,), (0,)]
    assert ward.attempt(running) == (AttemptState.ENDED, "stopped", False)
    assert len(ward.zygote.workers) == 1


# --- operators ---


def test_a_signal_reaches_the_process_of_its_instance(ward: Ward) -> None:
    attempt_id = ward.run_ready()
    reached: list[str | None] = []

    ward.tell(
        m.Signal("ins-1", None, 15, reached.append),
        m.Signal("ins-1", attempt_id, 9, reached.append),
        m.Signal("ins-1", "att-99", 9, reached.append),
        m.Signal("ins-99", None, 9, reached.append),
    )
    ward.zygote.workers[0].gone = True
    ward.tell(m.Signal("ins-1", None, 15, reached.append))

    assert ward.zygote.workers[0].did == ["let begin", "released", "signal 15", "signal 9", "signal 15"]
    assert reached == [attempt_id, attempt_id, None, None, None]


# --- what got lost ---


def test_an_attempt_that_nobody_here_knows_was_lost_on_its_way_and_ends_uncounted(ward: Ward) -> None:
    instance_id = an_instance(ward.rig)
    begun = ward.rig.run(instances.begin_attempt, instance_id)  # and its outcome told nobody
    assert isinstance(begun, instances.AttemptBegun)

    ward.rig.due(m.SweepDue)

    assert ward.attempt(begun.attempt_id) == (AttemptState.ENDED, "start_lost", False)
    assert ward.rig.boxes["orchestrator"].of(m.ProcessOver) == [m.ProcessOver(instance_id)]
    assert ward.wanted()[-1] == 0.0


def test_the_sweep_leaves_alone_what_is_starting_or_running(ward: Ward) -> None:
    running, starting = ward.run_ready(), ward.begin("board.open", call_id="c2")

    ward.rig.due(m.SweepDue)
    ward.rig.due(m.SweepDue)

    assert ward.attempt(running)[0] == AttemptState.READY
    assert ward.attempt(starting)[0] == AttemptState.STARTING


def test_a_start_that_is_recorded_while_the_sweep_looks_is_not_taken_for_a_lost_one(ward: Ward) -> None:
    instance_id = an_instance(ward.rig)
    ward.rig.hold("store")
    ward.tell(m.Start(instance_id))
    ward.rig.due(m.SweepDue)

    ward.rig.let_go("store")

    [(state,)] = ward.rig.rows("select state from attempts")
    assert state == AttemptState.STARTING


def test_strangers_are_reaped_with_the_workers_spared(ward: Ward) -> None:
    ward.run_ready()

    ward.rig.due(m.SweepDue)

    assert ward.known == [frozenset({ward.zygote.workers[0].pid})]


def test_a_rebuild_keeps_the_processes_and_compares_them_with_the_rows(ward: Ward) -> None:
    attempt_id = ward.run_ready()
    ward.rig.boxes["store"].forget()

    ward.actor.rebuild()
    ward.rig.settle()

    assert [run.rule for run in ward.rig.boxes["store"].of(Run)] == [instances.read_running]
    ward.tell(m.Stop(attempt_id, "closed"))
    assert len(ward.rig.boxes["channel"].of(channel.StopSession)) == 1


def test_the_planned_worker_has_what_is_used_of_a_real_one() -> None:
    used = {"release", "signal", "kill_group"}

    assert used <= set(dir(WorkerProcess))
    assert used <= set(dir(PlannedWorker))
