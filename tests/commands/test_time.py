"""Wishes to cancel, their grace, and deadlines, on clocks that stop, jump and start over."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgpack
import pytest

from runtime_actors.commands import calls, recovery
from runtime_actors.commands.follow_ups import DueAt, Settled, TellCallChanged
from runtime_actors.contract.tools import CallChanged, CallStatus
from tests.fakes import START, a_key, a_result, admitted, assert_refused, by, running

if TYPE_CHECKING:
    from tests.fakes import Records


def wish(reason: str | None = None) -> calls.CancelWish:
    return calls.CancelWish(a_key(), reason)


def test_a_wish_to_cancel_changes_no_status_and_tells_the_app_why(records: Records) -> None:
    call = running(records)

    outcome = records.run(calls.request_cancel, wish("too slow"))

    assert isinstance(outcome, calls.CallAnswer)
    assert (outcome.repeated, outcome.call.status, outcome.call.cancel_requested) == (False, CallStatus.RUNNING, True)
    change = CallChanged(call_id="c1", status=CallStatus.RUNNING, cancel_requested=True, reason="too slow")
    assert records.told(TellCallChanged) == [TellCallChanged(call.instance_id or "", change)]
    assert records.told(DueAt) == [DueAt(1010.0)]
    assert records.events()[-1] == "call.cancel_requested"


def test_a_repeated_wish_does_not_prolong_the_grace(records: Records) -> None:
    running(records)
    records.run(calls.request_cancel, wish())
    records.clock.move(5)
    before, entries = records.everything(), records.events()

    outcome = records.run(calls.request_cancel, wish("again"))

    assert isinstance(outcome, calls.CallAnswer)
    assert outcome.repeated
    assert (records.everything(), records.events(), records.follow_ups) == (before, entries, [])


def test_the_app_may_still_complete_after_the_wish(records: Records) -> None:
    call = running(records)
    records.run(calls.request_cancel, wish())

    assert records.run(calls.finish, a_result(by(call))) == calls.Reported(CallStatus.COMPLETED)
    assert records.call().cancel_requested


def test_a_call_ends_when_its_grace_is_over_and_not_before(records: Records) -> None:
    call = running(records)
    records.run(calls.request_cancel, wish())

    records.clock.move(9.9)
    assert records.run(calls.expire_due, None) == calls.Expiry(0, 1010.0)
    records.clock.move(0.1)
    assert records.run(calls.expire_due, None) == calls.Expiry(1, None)

    ended = records.call()
    assert (ended.status, ended.error_code) == (CallStatus.CANCELLED, "cancel_grace_passed")
    (told,) = records.told(TellCallChanged)
    assert (told.instance_id, told.change.status, told.change.reason) == (
        call.instance_id, CallStatus.CANCELLED, "cancel_grace_passed",
    )  # fmt: skip


def test_a_wish_to_cancel_an_ended_call_is_refused(records: Records) -> None:
    records.run(calls.finish, a_result(by(running(records))))

    assert_refused(records, calls.request_cancel, wish(), "call_already_final", "call.refused")


def test_the_grace_never_outlasts_the_deadline(records: Records) -> None:
    running(records)
    records.clock.move(55)

    records.run(calls.request_cancel, wish())
    assert records.told(DueAt) == [DueAt(1060.0)]
    records.clock.move(5)
    records.run(calls.expire_due, None)

    assert (records.call().status, records.call().error_code) == (CallStatus.EXPIRED, "deadline_passed")


@pytest.mark.parametrize("taken_over", [True, False])
def test_a_call_past_its_deadline_expires_and_its_message_is_withdrawn(records: Records, *, taken_over: bool) -> None:
    if taken_over:
        running(records)
    else:
        admitted(records)
    records.clock.move(59.9)
    assert records.run(calls.expire_due, None) == calls.Expiry(0, 1060.0)

    records.clock.move(0.1)
    assert records.run(calls.expire_due, None) == calls.Expiry(1, None)

    ended = records.call()
    assert (ended.status, ended.error_code, ended.due_boot_s) == (CallStatus.EXPIRED, "deadline_passed", None)
    assert ended.failure is not None
    assert msgpack.unpackb(ended.failure)["code"] == "deadline_passed"
    assert records.inbox() == []
    assert len(records.told(Settled)) == (0 if taken_over else 1)
    assert len(records.outbox()) == 1


def test_looking_again_ends_nothing_twice(records: Records) -> None:
    running(records)
    records.clock.move(60)
    records.run(calls.expire_due, None)
    before, entries = records.everything(), records.events()

    assert records.run(calls.expire_due, None) == calls.Expiry(0, None)
    assert (records.everything(), records.events()) == (before, entries)


def test_many_overdue_calls_end_a_hundred_at_a_time_the_longest_overdue_first(records: Records) -> None:
    for number in range(150):
        admitted(records, call_id=f"c{number}")
        records.clock.move(0.01)
    records.clock.move(60)

    first = records.run(calls.expire_due, None)

    assert (first.ended, records.call("c99").status, records.call("c100").status) == (100, "expired", "waiting_for_app")
    assert records.run(calls.expire_due, None) == calls.Expiry(50, None)


def test_the_wall_clock_decides_nothing_about_a_deadline(records: Records) -> None:
    running(records)

    records.clock.set_wall(START + timedelta(days=365))
    assert records.run(calls.expire_due, None).ended == 0
    records.clock.set_wall(START - timedelta(days=365))
    records.clock.move(60)
    assert records.run(calls.expire_due, None).ended == 1
    assert records.call().updated_at >= records.call().created_at


def test_the_time_without_a_daemon_counts(records: Records) -> None:
    running(records)
    records.run(recovery.recover, None)

    records.clock.move(61)
    records.run(recovery.recover, None)

    assert records.run(calls.expire_due, None).ended == 1


@pytest.mark.parametrize(("down_s", "left_s"), [(20.0, 40.0), (70.0, -10.0)])
def test_after_a_reboot_deadlines_go_on_by_the_wall_clock(records: Records, down_s: float, left_s: float) -> None:
    running(records)
    records.run(recovery.recover, None)

    records.clock.reboot(down_s)
    records.run(recovery.recover, None)

    now = records.clock.now().boot_s
    assert records.call().deadline_boot_s - now == pytest.approx(left_s)
    assert records.call().due_boot_s == records.call().deadline_boot_s
    assert records.run(calls.expire_due, None).ended == (1 if left_s < 0 else 0)


def test_after_a_reboot_a_grace_has_as_much_left_as_its_deadline_says(records: Records) -> None:
    running(records)
    records.run(recovery.recover, None)
    records.run(calls.request_cancel, wish())

    records.clock.reboot(4.0)
    records.run(recovery.recover, None)

    due = records.call().due_boot_s
    assert due is not None
    assert due - records.clock.now().boot_s == pytest.approx(6.0)


def test_a_restart_without_a_reboot_moves_no_deadline(records: Records) -> None:
    running(records)
    records.run(recovery.recover, None)
    deadline = records.call().deadline_boot_s

    records.clock.set_wall(START + timedelta(hours=1))
    records.run(recovery.recover, None)

    assert records.call().deadline_boot_s == deadline
