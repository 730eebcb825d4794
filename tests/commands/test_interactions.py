"""Questions inside the store: asked, shown, answered, ended, and the clock of the call that waits for the answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgpack
import pytest

import miniapps
from runtime_actors import registry
from runtime_actors.commands import calls, inbox, instances, interactions, put_off, questions, recovery, views
from runtime_actors.commands.asker import Asker
from runtime_actors.commands.follow_ups import Deliver, DueAt, InteractionDueAt, Settled, Shown, TellInteraction
from runtime_actors.config import Bounds
from runtime_actors.contract import codec
from runtime_actors.contract.host import HostAnswer
from runtime_actors.contract.interactions import InteractionRecord, InteractionStatus, UiCancel, UiRequest
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.records import interactions as rows
from runtime_actors.records.transaction import Transaction, rfc3339
from runtime_actors.rules.calls import NEVER_S, CallRecord
from runtime_actors.rules.interactions import InteractionRow
from runtime_actors.rules.inventory import Catalogue
from tests.fakes import (
    BOARD,
    GUARDED,
    NOTES,
    SCREEN,
    START,
    TALK,
    Records,
    a_cancellation,
    a_key,
    a_result,
    admitted,
    an_app,
    an_invoke,
    assert_refused,
    attached,
    by,
    process_ended,
    refused,
    running,
    some_records,
    some_settings,
)

CHAT: Final = registry.read_app(Path(miniapps.__file__).parent / "chat", packaged=True)
CATALOGUE: Final = Catalogue.of([*(an_app(one) for one in (BOARD, NOTES, GUARDED, SCREEN)), CHAT])
SURE: Final = {"kind": "confirm", "title": "Sure?", "prompt": "It cannot be undone"}
NOTE: Final = {"kind": "notice", "title": "By the way", "message": "It is late"}
NAME: Final = {
    "kind": "input",
    "title": "Who?",
    "prompt": "",
    "fields": [{"id": "name", "label": "Name", "type": "text"}],
}
DAY_S: Final = 86_400.0


@pytest.fixture
def records() -> Records:
    return some_records(some_settings(CATALOGUE))


def in_s(seconds: float, records: Records) -> str:
    return rfc3339(records.clock.now().wall + timedelta(seconds=seconds))


def a_wish(request: dict[str, Any] = SURE, instance_id: str = "ins-1", request_id: str = "att-1/1", **how: Any) -> Any:  # noqa: ANN401
    wish = UiRequest.model_validate({"request": request} | how)
    return interactions.AskPerson(Asker(instance_id, "att-1", request_id), wish)


def asked(records: Records, request: dict[str, Any] = SURE, **how: Any) -> InteractionRecord:  # noqa: ANN401
    outcome = records.run(interactions.request_interaction, a_wish(request, **how))
    assert isinstance(outcome, interactions.InteractionState), outcome
    return outcome.record


def asked_by_agent(records: Records, kind: str = "confirm", call_id: str = "c1") -> CallRecord:
    given = {name: value for name, value in {"confirm": SURE, "notice": NOTE}[kind].items() if name != "kind"}
    return admitted(records, f"chat.{kind}", call_id, given=given)


def an_answer(interaction_id: str = "int-1", host: str = "shell", **said: Any) -> interactions.Answer:  # noqa: ANN401
    given = HostAnswer.model_validate({"interaction_id": interaction_id} | (said or {"approved": True}))
    return interactions.Answer(interaction_id, given, host)


def answered(records: Records, interaction_id: str = "int-1", **said: Any) -> InteractionRecord:  # noqa: ANN401
    outcome = records.run(interactions.answer, an_answer(interaction_id, **said))
    assert isinstance(outcome, interactions.InteractionState), outcome
    return outcome.record


def row(records: Records, interaction_id: str = "int-1") -> InteractionRow:
    found = rows.get(records.transaction(), interaction_id)
    assert found is not None
    return found


def ends(records: Records, app_scope: str = "notes") -> list[tuple[str, str]]:
    """Messages that say how a question ended: (id, status)."""
    page = inbox.read_inbox(records.transaction(), inbox.InboxPageOf("ins-1", frozenset(), 0, 100))
    assert isinstance(page, inbox.InboxRead)
    found = [one.interaction for one in page.messages if one.interaction is not None]
    assert len(found) == sum(one.kind == "interaction" for one in records.inbox(app_scope))
    return [(one.interaction_id, str(one.status)) for one in found]


def shown(records: Records) -> list[tuple[str, str]]:
    found = records.sql.execute("select kind, data from host_events where kind like 'interaction.%' order by number")
    return [(kind, msgpack.unpackb(data)["interaction"]["status"]) for kind, data in found]


# --- asking ---


def test_a_question_is_recorded_with_the_owner_that_the_channel_names(records: Records) -> None:
    running(records)

    record = asked(records, presentation="inline")

    assert record.owner.model_dump(exclude_none=True) == {
        "app_scope": "notes",
        "instance_id": "ins-1",
        "conversation_id": TALK,
        "source": "miniapp_tool",
    }
    assert (record.kind, record.status, record.presentation) == ("confirm", "pending", "inline")
    assert record.expires_at is None
    assert shown(records) == [("interaction.opened", "pending")]
    assert records.audit()[-1].event == "interaction.opened"
    assert len(records.told(Shown)) == 1


@pytest.mark.parametrize("field", ["owner", "app_scope", "instance_id", "conversation_id", "source", "interaction_id"])
def test_no_request_can_name_an_owner(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        UiRequest.model_validate({"request": SURE, field: "other"})


def test_a_repeated_request_is_answered_with_its_question_however_that_stands(records: Records) -> None:
    running(records)
    first = asked(records)
    assert asked(records) == first
    answered(records)

    again = records.run(interactions.request_interaction, a_wish())

    assert isinstance(again, interactions.InteractionState)
    assert again.repeated
    assert (again.record.status, again.record.result) == ("completed", {"approved": True})
    assert len(shown(records)) == 2


def test_a_later_process_that_asks_with_the_same_key_gets_the_same_question(records: Records) -> None:
    running(records)
    first = asked(records, key="sure")

    again = asked(records, key="sure", request_id="att-2/1", expires_at=in_s(60, records))

    assert again == first


def test_a_later_process_that_asks_again_about_a_call_has_taken_it_over(records: Records) -> None:
    running(records)
    asked(records, key="sure", parent_call_id="c1", expires_at=in_s(DAY_S, records))
    process_ended(records, "att-1", delivered=("c1",))
    attached(records, "ins-1")
    assert (records.call().status, records.call().crashes) == ("waiting_for_app", 1)

    again = asked(records, key="sure", request_id="att-2/1", parent_call_id="c1")

    assert (again.interaction_id, again.status) == ("int-1", "pending")
    assert records.call().status == "running"
    assert records.call().due_boot_s == NEVER_S, "the person is still waited for"
    assert records.audit()[-1].event == "call.running"
    asked(records, key="sure", request_id="att-2/2", parent_call_id="c1")
    assert [entry.event for entry in records.audit()].count("call.running") == 2


def test_a_key_names_a_question_within_its_call(records: Records) -> None:
    running(records)

    free, bound = asked(records, key="sure"), asked(records, key="sure", request_id="att-1/2", parent_call_id="c1")

    assert free.interaction_id != bound.interaction_id


def test_the_same_key_with_another_request_is_a_conflict(records: Records) -> None:
    running(records)
    asked(records, key="sure")

    other = a_wish(NAME, key="sure", request_id="att-1/2")

    assert_refused(records, interactions.request_interaction, other, "key_conflict", "interaction.refused")


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        (a_wish(expires_at="2026-01-01T12:00:00Z"), "interaction_invalid"),
        (a_wish(expires_at="2026-02-30T12:00:00Z"), "interaction_invalid"),
        (a_wish(instance_id="ins-9"), "app_instance_not_found"),
        (a_wish(parent_call_id="c9"), "call_not_found"),
        (a_wish(parent_call_id="c2"), "call_not_found"),
        (a_wish(parent_call_id="c0"), "call_already_final"),
    ],
)
def test_a_request_is_refused_by_the_first_thing_that_fails(
    records: Records, wish: interactions.AskPerson, code: str
) -> None:
    records.run(calls.finish, a_result(by(running(records, call_id="c0"))))
    running(records)
    running(records, "board.open", "c2")

    assert_refused(records, interactions.request_interaction, wish, code, "interaction.refused")


def test_an_app_that_is_switched_off_asks_nothing(records: Records) -> None:
    running(records)
    records.sql.execute("insert into switched_off (kind, name) values ('app', 'notes')")

    assert_refused(records, interactions.request_interaction, a_wish(), "app_disabled", "interaction.refused")


def test_a_question_takes_its_call_over(records: Records) -> None:
    call = admitted(records)
    attached(records, call.instance_id)

    asked(records, parent_call_id="c1")

    assert records.call().status == "running"
    events = [entry.event for entry in records.audit()]
    assert events[-3:] == ["interaction.opened", "message.acknowledged", "call.running"]


def test_a_question_settles_the_message_of_its_call(records: Records) -> None:
    call = admitted(records)
    attached(records, call.instance_id)

    asked(records, parent_call_id="c1")

    waiting = inbox.read_inbox(records.transaction(), inbox.InboxPageOf(call.instance_id or "", frozenset(), 0, 10))
    assert not isinstance(waiting, Rejection)
    assert waiting.messages == ()
    assert [told.number for told in records.told(Settled)] == [1]


def test_a_request_is_at_most_48_kib(records: Records) -> None:
    running(records)
    actions = [{"id": f"a{n}", "label": "ü" * 120, "description": "ü" * 500} for n in range(64)]
    large = {"kind": "choice", "title": "Which?", "prompt": "", "mode": "button", "actions": actions}

    assert_refused(
        records, interactions.request_interaction, a_wish(large), "interaction_invalid", "interaction.refused"
    )


def test_an_instance_may_have_so_many_questions_until_it_acknowledges_their_ends(records: Records) -> None:
    records.settings = some_settings(CATALOGUE, Bounds(interactions_per_instance=2))
    running(records)
    asked(records)
    asked(records, request_id="att-1/2")
    third = a_wish(request_id="att-1/3")
    assert_refused(records, interactions.request_interaction, third, "busy", "interaction.refused")
    answered(records)
    assert refused(records.run(interactions.request_interaction, third)) == "busy"

    [message] = [one for one in records.inbox() if one.kind == "interaction"]
    records.run(calls.acknowledge, calls.Acknowledge("ins-1", "att-1", message.number))

    assert isinstance(records.run(interactions.request_interaction, third), interactions.InteractionState)


@pytest.mark.parametrize("bounds", [Bounds(interactions_per_app=1), Bounds(interactions=1)])
def test_apps_share_what_is_left_and_agents_have_their_own(records: Records, bounds: Bounds) -> None:
    records.settings = some_settings(CATALOGUE, bounds)
    running(records)
    asked(records)

    assert refused(records.run(interactions.request_interaction, a_wish(request_id="att-1/2"))) == "busy"
    assert asked_by_agent(records, call_id="c2").status == "waiting_for_app"


def test_another_instance_neither_sees_nor_cancels_a_question(records: Records) -> None:
    running(records)
    running(records, "board.open", "c2")
    asked(records)
    stranger = Asker("ins-2", "att-2", "att-2/1")

    assert records.run(interactions.read_own, interactions.OwnOne(stranger, "int-1")).record is None
    assert records.run(interactions.list_own, interactions.OwnList(stranger, None)).records == ()
    wish = interactions.CancelOwn(stranger, UiCancel(interaction_id="int-1"))
    assert_refused(records, interactions.cancel_interaction, wish, "interaction_not_found", "interaction.refused")


def test_a_list_holds_the_open_ones_and_goes_on_behind_one_of_them(records: Records) -> None:
    running(records)
    for number in range(1, 5):
        asked(records, request_id=f"att-1/{number}")
    answered(records, "int-2")
    me = Asker("ins-1", "att-1", "att-1/9")

    whole = records.run(interactions.list_own, interactions.OwnList(me, None)).records
    rest = records.run(interactions.list_own, interactions.OwnList(me, "int-3")).records

    assert [one.interaction_id for one in whole] == ["int-1", "int-3", "int-4"]
    assert [one.interaction_id for one in rest] == ["int-4"]


def test_an_app_takes_a_question_back_once(records: Records) -> None:
    running(records)
    asked(records)
    me = Asker("ins-1", "att-1", "att-1/2")
    cancel = interactions.CancelOwn(me, UiCancel(interaction_id="int-1", reason="no matter"))

    first = records.run(interactions.cancel_interaction, cancel)
    again = records.run(interactions.cancel_interaction, cancel)
    late = records.run(interactions.cancel_interaction, replace(cancel, by=replace(me, request_id="att-1/3")))

    assert first == again
    assert (row(records).status, row(records).reason) == ("cancelled", "no matter")
    assert refused(late) == "interaction_already_final"
    assert ends(records) == [("int-1", "cancelled")]


# --- hosts ---


def test_the_first_host_that_shows_a_question_counts(records: Records) -> None:
    running(records)
    asked(records)

    first = records.run(interactions.present, interactions.Present("int-1", "shell"))
    told = records.told(TellInteraction)
    second = records.run(interactions.present, interactions.Present("int-1", "window"))

    assert isinstance(first, interactions.InteractionState)
    assert isinstance(second, interactions.InteractionState)
    assert (first.record.status, first.repeated, second.repeated) == ("presented", False, True)
    assert [(one.instance_id, one.record.status) for one in told] == [("ins-1", InteractionStatus.PRESENTED)]
    assert shown(records) == [("interaction.opened", "pending"), ("interaction.changed", "presented")]


def test_a_notice_without_a_label_ends_when_it_is_shown(records: Records) -> None:
    running(records)
    asked(records, NOTE)

    records.run(interactions.present, interactions.Present("int-1", "shell"))

    assert (row(records).status, row(records).result) == ("completed", codec.encode({"acknowledged": False}))
    assert ends(records) == [("int-1", "completed")]


def test_an_answer_its_result_and_its_withdrawal_are_one_change(records: Records) -> None:
    running(records)
    asked(records)

    record = answered(records)

    assert (record.status, record.result) == ("completed", {"approved": True})
    assert ends(records) == [("int-1", "completed")]
    assert shown(records)[-1] == ("interaction.changed", "completed")
    [delivered] = records.told(Deliver)
    assert delivered.message.interaction == record
    [ended] = [entry for entry in records.audit() if entry.event == "interaction.ended"]
    path = ["pending", "presented", "submitted", "completed"]
    assert ended.detail == {"path": path, "told": True, "host": "shell"}


def test_whoever_answers_late_is_told_how_it_stands(records: Records) -> None:
    running(records)
    asked(records)
    answered(records)

    late = an_answer(host="window", approved=False)

    assert_refused(records, interactions.answer, late, "interaction_already_final", "interaction.refused")


def test_an_answer_that_does_not_fit_changes_nothing(records: Records) -> None:
    running(records)
    asked(records)

    wrong = an_answer(action_ids=("a",))

    assert_refused(records, interactions.answer, wrong, "interaction_invalid", "interaction.refused")


@pytest.mark.parametrize(
    "rule",
    [
        (interactions.answer, an_answer("int-9")),
        (interactions.present, interactions.Present("int-9", "shell")),
        (interactions.dismiss, interactions.Dismiss("int-9", "shell")),
        (interactions.save_draft, interactions.Draft("int-9", 1, codec.encode({}), "shell")),
    ],
)
def test_a_question_that_is_not_there_is_not_found(records: Records, rule: tuple[Any, Any]) -> None:
    assert_refused(records, rule[0], rule[1], "interaction_not_found", "interaction.refused")


@pytest.mark.parametrize(
    ("request_of", "status", "result"), [(SURE, "completed", {"approved": False}), (NAME, "cancelled", None)]
)
def test_what_is_dismissed_is_a_no_or_no_answer_and_puts_its_app_off(
    records: Records, request_of: dict[str, Any], status: str, result: dict[str, Any] | None
) -> None:
    running(records)
    asked(records, request_of)

    outcome = records.run(interactions.dismiss, interactions.Dismiss("int-1", "shell"))

    assert isinstance(outcome, interactions.InteractionState)
    assert (outcome.record.status, outcome.record.result) == (status, result)
    assert put_off.put_off_until(records.transaction(), "ins-1") == in_s(60, records)
    assert asked(records, request_id="att-1/2").listed_until == in_s(60, records)
    records.clock.move(60)
    assert asked(records, request_id="att-1/3").listed_until is None


def test_the_newest_draft_is_kept_until_the_end(records: Records) -> None:
    running(records)
    asked(records, NAME)
    newer, older = codec.encode({"name": "Zoë"}), codec.encode({"name": "Z"})

    records.run(interactions.save_draft, interactions.Draft("int-1", 2, newer, "shell"))
    outcome = records.run(interactions.save_draft, interactions.Draft("int-1", 1, older, "window"))

    assert isinstance(outcome, interactions.InteractionState)
    assert outcome.repeated
    [listed] = views.view_interactions(records.transaction(), views.View({}, None, 200)).rows
    assert listed["draft"] == {"name": "Zoë"}
    answered(records, values={"name": "Al"})
    assert row(records).draft is None


@pytest.mark.parametrize(("request_of", "size"), [(SURE, 1), (NAME, 70_000)])
def test_a_draft_is_an_inputs_and_not_large(records: Records, request_of: dict[str, Any], size: int) -> None:
    running(records)
    asked(records, request_of)

    draft = interactions.Draft("int-1", 1, codec.encode({"name": "x" * size}), "shell")

    assert_refused(records, interactions.save_draft, draft, "interaction_invalid", "interaction.refused")


# --- time ---


def test_an_answer_after_the_expiry_never_counts_whenever_the_timer_runs(records: Records) -> None:
    running(records)
    asked(records, expires_at=in_s(10, records))
    assert [one.wall_s for one in records.told(InteractionDueAt)] == [START.timestamp() + 10]
    records.clock.move(10)

    outcome = records.run(interactions.answer, an_answer())

    assert refused(outcome) == "interaction_already_final"
    assert ends(records) == [("int-1", "expired")]


def test_what_is_overdue_ends_at_the_next_look_and_the_next_one_is_named(records: Records) -> None:
    running(records)
    asked(records, expires_at=in_s(10, records))
    asked(records, expires_at=in_s(20, records), request_id="att-1/2")
    records.clock.move(15)

    outcome = records.run(interactions.expire_interactions, None)

    assert outcome == interactions.InteractionExpiry(1, START.timestamp() + 20)
    assert ends(records) == [("int-1", "expired")]
    assert [one["interaction"]["interaction_id"] for one in listed(records)] == ["int-2"]


def listed(records: Records) -> tuple[dict[str, Any], ...]:
    return views.view_interactions(records.transaction(), views.View({}, None, 200)).rows


def test_what_is_listed_can_be_answered(records: Records) -> None:
    running(records)
    asked(records, expires_at=in_s(10, records))
    asked(records, request_id="att-1/2")
    records.clock.move(10)

    assert [one["interaction"]["interaction_id"] for one in listed(records)] == ["int-2"]
    assert [one["app_title"] for one in listed(records)] == ["notes"]


def test_a_question_stops_the_clock_of_its_call_and_its_end_lets_it_go_on(records: Records) -> None:
    running(records)
    records.clock.move(20)

    asked(records, parent_call_id="c1")

    stopped = records.call()
    assert (stopped.remaining_s, stopped.due_boot_s) == (40.0, NEVER_S)
    records.clock.move(DAY_S / 2)  # longer than its time-out: only a question with the tool's time-out expires
    assert records.run(calls.expire_due, None).ended == 0


def test_the_clock_goes_on_with_what_was_left(records: Records) -> None:
    running(records)
    records.clock.move(20)
    asked(records, parent_call_id="c1")
    records.clock.move(30)

    answered(records)

    going = records.call()
    due = records.clock.now().boot_s + 40
    assert (going.remaining_s, going.due_boot_s, going.deadline_boot_s) == (None, due, due)
    assert [one.boot_s for one in records.told(DueAt)] == [due]
    records.clock.move(40)
    assert records.run(calls.expire_due, None).ended == 1


def test_the_last_of_several_questions_lets_the_clock_go_on(records: Records) -> None:
    running(records)
    asked(records, parent_call_id="c1")
    asked(records, parent_call_id="c1", request_id="att-1/2")

    answered(records, "int-1")
    assert records.call().remaining_s == 60.0
    answered(records, "int-2")
    assert records.call().remaining_s is None


def test_a_notice_without_a_label_stops_no_clock_and_ends_with_its_call(records: Records) -> None:
    call = running(records)
    asked(records, NOTE, parent_call_id="c1")
    assert records.call().remaining_s is None

    records.run(calls.finish, a_result(by(call)))

    assert row(records).status == "cancelled"


def test_a_question_of_a_call_expires_after_the_tools_time(records: Records) -> None:
    running(records)

    assert asked(records, parent_call_id="c1").expires_at == in_s(60, records)


def test_a_clock_that_stands_still_stands_still_over_a_restart_of_the_machine(records: Records) -> None:
    running(records)
    asked(records, parent_call_id="c1", expires_at=in_s(DAY_S, records))
    records.clock.reboot(3600)

    records.run(recovery.recover, None)
    records.run(recovery.recover_call, a_key())
    assert records.run(calls.expire_due, None).ended == 0
    answered(records)

    assert records.call().due_boot_s == records.clock.now().boot_s + 60


def test_a_wish_to_cancel_runs_its_grace_while_the_clock_stands_still(records: Records) -> None:
    running(records)
    asked(records, parent_call_id="c1", expires_at=in_s(DAY_S, records))
    records.run(calls.request_cancel, calls.CancelWish(a_key(), None))
    records.clock.move(10)

    assert records.run(calls.expire_due, None).ended == 1
    assert records.call().status == "cancelled"
    assert row(records).status == "cancelled"


def test_a_cancelled_call_that_had_waited_for_a_person_stays_ended_when_the_machine_restarts(records: Records) -> None:
    running(records)
    asked(records, parent_call_id="c1", expires_at=in_s(DAY_S, records))
    records.run(calls.request_cancel, calls.CancelWish(a_key(), None))
    records.clock.move(10)
    records.run(calls.expire_due, None)

    records.clock.reboot(5)
    records.run(recovery.recover, None)

    assert records.call().due_boot_s is None
    assert records.run(calls.expire_due, None).ended == 0


# --- ends of what it belongs to ---


def test_the_end_of_a_call_ends_its_questions_without_a_message(records: Records) -> None:
    call = running(records)
    asked(records, parent_call_id="c1")
    asked(records, request_id="att-1/2")

    records.run(calls.finish, a_cancellation(by(call)))

    assert (row(records).status, row(records, "int-2").status) == ("cancelled", "pending")
    assert ends(records) == []
    assert [one.record.status for one in records.told(TellInteraction)] == [InteractionStatus.CANCELLED]
    assert shown(records)[-1] == ("interaction.changed", "cancelled")


def test_the_end_of_an_instance_ends_its_questions_and_what_is_its_own_in_the_inbox(records: Records) -> None:
    running(records)
    asked(records)
    asked(records, request_id="att-1/2")
    answered(records)
    put = inbox.PutText("local", TALK, "t1", "notes", "hello", None, b"one")
    records.run(inbox.put_text, put)

    records.run(close, "ins-1")

    assert (row(records).status, row(records, "int-2").status) == ("completed", "cancelled")
    assert [one.kind for one in records.inbox()] == ["message"]
    assert row(records).settled
    assert row(records, "int-2").settled


def close(tx: Transaction, instance_id: str) -> None:
    instance = instances.find(tx, instance_id)
    assert instance is not None
    instances.close_instance(tx, instance, RejectionCode.APP_CLOSED, "it was closed")


def test_a_question_outlives_the_process_that_asked_it(records: Records) -> None:
    running(records)
    asked(records)
    records.run(instances.end_attempt, instances.AttemptEnd("att-1", "exited", counted=True))

    answered(records)
    attached(records, "ins-1")

    assert ends(records) == [("int-1", "completed")]


def test_what_nobody_can_read_any_more_fails_and_holds_up_nothing(records: Records) -> None:
    running(records)
    asked(records, parent_call_id="c1")
    records.sql.execute("update interactions set request = x'c1'")

    assert records.run(interactions.fail_unreadable, None) == 1

    assert row(records).status == "failed"
    assert records.call().remaining_s is None
    assert ends(records) == [("int-1", "failed")]


@pytest.mark.parametrize("overdue", [False, True])
@pytest.mark.parametrize("what", ["boot", "timer", "call", "owner", "list"])
def test_a_question_that_nobody_can_read_holds_up_no_end(records: Records, what: str, *, overdue: bool) -> None:
    running(records)
    asked(records, parent_call_id="c1", request_id="att-1/1")
    asked(records, NOTE, request_id="att-1/2")
    records.sql.execute("update interactions set request = x'c1' where interaction_id = 'int-1'")
    records.clock.move(120 if overdue else 0)

    match what:
        case "boot":
            records.run(interactions.fail_unreadable, None)
        case "timer":
            records.run(interactions.expire_interactions, None)
        case "call":
            records.run(calls.finish, a_result(by(records.call())))
        case "owner":
            records.run(close, "ins-1")
        case "list":
            records.run(interactions.list_own, interactions.OwnList(Asker("ins-1", "att-1", "z"), None))

    if what != "timer" or overdue:
        assert row(records).status in {"failed", "expired", "cancelled"}
    assert len(views.view_interactions(records.transaction(), views.View({"all": True}, None, 10)).rows) == 2


def test_a_list_comes_in_pages_that_are_read_quickly_and_goes_on_behind_one_that_ended(records: Records) -> None:
    running(records)
    for number in range(8):
        asked(records, SURE | {"prompt": "\u6c49" * 4000}, request_id=f"att-1/{number}")  # 12 KiB each

    def listed(after: str | None) -> tuple[list[str], bool]:
        found = records.run(interactions.list_own, interactions.OwnList(Asker("ins-1", "att-1", "z"), after))
        return [one.interaction_id for one in found.records], found.more

    assert listed(None) == (["int-1", "int-2", "int-3", "int-4", "int-5"], True)
    assert listed("int-5") == (["int-6", "int-7", "int-8"], False)
    answered(records, "int-5")
    assert listed("int-5") == (["int-6", "int-7", "int-8"], False)


def test_the_last_moment_that_can_be_spelled_is_refused_and_not_a_fault(records: Records) -> None:
    running(records)

    wish = a_wish(expires_at="9999-12-31T23:59:59.999999Z")

    assert refused(records.run(interactions.request_interaction, wish)) == "interaction_invalid"


def test_what_is_open_already_is_put_off_and_called_back_with_its_app(records: Records) -> None:
    running(records)
    for number in range(3):
        asked(records, request_id=f"att-1/{number}")

    records.run(interactions.dismiss, interactions.Dismiss("int-1", "shell"))

    until = row(records, "int-2").listed_until
    assert until == in_s(60, records)
    assert row(records, "int-3").listed_until == until
    assert [kind for kind, _ in shown(records)[-2:]] == ["interaction.changed"] * 2
    records.run(questions.call_back, "ins-1")
    assert (row(records, "int-2").listed_until, row(records, "int-3").listed_until) == (None, None)


def test_what_an_instance_has_acknowledged_is_kept_for_a_while_and_not_for_ever(records: Records) -> None:
    running(records)
    asked(records, request_id="att-1/0")  # stays open
    for number in range(1, questions.SETTLED_KEPT + 5):
        asked(records, key=f"k{number}", request_id=f"att-1/{number}")
        answered(records, f"int-{number + 1}")
        [message] = [one for one in records.inbox() if one.kind == "interaction"]
        records.run(calls.acknowledge, calls.Acknowledge("ins-1", "att-1", message.number))

    asked(records, request_id="att-1/last")

    kept = [row[0] for row in records.sql.execute("select key from interactions where settled order by rowid")]
    assert kept == [f"k{number}" for number in range(5, questions.SETTLED_KEPT + 5)]
    assert row(records, "int-1").status == "pending"


def test_the_log_says_who_ended_a_question(records: Records) -> None:
    running(records)
    for number in range(4):
        asked(records, request_id=f"att-1/{number}")
    answered(records, "int-1")
    records.run(interactions.dismiss, interactions.Dismiss("int-2", "shell"))
    wish = UiCancel(interaction_id="int-3", reason="not needed")
    records.run(interactions.cancel_interaction, interactions.CancelOwn(Asker("ins-1", "att-1", "att-1/9"), wish))
    records.run(close, "ins-1")

    said = [entry.detail for entry in records.audit() if entry.event == "interaction.ended"]

    assert [{name: one for name, one in detail.items() if name not in {"path", "told"}} for detail in said] == [
        {"host": "shell"},
        {"host": "shell", "dismissed": True},
        {"app": "att-1"},
        {},
    ]


# --- agents ---


def test_a_question_of_an_agent_is_made_with_its_call(records: Records) -> None:
    call = asked_by_agent(records)

    record = rows.record(row(records))

    assert record.owner.model_dump(exclude_none=True) == {
        "app_scope": "chat",
        "instance_id": "ins-1",
        "conversation_id": TALK,
        "parent_call_id": "c1",
        "source": "agent_tool",
    }
    assert (record.request.model_dump(exclude_none=True), record.expires_at) == (SURE, in_s(DAY_S, records))
    assert (call.remaining_s, call.questions) == (DAY_S, 1)
    assert [one.kind for one in records.inbox("chat")] == ["tool.call"]


def test_the_result_of_an_agents_question_goes_to_interact_and_to_nobody_else(records: Records) -> None:
    asked_by_agent(records)

    answered(records)

    assert ends(records, "chat") == [("int-1", "completed")]
    assert records.outbox() == []
    assert records.call().status == "waiting_for_app"


def test_a_repeated_question_of_an_agent_is_asked_once(records: Records) -> None:
    asked_by_agent(records)
    given = {"title": SURE["title"], "prompt": SURE["prompt"]}

    outcome = records.run(calls.admit, an_invoke("chat.confirm", given=given))

    assert isinstance(outcome, calls.CallAnswer)
    assert outcome.repeated
    assert len(shown(records)) == 1


def test_agents_questions_are_bounded_before_anything_is_made(records: Records) -> None:
    records.settings = some_settings(CATALOGUE, Bounds(interactions_per_instance=1))
    asked_by_agent(records)
    given = {"title": "Sure?", "prompt": ""}

    second = an_invoke("chat.confirm", "c2", given=given)

    assert_refused(records, calls.admit, second, "busy", "call.refused")


# --- policy ---


def policys(records: Records, heard: list[InteractionRow], monkeypatch: pytest.MonkeyPatch) -> InteractionRow:
    monkeypatch.setitem(questions.ENDED, "runtime_policy", lambda _, ended: heard.append(ended))
    question = questions.Question(
        request=a_wish().wish.request,
        source="runtime_policy",
        conversation_id=TALK,
        app_scope="notes",
        instance_id="ins-1",
        purpose=b"why",
    )
    opened = records.run(questions.open_question, question)
    assert isinstance(opened, InteractionRow)
    return opened


def test_a_question_of_policy_is_none_of_its_apps_business(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    running(records)
    heard: list[InteractionRow] = []
    policys(records, heard, monkeypatch)
    me = Asker("ins-1", "att-1", "att-1/1")

    records.run(interactions.present, interactions.Present("int-1", "shell"))
    assert records.told(TellInteraction) == []
    assert records.run(interactions.read_own, interactions.OwnOne(me, "int-1")).record is None
    assert records.run(interactions.list_own, interactions.OwnList(me, None)).records == ()
    cancel = interactions.CancelOwn(me, UiCancel(interaction_id="int-1"))
    assert refused(records.run(interactions.cancel_interaction, cancel)) == "interaction_not_found"
    answered(records)

    assert ends(records) == []
    assert [(one.status, one.purpose) for one in heard] == [("completed", b"why")]


def test_a_question_of_policy_ends_with_its_app(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    running(records)
    heard: list[InteractionRow] = []
    policys(records, heard, monkeypatch)

    records.run(close, "ins-1")

    assert [one.status for one in heard] == ["cancelled"]


# --- what an ordinary call pays ---


def test_a_call_without_a_question_pays_no_statement_for_questions(records: Records) -> None:
    call = running(records)
    said: list[str] = []
    records.sql.set_trace_callback(said.append)

    records.run(calls.finish, a_result(by(call)))

    records.sql.set_trace_callback(None)
    assert not [one for one in said if "interactions" in one]
