"""What a person does in a host: recorded, put into the app's inbox, and followed until the app has taken it over."""

from __future__ import annotations

from typing import Any, Final

import msgpack
import pytest

from runtime_actors.commands import action_messages, actions, apps, calls, inbox, put_off, recovery
from runtime_actors.commands.asker import Asker
from runtime_actors.commands.follow_ups import Deliver, Post, Settled
from runtime_actors.config import Bounds
from runtime_actors.contract import envelope
from runtime_actors.contract.lifecycle import RuntimeAction
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.tools import CallStatus, CommandReceipt
from tests.commands.people import a_chat, acted, action_of, shown, some_people, states_of
from tests.fakes import AGENT, TALK, Records, admitted, assert_refused, attached, process_ended, refused, running

HANGS_AFTER_S: Final = action_messages.HANGS_AFTER_S


@pytest.fixture
def people() -> Records:
    return some_people()


def acknowledge(records: Records, instance_id: str, number: int) -> None:
    outcome = records.run(calls.acknowledge, calls.Acknowledge(instance_id, "att-1", number))
    assert isinstance(outcome, calls.Acknowledged), outcome


def hangs(records: Records) -> list[bool]:
    """What hosts were told, oldest first."""
    return [data["hanging"] for data in shown(records, "instance.changed") if "hanging" in data]


def look(records: Records, after_s: float) -> list[bool]:
    records.clock.move(after_s)
    records.run(action_messages.note_hanging, None)
    return hangs(records)


# --- what a person does ---


@pytest.mark.parametrize(
    ("action", "more"),
    [("focus", {}), ("close", {}), ("app", {"name": "tick", "data": {"task": 1}})],
)
def test_an_action_is_recorded_and_put_into_the_apps_inbox(records: Records, action: str, more: dict[str, Any]) -> None:
    running(records)
    seq = records.chain.seq

    action_id = acted(records, "ins-1", action, **more)

    (row,) = records.inbox()
    assert action_of(row) == RuntimeAction.model_validate({"action_id": action_id, "kind": action, **more})
    (told,) = records.told(Deliver)
    assert (told.instance_id, told.message.kind, told.message.action) == ("ins-1", "action", action_of(row))
    assert states_of(records) == {action_id: "waiting"}
    assert "action.taken" in records.events(seq)


def test_focus_brings_to_the_front_and_puts_off_whoever_was_there(records: Records) -> None:
    running(records, "board.show", "c1")
    running(records, "notes.write", "c2")

    acted(records, "ins-2", "focus")

    assert records.stack()[-1] == "ins-2"
    assert records.instance("ins-2").state == "foreground"
    tx = records.transaction()
    assert put_off.put_off_until(tx, "ins-1") is not None
    assert put_off.put_off_until(tx, "ins-2") is None
    assert shown(records, "focus.changed")[-1]["stack"][-1]["instance_id"] == "ins-2"


def test_the_person_who_returns_to_an_app_has_not_put_it_off(records: Records) -> None:
    running(records)
    acted(records, "ins-1", "close")
    before = put_off.put_off_until(records.transaction(), "ins-1")

    acted(records, "ins-1", "focus")

    assert before is not None
    assert put_off.put_off_until(records.transaction(), "ins-1") is None


def test_close_leaves_the_instance_to_its_app(records: Records) -> None:
    running(records)

    acted(records, "ins-1", "close")

    assert (records.instance("ins-1").state, records.call().status) == ("background", CallStatus.RUNNING)


def test_force_close_closes_the_instance_and_fails_its_calls(records: Records) -> None:
    running(records)
    waiting = acted(records, "ins-1", "close")

    action_id = acted(records, "ins-1", "force_close")

    assert records.instance("ins-1").state == "closing"
    assert (records.call().status, records.call().error_code) == (CallStatus.FAILED, "app_closed")
    assert records.inbox() == []
    assert states_of(records) == {waiting: "withdrawn", action_id: "acknowledged"}
    assert len(records.told(Settled)) == 1


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (actions.Act("ins-9", "focus"), "app_instance_not_found"),
        (actions.Act("ins-1", "app"), "message_invalid"),
        (actions.Act("ins-1", "close", name="tick"), "message_invalid"),
        (actions.Act("ins-1", "close", data={}), "message_invalid"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(records: Records, wanted: actions.Act, code: str) -> None:
    running(records)

    assert_refused(records, actions.act, wanted, code, "action.refused")


def test_an_instance_that_has_ended_takes_no_action(records: Records) -> None:
    running(records)
    acted(records, "ins-1", "force_close")

    assert_refused(records, actions.act, actions.Act("ins-1", "focus"), "app_instance_not_found", "action.refused")


def test_a_full_inbox_takes_no_action_but_the_instance_can_still_be_closed() -> None:
    records = some_people(Bounds(inbox_messages=1))
    running(records)
    acted(records, "ins-1", "close")

    full = records.run(actions.act, actions.Act("ins-1", "focus"))
    acted(records, "ins-1", "force_close")

    assert refused(full) == "busy"
    assert records.instance("ins-1").state == "closing"


# --- until the app has taken it over ---


def test_an_action_that_the_app_acknowledged_is_over(records: Records) -> None:
    running(records)
    action_id = acted(records, "ins-1", "close")

    acknowledge(records, "ins-1", records.inbox()[0].number)

    assert states_of(records) == {action_id: "acknowledged"}
    assert records.inbox() == []


def test_an_action_that_a_dead_process_had_comes_again(records: Records) -> None:
    running(records)
    acted(records, "ins-1", "close")

    process_ended(records, "att-1")
    attached(records, "ins-1")

    page = inbox.read_inbox(records.transaction(), inbox.InboxPageOf("ins-1", frozenset(), 0, 10))
    assert isinstance(page, inbox.InboxRead)
    assert [(one.kind, one.repeated) for one in page.messages if one.kind == "action"] == [("action", True)]


def test_an_app_that_was_told_to_close_and_says_nothing_hangs(records: Records) -> None:
    running(records)
    acted(records, "ins-1", "close")

    early = look(records, HANGS_AFTER_S - 0.1)
    late = look(records, 0.2)

    assert (early, late, look(records, 60)) == ([], [True], [True])
    assert shown(records, "instance.changed")[-1] == {
        "instance_id": "ins-1", "app_scope": "notes", "app_title": "notes", "state": "background", "hanging": True,
    }  # fmt: skip


def test_an_app_that_takes_the_wish_over_after_all_hangs_no_longer(records: Records) -> None:
    running(records)
    acted(records, "ins-1", "close")
    look(records, HANGS_AFTER_S)

    acknowledge(records, "ins-1", records.inbox()[0].number)

    assert hangs(records) == [True, False]


def test_an_app_whose_process_ends_hangs_no_longer_and_its_next_one_has_ten_seconds(records: Records) -> None:
    running(records)
    acted(records, "ins-1", "close")
    look(records, HANGS_AFTER_S)

    process_ended(records, "att-1")
    without = look(records, 60)
    attached(records, "ins-1")
    early = look(records, HANGS_AFTER_S - 0.1)

    assert (without, early, look(records, 0.2)) == ([True, False], [True, False], [True, False, True])


def test_an_app_that_has_no_process_yet_does_not_hang(records: Records) -> None:
    call = admitted(records)
    acted(records, call.instance_id, "close")

    assert look(records, 60) == []


def test_only_a_wish_to_close_is_waited_for(records: Records) -> None:
    running(records)
    acted(records, "ins-1", "focus")
    acted(records, "ins-1", "app", name="tick")

    assert look(records, 60) == []


def test_what_hung_when_the_daemon_ended_hangs_no_longer(records: Records) -> None:
    running(records)
    acted(records, "ins-1", "close")
    look(records, HANGS_AFTER_S)

    records.run(recovery.recover, None)

    assert hangs(records) == [True, False]
    assert look(records, 60) == [True, False]


# --- what a person writes ---


def written(records: Records, text: str = "hello") -> str:
    outcome = records.run(actions.put_persons_text, actions.PersonsText(TALK, text))
    assert isinstance(outcome, actions.Acted), outcome
    return outcome.action_id


def send(
    records: Records, action_id: str | None, *, instance_id: str = "ins-2", request_id: str = "q1", text: str = "hello"
) -> CommandReceipt | Rejection:
    return records.run(actions.send_text, actions.SendText(Asker(instance_id, "att-2", request_id), text, action_id))


def test_a_text_is_put_into_the_inbox_of_chat_which_is_made_if_there_is_none(people: Records) -> None:
    running(people)

    action_id = written(people)

    (row,) = people.inbox("chat")
    assert action_of(row) == RuntimeAction(action_id=action_id, kind="text", text="hello")
    assert people.instance("ins-2").app_scope == "chat"
    assert shown(people, "text.person") == [{"action_id": action_id, "text": "hello"}]


def test_a_second_text_goes_to_the_same_chat(people: Records) -> None:
    running(people)

    written(people)
    written(people, "again")

    assert [action_of(row).text for row in people.inbox("chat")] == ["hello", "again"]
    assert people.sql.execute("select count(*) from instances where app_scope = 'chat'").fetchone() == (1,)


def test_a_conversation_that_nobody_opened_has_no_texts(people: Records) -> None:
    assert_refused(people, actions.put_persons_text, actions.PersonsText(TALK, "x"), "not_found", "action.refused")


def test_without_chat_there_is_nobody_to_write_to(records: Records, people: Records) -> None:
    running(records)
    assert_refused(
        records, actions.put_persons_text, actions.PersonsText(TALK, "x"), "app_scope_mismatch", "action.refused"
    )
    running(people)
    people.run(apps.switch, apps.SwitchTo("app", "chat", enabled=False))

    assert_refused(people, actions.put_persons_text, actions.PersonsText(TALK, "x"), "app_disabled", "action.refused")


def test_a_text_stays_for_the_next_chat_when_this_one_ends(people: Records) -> None:
    running(people)
    written(people)
    other = acted(people, "ins-2", "focus")

    acted(people, "ins-2", "force_close")

    assert [action_of(row).kind for row in people.inbox("chat")] == ["text"]
    assert states_of(people)[other] == "withdrawn"
    assert a_chat(people) == "ins-3"
    assert isinstance(send(people, "act-1", instance_id="ins-3"), CommandReceipt)


def test_chat_sends_a_text_to_the_agent_of_the_conversation_and_has_taken_it_over(people: Records) -> None:
    running(people)
    action_id = written(people)

    receipt = send(people, action_id)

    assert receipt == CommandReceipt(request_id="q1", accepted=True)
    (delivery,) = people.outbox()
    said = envelope.decode(delivery.frame)
    assert (delivery.kind, delivery.agent_id, delivery.call_id) == ("lineup.v1.text", AGENT, None)
    assert (said.type, said.body) == (
        "lineup.v1.text", {"number": 1, "text": "hello", "sent_at": "2026-01-01T12:00:00.000Z"},
    )  # fmt: skip
    assert people.told(Post) == [Post(delivery)]
    assert (people.inbox("chat"), states_of(people)) == ([], {action_id: "acknowledged"})


@pytest.mark.parametrize("request_id", ["q1", "q2"])
def test_a_text_is_sent_once_for_its_action_however_often_chat_says_so(people: Records, request_id: str) -> None:
    running(people)
    action_id = written(people)
    send(people, action_id)

    again = send(people, action_id, request_id=request_id)

    assert again == CommandReceipt(request_id=request_id, accepted=True)
    assert len(people.outbox()) == 1


def test_a_text_that_was_acknowledged_first_is_still_sent(people: Records) -> None:
    running(people)
    action_id = written(people)
    acknowledge(people, "ins-2", 1)

    send(people, action_id)

    assert len(people.outbox()) == 1


def test_chat_may_speak_without_an_action(people: Records) -> None:
    running(people)
    written(people)

    send(people, None, text="by itself")
    send(people, None, text="by itself")

    assert [msgpack.unpackb(one.frame)["body"]["text"] for one in people.outbox()] == ["by itself"]


def test_no_other_app_speaks_for_the_person(people: Records) -> None:
    running(people)
    action_id = written(people)

    wanted = actions.SendText(Asker("ins-1", "att-1", "q1"), "hello", action_id)

    assert_refused(people, actions.send_text, wanted, "capability_denied", "text.refused")


def test_only_a_text_of_its_own_conversation_can_be_sent(people: Records) -> None:
    running(people)
    running(people, conversation_id="elsewhere")
    written(people)
    people.run(actions.put_persons_text, actions.PersonsText("elsewhere", "secret"))
    focused = acted(people, "ins-3", "focus")

    for foreign in ("act-2", focused, "act-99"):
        wanted = actions.SendText(Asker("ins-3", "att-3", "q1"), "x", foreign)
        assert_refused(people, actions.send_text, wanted, "not_found", "text.refused")


def test_an_outbox_that_nobody_reads_takes_no_texts() -> None:
    records = some_people(Bounds(outbox_deliveries=1))
    running(records)
    written(records)
    send(records, None)

    wanted = actions.SendText(Asker("ins-2", "att-2", "q2"), "x", "act-1")

    assert_refused(records, actions.send_text, wanted, "busy", "text.refused")
    assert states_of(records) == {"act-1": "waiting"}


def test_hosts_see_what_an_agent_says_to_chat_and_not_what_it_says_to_another_app(people: Records) -> None:
    running(people)

    for number, scope in enumerate(("chat", "notes")):
        people.run(inbox.put_text, inbox.PutText(AGENT, TALK, f"t{number}", scope, "hi", None, b"one"))

    assert shown(people, "text.agent") == [{"agent_id": AGENT, "message_id": "t0", "text": "hi"}]
