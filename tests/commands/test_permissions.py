"""A call that a person has to permit waits before anybody has it, and is looked at anew when it was permitted."""

from __future__ import annotations

import sqlite3
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from runtime_actors.commands import apps, calls, interactions, policy, recovery
from runtime_actors.commands import questions as question_commands
from runtime_actors.config import Bounds
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.tools import CallStatus
from runtime_actors.rules.calls import NEVER_S, CallRecord
from runtime_actors.rules.grants import GrantStatus
from runtime_actors.rules.inventory import Catalogue
from tests.commands.test_every_command import FailingConnection
from tests.fakes import (
    NOTES,
    Records,
    a_key,
    a_manifest,
    a_tool,
    acknowledged,
    admitted,
    an_app,
    an_invoke,
    assert_refused,
    attached,
    refused,
    some_records,
)
from tests.permission_fakes import (
    DRAWING,
    all_grants,
    an_instance,
    grant_events,
    granted,
    questions,
    records_with,
    said,
    use_policy,
    wished,
)

ASK = 'tool = "drawing.open", decision = "ask"'
ASK_ALWAYS = 'tool = "drawing.open", decision = "ask", for = "always"'
SEND_RULES = (
    'tool = "drawing.send", decision = "allow"',
    'capability = "print", decision = "allow"',
    'capability = "notify", decision = "ask"',
)
ASK_FOR_BOTH = 'app = "drawing", decision = "ask"'


def asked(*rules: str, tool: str = "drawing.open") -> Records:
    """A call waits for a person's yes."""
    records = records_with(*(rules or (ASK,)))
    admitted(records, tool)
    return records


def ended(call: CallRecord) -> tuple[CallStatus, str | None]:
    return call.status, call.error_code


# --- without a question ---


def test_a_tool_that_policy_denies_is_refused_and_nothing_is_left() -> None:
    records = records_with('tool = "drawing.open", decision = "deny"')

    assert_refused(records, calls.admit, an_invoke("drawing.open"), "capability_denied", "call.refused")


@pytest.mark.parametrize(
    ("rule", "agent", "conversation", "code"),
    [
        ('agent = "local", decision = "deny"', "local", "talk", "capability_denied"),
        ('agent = "local", decision = "deny"', "other", "talk", None),
        ('conversation = "talk", decision = "deny"', "local", "talk", "capability_denied"),
        ('conversation = "talk", decision = "deny"', "local", "elsewhere", None),
    ],
)
def test_rules_can_be_for_an_agent_and_for_a_conversation(
    rule: str, agent: str, conversation: str, code: str | None
) -> None:
    records = records_with(rule)

    outcome = records.run(calls.admit, an_invoke("drawing.open", agent_id=agent, conversation_id=conversation))

    assert (refused(outcome) if code else code) == code
    assert isinstance(outcome, Rejection) == (code is not None)


@pytest.mark.parametrize(
    ("rules", "tool", "code"),
    [
        (('agent = "other", capability = "notify", decision = "deny"', 'decision = "allow"'), "drawing.send",
         "capability_denied"),
        (('agent = "other", lifecycle = "foreground", decision = "deny"',), "board.open", "lifecycle_denied"),
        (('agent = "other", decision = "allow"',), "drawing.send", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_open", [False, True])
def test_a_rule_for_an_agent_holds_in_a_conversation_that_its_call_opens(
    rules: tuple[str, ...], tool: str, code: str | None, *, is_open: bool
) -> None:
    records = records_with(*rules)
    if is_open:
        admitted(records, call_id="c0", agent_id="other", conversation_id="new")

    outcome = records.run(calls.admit, an_invoke(tool, agent_id="other", conversation_id="new"))

    assert (outcome.code if isinstance(outcome, Rejection) else None) == code


def test_a_question_of_policy_names_all_that_a_yes_permits_or_is_not_asked() -> None:
    def answer_to(count: int) -> tuple[Records, object]:
        names = [f"{'very-long-name-' * 3}{number:02}" for number in range(count)]
        manifest = a_manifest("spy", a_tool("spy.look", permissions=names), requested_capabilities=names)
        settings = records_with('decision = "ask", for = "always", expires_s = 1000000').settings
        records = some_records(replace(settings, catalogue=Catalogue.of([an_app(manifest)])))
        return records, records.run(calls.admit, an_invoke("spy.look"))

    few, taken = answer_to(10)
    assert isinstance(taken, calls.CallAnswer)
    [question] = questions(few)
    assert question.request.kind == "confirm"
    for grant in all_grants(few):
        assert grant.capability.removeprefix("tool:") in question.request.prompt

    many, denied = answer_to(32)
    assert refused(denied) == "capability_denied"
    assert questions(many) == []
    assert all_grants(many) == []


def test_permissions_of_a_tool_are_capabilities_and_denied_without_a_rule() -> None:
    assert_refused(records_with(), calls.admit, an_invoke("drawing.send"), "capability_denied", "call.refused")


def test_a_tool_whose_permissions_are_all_allowed_runs_at_once() -> None:
    records = records_with('capability = "notify", decision = "allow"', 'capability = "print", decision = "allow"')

    assert admitted(records, "drawing.send").status is CallStatus.WAITING_FOR_APP


def test_a_permission_on_the_closed_list_is_denied_whatever_policy_says() -> None:
    manifest = a_manifest("spy", a_tool("spy.look", permissions=["camera"]), requested_capabilities=["camera"])
    records = some_records(
        replace(records_with('decision = "allow"').settings, catalogue=Catalogue.of([an_app(manifest)]))
    )

    assert refused(records.run(calls.admit, an_invoke("spy.look"))) == RejectionCode.CAPABILITY_DENIED


def test_what_nobody_ruled_about_takes_no_statement_more() -> None:
    counted = []
    for records in (records_with(), records_with('app = "notes", decision = "deny"')):
        statements: list[str] = []
        records.sql.set_trace_callback(statements.append)
        admitted(records, "drawing.open")
        records.sql.set_trace_callback(None)
        counted.append(len(statements))

    assert counted[0] == counted[1]


# --- waiting for a person ---


def test_a_call_that_has_to_be_permitted_is_received_and_has_no_instance_no_message_and_no_deadline() -> None:
    records = asked()

    call = records.call()

    assert (call.status, call.instance_id, call.message) == (CallStatus.RECEIVED, None, None)
    assert (call.remaining_s, call.due_boot_s) == (60.0, NEVER_S)
    assert records.inbox("drawing") == []
    assert records.stack() == ()
    (question,) = questions(records)
    assert question.owner.parent_call_id == "c1"
    assert question.owner.instance_id is None
    assert "drawing.open" in question.request.prompt  # type: ignore[union-attr]


def test_repeating_it_asks_nobody_again_and_its_agent_sees_that_it_is_received() -> None:
    records = asked()
    before = records.everything()

    again = records.run(calls.admit, an_invoke("drawing.open"))
    read = records.run(calls.read_call, a_key())

    assert isinstance(again, calls.CallAnswer)
    assert isinstance(read, calls.CallAnswer)
    assert (again.repeated, again.call.status, read.call.status) == (True, "received", "received")
    assert records.everything() == before


def test_a_permitted_call_is_placed_and_its_clock_goes_on_with_what_was_left() -> None:
    records = asked()
    records.clock.move(599)

    said(records, approved=True)

    call = records.call()
    assert call.status is CallStatus.WAITING_FOR_APP
    assert call.deadline_boot_s == records.clock.now().boot_s + 60
    assert [row.call_id for row in records.inbox("drawing")] == ["c1"]
    assert [one.status for one in all_grants(records)] == [GrantStatus.USED]
    assert grant_events(records) == ["grant.asked", "grant.given", "grant.used"]
    attached(records, call.instance_id)
    assert acknowledged(records, call).status is CallStatus.RUNNING


def test_a_declined_call_ends_rejected_and_its_agent_is_told() -> None:
    records = asked()

    said(records, approved=False)

    assert ended(records.call()) == (CallStatus.REJECTED, "permission_declined")
    assert [row.kind for row in records.outbox()] == ["lineup.v1.tool.result"]
    assert [one.status for one in all_grants(records)] == [GrantStatus.DENIED]


def test_a_yes_for_once_ends_with_the_call_that_it_was_for() -> None:
    records = records_with(*SEND_RULES)
    instance_id = an_instance(records)
    admitted(records, "drawing.send", "c1")
    records.settings = replace(records.settings, bounds=replace(records.settings.bounds, open_calls_per_instance=1))

    said(records, approved=True)

    assert ended(records.call()) == (CallStatus.REJECTED, "busy")
    assert [(one.capability, str(one.status)) for one in all_grants(records)] == [("notify", "expired")]
    assert granted(wished(records, "notify", "w1", instance_id)).decision == "asking"


def test_calls_that_wait_for_a_yes_leave_room_for_questions_of_others() -> None:
    records = records_with(ASK)
    bounds = records.settings.bounds
    for number in range(bounds.interactions_per_instance):
        admitted(records, "drawing.open", f"c{number}", conversation_id=f"talk-{number}")

    found = question_commands.no_room(records.transaction(), "agent_tool", None, "chat")

    assert found is None


def test_calls_of_one_app_that_wait_for_a_yes_are_bounded() -> None:
    records = records_with(ASK)
    records.settings = replace(records.settings, bounds=replace(records.settings.bounds, interactions_per_app=2))
    for number in range(2):
        admitted(records, "drawing.open", f"c{number}", conversation_id=f"talk-{number}")

    assert_refused(records, calls.admit, an_invoke("drawing.open", "c2"), "busy", "call.refused")


def test_a_no_before_the_clock_was_set_back_hides_no_later_one() -> None:
    records = asked()
    said(records, approved=False)
    records.clock.set_wall(records.clock.now().wall - timedelta(days=1))
    admitted(records, "drawing.open", "c2")
    said(records, approved=False)
    records.clock.move(1)

    assert refused(records.run(calls.admit, an_invoke("drawing.open", "c3"))) == "permission_declined"


def test_a_dismissed_question_declines_the_call() -> None:
    records = asked()

    records.run(interactions.dismiss, interactions.Dismiss(questions(records)[0].interaction_id, "screen"))

    assert ended(records.call()) == (CallStatus.REJECTED, "permission_declined")


def test_a_question_that_nobody_answers_in_ten_minutes_declines_it() -> None:
    records = asked()
    records.clock.move(600)

    records.run(interactions.expire_interactions, None)

    assert ended(records.call()) == (CallStatus.REJECTED, "permission_declined")
    assert records.run(calls.expire_due, None).ended == 0


def test_after_a_no_the_next_call_is_refused_for_a_minute() -> None:
    records = asked()
    said(records, approved=False)

    at_once = records.run(calls.admit, an_invoke("drawing.open", "c2"))
    records.clock.move(60)

    assert refused(at_once) == "permission_declined"
    assert admitted(records, "drawing.open", "c3").status is CallStatus.RECEIVED


def test_each_call_is_asked_for_where_a_yes_is_for_once() -> None:
    records = asked()
    said(records, approved=True)

    assert admitted(records, "drawing.open", "c2").status is CallStatus.RECEIVED


def test_a_yes_for_good_lets_later_calls_in_and_those_that_wait() -> None:
    records = asked(ASK_ALWAYS)
    admitted(records, "drawing.open", "c2")
    assert len(questions(records)) == 2

    said(records, approved=True)

    assert questions(records) == []
    assert {records.call(name).status for name in ("c1", "c2")} == {CallStatus.WAITING_FOR_APP}
    assert admitted(records, "drawing.open", "c3").status is CallStatus.WAITING_FOR_APP
    assert [row.call_id for row in records.inbox("drawing")] == ["c1", "c2", "c3"]


def test_one_question_covers_the_tool_and_all_its_permissions() -> None:
    records = asked(ASK_FOR_BOTH, tool="drawing.send")
    (question,) = questions(records)
    names = [one.capability for one in all_grants(records)]

    said(records, approved=True)

    assert names == ["tool:drawing.send", "notify", "print"]
    assert all(name.removeprefix("tool:") in question.request.prompt for name in names)  # type: ignore[union-attr]
    assert records.call().status is CallStatus.WAITING_FOR_APP
    assert {one.status for one in all_grants(records)} == {GrantStatus.USED}


def test_what_was_permitted_before_is_not_asked_for_again() -> None:
    records = records_with(
        'capability = "notify", decision = "ask", for = "always"', 'capability = "print", decision = "allow"'
    )
    an_instance(records)
    wished(records)
    said(records, approved=True)

    assert admitted(records, "drawing.send").status is CallStatus.WAITING_FOR_APP


# --- what changes meanwhile ---


def test_a_permitted_call_is_looked_at_anew_and_what_policy_denies_by_then_is_rejected() -> None:
    records = asked()
    use_policy(records, 'app = "drawing", decision = "deny"')

    said(records, approved=True)

    assert ended(records.call()) == (CallStatus.REJECTED, "capability_denied")
    assert records.inbox("drawing") == []


def test_a_permitted_call_that_a_newer_policy_asks_more_for_is_asked_again() -> None:
    tool, printing = 'tool = "drawing.send", decision = "ask"', 'capability = "print", decision = "allow"'
    records = asked(tool, printing, 'capability = "notify", decision = "allow"', tool="drawing.send")
    use_policy(records, tool, printing, 'capability = "notify", decision = "ask"')

    said(records, approved=True)
    assert records.call().status is CallStatus.RECEIVED
    said(records, approved=True)

    assert records.call().status is CallStatus.WAITING_FOR_APP


def test_a_permitted_call_for_which_there_is_no_room_is_rejected_as_busy() -> None:
    records = asked()
    records.settings = replace(records.settings, bounds=Bounds(open_calls=0))

    said(records, approved=True)

    assert ended(records.call()) == (CallStatus.REJECTED, "busy")


def test_a_permitted_call_whose_input_a_newer_app_refuses_is_rejected() -> None:
    records = records_with(ASK)
    records.run(calls.admit, an_invoke("drawing.open", given={"text": "long enough"}))
    short = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 3}}}
    strict = DRAWING | {"tools": [a_tool("drawing.open", input_schema=short)]}
    records.settings = replace(records.settings, catalogue=Catalogue.of([an_app(strict)]))

    said(records, approved=True)

    assert ended(records.call()) == (CallStatus.REJECTED, "tool_input_invalid")


@pytest.mark.parametrize(("kind", "name"), [("app", "drawing"), ("tool", "drawing.open")])
def test_switching_off_the_app_or_the_tool_ends_the_call_and_its_question(kind: str, name: str) -> None:
    records = asked()

    records.run(apps.switch, apps.SwitchTo(kind, name, enabled=False))  # type: ignore[arg-type]

    assert ended(records.call()) == (CallStatus.FAILED, "app_disabled")
    assert questions(records) == []
    assert [one.status for one in all_grants(records)] == [GrantStatus.DENIED]


def test_a_wish_to_cancel_ends_it_at_once_with_its_question() -> None:
    records = asked()

    answer = records.run(calls.request_cancel, calls.CancelWish(a_key(), None))
    again = records.run(calls.request_cancel, calls.CancelWish(a_key(), None))

    assert isinstance(answer, calls.CallAnswer)
    assert isinstance(again, calls.CallAnswer)
    assert (answer.call.status, answer.call.cancel_requested) == ("cancelled", True)
    assert (answer.repeated, again.repeated) == (False, True)
    assert questions(records) == []


def test_an_answer_after_the_end_of_the_call_is_late_and_grants_nothing() -> None:
    records = asked()
    (question,) = questions(records)
    records.run(calls.request_cancel, calls.CancelWish(a_key(), None))

    outcome = records.run(interactions.dismiss, interactions.Dismiss(question.interaction_id, "screen"))

    assert refused(outcome) == RejectionCode.INTERACTION_ALREADY_FINAL
    assert [one.status for one in all_grants(records)] == [GrantStatus.DENIED]


def test_a_start_of_the_daemon_leaves_it_waiting() -> None:
    records = asked()
    records.clock.reboot(3600)

    records.run(recovery.recover, None)
    records.run(recovery.retire_missing_apps, None)
    records.run(calls.expire_due, None)

    assert records.call().status is CallStatus.RECEIVED
    assert len(questions(records)) == 1


def test_an_app_that_is_not_registered_any_more_ends_it() -> None:
    records = asked()
    records.settings = replace(records.settings, catalogue=Catalogue.of([an_app(NOTES)]))

    records.run(recovery.retire_missing_apps, None)

    assert ended(records.call()) == (CallStatus.FAILED, "app_disabled")
    assert questions(records) == []


def test_whoever_cancels_it_meanwhile_is_heard_and_the_log_says_so() -> None:
    records = asked()
    before = records.audit()[-1].seq

    records.run(calls.request_cancel, calls.CancelWish(a_key(), None))

    assert records.call().status is CallStatus.CANCELLED
    assert records.events(before)[0] == "call.cancel_requested"
    assert questions(records) == []


def test_without_room_for_the_question_the_call_is_refused() -> None:
    records = records_with(ASK)
    records.settings = replace(records.settings, bounds=Bounds(interactions=0))

    assert_refused(records, calls.admit, an_invoke("drawing.open"), "busy", "call.refused")


# --- for other commands ---


def test_policy_lowers_or_refuses_a_presentation() -> None:
    records = records_with(
        'app = "board", presentation = "modal", decision = "inline"',
        'agent = "local", presentation = "inline", decision = "deny"',
    )
    admitted(records, "notes.write")
    tx = records.transaction()

    assert [policy.presentation(tx, "board", "talk", wish) for wish in ("default", "modal", "inline")] == [
        "inline",
        "inline",
        None,
    ]
    assert [policy.presentation(tx, "notes", "talk", wish) for wish in ("default", "modal")] == ["default", "modal"]
    assert policy.presentation(tx, "notes", "nobodys", "inline") == "inline"


def test_policy_refuses_a_wish_about_an_apps_life() -> None:
    records = records_with('app = "board", lifecycle = "foreground", decision = "deny"')
    tx = records.transaction()

    assert not policy.lifecycle(tx, "board", "talk", "foreground")
    assert policy.lifecycle(tx, "board", "talk", "close")
    assert policy.lifecycle(tx, "notes", "talk", "foreground")


@pytest.mark.parametrize("tool", ["drawing.open", "drawing.send"])
@pytest.mark.parametrize("approved", [True, False])
def test_an_answer_and_what_follows_from_it_are_all_or_nothing_at_each_statement(tool: str, *, approved: bool) -> None:
    whole = asked(ASK_FOR_BOTH, tool=tool)
    counter = FailingConnection(whole.sql)
    whole.sql = cast("sqlite3.Connection", counter)
    said(whole, approved=approved)

    for fails_at in range(counter.count, 1, -1):
        records = asked(ASK_FOR_BOTH, tool=tool)
        real, ids = records.sql, deepcopy(records.ids)
        before, end = records.everything(), (records.chain.seq, records.chain.head)
        records.sql = cast("sqlite3.Connection", FailingConnection(real, fails_at))

        with pytest.raises(sqlite3.OperationalError, match="planted"):
            said(records, approved=approved)

        records.sql, records.ids = real, ids
        assert records.everything() == before
        assert (records.chain.seq, records.chain.head) == end
        said(records, approved=approved)
        assert records.everything() == whole.everything()
        real.close()
