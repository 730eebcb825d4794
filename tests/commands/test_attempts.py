"""Processes of an instance: begun, ready, ended; and what becomes of the calls they had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime_actors.commands import calls, inbox, instances
from runtime_actors.commands.follow_ups import Deliver, InstanceDone, InstanceWanted, Settled, TellCallChanged
from runtime_actors.contract import codec
from runtime_actors.contract.tools import CallStatus
from runtime_actors.rules.instances import AttemptState, InstanceState
from runtime_actors.rules.restart import MISUSE, RestartPolicy
from tests.fakes import (
    SNAPSHOT,
    a_result,
    acknowledged,
    admitted,
    attached,
    by,
    process_ended,
    running,
    some_settings,
)

if TYPE_CHECKING:
    from tests.fakes import Records


def attach(records: Records, attempt_id: str) -> instances.AttemptReady | instances.AttemptOver:
    return records.run(instances.attach, instances.Attached(attempt_id, "process", SNAPSHOT))


def begun(records: Records, instance_id: str = "ins-1") -> str:
    outcome = records.run(instances.begin_attempt, instance_id)
    assert isinstance(outcome, instances.AttemptBegun)
    return outcome.attempt_id


# --- begin ---


def test_an_instance_that_wants_a_process_gets_one_attempt_at_a_time(records: Records) -> None:
    admitted(records)

    first = records.run(instances.begin_attempt, "ins-1")
    second = records.run(instances.begin_attempt, "ins-1")

    assert first == instances.AttemptBegun(records.instance("ins-1"), "att-1")
    assert second == instances.NotWanted("ins-1")
    assert records.events().count("attempt.started") == 1


def test_no_process_begins_for_an_instance_that_is_unknown_served_or_closing(records: Records) -> None:
    call = running(records, "board.open")

    assert records.run(instances.begin_attempt, "ins-9") == instances.NotWanted("ins-9")
    assert records.run(instances.begin_attempt, "ins-1") == instances.NotWanted("ins-1")
    records.run(calls.finish, a_result(by(call)))
    assert records.run(instances.begin_attempt, "ins-1") == instances.NotWanted("ins-1")


def test_the_process_id_is_kept_until_the_attempt_has_ended(records: Records) -> None:
    admitted(records)
    attempt_id = begun(records)

    records.run(instances.note_spawned, instances.Spawned(attempt_id, 4711))
    assert records.attempt(attempt_id).pid == 4711

    process_ended(records, attempt_id)
    records.run(instances.note_spawned, instances.Spawned(attempt_id, 4712))
    records.run(instances.note_spawned, instances.Spawned("att-9", 4713))
    assert records.attempt(attempt_id).pid == 4711


# --- attach ---


@pytest.mark.parametrize(("tool_id", "state"), [("notes.write", "background"), ("board.open", "foreground")])
def test_a_ready_attempt_is_in_front_exactly_if_its_instance_is(records: Records, tool_id: str, state: str) -> None:
    admitted(records, tool_id)
    attempt_id = begun(records)

    ready = attach(records, attempt_id)

    assert ready == instances.AttemptReady(attempt_id, "ins-1", InstanceState(state))
    assert records.instance("ins-1").state == state
    attempt = records.attempt(attempt_id)
    assert (attempt.state, attempt.level, attempt.snapshot) == (AttemptState.READY, "process", SNAPSHOT)
    assert records.events()[-2:] == ["instance.changed", "attempt.ready"]


def test_attaching_again_is_answered_as_before_and_changes_nothing(records: Records) -> None:
    admitted(records)
    attempt_id = begun(records)
    first = attach(records, attempt_id)
    before, entries = records.everything(), records.events()

    assert attach(records, attempt_id) == first
    assert (records.everything(), records.events()) == (before, entries)


def test_an_attempt_that_is_unknown_over_or_not_needed_any_more_gets_no_work(records: Records) -> None:
    call = admitted(records, "board.open")
    closing = begun(records)
    records.run(calls.finish, a_result(by(call)))
    other = admitted(records, call_id="c2")
    ended = begun(records, other.instance_id or "")
    process_ended(records, ended)
    before = records.everything()

    assert attach(records, "att-9") == instances.AttemptOver("att-9")
    assert attach(records, closing) == instances.AttemptOver(closing)
    assert attach(records, ended) == instances.AttemptOver(ended)
    assert records.everything() == before


def test_a_new_attempt_is_given_the_open_calls_again_in_the_order_of_their_admission(records: Records) -> None:
    running(records, call_id="c1")
    admitted(records, call_id="c2")
    process_ended(records, "att-1")
    admitted(records, call_id="c3")
    assert [(row.number, row.call_id) for row in records.inbox()] == [(2, "c2"), (3, "c3")]

    attach(records, begun(records))

    messages = [(row.number, row.call_id, row.repeated) for row in records.inbox()]
    assert messages == [(4, "c1", True), (5, "c2", True), (6, "c3", False)]
    assert records.call("c1").status is CallStatus.WAITING_FOR_APP
    assert [one.message.number for one in records.told(Deliver)] == [4, 5, 6]
    assert [one.number for one in records.told(Settled)] == [2, 3]
    assert records.events()[-3:] == ["call.redelivered"] * 3


def test_calls_that_kept_their_messages_before_the_first_that_lost_its_own_keep_them(records: Records) -> None:
    admitted(records, call_id="c1")
    attach(records, begun(records))
    acknowledged(records, admitted(records, call_id="c2"))
    process_ended(records, "att-1")

    attach(records, begun(records))

    assert [(row.number, row.call_id) for row in records.inbox()] == [(1, "c1"), (3, "c2")]


def test_a_call_given_again_shows_the_progress_that_was_accepted(records: Records) -> None:
    call = running(records)
    progress = codec.encode({"percent": 50})
    records.run(calls.report_progress, calls.ProgressReport(by(call), progress))
    process_ended(records, "att-1")

    attach(records, begun(records))

    (told,) = records.told(Deliver)
    assert told.message.call is not None
    assert told.message.call.progress is not None
    assert told.message.call.progress.percent == 50


def test_a_call_that_reported_progress_before_its_acknowledgement_never_has_two_messages(records: Records) -> None:
    call = admitted(records)
    attach(records, begun(records))
    records.run(calls.report_progress, calls.ProgressReport(by(call), codec.encode({"percent": 50})))
    process_ended(records, "att-1", delivered=("c1",))

    attach(records, begun(records))

    assert [(row.number, row.call_id) for row in records.inbox()] == [(1, "c1")]
    assert records.call().status is CallStatus.WAITING_FOR_APP


# --- end ---


def test_an_end_is_recorded_once(records: Records) -> None:
    running(records)

    first = process_ended(records, "att-1", reason="SIGKILL")
    before, entries = records.everything(), records.events()

    assert first == instances.Ended("att-1", "ins-1")
    assert process_ended(records, "att-1") is None
    assert process_ended(records, "att-9") is None
    assert (records.everything(), records.events()) == (before, entries)
    attempt = records.attempt("att-1")
    assert (attempt.state, attempt.end_reason, attempt.unexpected) == (AttemptState.ENDED, "SIGKILL", True)


def test_a_running_call_waits_again_when_its_process_dies_and_the_death_counts(records: Records) -> None:
    running(records)

    process_ended(records, "att-1")

    call = records.call()
    assert (call.status, call.crashes) == (CallStatus.WAITING_FOR_APP, 1)
    assert records.instance("ins-1").state is InstanceState.STARTING
    assert records.told(InstanceWanted) == [InstanceWanted("ins-1", 0.0)]
    assert "call.interrupted" in records.events()


def test_a_death_counts_for_a_call_that_was_delivered_and_for_no_other(records: Records) -> None:
    admitted(records, call_id="c1")
    attach(records, begun(records))
    admitted(records, call_id="c2")

    process_ended(records, "att-1", delivered=("c1",))

    assert (records.call("c1").crashes, records.call("c2").crashes) == (1, 0)


@pytest.mark.parametrize("counted", [True, False])
def test_a_stop_that_was_ordered_and_an_end_that_is_not_the_apps_fault_count_for_nothing(
    records: Records, *, counted: bool
) -> None:
    call = running(records, "board.open", "c1")
    running(records, "board.update", "c2")
    if counted:  # told to end
        records.run(calls.finish, a_result(by(records.call("c2"))))
        records.run(calls.finish, a_result(by(call)))

    process_ended(records, "att-1", counted=counted)

    assert not records.attempt("att-1").unexpected
    assert (records.call("c1").crashes, records.call("c2").crashes) == (0, 0)


def test_the_third_death_while_it_ran_ends_a_call_and_not_the_others(records: Records) -> None:
    running(records)
    for number in (1, 2, 3):
        records.clock.move(60 if number == 1 else 5)
        records.sql.execute("update calls set deadline_boot_s = 9999, due_boot_s = 9999 where due_boot_s is not null")
        if number == 3:
            admitted(records, call_id="c2")
        process_ended(records, f"att-{number}")
        if number < 3:
            assert records.call().status is CallStatus.WAITING_FOR_APP
            attached(records, "ins-1")
            acknowledged(records, records.call())

    ended = records.call()
    assert (ended.status, ended.error_code) == (CallStatus.FAILED, "app_crashed")
    assert [one.change.call_id for one in records.told(TellCallChanged)] == ["c1"]
    assert records.call("c2").status is CallStatus.WAITING_FOR_APP
    assert records.instance("ins-1").state is InstanceState.STARTING


@pytest.mark.parametrize("how", ["running", "delivered"])
def test_a_call_that_must_not_run_twice_ends_when_its_process_may_have_had_it(records: Records, how: str) -> None:
    if how == "running":
        running(records, "notes.once")
    else:
        admitted(records, "notes.once")
        attach(records, begun(records))

    process_ended(records, "att-1", counted=False, delivered=("c1",) if how == "delivered" else ())

    ended = records.call()
    assert (ended.status, ended.error_code) == (CallStatus.FAILED, "outcome_unknown")
    assert records.inbox() == []


def test_a_call_that_must_not_run_twice_waits_on_if_it_was_never_handed_over(records: Records) -> None:
    admitted(records, "notes.once")
    attach(records, begun(records))

    process_ended(records, "att-1")

    assert records.call().status is CallStatus.WAITING_FOR_APP


def test_more_deaths_than_the_intensity_give_the_instance_and_its_calls_up(records: Records) -> None:
    records.settings = some_settings(restart=RestartPolicy(intensity=2, period_s=10.0))
    admitted(records, call_id="c1")
    admitted(records, call_id="c2")

    waits = []
    for _ in range(2):
        process_ended(records, attached(records, "ins-1"))
        waits += [one.after_s for one in records.told(InstanceWanted)]
    process_ended(records, attached(records, "ins-1"))

    assert waits[0] == 0.0
    assert 0.07 < waits[1] < 0.13
    assert (records.instance("ins-1").state, records.instance("ins-1").end_reason) == ("failed", "app_crashed")
    assert [records.call(name).error_code for name in ("c1", "c2")] == ["app_crashed"] * 2
    assert records.told(InstanceDone) == [InstanceDone("ins-1", None, "app_crashed")]
    assert admitted(records, call_id="c3").instance_id == "ins-2"


def test_slow_deaths_never_give_an_instance_up(records: Records) -> None:
    records.settings = some_settings(restart=RestartPolicy(intensity=2, period_s=10.0))
    admitted(records)

    for _ in range(8):
        records.clock.move(5.1)
        process_ended(records, attached(records, "ins-1"))

    assert records.instance("ins-1").state is InstanceState.STARTING


@pytest.mark.parametrize("reason", ["import_failed", "start_timeout", "capability_set_incompatible"])
def test_a_start_that_would_only_fail_again_is_not_repeated(records: Records, reason: str) -> None:
    admitted(records)

    process_ended(records, begun(records), reason=reason)

    assert (records.instance("ins-1").state, records.call().error_code) == ("failed", "app_start_failed")
    assert records.told(InstanceWanted) == []


@pytest.mark.parametrize("reason", sorted(MISUSE))
def test_what_broke_the_protocol_waits_before_it_starts_again(records: Records, reason: str) -> None:
    running(records)

    process_ended(records, "att-1", reason=reason)

    assert records.told(InstanceWanted) == [InstanceWanted("ins-1", instances.MISUSE_WAIT_S)]


def test_an_app_that_was_imported_cannot_say_that_it_was_not(records: Records) -> None:
    admitted(records)

    process_ended(records, attached(records, "ins-1"), reason="import_failed")

    assert records.instance("ins-1").state is InstanceState.STARTING
    assert records.attempt("att-1").end_reason == "ended"


def test_messages_that_the_dead_process_may_have_seen_are_marked(records: Records) -> None:
    admitted(records)
    attempt_id = begun(records)
    process_ended(records, attempt_id)
    assert [row.repeated for row in records.inbox()] == [False]  # it was never ready, so it was sent nothing

    process_ended(records, attached(records, "ins-1"))

    assert [row.repeated for row in records.inbox()] == [True]


def test_the_end_of_the_process_closes_a_closing_instance(records: Records) -> None:
    call = running(records, "board.open")
    records.run(calls.finish, a_result(by(call)))

    process_ended(records, "att-1")

    assert records.instance("ins-1").state is InstanceState.CLOSED
    assert records.told(InstanceWanted) == []
    assert not records.attempt("att-1").unexpected


def test_a_launch_call_that_ends_with_its_crash_closes_the_instance_for_good(records: Records) -> None:
    running(records, "board.open")
    records.sql.execute("update calls set crashes = 2")

    process_ended(records, "att-1")

    assert (records.call().error_code, records.instance("ins-1").state) == ("app_crashed", "closed")
    assert records.told(InstanceWanted) == []
    assert records.stack() == ()


def test_an_instance_reads_its_own_calls_only(records: Records) -> None:
    running(records)
    other = admitted(records, call_id="c2", conversation_id="talk-2")

    found = inbox.read_for_app(records.transaction(), ("ins-1", "c1"))

    assert found is not None
    assert (found.call_id, found.status) == ("c1", CallStatus.RUNNING)
    assert inbox.read_for_app(records.transaction(), ("ins-1", "c2")) is None
    assert inbox.read_for_app(records.transaction(), (other.instance_id or "", "c1")) is None
