"""A process ends to save memory and its instance stays: who may be suspended, what wakes it, and what comes between."""

from __future__ import annotations

import pytest

from runtime_actors.commands import calls, focus, hosts, inbox, instances, interactions, lifecycle, recovery, suspension
from runtime_actors.commands.asker import Asker
from runtime_actors.commands.follow_ups import Deliver, InstanceDone, InstanceWanted, TellContext
from runtime_actors.contract.host import HostAnswer
from runtime_actors.contract.interactions import ConfirmRequest, UiRequest
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.records import activity
from runtime_actors.records import instances as rows
from runtime_actors.rules.calls import CallRecord
from tests.commands.people import PEOPLE, a_chat
from tests.fakes import (
    SNAPSHOT,
    TALK,
    Records,
    a_key,
    a_result,
    admitted,
    attached,
    by,
    process_ended,
    running,
    some_records,
    some_settings,
)


def a_host(peer: int, on_screen: str) -> hosts.Attaching:
    return hosts.Attaching(
        peer=peer, host=f"h{peer}", nonce=f"{peer}" * 16, surfaces=False, on_screen=on_screen, stream=None,
        after_number=None,
    )  # fmt: skip


def idle(records: Records, tool_id: str = "notes.write", call_id: str = "c1") -> CallRecord:
    """An instance that is ready and has nothing to do."""
    call = running(records, tool_id, call_id)
    records.run(calls.finish, a_result(by(call)))
    return records.call(call_id)


def look(records: Records) -> list[suspension.Quiet]:
    return list(suspension.read_quiet(records.transaction(), None).quiet)


def asleep(records: Records, tool_id: str = "notes.write", call_id: str = "c1") -> CallRecord:
    """An instance that was suspended, and its process is gone."""
    call = idle(records, tool_id, call_id)
    [quiet] = look(records)
    assert records.run(suspension.suspend, quiet) == suspension.Suspended(call.instance_id or "")
    [done] = records.told(InstanceDone)
    process_ended(records, done.attempt_id or "", reason="stopped")
    assert records.instance(call.instance_id).state == "suspended"
    return call


def waiting_for_a_person(records: Records, tool_id: str = "notes.write", call_id: str = "c1") -> CallRecord:
    """A call whose app has asked something."""
    call = running(records, tool_id, call_id)
    wish = UiRequest(
        request=ConfirmRequest(kind="confirm", title="Sure?", prompt="It will be sent.", approve_label="Yes"),
        parent_call_id=call_id,
    )
    asked = interactions.AskPerson(Asker(call.instance_id or "", "att-1", "q9"), wish)
    assert isinstance(records.run(interactions.request_interaction, asked), interactions.InteractionState)
    return records.call(call_id)


def test_a_quiet_instance_is_suspended_and_its_process_told_to_end() -> None:
    records = some_records()
    call = idle(records)

    [quiet] = look(records)
    outcome = records.run(suspension.suspend, quiet)

    assert outcome == suspension.Suspended("ins-1")
    assert (records.instance("ins-1").state, records.attempt("att-1").state) == ("suspended", "stopping")
    assert records.told(InstanceDone) == [InstanceDone("ins-1", "att-1", "suspended")]
    assert records.told(TellContext) == [TellContext(call.instance_id or "", "suspended")]
    assert records.events()[-1] == "instance.changed"


def test_the_end_of_a_suspended_process_is_no_crash_and_starts_no_other() -> None:
    records = some_records()
    asleep(records)

    assert records.attempt("att-1").unexpected is False
    assert records.told(InstanceWanted) == []
    assert instances.read_wanted(records.transaction(), None) == instances.Wanted((), (), frozenset())


def test_an_instance_with_a_running_call_or_a_message_is_awake() -> None:
    records = some_records()
    running(records)

    assert look(records) == []

    records.run(calls.finish, a_result(by(records.call())))
    records.run(inbox.put_text, inbox.PutText("local", TALK, "t1", "notes", "hello", None, b"one"))
    assert look(records) == []


def test_an_instance_in_front_sleeps_only_while_nobody_sees_its_conversation() -> None:
    records = some_records()
    idle(records, "board.show")
    assert records.instance("ins-1").state == "foreground"
    records.run(hosts.attach_host, a_host(1, TALK))
    assert look(records) == []

    records.run(hosts.show_on_screen, hosts.Showing(1, "another"))

    assert [one.instance_id for one in look(records)] == ["ins-1"]


def test_a_host_that_left_a_moment_ago_still_sees_its_conversation() -> None:
    records = some_records()
    idle(records)
    records.run(lambda tx, _: focus.bring_to_front(tx, TALK, "ins-1"), None)
    records.run(hosts.attach_host, a_host(1, TALK))
    records.run(hosts.detach_host, 1)
    assert look(records) == []

    records.clock.move(hosts.LINGER_S + 1)

    assert [one.instance_id for one in look(records)] == ["ins-1"]
    assert activity.HOST_LINGERS_S == hosts.LINGER_S


# --- what comes between the look and the transaction ---


def test_a_message_that_came_since_the_look_keeps_it_awake() -> None:
    records = some_records()
    idle(records)
    [quiet] = look(records)
    records.run(inbox.put_text, inbox.PutText("local", TALK, "t1", "notes", "hello", None, b"one"))

    outcome = records.run(suspension.suspend, quiet)

    assert isinstance(outcome, suspension.NotSuspended)
    assert records.instance("ins-1").state == "background"
    assert records.follow_ups == []


def test_a_call_that_came_and_went_since_the_look_says_that_it_is_not_quiet() -> None:
    records = some_records()
    idle(records)
    [quiet] = look(records)
    idle(records, call_id="c2")

    assert isinstance(records.run(suspension.suspend, quiet), suspension.NotSuspended)


def test_a_request_of_the_app_since_the_look_says_that_it_is_not_quiet() -> None:
    records = some_records()
    idle(records)
    [quiet] = look(records)
    records.run(lifecycle.request_background, Asker("ins-1", "att-1", "q5"))

    assert isinstance(records.run(suspension.suspend, quiet), suspension.NotSuspended)


def test_an_instance_that_came_before_a_person_since_the_look_is_awake() -> None:
    records = some_records()
    idle(records)
    records.run(lambda tx, _: focus.bring_to_front(tx, TALK, "ins-1"), None)
    [quiet] = look(records)
    records.run(hosts.attach_host, a_host(1, TALK))

    assert isinstance(records.run(suspension.suspend, quiet), suspension.NotSuspended)


def test_an_instance_whose_process_died_since_the_look_is_not_suspended() -> None:
    records = some_records()
    idle(records)
    [quiet] = look(records)
    process_ended(records, "att-1")

    assert isinstance(records.run(suspension.suspend, quiet), suspension.NotSuspended)
    assert records.instance("ins-1").state == "starting"


def test_an_instance_that_closed_since_the_look_is_not_suspended() -> None:
    records = some_records()
    call = idle(records)
    [quiet] = look(records)
    instance = records.instance(call.instance_id)
    records.run(lambda tx, _: instances.close_instance(tx, instance, RejectionCode.APP_CLOSED, "closed"), None)

    assert isinstance(records.run(suspension.suspend, quiet), suspension.NotSuspended)
    assert records.instance("ins-1").state == "closing"


# --- what wakes it ---


def test_a_call_wakes_the_instance_and_is_given_to_its_next_process() -> None:
    records = some_records()
    asleep(records)

    admitted(records, "notes.write", "c2")

    assert records.instance("ins-1").state == "starting"
    assert records.told(InstanceWanted) == [InstanceWanted("ins-1")]
    assert attached(records, "ins-1") == "att-2"
    page = inbox.read_inbox(records.transaction(), inbox.InboxPageOf("ins-1", frozenset(), 0, 10))
    assert isinstance(page, inbox.InboxRead)
    assert [message.call.call_id for message in page.messages if message.call] == ["c2"]
    assert (records.instance("ins-1").state, records.call("c2").instance_id) == ("background", "ins-1")


def test_a_call_for_a_running_instance_wakes_nobody() -> None:
    records = some_records()
    idle(records)

    admitted(records, "notes.write", "c2")

    assert records.told(InstanceWanted) == []
    assert len(records.told(Deliver)) == 1


def test_a_text_wakes_the_instance() -> None:
    records = some_records()
    asleep(records)

    records.run(inbox.put_text, inbox.PutText("local", TALK, "t1", "notes", "hello", None, b"one"))

    assert records.instance("ins-1").state == "starting"
    assert records.told(InstanceWanted) == [InstanceWanted("ins-1")]


def test_a_call_that_needs_the_front_wakes_an_instance_that_sleeps_there() -> None:
    records = some_records()
    asleep(records, "board.show")
    assert (records.stack(), records.instance("ins-1").state) == (("ins-1",), "suspended")

    admitted(records, "board.show", "c2")

    assert (records.stack(), records.instance("ins-1").state) == (("ins-1",), "starting")
    assert records.told(InstanceWanted) == [InstanceWanted("ins-1")]


def test_coming_to_the_front_wakes_an_instance() -> None:
    records = some_records()
    asleep(records)

    records.run(lambda tx, _: focus.bring_to_front(tx, TALK, "ins-1"), None)

    assert records.instance("ins-1").state == "starting"
    assert records.told(InstanceWanted) == [InstanceWanted("ins-1")]
    attached(records, "ins-1")
    assert records.instance("ins-1").state == "foreground"


def test_the_end_of_the_one_above_wakes_who_comes_to_the_front() -> None:
    records = some_records()
    notes = asleep(records)
    records.run(lambda tx, _: focus.bring_to_front(tx, TALK, notes.instance_id or ""), None)
    attached(records, notes.instance_id)
    board = running(records, "board.open", "c2")
    [quiet] = look(records)
    records.run(suspension.suspend, quiet)
    process_ended(records, "att-2", reason="stopped")
    assert (records.stack(), records.instance("ins-1").state) == (("ins-1", "ins-2"), "suspended")

    records.run(calls.finish, a_result(by(board)))

    assert (records.stack(), records.instance("ins-1").state) == (("ins-1",), "starting")
    assert records.told(InstanceWanted) == [InstanceWanted("ins-1")]


@pytest.mark.parametrize("attaches", [True, False])
def test_a_person_who_looks_at_the_conversation_wakes_who_is_in_front(*, attaches: bool) -> None:
    records = some_records()
    records.run(hosts.attach_host, a_host(2, "another"))
    idle(records)
    records.run(lambda tx, _: focus.bring_to_front(tx, TALK, "ins-1"), None)
    [quiet] = look(records)
    records.run(suspension.suspend, quiet)
    process_ended(records, "att-1", reason="stopped")
    assert records.instance("ins-1").state == "suspended"

    if attaches:
        records.run(hosts.attach_host, a_host(1, TALK))
    else:
        records.run(hosts.show_on_screen, hosts.Showing(2, TALK))

    assert records.instance("ins-1").state == "starting"
    assert records.told(InstanceWanted) == [InstanceWanted("ins-1")]


def test_a_message_during_the_grace_gets_a_new_process_when_the_old_one_has_ended() -> None:
    records = some_records()
    idle(records)
    [quiet] = look(records)
    records.run(suspension.suspend, quiet)
    admitted(records, "notes.write", "c2")
    assert isinstance(records.run(instances.begin_attempt, "ins-1"), instances.NotWanted)
    assert instances.read_wanted(records.transaction(), None).unwanted == (("att-1", "suspended"),)

    process_ended(records, "att-1", reason="stopped")

    assert records.attempt("att-1").unexpected is False
    assert records.told(InstanceWanted) == [InstanceWanted("ins-1", 0.0)]
    assert attached(records, "ins-1") == "att-2"


def test_a_process_that_is_told_to_end_can_not_attach_again() -> None:
    records = some_records()
    idle(records)
    [quiet] = look(records)
    records.run(suspension.suspend, quiet)

    assert isinstance(
        records.run(instances.attach, instances.Attached("att-1", "process", SNAPSHOT)), instances.AttemptOver
    )
    assert records.instance("ins-1").state == "suspended"


def test_a_sweep_finds_what_was_put_without_waking_and_wakes_it() -> None:
    records = some_records()
    asleep(records)
    records.sql.execute(
        "insert into inbox values (?, 'notes', 9, 'message', 'local', null, x'81a474657874a26869', 0, '')", (TALK,)
    )
    assert instances.read_wanted(records.transaction(), None).debtors == ("ins-1",)

    records.run(suspension.wake_debtor, "ins-1")

    assert records.told(InstanceWanted) == [InstanceWanted("ins-1")]
    assert instances.read_wanted(records.transaction(), None).wanted == ("ins-1",)


def test_the_boot_lets_sleeping_ones_sleep_unless_they_owe_something() -> None:
    records = some_records()
    asleep(records)
    records.run(recovery.recover, None)
    assert (records.instance("ins-1").state, records.told(InstanceWanted)) == ("suspended", [])
    records.sql.execute(
        "insert into inbox values (?, 'notes', 9, 'message', 'local', null, x'81a474657874a26869', 0, '')", (TALK,)
    )

    records.run(recovery.recover, None)

    assert records.told(InstanceWanted) == [InstanceWanted("ins-1")]


def test_covered_chat_sleeps_and_wakes_when_it_comes_to_the_front() -> None:
    records = some_records(some_settings(PEOPLE))
    board = running(records, "board.open")
    attached(records, a_chat(records))
    [quiet] = look(records)
    records.run(suspension.suspend, quiet)
    process_ended(records, "att-2", reason="stopped")
    assert (records.stack(), records.instance("ins-2").state) == (("ins-2", "ins-1"), "suspended")

    records.run(calls.finish, a_result(by(board)))

    assert (records.stack(), records.instance("ins-2").state) == (("ins-2",), "starting")
    attached(records, "ins-2")
    assert records.instance("ins-2").state == "foreground"


# --- calls that wait for a person ---


def test_an_instance_sleeps_while_a_person_thinks_and_the_answer_wakes_it() -> None:
    records = some_records()
    call = waiting_for_a_person(records)
    [quiet] = look(records)
    records.run(suspension.suspend, quiet)
    process_ended(records, "att-1", reason="stopped")
    assert records.instance("ins-1").state == "suspended"
    assert (records.call().status, records.call().crashes) == ("waiting_for_app", 0)

    answer = interactions.Answer("int-1", HostAnswer(interaction_id="int-1", approved=True), "shell")
    assert isinstance(records.run(interactions.answer, answer), interactions.InteractionState)

    assert records.told(InstanceWanted) == [InstanceWanted("ins-1")]
    attached(records, "ins-1")
    page = inbox.read_inbox(records.transaction(), inbox.InboxPageOf("ins-1", frozenset(), 0, 10))
    assert isinstance(page, inbox.InboxRead)
    assert [(one.kind, one.repeated) for one in page.messages] == [("interaction", False), ("tool.call", True)]
    assert page.messages[1].call is not None
    assert page.messages[1].call.call_id == call.call_id


def test_a_call_that_must_not_run_twice_keeps_its_instance_awake_while_a_person_thinks() -> None:
    records = some_records()
    waiting_for_a_person(records, "notes.once")

    assert look(records) == []


def test_a_wish_to_cancel_wakes_the_instance_for_the_last_word() -> None:
    records = some_records()
    waiting_for_a_person(records)
    [quiet] = look(records)
    records.run(suspension.suspend, quiet)
    process_ended(records, "att-1", reason="stopped")

    records.run(calls.request_cancel, calls.CancelWish(a_key(), None))

    assert records.told(InstanceWanted) == [InstanceWanted("ins-1")]
    attached(records, "ins-1")
    assert look(records) == []
    assert records.call().cancel_requested


# --- ends ---


@pytest.mark.parametrize("gone", [True, False])
def test_a_sleeping_instance_closes_at_once_or_with_its_process(*, gone: bool) -> None:
    records = some_records()
    idle(records)
    [quiet] = look(records)
    records.run(suspension.suspend, quiet)
    if gone:
        process_ended(records, "att-1", reason="stopped")
    instance = records.instance("ins-1")

    records.run(lambda tx, _: instances.close_instance(tx, instance, RejectionCode.APP_CLOSED, "closed"), None)

    assert records.instance("ins-1").state == ("closed" if gone else "closing")
    if not gone:
        process_ended(records, "att-1", reason="stopped")
    assert records.instance("ins-1").state == "closed"


def test_what_wakes_in_one_conversation_wakes_nothing_in_another() -> None:
    records = some_records()
    asleep(records)
    idle(records, "board.show", "c2")

    admitted(records, "notes.write", "c3", conversation_id="talk-2")

    assert records.instance("ins-1").state == "suspended"
    assert rows.live(records.transaction(), "talk-2", "notes") is not None


def test_the_look_counts_who_is_about_to_end() -> None:
    records = some_records()
    idle(records)
    [quiet] = look(records)
    records.run(suspension.suspend, quiet)

    assert suspension.read_quiet(records.transaction(), None) == suspension.QuietOnes((), frozenset({"ins-1"}))
