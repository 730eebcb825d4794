"""What the supervisor gives to a worker beside its process, and takes back: a uid, and a cgroup."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from runtime_actors.channel import messages as channel
from runtime_actors.contract.manifest import Limits
from runtime_actors.rules.instances import AttemptState
from runtime_actors.supervisor import messages as m
from runtime_actors.supervisor.cgroups import Group, Parents
from runtime_actors.supervisor.keeps import limits_of
from runtime_actors.supervisor.process import ExitStatus
from runtime_actors.supervisor.zygote import ForkRefused, Offers
from tests.actor_fakes import Rig
from tests.actors.test_supervisor import KILLED, PlannedZygote, Ward

MIB = 2**20
OFFERS = Offers(uids=range(70_000, 70_002), own_root=True)


@dataclass
class PlannedGroup:
    """A cgroup that has killed as often as its test says."""

    zygote: PlannedZygote
    kills: int = 0
    fails_to_take: bool = False
    pids: list[int] = field(default_factory=list)
    removed: int = 0

    def take(self, pid: int) -> None:
        if self.fails_to_take:
            raise ProcessLookupError
        assert self.zygote.workers[-1].did == ["let begin"]  # it still waits at its gate
        self.pids.append(pid)

    def oom_kills(self) -> int:
        return 0 if self.removed else self.kills

    def remove(self) -> None:
        self.removed += 1


class PlannedParents:
    """Makes groups, or fails as planned."""

    def __init__(self) -> None:
        self.zygote = PlannedZygote()
        self.full = False
        self.fails_to_take = False
        self.made: dict[str, PlannedGroup] = {}
        self.limits: list[tuple[int, int]] = []

    def make(self, attempt_id: str, *, memory_bytes: int, processes: int) -> PlannedGroup:
        if self.full:
            raise OSError("no room for another group")
        self.limits.append((memory_bytes, processes))
        self.made[attempt_id] = PlannedGroup(self.zygote, fails_to_take=self.fails_to_take)
        return self.made[attempt_id]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, int]]:
    """Which socket was given to which uid: only root may really do that."""
    made: list[tuple[Path, int]] = []
    monkeypatch.setattr("runtime_actors.supervisor.keeps.os.chown", lambda path, uid, _gid: made.append((path, uid)))
    return made


@pytest.fixture
def ward(rig: Rig) -> Ward:
    return Ward(rig)


@pytest.fixture
def parents() -> PlannedParents:
    return PlannedParents()


@pytest.fixture
def counted(rig: Rig, parents: PlannedParents) -> Ward:
    """Where there are cgroups."""
    return Ward(rig, cast("Parents", parents), zygote=parents.zygote)


def fork(ward: Ward, number: int) -> str:
    """The process of another instance."""
    attempt_id = ward.begin(call_id=f"c{number}", conversation_id=f"talk-{number}")
    ward.tell(channel.Listening(attempt_id, f"/run/w/{number}"))
    return attempt_id


def uids(ward: Ward) -> list[int | None]:
    return [one.uid for one in ward.zygote.keeps]


# --- a uid ---


def test_workers_that_live_at_once_have_uids_of_their_own_and_their_sockets_belong_to_those(
    ward: Ward, given: list[tuple[Path, int]]
) -> None:
    ward.tell(m.ZygoteReady(OFFERS))

    for number in range(3):
        fork(ward, number)

    assert uids(ward) == [70_000, 70_001, None]
    assert given == [(Path("/run/w/0"), 70_000), (Path("/run/w/1"), 70_001)]


@pytest.mark.usefixtures("given")
def test_a_uid_is_given_again_once_its_process_has_ended_and_not_before(ward: Ward) -> None:
    ward.tell(m.ZygoteReady(OFFERS))
    first = fork(ward, 0)
    ward.tell(m.Stop(first, "closed"))
    fork(ward, 1)
    assert uids(ward) == [70_000, 70_001]

    ward.tell(m.Exited(first, KILLED))  # its socket may still be read
    fork(ward, 2)

    assert uids(ward)[2:] == [70_000]


def test_the_uid_of_a_worker_that_could_not_be_forked_is_free_again(ward: Ward, given: list[tuple[Path, int]]) -> None:
    ward.tell(m.ZygoteReady(OFFERS))
    ward.zygote.fails_with = ForkRefused("no room")
    fork(ward, 0)
    ward.zygote.fails_with = None

    fork(ward, 1)

    assert [uid for _, uid in given] == [70_000, 70_000]
    assert uids(ward) == [70_000]


def test_a_socket_that_cannot_be_given_away_is_like_a_fork_that_fails(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("runtime_actors.supervisor.keeps.os.chown", refuse)
    ward.tell(m.ZygoteReady(OFFERS))
    attempt_id = fork(ward, 0)

    ward.over(attempt_id)

    assert ward.zygote.workers == []
    assert ward.attempt(attempt_id) == (AttemptState.ENDED, "fork_failed", False)


@pytest.mark.usefixtures("given")
def test_what_the_newest_zygote_offers_is_given(ward: Ward) -> None:
    ward.tell(m.ZygoteReady(OFFERS))
    fork(ward, 0)

    ward.tell(m.ZygoteReady(Offers()))
    fork(ward, 1)

    assert uids(ward) == [70_000, None]


# --- a cgroup ---


def test_a_worker_is_in_its_group_before_it_may_run(counted: Ward, parents: PlannedParents) -> None:
    attempt_id = counted.run()

    [worker] = counted.zygote.workers
    assert parents.made[attempt_id].pids == [worker.pid]
    assert parents.limits == [((256 + 32 + 32) * MIB, 16 + 2)]
    assert worker.did == ["let begin", "released"]


def test_a_group_goes_with_its_process(counted: Ward, parents: PlannedParents) -> None:
    attempt_id = counted.run_ready()
    assert parents.made[attempt_id].removed == 0

    counted.end(attempt_id)
    counted.end(attempt_id)

    assert parents.made[attempt_id].removed == 1


def test_a_worker_that_the_kernel_killed_for_want_of_memory_ran_out_of_memory(
    counted: Ward, parents: PlannedParents
) -> None:
    attempt_id = counted.run_ready()
    parents.made[attempt_id].kills = 1

    counted.end(attempt_id, KILLED)

    assert counted.attempt(attempt_id) == (AttemptState.ENDED, "app_out_of_memory", True)


def test_a_worker_that_was_killed_after_all_its_processor_time_ran_out_of_that(ward: Ward) -> None:
    attempt_id = ward.run_ready()

    ward.end(attempt_id, ExitStatus(signal=signal.SIGKILL, cpu_s=3600.5))

    assert ward.attempt(attempt_id) == (AttemptState.ENDED, "app_out_of_cpu", True)


def test_an_operator_bounds_what_an_app_asks_for_and_a_worker_that_meets_that_bound_is_told_so(
    rig: Rig, parents: PlannedParents
) -> None:
    most = Limits(memory_mb=64, cpu_s=7, files=32, threads=2)
    ward = Ward(rig, cast("Parents", parents), most, parents.zygote)
    attempt_id = ward.run_ready()
    assert ward.zygote.limits == [limits_of(most)]
    assert parents.limits == [((64 + 32 + 32) * MIB, 2 + 2)]

    ward.end(attempt_id, ExitStatus(signal=signal.SIGKILL, cpu_s=7.5))

    assert ward.attempt(attempt_id) == (AttemptState.ENDED, "app_out_of_cpu", True)


def test_a_worker_that_was_condemned_keeps_that_reason_whatever_its_group_has_seen(
    counted: Ward, parents: PlannedParents
) -> None:
    attempt_id = counted.run_ready()
    parents.made[attempt_id].kills = 1

    counted.tell(channel.Condemn(attempt_id, "isolation_too_weak"))
    counted.end(attempt_id)

    assert counted.attempt(attempt_id) == (AttemptState.ENDED, "isolation_too_weak", True)
    assert parents.made[attempt_id].removed == 1


def test_without_room_for_a_group_a_worker_runs_with_its_other_limits(counted: Ward, parents: PlannedParents) -> None:
    parents.full = True

    attempt_id = counted.run_ready()

    assert counted.zygote.workers[0].did == ["let begin", "released"]
    counted.end(attempt_id)
    assert counted.attempt(attempt_id) == (AttemptState.ENDED, "signal SIGKILL", True)


def test_a_worker_that_is_gone_before_it_is_in_its_group_leaves_none(counted: Ward, parents: PlannedParents) -> None:
    parents.fails_to_take = True

    attempt_id = counted.run_ready()
    counted.end(attempt_id)

    assert counted.attempt(attempt_id) == (AttemptState.ENDED, "signal SIGKILL", True)
    assert parents.made[attempt_id].removed == 1


def test_the_planned_groups_have_what_is_used_of_real_ones() -> None:
    assert {"take", "oom_kills", "remove"} <= set(dir(Group)) & set(dir(PlannedGroup))
    assert "make" in set(dir(Parents)) & set(dir(PlannedParents))
