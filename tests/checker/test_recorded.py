"""A real run with kills, repeats and refusals passes, and says how much it proves."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from runtime_actors.checker import LIVENESS, Unreadable, figures, vacuous, violations
from tests.checker.evidence import recorded

REQUIRED: Final = {
    "accepted": 50,
    "agents": 2,
    "conversations": 5,
    "interrupted": 5,
    "redelivered": 5,
    "duplicates": 5,
    "refused": 10,
    "unknown": 10,
    "reads": 10,
    "texts": 5,
    "given again": 5,
    "recoveries": 4,
    "fault daemon-died": 3,
    "fault kill-worker": 3,
    "fault admit:after:kill-daemon": 1,
    "fault finish:after:kill-daemon": 1,
    "fault acknowledge:outcome:drop": 1,
}


def test_a_real_run_with_kills_keeps_every_promise() -> None:
    assert violations(recorded()) == []


def test_the_real_run_exercised_what_it_is_to_prove() -> None:
    assert vacuous(figures(recorded()), REQUIRED) == []
    assert figures(recorded())["accepted"] == figures(recorded())["final"]


@pytest.mark.parametrize("name", REQUIRED)
def test_a_run_that_lacks_something_is_named_vacuous(name: str) -> None:
    found = figures(recorded())

    lacking = vacuous(found | {name: REQUIRED[name] - 1}, REQUIRED)

    assert lacking == [f"{name}: {REQUIRED[name] - 1}, and at least {REQUIRED[name]} must be"]


def test_a_fault_that_never_struck_is_named() -> None:
    assert vacuous(figures(recorded()), {"fault full-disk": 1}) == ["fault full-disk: 0, and at least 1 must be"]


def test_a_request_without_an_answer_may_have_been_done_or_not() -> None:
    """Unknown stays open for ever: neither the entry nor its absence breaks anything."""
    seen = recorded()
    asked = next(row for row in seen.history if row["what"] == "invoke" and row["kind"] == "tool.invoke")
    open_for_ever = [row for row in seen.history if row["what"] not in {"ok", "fail"} or row["id"] != asked["id"]]
    never_done = {**asked, "id": "new", "body": {**asked["body"], "call_id": "new"}}

    assert violations(replace(seen, history=[*open_for_ever, never_done])) == []


def test_a_word_that_comes_after_the_runtime_ended_the_call_changes_nothing_about_what_was_read() -> None:
    seen = recorded()
    late = next(
        row for row in seen.history if row["what"] == "delivered" and row["body"].get("call", {}).get("error_code")
    )
    given = next(row for row in seen.history if row["what"] == "given" and row["conversation"] == late["conversation"])
    word = {name: given[name] for name in ("by", "scope", "conversation")} | {"at": late["at"] + 1, "id": "late"}
    body = {"call_id": late["body"]["call"]["call_id"], "result": {}}
    asked = word | {"what": "invoke", "kind": "tools.complete", "body": body}
    refused = word | {"what": "fail", "code": "call_already_final"}

    assert violations(replace(seen, history=[*seen.history, asked, refused])) == []


@pytest.mark.parametrize("kind", ["inbox.acknowledge", "tools.fail", "tools.cancel"])
def test_a_refusal_proves_nothing_where_another_process_may_have_done_it_and_left_no_words(kind: str) -> None:
    """A full disk, or the death of a daemon that had not read them yet, takes what a MiniApp wrote down."""
    seen = recorded()
    done = {row["id"] for row in seen.history if row["what"] == "ok"}
    asked = next(row for row in seen.history if row["what"] == "invoke" and row["kind"] == kind and row["id"] in done)
    kept = [row for row in seen.history if row["by"] != asked["by"]]
    late = {**asked, "by": "another", "id": "late", "at": asked["at"] + 1}
    place = {name: late[name] for name in ("by", "id", "at", "conversation", "scope")}
    refused = {**place, "what": "fail", "code": "app_instance_not_found"}

    assert violations(replace(seen, history=[*kept, late, refused])) == []


def test_results_that_come_late_are_missed_only_once_everything_has_drained() -> None:
    seen = recorded()
    kept = [row for row in seen.history if row["what"] not in {"delivered", "settled"}]
    waited = [{**row, "what": "info"} if row["what"] == "ok" and row["by"] == "harness" else row for row in kept]

    drained = {one.rule for one in violations(replace(seen, history=kept))}
    in_vain = {one.rule for one in violations(replace(seen, history=waited))}

    assert "result-lost" in drained
    assert "not-drained" in in_vain - drained
    assert {one for one in in_vain if one in LIVENESS} == {"not-drained"}


@pytest.mark.parametrize(
    "line",
    [
        {"what": "mumbled", "at": 1.0, "by": "x"},
        {"what": "invoke", "at": 1.0, "by": "x"},
        {"what": "ok", "at": "now", "by": "x", "id": "1"},
        {"at": 1.0, "by": "x"},
    ],
    ids=str,
)
def test_a_line_that_nobody_knows_is_not_passed_over(line: dict[str, object]) -> None:
    with pytest.raises(Unreadable):
        violations(replace(recorded(), history=[*recorded().history, line]))
