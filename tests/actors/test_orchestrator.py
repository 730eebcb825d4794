"""Which instances get a process, and when."""

from __future__ import annotations

import pytest

from runtime_actors.commands import calls, instances, suspension
from runtime_actors.commands.follow_ups import InstanceDone, InstanceWanted
from runtime_actors.contract.tools import CallStatus
from runtime_actors.orchestrator.actor import OrchestratorActor
from runtime_actors.orchestrator.messages import PressureDue, SweepDue
from runtime_actors.supervisor.messages import ProcessOver, Start, Stop
from tests.actor_fakes import SWEEP_S, Rig, an_instance
from tests.fakes import SNAPSHOT

MOST = 3
QUIET_S = 60.0


@pytest.fixture
def orchestrator(rig: Rig) -> OrchestratorActor:
    actor = OrchestratorActor(
        rig.care,
        store=rig.store,
        supervisor=rig.boxes["supervisor"],
        me=rig.boxes["orchestrator"],
        timers=rig.timers,
        clock=rig.clock,
        live_processes=MOST,
        suspend_after_s=QUIET_S,
        sweep_s=SWEEP_S,
    )
    rig.plug("orchestrator", actor)
    return actor


def started(rig: Rig) -> list[str]:
    return [one.instance_id for one in rig.boxes["supervisor"].of(Start)]


def an_attached_attempt(rig: Rig, instance_id: str) -> str:
    begun = rig.run(instances.begin_attempt, instance_id)
    assert isinstance(begun, instances.AttemptBegun), begun
    rig.run(instances.attach, instances.Attached(begun.attempt_id, "process", SNAPSHOT))
    return begun.attempt_id


def finish(rig: Rig, instance_id: str, call_id: str) -> None:
    by = calls.Reporter(instance_id, "att-1", "q", call_id)
    report = calls.FinalReport(by, CallStatus.COMPLETED, b"\x81\xa2ok\xc3", result={"ok": True})
    assert isinstance(rig.run(calls.finish, report), calls.Reported)


@pytest.mark.usefixtures("orchestrator")
def test_a_new_instance_is_started_once_however_many_calls_it_gets(rig: Rig) -> None:
    instance_id = an_instance(rig, call_id="c1")

    assert an_instance(rig, call_id="c2") == instance_id
    assert started(rig) == [instance_id]


def test_at_most_so_many_run_and_the_rest_waits_in_order(rig: Rig, orchestrator: OrchestratorActor) -> None:
    wanted = [an_instance(rig, call_id=f"c{number}", conversation_id=f"t{number}") for number in range(MOST + 3)]
    assert started(rig) == wanted[:MOST]
    assert orchestrator.queued == 3

    rig.tell("orchestrator", ProcessOver(wanted[1]), ProcessOver(wanted[0]))

    assert started(rig) == wanted[: MOST + 2]
    assert orchestrator.queued == 1


@pytest.mark.usefixtures("orchestrator")
def test_an_instance_never_has_two_processes(rig: Rig) -> None:
    rig.tell("orchestrator", *[InstanceWanted("ins-1")] * 5)

    assert started(rig) == ["ins-1"]


@pytest.mark.usefixtures("orchestrator")
def test_an_instance_that_is_wanted_while_its_old_process_ends_is_started_after_it(rig: Rig) -> None:
    rig.tell("orchestrator", InstanceWanted("ins-1"), InstanceWanted("ins-1"))

    rig.tell("orchestrator", ProcessOver("ins-1"))

    assert started(rig) == ["ins-1", "ins-1"]


def test_one_that_cannot_start_yet_does_not_hold_up_those_behind_it(rig: Rig, orchestrator: OrchestratorActor) -> None:
    rig.tell("orchestrator", InstanceWanted("ins-1"), InstanceWanted("ins-1"), InstanceWanted("ins-2"))

    assert started(rig) == ["ins-1", "ins-2"]
    assert orchestrator.queued == 1


def test_a_restart_waits_for_its_time(rig: Rig, orchestrator: OrchestratorActor) -> None:
    rig.tell("orchestrator", InstanceWanted("ins-1", 1.5))
    assert (started(rig), orchestrator.queued) == ([], 1)
    assert [timer.after_s for timer in rig.timers.of(InstanceWanted)] == [1.5]

    rig.due(InstanceWanted)

    assert (started(rig), orchestrator.queued) == (["ins-1"], 0)


@pytest.mark.usefixtures("orchestrator")
def test_a_sweep_does_not_cut_the_wait_of_a_restart_short(rig: Rig) -> None:
    rig.lost = lambda told: isinstance(told, InstanceWanted)
    instance_id = an_instance(rig)
    rig.tell("orchestrator", InstanceWanted(instance_id, 1.5))

    rig.due(SweepDue)
    assert started(rig) == []
    rig.due(InstanceWanted)

    assert started(rig) == [instance_id]


@pytest.mark.usefixtures("orchestrator")
def test_an_instance_that_is_done_has_its_process_stopped(rig: Rig) -> None:
    instance_id = an_instance(rig, "board.open")
    attempt_id = an_attached_attempt(rig, instance_id)

    finish(rig, instance_id, "c1")

    [stop] = rig.boxes["supervisor"].of(Stop)
    assert stop.attempt_id == attempt_id


def test_an_instance_that_is_done_before_it_was_started_is_not_started(
    rig: Rig, orchestrator: OrchestratorActor
) -> None:
    rig.tell("orchestrator", *[InstanceWanted(f"ins-{number}") for number in range(MOST + 1)])
    last = f"ins-{MOST}"

    rig.tell("orchestrator", InstanceDone(last, None, "closed"), ProcessOver("ins-0"))

    assert last not in started(rig)
    assert orchestrator.queued == 0
    assert rig.boxes["supervisor"].of(Stop) == []


@pytest.mark.usefixtures("orchestrator")
def test_duplicates_are_harmless(rig: Rig) -> None:
    instance_id = an_instance(rig, "board.open")
    attempt_id = an_attached_attempt(rig, instance_id)
    finish(rig, instance_id, "c1")

    again = InstanceDone(instance_id, attempt_id, "closed")
    rig.tell("orchestrator", again, again, ProcessOver(instance_id), ProcessOver(instance_id), ProcessOver("ins-99"))
    rig.due(SweepDue)

    assert started(rig) == [instance_id]
    assert {stop.attempt_id for stop in rig.boxes["supervisor"].of(Stop)} == {attempt_id}


@pytest.mark.usefixtures("orchestrator")
def test_a_lost_wish_is_found_by_the_sweep(rig: Rig) -> None:
    rig.lost = lambda told: isinstance(told, InstanceWanted)
    instance_id = an_instance(rig)
    assert started(rig) == []

    rig.due(SweepDue)
    rig.due(SweepDue)

    assert started(rig) == [instance_id]


@pytest.mark.usefixtures("orchestrator")
def test_a_lost_end_is_found_by_the_sweep(rig: Rig) -> None:
    instance_id = an_instance(rig, "board.open")
    attempt_id = an_attached_attempt(rig, instance_id)
    rig.lost = lambda told: isinstance(told, InstanceDone)
    finish(rig, instance_id, "c1")
    assert rig.boxes["supervisor"].of(Stop) == []

    rig.due(SweepDue)

    assert [stop.attempt_id for stop in rig.boxes["supervisor"].of(Stop)] == [attempt_id]


@pytest.mark.usefixtures("orchestrator")
def test_a_start_of_which_nothing_was_heard_is_tried_again_after_two_sweeps(rig: Rig) -> None:
    instance_id = an_instance(rig)
    assert started(rig) == [instance_id]

    for _ in range(2):  # at the first one it may be under way
        rig.tell("orchestrator", SweepDue())

    assert started(rig) == [instance_id, instance_id]


@pytest.mark.usefixtures("orchestrator")
def test_an_instance_that_the_store_did_not_let_start_is_wanted_again_at_the_sweep(rig: Rig) -> None:
    instance_id = an_instance(rig)
    rig.tell("orchestrator", ProcessOver(instance_id))  # what the supervisor says when the store refused
    assert started(rig) == [instance_id]

    rig.due(SweepDue)

    assert started(rig) == [instance_id, instance_id]


def test_a_rebuild_reads_who_waits_and_keeps_who_runs(rig: Rig, orchestrator: OrchestratorActor) -> None:
    wanted = [an_instance(rig, call_id=f"c{number}", conversation_id=f"t{number}") for number in range(MOST + 2)]

    orchestrator.rebuild()
    rig.settle()

    assert started(rig) == wanted[:MOST]
    assert orchestrator.queued == 2
    rig.tell("orchestrator", *[ProcessOver(one) for one in wanted[:2]])
    assert sorted(started(rig)) == sorted(wanted)


@pytest.mark.usefixtures("orchestrator")
def test_the_sweep_comes_again_and_again(rig: Rig) -> None:
    for _ in range(3):
        assert [timer.after_s for timer in rig.timers.of(SweepDue)] == [SWEEP_S]
        rig.due(SweepDue)


# --- who can do without ---


def an_idle_one(rig: Rig, number: int = 1) -> str:
    """An instance that is ready and has nothing to do; its attempt."""
    instance_id = an_instance(rig, call_id=f"c{number}", conversation_id=f"t{number}")
    attempt_id = an_attached_attempt(rig, instance_id)
    finish(rig, instance_id, f"c{number}")
    return attempt_id


def stopped(rig: Rig) -> list[tuple[str, str]]:
    return [(one.attempt_id, one.reason) for one in rig.boxes["supervisor"].of(Stop)]


def ended(rig: Rig, attempt_id: str, instance_id: str) -> None:
    rig.run(instances.end_attempt, instances.AttemptEnd(attempt_id, "stopped", counted=False))
    rig.tell("orchestrator", ProcessOver(instance_id))


@pytest.mark.usefixtures("orchestrator")
def test_an_instance_that_was_quiet_for_so_long_is_suspended(rig: Rig) -> None:
    attempt_id = an_idle_one(rig)
    rig.due(SweepDue)
    rig.clock.move(QUIET_S - 1)
    rig.due(SweepDue)
    assert stopped(rig) == []

    rig.clock.move(1)
    rig.due(SweepDue)

    assert stopped(rig) == [(attempt_id, "suspended")]


@pytest.mark.usefixtures("orchestrator")
def test_a_call_between_two_sweeps_makes_the_quiet_begin_again(rig: Rig) -> None:
    attempt_id = an_idle_one(rig)
    rig.due(SweepDue)
    rig.clock.move(QUIET_S - 1)
    finish(rig, an_instance(rig, call_id="again", conversation_id="t1"), "again")
    rig.tell("channel")  # its message went with the call
    rig.due(SweepDue)
    rig.clock.move(QUIET_S - 1)
    rig.due(SweepDue)
    assert stopped(rig) == []

    rig.clock.move(1)
    rig.due(SweepDue)

    assert stopped(rig) == [(attempt_id, "suspended")]


@pytest.mark.usefixtures("orchestrator")
def test_the_longest_quiet_one_makes_room_for_one_that_waits(rig: Rig) -> None:
    first = an_idle_one(rig, 1)
    rig.due(SweepDue)
    rig.clock.move(1)
    for number in range(2, MOST + 1):
        an_idle_one(rig, number)
    last = an_instance(rig, call_id="last", conversation_id="last")
    assert last not in started(rig)

    rig.due(PressureDue)

    assert stopped(rig) == [(first, "suspended")]
    ended(rig, first, "ins-1")
    assert started(rig)[-1] == last


@pytest.mark.usefixtures("orchestrator")
def test_no_more_are_suspended_than_wait_however_often_it_is_looked(rig: Rig) -> None:
    for number in range(1, MOST + 1):
        an_idle_one(rig, number)
    an_instance(rig, call_id="last", conversation_id="last")

    for _ in range(4):
        rig.due(PressureDue)

    assert len(stopped(rig)) == 1


@pytest.mark.usefixtures("orchestrator")
def test_those_at_work_are_left_alone_however_many_wait(rig: Rig) -> None:
    for number in range(MOST):
        an_attached_attempt(rig, an_instance(rig, call_id=f"c{number}", conversation_id=f"t{number}"))
    for number in range(5):
        an_instance(rig, call_id=f"w{number}", conversation_id=f"w{number}")

    rig.due(PressureDue)

    assert stopped(rig) == []
    assert [
        timer.after_s for timer in rig.timers.of(PressureDue)
    ] != []  # it is looked again, for they may be done soon


def test_nobody_looks_for_room_while_there_is_some(rig: Rig, orchestrator: OrchestratorActor) -> None:
    an_idle_one(rig)

    assert rig.timers.of(PressureDue) == []
    assert orchestrator.queued == 0


@pytest.mark.usefixtures("orchestrator")
def test_a_lost_order_to_end_a_suspended_process_is_given_again_by_the_sweep(rig: Rig) -> None:
    attempt_id = an_idle_one(rig)
    rig.due(SweepDue)
    rig.clock.move(QUIET_S)
    rig.lost = lambda told: isinstance(told, InstanceDone)
    rig.due(SweepDue)
    assert stopped(rig) == []

    rig.due(SweepDue)

    assert stopped(rig) == [(attempt_id, "suspended")]


@pytest.mark.usefixtures("orchestrator")
def test_a_call_during_the_grace_gets_a_process_once_the_old_one_has_ended(rig: Rig) -> None:
    attempt_id = an_idle_one(rig)
    [quiet] = rig.run(suspension.read_quiet, None).quiet
    rig.run(suspension.suspend, quiet)
    rig.settle()
    an_instance(rig, call_id="again", conversation_id="t1")
    assert started(rig) == ["ins-1"]

    ended(rig, attempt_id, "ins-1")

    assert started(rig) == ["ins-1", "ins-1"]


@pytest.mark.usefixtures("orchestrator")
def test_a_look_that_the_store_could_not_make_is_made_again(rig: Rig) -> None:
    for number in range(1, MOST + 1):
        an_idle_one(rig, number)
    an_instance(rig, call_id="last", conversation_id="last")
    rig.tell("orchestrator", suspension.NOTHING_SEEN)
    assert stopped(rig) == []

    rig.due(PressureDue)

    assert len(stopped(rig)) == 1
