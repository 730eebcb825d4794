"""After a start: attempts of an earlier daemon have ended, instances want a process, interrupted calls are decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime_actors.commands import calls, instances, recovery
from runtime_actors.commands.follow_ups import DueAt, InstanceDone, InstanceWanted
from runtime_actors.contract.tools import CallStatus
from runtime_actors.rules.instances import AttemptState, InstanceState
from runtime_actors.rules.inventory import Catalogue
from tests.fakes import (
    BOARD,
    NOTES,
    a_key,
    a_manifest,
    a_result,
    a_tool,
    admitted,
    an_app,
    attached,
    by,
    process_ended,
    running,
    some_settings,
)

if TYPE_CHECKING:
    from tests.fakes import Records


def recovered(records: Records) -> None:
    """As the boot does it."""
    records.run(recovery.retire_missing_apps, None)
    for key in records.run(recovery.recover, None).interrupted:
        records.run(recovery.recover_call, key)


def test_a_running_call_waits_again_and_the_daemons_death_counts_for_nothing(records: Records) -> None:
    running(records)

    found = records.run(recovery.recover, None)
    assert found.interrupted == (a_key(),)
    records.run(recovery.recover_call, a_key())

    assert (records.call().status, records.call().crashes) == (CallStatus.WAITING_FOR_APP, 0)
    attempt = records.attempt("att-1")
    assert (attempt.state, attempt.end_reason, attempt.unexpected) == (AttemptState.ENDED, "daemon_ended", False)
    assert records.instance("ins-1").state is InstanceState.STARTING


def test_recovery_asks_for_processes_and_for_the_next_deadline(records: Records) -> None:
    running(records, call_id="c1")
    admitted(records, call_id="c2", conversation_id="talk-2")

    records.run(recovery.recover, None)

    assert [one.instance_id for one in records.told(InstanceWanted)] == ["ins-1", "ins-2"]
    assert records.told(DueAt) == [DueAt(1060.0)]


def test_recovering_twice_is_recovering_once(records: Records) -> None:
    running(records, call_id="c1")
    running(records, "notes.once", "c2")
    call = running(records, "board.open", "c3")
    records.run(calls.finish, a_result(by(call)))
    recovered(records)
    before, wanted = records.everything(), instances.read_wanted(records.transaction(), None)

    recovered(records)

    assert records.everything() == before
    assert instances.read_wanted(records.transaction(), None) == wanted


@pytest.mark.parametrize("taken_over", [True, False])
def test_a_call_that_must_not_run_twice_ends_even_if_the_first_recovery_was_cut_short(
    records: Records, *, taken_over: bool
) -> None:
    if taken_over:
        running(records, "notes.once")
    else:
        admitted(records, "notes.once")
        attached(records, "ins-1")

    records.run(recovery.recover, None)  # and the daemon is killed before it decides about the call
    recovered(records)

    assert (records.call().status, records.call().error_code) == (CallStatus.FAILED, "outcome_unknown")
    attached(records, "ins-1")
    assert records.inbox() == []


def test_a_call_that_runs_again_does_so_even_if_the_first_recovery_was_cut_short(records: Records) -> None:
    running(records)

    records.run(recovery.recover, None)
    recovered(records)
    attached(records, "ins-1")

    assert records.call().status is CallStatus.WAITING_FOR_APP
    assert [row.repeated for row in records.inbox()] == [True]


def test_a_call_that_must_not_run_twice_waits_on_if_no_process_was_ready(records: Records) -> None:
    admitted(records, "notes.once", "c1")
    records.run(instances.begin_attempt, "ins-1")

    recovered(records)

    assert records.call().status is CallStatus.WAITING_FOR_APP


def test_a_closing_instance_is_closed(records: Records) -> None:
    call = running(records, "board.open")
    records.run(calls.finish, a_result(by(call)))

    recovered(records)

    assert records.instance("ins-1").state is InstanceState.CLOSED
    assert records.told(InstanceWanted) == []


def test_messages_that_the_old_process_may_have_seen_are_marked(records: Records) -> None:
    admitted(records)
    attached(records, "ins-1")

    recovered(records)

    assert [row.repeated for row in records.inbox()] == [True]


def test_the_focus_survives(records: Records) -> None:
    running(records, "board.open")

    recovered(records)
    attached(records, "ins-1")

    assert (records.stack(), records.instance("ins-1").state) == (("ins-1",), "foreground")


def test_ends_before_a_reboot_do_not_count_for_restarts(records: Records) -> None:
    admitted(records)
    for _ in range(5):
        process_ended(records, attached(records, "ins-1"))
    recovered(records)

    records.clock.reboot(1.0)
    recovered(records)
    process_ended(records, attached(records, "ins-1"))

    assert records.instance("ins-1").state is InstanceState.STARTING
    assert records.told(InstanceWanted) == [InstanceWanted("ins-1", 0.0)]


def test_an_interrupted_call_that_is_unknown_or_has_ended_is_left_alone(records: Records) -> None:
    records.run(calls.finish, a_result(by(running(records))))
    before, entries = records.everything(), records.events()

    records.run(recovery.recover_call, a_key())
    records.run(recovery.recover_call, a_key("c9"))

    assert (records.everything(), records.events()) == (before, entries)


def test_instances_of_apps_that_are_not_registered_any_more_are_closed(records: Records) -> None:
    running(records, call_id="c1")
    running(records, "board.open", "c2")
    records.settings = some_settings(Catalogue.of([an_app(BOARD)]))

    records.run(recovery.retire_missing_apps, None)

    assert (records.call("c1").status, records.call("c1").error_code) == (CallStatus.FAILED, "app_disabled")
    assert records.told(InstanceDone) == [InstanceDone("ins-1", "att-1", "app_disabled")]
    recovered(records)
    assert (records.instance("ins-1").state, records.instance("ins-2").state) == ("closed", "starting")


def test_calls_of_a_tool_that_its_app_has_no_longer_are_ended(records: Records) -> None:
    running(records, "notes.write", "c1")
    running(records, "notes.once", "c2")
    smaller = a_manifest("notes", a_tool("notes.write"), version="2.0.0")
    records.settings = some_settings(Catalogue.of([an_app(smaller), an_app(BOARD)]))

    recovered(records)

    assert records.call("c1").status is CallStatus.WAITING_FOR_APP
    assert (records.call("c2").status, records.call("c2").error_code) == (CallStatus.FAILED, "app_disabled")
    assert records.instance("ins-1").state is InstanceState.STARTING


def test_an_app_that_is_back_can_be_called_again(records: Records) -> None:
    running(records)
    records.settings = some_settings(Catalogue.of([an_app(BOARD)]))
    recovered(records)
    records.settings = some_settings(Catalogue.of([an_app(BOARD), an_app(NOTES)]))
    recovered(records)

    assert admitted(records, call_id="c2").instance_id == "ins-2"
