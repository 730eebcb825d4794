"""What a person sees follows from the events, also when they come twice."""

from __future__ import annotations

from typing import Any, Final

import pytest

from runtime_actors.terminal.answers import NotAnAnswer, filled, typed_answer
from runtime_actors.terminal.board import Board, outcome
from runtime_actors.terminal.form import Form
from runtime_actors.terminal.phrases import ENGLISH

AT: Final = "2026-11-30T12:00:00.000Z"
CONFIRM: Final = {"kind": "confirm", "title": "Close?", "prompt": "It is not done."}


def record(request: dict[str, Any], status: str = "pending", **more: object) -> dict[str, Any]:
    return {
        "interaction_id": "int-1",
        "owner": {"app_scope": "tasks", "instance_id": "ins-1", "conversation_id": "c1", "source": "miniapp_tool"},
        "kind": request["kind"],
        "request": request,
        "status": status,
        "created_at": AT,
        "updated_at": AT,
        **more,
    }


def told(board: Board, number: int, kind: str, data: dict[str, Any]) -> None:
    board.apply(number, AT, "c1", kind, data)


def test_a_question_is_there_until_it_ends() -> None:
    board = Board()
    told(board, 1, "interaction.opened", {"interaction": record(CONFIRM), "app_title": "Tasks"})
    assert [one.title for one in board.of("c1").questions.values()] == ["Close?"]

    ended = record(CONFIRM, "completed", result={"approved": False})
    told(board, 2, "interaction.changed", {"interaction": ended, "app_title": "Tasks"})

    assert not board.of("c1").questions
    assert [line.text for line in board.of("c1").timeline] == ["asks: Close?", "Close?: no"]


def test_an_event_that_comes_twice_is_told_once() -> None:
    board = Board()
    for _ in range(2):
        told(board, 1, "text.agent", {"text": "hello"})

    assert [line.text for line in board.of("c1").timeline] == ["hello"]


def test_a_draft_stays_with_its_question() -> None:
    board = Board()
    asked = record(
        {"kind": "input", "title": "Name?", "prompt": "", "fields": [{"id": "n", "label": "N", "type": "text"}]}
    )
    told(board, 1, "interaction.opened", {"interaction": asked, "app_title": "Tasks", "draft": {"n": "An"}})
    told(board, 2, "interaction.changed", {"interaction": {**asked, "status": "presented"}, "app_title": "Tasks"})

    assert board.of("c1").questions["int-1"].draft == {"n": "An"}


def test_surfaces_focus_and_states_are_the_newest_told() -> None:
    board = Board()
    told(board, 1, "surface.opened", {"surface": {"surface_id": "s1", "state": {"a": 1}}})
    told(board, 2, "surface.changed", {"surface": {"surface_id": "s1", "state": {"a": 2}}})
    told(board, 3, "focus.changed", {"stack": [{"instance_id": "ins-1", "app_scope": "tasks", "app_title": "Tasks"}]})
    told(
        board,
        4,
        "instance.changed",
        {"instance_id": "ins-1", "app_title": "Tasks", "state": "foreground", "hanging": True},
    )
    one = board.of("c1")

    assert one.surfaces["s1"]["state"] == {"a": 2}
    assert one.front is not None
    assert one.front.title == "Tasks"
    assert one.hanging == {"ins-1"}

    told(board, 5, "surface.closed", {"surface": {"surface_id": "s1"}})
    told(board, 6, "instance.changed", {"instance_id": "ins-1", "app_title": "Tasks", "state": "closed"})
    told(board, 7, "focus.changed", {"stack": []})

    after = board.of("c1")
    assert not after.surfaces
    assert not after.states
    assert not after.hanging
    assert after.front is None


def test_what_a_terminal_would_obey_is_not_in_a_line() -> None:
    board = Board()
    told(board, 1, "text.agent", {"text": "a\x1b[2Jb"})

    assert "\x1b" not in board.of("c1").timeline[0].text


CHOICE: Final = {
    "kind": "choice",
    "title": "Which?",
    "prompt": "",
    "mode": "multi-choice",
    "actions": [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}],
}
INPUT: Final = {
    "kind": "input",
    "title": "Age?",
    "prompt": "",
    "fields": [{"id": "age", "label": "Age", "type": "number", "required": True}],
}


@pytest.mark.parametrize(
    ("request_", "words", "answer"),
    [
        (CONFIRM, "Yes", {"approved": True}),
        (CONFIRM, "n", {"approved": False}),
        (CHOICE, "2, 1", {"action_ids": ["b", "a"]}),
        (CHOICE, "1 1", {"action_ids": ["a"]}),
        (INPUT, "42", {"values": {"age": 42}}),
        (INPUT, "4.5", {"values": {"age": 4.5}}),
        ({"kind": "notice", "title": "T", "message": "M"}, "", {"acknowledged": True}),
    ],
)
def test_a_typed_line_becomes_an_answer(request_: dict[str, Any], words: str, answer: dict[str, Any]) -> None:
    assert typed_answer(record(request_), words) == answer


@pytest.mark.parametrize(
    ("request_", "words", "says"),
    [
        (CONFIRM, "maybe", "yes or no"),
        (CHOICE, "3", "from 1 to 2"),
        (CHOICE, "", "from 1 to 2"),
        ({**CHOICE, "mode": "single-choice"}, "1 2", "only one"),
        (INPUT, "old", "must be a number"),
        (INPUT, "", "is needed"),
        ({**INPUT, "fields": INPUT["fields"] * 2}, "1", "several fields"),  # type: ignore[operator]
    ],
)
def test_what_is_no_answer_says_what_would_be_one(request_: dict[str, Any], words: str, says: str) -> None:
    with pytest.raises(NotAnAnswer, match=says):
        typed_answer(record(request_), words)


def test_fields_that_were_left_empty_are_left_out() -> None:
    fields = [{"id": "a", "label": "A", "type": "text"}, {"id": "b", "label": "B", "type": "textarea"}]

    assert filled(fields, {"b": "x"}) == {"b": "x"}


def test_an_outcome_is_told_in_the_persons_words() -> None:
    assert outcome(record(CHOICE, "completed", result={"action_ids": ["b"]})) == "B"
    assert outcome(record(INPUT, "completed", result={"values": {"age": 4}})) == "Age 4"
    assert outcome(record(CONFIRM, "expired")) == "expired"
    assert outcome(record({"kind": "notice", "title": "T", "message": "M"}, "completed")) == "read"


def test_the_newest_page_of_what_happened_is_told_once() -> None:
    board = Board()
    board.follow("s1")
    page = [
        {"number": 4, "at": AT, "conversation_id": "c1", "kind": "text.agent", "data": {"text": "hello"}},
        {
            "number": 5,
            "at": AT,
            "conversation_id": "c1",
            "kind": "interaction.opened",
            "data": {"interaction": record(CONFIRM), "app_title": "Tasks"},
        },
    ]

    for _ in range(2):
        board.fill(interactions=[], surfaces=[], focus=[], instances=[], timeline=page)
    told(board, 5, "interaction.opened", {"interaction": record(CONFIRM), "app_title": "Tasks"})
    told(board, 6, "text.agent", {"text": "more"})

    assert [line.text for line in board.of("c1").timeline] == ["hello", "asks: Close?", "more"]

    board.follow("s2")
    told(board, 1, "text.agent", {"text": "another stream"})
    assert board.of("c1").timeline[-1].text == "another stream"


def test_what_the_runtime_asks_about_an_app_is_not_the_apps() -> None:
    board = Board()
    asked = record(CONFIRM)
    asked["owner"] |= {"source": "runtime_policy"}
    told(board, 1, "interaction.opened", {"interaction": asked, "app_title": "Tasks"})
    told(board, 2, "interaction.changed", {"interaction": {**asked, "status": "expired"}, "app_title": "Tasks"})

    assert [(line.who, line.by_runtime) for line in board.of("c1").timeline] == [("LineUp Runtime (Tasks)", True)] * 2


def test_a_draft_may_hold_whatever_a_draft_may_hold() -> None:
    fields = [{"id": key, "label": key, "type": "text"} for key in "abcd"]

    form = Form(fields, {"a": None, "b": True, "c": 1.5, "d": "x", "gone": "y"}, ENGLISH)

    assert form.draft == {"b": "true", "c": "1.5", "d": "x"}
    assert form.text == "x"


def test_a_form_begins_no_later_than_at_a_field_that_is_not_right() -> None:
    fields: list[dict[str, Any]] = [
        {"id": "a", "label": "A", "type": "text", "required": True},
        {"id": "b", "label": "B", "type": "text"},
    ]

    form = Form(fields, {"b": "x"}, ENGLISH)

    assert form.field == fields[0]
