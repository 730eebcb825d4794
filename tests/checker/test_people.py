"""Each way to break a promise about people, planted in a copy of a real run, is found under the name of its rule."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import pytest

from runtime_actors.checker import RULES, violations
from runtime_actors.checker.chain import digest_of
from runtime_actors.checker.people import merged
from tests.checker.evidence import Spoilt, evidence, people, spoilt

Row = dict[str, Any]


def test_a_real_run_with_a_person_keeps_every_promise() -> None:
    assert violations(people()) == []


def test_the_real_run_holds_something_of_everything() -> None:
    events = {row["event"] for row in people().audit}
    listings = people().listings

    assert {"interaction.presented", "surface.changed", "text.sent", "grant.given", "action.taken"} <= events
    assert all(listings[name] for name in ("interactions", "surfaces", "grants"))
    assert any(row["what"] == "given" and row.get("interaction_id") for row in people().history)


# --- looking for something to spoil ---


def opened(run: Spoilt, **detail: str) -> Row:
    """The first opening of a question like this."""
    return next(
        row for row in run.audit if row["event"] == "interaction.opened" and detail.items() <= row["detail"].items()
    )


def end_of(run: Spoilt, is_it: Callable[[Row], bool] = lambda _: True) -> Row:
    """The first end of a question like this."""
    return next(row for row in run.audit if row["event"] == "interaction.ended" and is_it(row["detail"]))


def told(run: Spoilt) -> Row:
    """A MiniApp is told what the person said."""
    return next(row for row in run.history if row["what"] == "given" and row.get("result"))


def at(run: Spoilt, event: str, is_it: Callable[[Row], bool]) -> Row:
    return next(row for row in run.audit if row["event"] == event and is_it(row))


# --- questions ---


def end_a_question_twice(run: Spoilt) -> None:
    run.audit.append(copy.deepcopy(end_of(run)))
    run.rechain()


def take_two_answers(run: Spoilt) -> None:
    asked, answer = run.answer("host.answer", repeated=False)
    late = {"at": run.history[-1]["at"], "id": "late", "request_id": "late"}
    run.history += [copy.deepcopy(asked) | late, copy.deepcopy(answer) | late]


def take_an_answer_and_record_none(run: Spoilt) -> None:
    asked, _ = run.answer("host.answer", repeated=False)
    name = asked["body"]["interaction_id"]
    run.audit[:] = [
        row for row in run.audit if row["event"] != "interaction.ended" or row["subject"]["interaction_id"] != name
    ]
    run.rechain()


def record_another_answer(run: Spoilt) -> None:
    asked = next(row for row in run.history if row["what"] == "invoke" and "approved" in row["body"])
    asked["body"]["approved"] = False


def say_that_an_open_one_is_final(run: Spoilt) -> None:
    [row] = run.listings["interactions"]
    asked, answer = run.answer("host.answer", repeated=False)
    body = asked["body"] | {"interaction_id": row["interaction"]["interaction_id"]}
    late = {"at": run.history[-1]["at"], "id": "late"}
    code = {"what": "fail", "code": "interaction_already_final", "body": {}}
    run.history += [copy.deepcopy(asked) | late | {"body": body}, answer | late | code]


def end_it_by_a_way_that_is_none(run: Spoilt) -> None:
    end_of(run)["detail"]["path"] = ["pending", "completed"]
    run.rechain()


def ask_for_an_instance_that_is_not_there(run: Spoilt) -> None:
    opened(run, source="miniapp_tool")["subject"]["instance_id"] = "ins-none"
    run.rechain()


def tell_another_result(run: Spoilt) -> None:
    told(run)["result"] = {"approved": "perhaps"}


def tell_another_conversation(run: Spoilt) -> None:
    told(run)["conversation"] = "elsewhere"


def tell_of_a_question_of_policy(run: Spoilt) -> None:
    asked = opened(run, source="runtime_policy")["subject"]
    told(run).update(interaction_id=asked["interaction_id"], result=None)


def tell_an_app_what_policy_asked(run: Spoilt) -> None:
    policys = {
        row["subject"]["interaction_id"]
        for row in run.audit
        if row["event"] == "interaction.opened" and row["detail"]["source"] == "runtime_policy"
    }
    ended = at(
        run,
        "interaction.ended",
        lambda row: row["subject"]["interaction_id"] in policys and "instance_id" in row["subject"],
    )
    ended["detail"]["told"] = True
    run.rechain()


def tell_nobody(run: Spoilt) -> None:
    end_of(run, lambda detail: detail["told"])["detail"]["told"] = False
    run.rechain()


def leave_a_question_of_an_ended_call_open(run: Spoilt) -> None:
    run.audit.remove(end_of(run, lambda detail: not detail["told"] and detail["path"][-1] == "cancelled"))
    run.rechain()


def leave_a_surface_of_an_ended_call_open(run: Spoilt) -> None:
    closed = at(run, "surface.closed", lambda row: "call_id" in row["subject"])
    run.audit.remove(closed)
    run.rechain()


def let_time_run_out_over_a_person(run: Spoilt) -> None:
    ended = at(run, "call.ended", lambda row: run.audit[row["seq"] - 2]["event"] == "interaction.ended")
    ended["detail"] |= {"to": "expired", "code": "deadline_passed"}
    run.rechain()


def keep_an_overdue_question(run: Spoilt) -> None:
    run.listings["interactions"][0]["interaction"]["expires_at"] = "2020-01-01T00:00:00.000Z"


def lose_an_open_question(run: Spoilt) -> None:
    run.listings["interactions"].clear()


def list_a_question_that_nobody_asked(run: Spoilt) -> None:
    row = copy.deepcopy(run.listings["interactions"][0])
    row["interaction"]["interaction_id"] = "int-none"
    run.listings["interactions"].append(row)


def show_a_question_as_it_is_not(run: Spoilt) -> None:
    run.listings["interactions"][0]["interaction"]["status"] = "submitted"


def lose_a_draft(run: Spoilt) -> None:
    run.listings["interactions"][0]["draft"] = {"name": "y"}


# --- surfaces ---


def skip_a_revision(run: Spoilt) -> None:
    run.entry("surface.changed")["detail"]["revision"] += 1
    run.rechain()


def apply_another_patch(run: Spoilt) -> None:
    asked, _ = run.answer("surfaces.update")
    asked["body"]["patch"] = {"n": 100}


def begin_with_another_state(run: Spoilt) -> None:
    asked, _ = run.answer("surfaces.open")
    asked["body"]["surface"]["state"] = {"n": -1}


def lose_a_revision(run: Spoilt) -> None:
    name = run.listings["surfaces"][0]["surface_id"]
    mine = [row for row in run.audit if row["event"] == "surface.changed" and row["subject"]["surface_id"] == name]
    run.audit.remove(mine[-1])
    run.rechain()


def show_another_state(run: Spoilt) -> None:
    run.listings["surfaces"][0]["state"]["n"] = 100


def lose_a_surface(run: Spoilt) -> None:
    run.listings["surfaces"].clear()


def show_a_surface_that_is_closed(run: Spoilt) -> None:
    closed = run.entry("surface.closed")["subject"]
    run.listings["surfaces"].append(run.listings["surfaces"][0] | {"surface_id": closed["surface_id"]})


# --- what people do ---


def take_an_action_twice(run: Spoilt) -> None:
    run.audit.append(copy.deepcopy(run.entry("action.taken")))
    run.rechain()


def send_a_text_twice(run: Spoilt) -> None:
    run.audit.append(copy.deepcopy(run.entry("text.sent")))
    run.rechain()


def lose_a_text_of_the_person(run: Spoilt) -> None:
    run.history[:] = [row for row in run.history if row["what"] != "delivered" or row["kind"] != "text"]


def deliver_a_text_that_nobody_wrote(run: Spoilt) -> None:
    next(row for row in run.history if row["what"] == "delivered" and row["kind"] == "text")["body"]["text"] += "!"


# --- focus, and sleep ---


def lift_the_floor(run: Spoilt) -> None:
    chats = {row["subject"].get("instance_id") for row in run.audit if row["subject"].get("app_scope") == "chat"}
    stacked = at(
        run,
        "focus.changed",
        lambda row: len(row["detail"]["stack"]) > 1 and row["detail"]["stack"][0] in chats,
    )
    stacked["detail"]["stack"].reverse()
    stacked["subject"]["instance_id"] = stacked["detail"]["stack"][-1]
    run.rechain()


def sleep_over_a_call(run: Spoilt) -> None:
    asleep = at(run, "instance.changed", lambda row: row["detail"]["state"] == "suspended")
    name = asleep["subject"]["instance_id"]
    run.audit.remove(asleep)
    ended = at(run, "call.ended", lambda row: row["subject"].get("instance_id") == name)
    run.audit.insert(run.audit.index(ended), asleep)
    run.rechain()


# --- grants ---


def grant_what_nobody_was_asked_for(run: Spoilt) -> None:
    run.audit.remove(run.entry("grant.asked"))
    run.rechain()


def grant_after_a_no(run: Spoilt) -> None:
    given = run.entry("grant.given")
    name = given["subject"]["interaction_id"]
    said = at(run, "interaction.ended", lambda row: row["subject"]["interaction_id"] == name)
    said["digest"] = digest_of({"approved": False})
    run.rechain()


def grant_what_is_never_granted(run: Spoilt) -> None:
    run.entry("grant.asked")["detail"]["capability"] = "network.http"
    run.rechain()


def allow_without_a_rule(run: Spoilt) -> None:
    asked = run.entry("grant.asked")
    run.audit.append(asked | {"event": "capability.allowed", "detail": {"capability": "notify"}})
    run.audit.remove(run.entry("policy.loaded"))
    run.rechain()


def use_a_grant_that_is_used_up(run: Spoilt) -> None:
    once = at(run, "grant.used", lambda row: row["detail"]["status"] == "used")
    run.audit.append(copy.deepcopy(once))
    run.rechain()


def forget_a_grant(run: Spoilt) -> None:
    run.listings["grants"].clear()


def keep_a_grant_that_is_used_up(run: Spoilt) -> None:
    used = at(run, "grant.used", lambda row: row["detail"]["status"] == "used")["subject"]["grant_id"]
    run.listings["grants"].append(run.listings["grants"][0] | {"grant_id": used})


SPOILED: Final[dict[Callable[[Spoilt], None], str]] = {
    end_a_question_twice: "second-answer",
    take_two_answers: "second-answer",
    take_an_answer_and_record_none: "ok-missing",
    record_another_answer: "answer-disagrees",
    say_that_an_open_one_is_final: "answer-disagrees",
    end_it_by_a_way_that_is_none: "illegal-step",
    ask_for_an_instance_that_is_not_there: "illegal-step",
    tell_another_result: "result-astray",
    tell_another_conversation: "result-astray",
    tell_of_a_question_of_policy: "result-astray",
    tell_an_app_what_policy_asked: "result-astray",
    tell_nobody: "result-astray",
    leave_a_question_of_an_ended_call_open: "orphaned",
    leave_a_surface_of_an_ended_call_open: "orphaned",
    let_time_run_out_over_a_person: "clock-ran",
    keep_an_overdue_question: "overdue",
    lose_an_open_question: "questions-differ",
    list_a_question_that_nobody_asked: "questions-differ",
    show_a_question_as_it_is_not: "questions-differ",
    lose_a_draft: "questions-differ",
    skip_a_revision: "illegal-step",
    apply_another_patch: "surface-unfolded",
    begin_with_another_state: "surface-unfolded",
    lose_a_revision: "ok-missing",
    show_another_state: "surfaces-differ",
    lose_a_surface: "surfaces-differ",
    show_a_surface_that_is_closed: "surfaces-differ",
    take_an_action_twice: "second-record",
    send_a_text_twice: "second-record",
    lose_a_text_of_the_person: "result-lost",
    deliver_a_text_that_nobody_wrote: "delivery-unexpected",
    lift_the_floor: "floor-lost",
    sleep_over_a_call: "asleep-at-work",
    grant_what_nobody_was_asked_for: "grant-from-nowhere",
    grant_after_a_no: "grant-from-nowhere",
    grant_what_is_never_granted: "grant-from-nowhere",
    allow_without_a_rule: "grant-from-nowhere",
    use_a_grant_that_is_used_up: "illegal-step",
    forget_a_grant: "grants-differ",
    keep_a_grant_that_is_used_up: "grants-differ",
}


@pytest.mark.parametrize(("spoil", "rule"), SPOILED.items(), ids=[one.__name__ for one in SPOILED])
def test_a_broken_promise_is_found_under_its_rule_with_the_lines_that_show_it(
    spoil: Callable[[Spoilt], None], rule: str
) -> None:
    run = spoilt(people())
    spoil(run)

    found = [one for one in violations(evidence(run, people())) if one.rule == rule]

    assert found
    assert rule in RULES
    assert all(one.shortest and len(one.shortest) <= 6 for one in found)


@pytest.mark.parametrize(
    ("state", "patch", "made"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "b"}, ["c"], ["c"]),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_patch_is_applied_as_rfc_7396_says(state: object, patch: object, made: object) -> None:
    """From its appendix A."""
    assert merged(state, patch) == made
