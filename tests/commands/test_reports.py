"""What a MiniApp says about its calls: progress, the last word, and acknowledgements."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgpack
import pytest

from runtime_actors.commands import apps, calls
from runtime_actors.commands.follow_ups import Post, Settled, TellCallChanged
from runtime_actors.contract import codec, envelope
from runtime_actors.contract.tools import CallStatus
from runtime_actors.rules.instances import InstanceState
from tests.fakes import (
    a_cancellation,
    a_failure,
    a_key,
    a_result,
    admitted,
    an_invoke,
    assert_refused,
    attached,
    by,
    running,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.records.boxes import Delivery
    from tests.fakes import Records

HALF: Final = codec.encode({"percent": 50})
DONE: Final = codec.encode({"percent": 100})


def body(delivery: Delivery) -> dict[str, Any]:
    return envelope.decode(delivery.frame).body


# --- progress ---


def test_progress_takes_a_call_over_without_ending_its_message(records: Records) -> None:
    call = admitted(records)
    attached(records, call.instance_id)

    outcome = records.run(calls.report_progress, calls.ProgressReport(by(call), HALF))

    assert outcome == calls.Reported(CallStatus.RUNNING)
    assert (records.call().status, records.call().progress) == (CallStatus.RUNNING, HALF)
    assert [row.call_id for row in records.inbox()] == ["c1"]
    assert records.audit()[-1].detail["to"] == "running"


def test_newer_progress_replaces_what_was_not_acknowledged(records: Records) -> None:
    call = running(records)

    records.run(calls.report_progress, calls.ProgressReport(by(call), HALF))
    records.run(calls.report_progress, calls.ProgressReport(by(call), DONE))

    assert [body(one) for one in records.outbox()] == [{"number": 2, "call_id": "c1", "progress": {"percent": 100}}]
    assert [one.delivery.number for one in records.told(Post)] == [2]


def test_the_log_holds_the_digest_of_progress_and_not_its_words(records: Records) -> None:
    call = running(records)
    progress = codec.encode({"note": "a secret"})

    records.run(calls.report_progress, calls.ProgressReport(by(call), progress))

    assert records.audit()[-1].digest == hashlib.sha256(progress).digest()
    assert b"a secret" not in b"".join(one.canonical() for one in records.audit())


# --- the last word ---


def test_a_result_ends_the_call_its_message_and_posts_one_delivery(records: Records) -> None:
    call = admitted(records)
    attached(records, call.instance_id)
    records.run(calls.report_progress, calls.ProgressReport(by(call), HALF))

    outcome = records.run(calls.finish, a_result(by(call)))

    ended = records.call()
    assert outcome == calls.Reported(CallStatus.COMPLETED)
    assert (ended.status, ended.result, ended.due_boot_s) == (CallStatus.COMPLETED, codec.encode({"ok": True}), None)
    assert records.inbox() == []
    assert [one.number for one in records.told(Settled)] == [1]
    posted = records.outbox()
    assert [one.kind for one in posted] == ["lineup.v1.tool.result"]
    assert posted == [one.delivery for one in records.told(Post)]


def test_a_delivered_result_shows_the_final_state_without_progress_and_its_place_in_the_log(records: Records) -> None:
    call = running(records)
    records.run(calls.report_progress, calls.ProgressReport(by(call), HALF))

    records.run(calls.finish, a_result(by(call)))

    (posted,) = records.outbox()
    frame = envelope.decode(posted.frame)
    assert (frame.type, frame.conversation_id, frame.id) == ("lineup.v1.tool.result", "talk", "d2")
    assert frame.body["call"]["status"] == "completed"
    assert frame.body["call"]["result"] == {"ok": True}
    assert "progress" not in frame.body["call"]
    ended = records.audit()[-1]
    assert (ended.event, ended.digest) == ("call.ended", hashlib.sha256(codec.encode({"ok": True})).digest())
    assert frame.body["audit"] == {"audit_seq": ended.seq, "head_hash": records.chain.head.hex()}


def test_a_failure_and_a_cancellation_carry_the_apps_words(records: Records) -> None:
    records.run(calls.finish, a_failure(by(running(records, call_id="c1"))))
    records.run(calls.finish, a_cancellation(by(running(records, call_id="c2"))))

    failed, cancelled = records.call("c1"), records.call("c2")
    assert (failed.status, failed.error_code) == (CallStatus.FAILED, "app.broken")
    assert failed.failure is not None
    assert msgpack.unpackb(failed.failure) == {"code": "app.broken", "message": "it broke", "retryable": False}
    assert (cancelled.status, cancelled.error_code) == (CallStatus.CANCELLED, "app.cancelled")


@pytest.mark.parametrize("word", [a_result, a_failure, a_cancellation])
def test_the_same_last_word_again_is_accepted_and_changes_nothing(
    records: Records, word: Callable[[calls.Reporter], calls.FinalReport]
) -> None:
    call = running(records)
    first = records.run(calls.finish, word(by(call, "q1")))
    before, entries = records.everything(), records.events()

    again = records.run(calls.finish, word(by(call, "q2")))

    assert again == first
    assert (records.everything(), records.events(), records.follow_ups) == (before, entries, [])


@pytest.mark.parametrize("first", [a_result, a_failure])
def test_another_last_word_is_refused(records: Records, first: Callable[[calls.Reporter], calls.FinalReport]) -> None:
    call = running(records)
    records.run(calls.finish, first(by(call)))

    for other in (a_result(by(call), ok=False), a_failure(by(call), "app.other"), a_cancellation(by(call))):
        assert_refused(records, calls.finish, other, "call_already_final", "report.refused")


def test_a_result_after_the_runtime_gave_the_call_up_is_refused(records: Records) -> None:
    call = running(records)
    records.clock.move(60)
    records.run(calls.expire_due, None)

    assert_refused(records, calls.finish, a_result(by(call)), "call_already_final", "report.refused")


# --- invalid results ---


def test_an_invalid_result_leaves_the_call_running_and_the_third_ends_it(records: Records) -> None:
    call = running(records)

    for request_id in ("q1", "q2"):
        assert records.run(calls.finish, a_result(by(call, request_id), ok=1)).code == "tool_output_invalid"  # type: ignore[union-attr]
        assert records.call().status is CallStatus.RUNNING
    third = records.run(calls.finish, a_result(by(call, "q3"), ok=1))

    assert third.code == "tool_output_invalid"  # type: ignore[union-attr]
    ended = records.call()
    assert (ended.status, ended.error_code) == (CallStatus.FAILED, "tool_output_invalid")
    assert [one.change.reason for one in records.told(TellCallChanged)] == ["tool_output_invalid"]
    assert [body(one)["call"]["error_code"] for one in records.outbox()] == ["tool_output_invalid"]


def test_an_invalid_result_that_takes_a_call_over_is_audited_as_that(records: Records) -> None:
    call = admitted(records)
    attached(records, call.instance_id)

    records.run(calls.finish, a_result(by(call, "q1"), ok=1))

    assert records.call().status is CallStatus.RUNNING
    assert [entry.event for entry in records.audit()[-2:]] == ["report.refused", "call.running"]


def test_an_invalid_result_counts_once_for_each_request(records: Records) -> None:
    call = running(records)

    for _ in range(5):
        records.run(calls.finish, a_result(by(call, "q1"), ok=1))

    assert records.call().status is CallStatus.RUNNING
    assert records.run(calls.finish, a_result(by(call, "q2"))) == calls.Reported(CallStatus.COMPLETED)


def test_a_refused_result_says_where_and_never_what(records: Records) -> None:
    call = running(records)

    outcome = records.run(calls.finish, a_result(by(call), ok="a secret"))

    assert "/ok" in outcome.detail  # type: ignore[union-attr]
    assert "secret" not in outcome.detail  # type: ignore[union-attr]


def test_a_result_that_breaks_the_bounds_counts_as_invalid_whatever_the_schema(records: Records) -> None:
    call = running(records)
    report = calls.FinalReport(by(call), CallStatus.COMPLETED, None, output_fault="result: it takes too much")

    outcome = records.run(calls.finish, report)

    assert outcome.code == "tool_output_invalid"  # type: ignore[union-attr]
    assert records.call().refused_outputs == "q1"


def test_a_failure_needs_no_valid_output(records: Records) -> None:
    call = running(records)
    records.run(calls.finish, a_result(by(call, "q1"), ok=1))

    assert records.run(calls.finish, a_failure(by(call, "q2"))) == calls.Reported(CallStatus.FAILED)


# --- whose call it is ---


def test_another_instances_call_is_not_found(records: Records) -> None:
    running(records)
    other = running(records, call_id="c2", conversation_id="talk-2")
    foreign = calls.Reporter(other.instance_id or "", "att-2", "q1", "c1")

    progress = calls.ProgressReport(foreign, HALF)
    assert_refused(records, calls.report_progress, progress, "call_not_found", "report.refused")
    for report in (a_result(foreign), a_failure(foreign), a_cancellation(foreign)):
        assert_refused(records, calls.finish, report, "call_not_found", "report.refused")


def test_an_unknown_call_and_an_unknown_instance_are_not_found(records: Records) -> None:
    call = running(records)
    for who in (
        calls.Reporter(call.instance_id or "", "att-1", "q1", "c9"),
        calls.Reporter("ins-9", "att-9", "q1", "c1"),
    ):
        assert_refused(records, calls.finish, a_result(who), "call_not_found", "report.refused")


def test_the_same_call_id_of_two_agents_is_told_apart_by_instance(records: Records) -> None:
    mine = running(records)
    theirs = running(records, agent_id="other", conversation_id="talk-2")

    records.run(calls.finish, a_result(by(theirs)))

    assert records.call().status is CallStatus.RUNNING
    assert records.call(agent_id="other", conversation_id="talk-2").status is CallStatus.COMPLETED
    assert mine.instance_id != theirs.instance_id


def test_a_report_that_meets_its_switched_off_tool_finds_the_call_ended(records: Records) -> None:
    call = running(records)
    records.run(apps.switch, apps.SwitchTo("tool", "notes.write", enabled=False))

    assert_refused(records, calls.finish, a_result(by(call)), "call_already_final", "report.refused")


# --- acknowledgements ---


def ack(number: int | None, instance_id: str = "ins-1") -> calls.Acknowledge:
    return calls.Acknowledge(instance_id, "att-1", number)


def test_an_acknowledged_message_is_gone_and_its_call_is_running(records: Records) -> None:
    call = admitted(records)
    attached(records, call.instance_id)

    outcome = records.run(calls.acknowledge, ack(1))

    assert outcome == calls.Acknowledged()
    assert (records.call().status, records.inbox()) == (CallStatus.RUNNING, [])
    assert [one.number for one in records.told(Settled)] == [1]
    assert records.events()[-2:] == ["message.acknowledged", "call.running"]


def test_a_repeated_acknowledgement_is_accepted_and_changes_nothing(records: Records) -> None:
    running(records)
    before, entries = records.everything(), records.events()

    assert records.run(calls.acknowledge, ack(1)) == calls.Acknowledged()
    assert (records.everything(), records.events(), records.follow_ups) == (before, entries, [])


def test_the_acknowledgement_of_a_call_that_reported_progress_changes_no_status(records: Records) -> None:
    call = admitted(records)
    attached(records, call.instance_id)
    records.run(calls.report_progress, calls.ProgressReport(by(call), HALF))

    records.run(calls.acknowledge, ack(1))

    assert (records.call().status, records.inbox()) == (CallStatus.RUNNING, [])
    assert "call.running" not in records.events()


@pytest.mark.parametrize("number", [None, 0, -1, 2, 10**14])
def test_a_number_that_was_never_given_is_not_found(records: Records, number: int | None) -> None:
    admitted(records)

    assert_refused(records, calls.acknowledge, ack(number), "message_not_found", "message.ack_refused")


def test_an_instance_that_is_closing_cannot_acknowledge(records: Records) -> None:
    call = running(records, "board.open")
    records.run(calls.finish, a_result(by(call)))
    assert records.instance(call.instance_id).state is InstanceState.CLOSING

    assert_refused(records, calls.acknowledge, ack(1), "app_instance_not_found", "message.ack_refused")
    assert_refused(records, calls.acknowledge, ack(1, "ins-9"), "app_instance_not_found", "message.ack_refused")


def test_an_instance_reaches_only_its_own_inbox(records: Records) -> None:
    admitted(records)
    other = admitted(records, call_id="c2", conversation_id="talk-2")

    records.run(calls.acknowledge, ack(1, other.instance_id or ""))

    assert (records.call().status, records.call("c2", conversation_id="talk-2").status) == (
        "waiting_for_app",
        "running",
    )


def test_repeating_an_invocation_after_its_end_posts_nothing_again(records: Records) -> None:
    records.run(calls.finish, a_result(by(running(records))))

    records.run(calls.admit, an_invoke())

    assert len(records.outbox()) == 1
    assert records.told(Post) == []
    assert isinstance(records.run(calls.read_call, a_key()), calls.CallAnswer)
