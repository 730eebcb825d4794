"""Every cell of the interaction table, spelled out here and not read from it; and what counts as an answer."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from runtime_actors.contract import codec
from runtime_actors.contract.host import HostAnswer
from runtime_actors.contract.interactions import InteractionStatus, Presentation, Source, StandardInteractionRequest
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.errors import IllegalTransition
from runtime_actors.rules.answers import result_of
from runtime_actors.rules.interactions import (
    FINAL,
    LONGEST_WITH_CALL_S,
    InteractionEvent,
    InteractionRow,
    advance,
    answering,
    expiry,
    is_overdue,
    must_advance,
    needs_no_answer,
    parse_time,
)
from runtime_actors.rules.presentation import placement

LATER: Final = "2026-01-01T12:00:01.000Z"
EARLIER: Final = "2025-12-31T12:00:00.000Z"

# One line a status, one column an event in the order of InteractionEvent; "." is a refusal.
CELLS: Final = """
          presented answered  recorded  dismissed cancelled expired fail
pending   presented .         .         cancelled cancelled expired failed
presented .         submitted .         cancelled cancelled expired failed
submitted .         .         completed .         .         .       .
completed .         .         .         .         .         .       .
cancelled .         .         .         .         .         .       .
expired   .         .         .         .         .         .       .
failed    .         .         .         .         .         .       .
"""
EVENTS: Final = ("presented", "answered", "recorded", "dismissed", "cancelled", "expired", "failed")
ENDS: Final = {"completed", "cancelled", "expired", "failed"}
_REQUESTS: Final[TypeAdapter[StandardInteractionRequest]] = TypeAdapter(StandardInteractionRequest)


def expected_cells() -> dict[tuple[str, str], str | None]:
    lines = [line.split() for line in CELLS.strip().splitlines()[1:]]
    return {
        (line[0], event): None if cell == "." else cell
        for line in lines
        for event, cell in zip(EVENTS, line[1:], strict=True)
    }


def a_row(status: InteractionStatus = InteractionStatus.PENDING, **changes: Any) -> InteractionRow:  # noqa: ANN401
    fields: dict[str, Any] = {
        "interaction_id": "int-1",
        "instance_id": "ins-1",
        "conversation_id": "talk",
        "app_scope": "notes",
        "agent_id": "local",
        "source": "miniapp_tool",
        "kind": "confirm",
        "request": b"",
        "status": status,
        "created_at": "2026-01-01T12:00:00.000Z",
        "updated_at": "2026-01-01T12:00:00.000Z",
    }
    return InteractionRow(**(fields | changes))


def a_request(kind: str, **changes: Any) -> StandardInteractionRequest:  # noqa: ANN401 - JSON
    fields: dict[str, dict[str, Any]] = {
        "notice": {"title": "Done", "message": "It is done", "acknowledge_label": "Good"},
        "choice": {
            "title": "Which?",
            "prompt": "",
            "mode": "multi-choice",
            "actions": [{"id": one, "label": one.upper()} for one in "abc"],
        },
        "confirm": {"title": "Sure?", "prompt": "It cannot be undone"},
        "input": {
            "title": "Who?",
            "prompt": "",
            "fields": [
                {"id": "name", "label": "Name", "type": "text", "required": True, "min_length": 2, "max_length": 4},
                {"id": "story", "label": "Story", "type": "textarea"},
                {"id": "age", "label": "Age", "type": "number", "minimum": 0, "maximum": 99},
            ],
        },
    }
    return _REQUESTS.validate_python({"kind": kind} | fields[kind] | changes)


def an_answer(**said: Any) -> HostAnswer:  # noqa: ANN401 - JSON
    return HostAnswer(interaction_id="int-1", **said)


def refusal(outcome: object) -> str | None:
    return str(outcome.code) if isinstance(outcome, Rejection) else None


# --- the table ---


def test_the_cells_above_are_those_of_all_statuses_and_events() -> None:
    pairs = set(product(map(str, InteractionStatus), map(str, InteractionEvent)))

    assert set(expected_cells()) == pairs
    assert len(pairs) == 7 * 7


@pytest.mark.parametrize(("status", "event"), list(product(InteractionStatus, InteractionEvent)))
def test_a_question_in_a_status_takes_an_event_as_its_cell_says(
    status: InteractionStatus, event: InteractionEvent
) -> None:
    row = a_row(status, draft=b"\x80")

    moved = advance(row, event, at=LATER)

    target = expected_cells()[status, event]
    if target is not None:
        assert isinstance(moved, InteractionRow)
        assert (moved.status, moved.updated_at) == (target, LATER)
        assert (moved.draft is None) == (target in ENDS)
    else:
        code = RejectionCode.INTERACTION_ALREADY_FINAL if status in ENDS else RejectionCode.INTERACTION_INVALID
        assert refusal(moved) == code
        with pytest.raises(IllegalTransition):
            must_advance(row, event, at=LATER)


@given(st.lists(st.sampled_from(InteractionEvent), max_size=12))
def test_no_sequence_of_events_leaves_a_final_status(events: list[InteractionEvent]) -> None:
    row = a_row()
    for event in events:
        moved = advance(row, event, at=LATER)
        assert row.status not in FINAL or refusal(moved) == RejectionCode.INTERACTION_ALREADY_FINAL
        row = moved if isinstance(moved, InteractionRow) else row


@pytest.mark.parametrize("status", [InteractionStatus.PENDING, InteractionStatus.PRESENTED])
def test_an_answer_leads_an_open_question_to_its_end_by_way_of_being_shown(status: InteractionStatus) -> None:
    row = a_row(status)

    assert must_advance(row, *answering(row), at=LATER).status is InteractionStatus.COMPLETED


def test_a_clock_that_was_set_back_makes_no_record_older_than_it_is() -> None:
    assert must_advance(a_row(), InteractionEvent.PRESENTED, at=EARLIER).updated_at == a_row().updated_at


# --- answers ---


@pytest.mark.parametrize(
    ("request_of", "said", "result"),
    [
        (a_request("notice"), {"acknowledged": True}, {"acknowledged": True}),
        (a_request("confirm"), {"approved": True}, {"approved": True}),
        (a_request("confirm"), {"approved": False}, {"approved": False}),
        (a_request("choice"), {"action_ids": ("c", "a")}, {"action_ids": ["a", "c"]}),
        (a_request("choice", mode="single-choice"), {"action_ids": ("b",)}, {"action_ids": ["b"]}),
        (a_request("choice", mode="button"), {"action_ids": ("b",)}, {"action_ids": ["b"]}),
        (a_request("input"), {"values": {"name": "Zoë"}}, {"values": {"name": "Zoë"}}),
        (a_request("input"), {"values": {"name": "👩🏽‍🚀"}}, {"values": {"name": "👩🏽‍🚀"}}),
        (
            a_request("input"),
            {"values": {"age": 7.5, "story": "one\n\ttwo", "name": "Al"}},
            {"values": {"name": "Al", "story": "one\n\ttwo", "age": 7.5}},
        ),
        (a_request("input"), {"values": {"name": "Al", "story": ""}}, {"values": {"name": "Al"}}),
    ],
)
def test_an_answer_that_fits_gives_its_result(
    request_of: StandardInteractionRequest, said: dict[str, Any], result: dict[str, Any]
) -> None:
    assert result_of(request_of, an_answer(**said)) == result


@pytest.mark.parametrize(
    ("request_of", "said"),
    [
        (a_request("notice"), {"acknowledged": False}),
        (a_request("notice"), {"approved": True}),
        (a_request("notice", acknowledge_label=None), {"acknowledged": True}),
        (a_request("confirm"), {}),
        (a_request("confirm"), {"approved": True, "acknowledged": True}),
        (a_request("choice"), {"action_ids": ()}),
        (a_request("choice"), {"action_ids": ("a", "a")}),
        (a_request("choice"), {"action_ids": ("d",)}),
        (a_request("choice", mode="single-choice"), {"action_ids": ("a", "b")}),
        (a_request("choice", mode="button"), {"action_ids": ("a", "b")}),
        (a_request("input"), {"values": {}}),
        (a_request("input"), {"values": {"name": ""}}),
        (a_request("input"), {"values": {"name": "x"}}),
        (a_request("input"), {"values": {"name": "xxxxx"}}),
        (a_request("input"), {"values": {"name": "a\nb"}}),
        (a_request("input"), {"values": {"name": "a\u2028b"}}),
        (a_request("input"), {"values": {"name": "Al", "story": "\x1b[2J"}}),
        (a_request("input"), {"values": {"name": 12}}),
        (a_request("input"), {"values": {"name": "Al", "age": True}}),
        (a_request("input"), {"values": {"name": "Al", "age": "7"}}),
        (a_request("input"), {"values": {"name": "Al", "age": -1}}),
        (a_request("input"), {"values": {"name": "Al", "age": 99.5}}),
        (a_request("input"), {"values": {"name": "Al", "other": "x"}}),
        (a_request("input"), {"values": {"name": "Al", "story": {"a": 1}}}),
        (
            a_request("input", fields=[{"id": f"f{n}", "label": "F", "type": "textarea"} for n in range(8)]),
            {"values": {f"f{n}": "x" * 10_000 for n in range(8)}},
        ),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(request_of: StandardInteractionRequest, said: dict[str, Any]) -> None:
    assert refusal(result_of(request_of, an_answer(**said))) == RejectionCode.INTERACTION_INVALID


_VALUES: Final = st.one_of(st.text(max_size=6), st.integers(-5, 105), st.floats(-5, 105), st.booleans(), st.none())


@given(st.dictionaries(st.sampled_from(["name", "story", "age", "other"]), _VALUES))
def test_whatever_is_written_a_result_holds_what_the_fields_allow(values: dict[str, Any]) -> None:
    outcome = result_of(a_request("input"), an_answer(values=values))

    if isinstance(outcome, Rejection):
        return
    given_back = outcome["values"]
    assert 2 <= len(given_back["name"]) <= 4
    assert not {"\n", "\r", "\x1b"} & set(given_back["name"])
    assert given_back.keys() <= {"name", "story", "age"}
    assert all(given_back[name] == values[name] for name in given_back)
    assert not isinstance(given_back.get("age"), bool)
    assert 0 <= given_back.get("age", 0) <= 99
    assert codec.decode(codec.encode(outcome)) == outcome


@given(st.lists(st.sampled_from("abcd"), max_size=5), st.sampled_from(["single-choice", "multi-choice", "button"]))
def test_whatever_is_chosen_a_result_is_in_the_order_of_the_actions(chosen: list[str], mode: str) -> None:
    outcome = result_of(a_request("choice", mode=mode), an_answer(action_ids=tuple(chosen)))

    fits = (
        chosen
        and len(set(chosen)) == len(chosen)
        and "d" not in chosen
        and (mode == "multi-choice" or len(chosen) == 1)
    )
    assert outcome == {"action_ids": sorted(chosen)} if fits else refusal(outcome) == RejectionCode.INTERACTION_INVALID


# --- time ---


def test_only_a_question_without_a_call_may_stay_for_ever() -> None:
    assert expiry(None, 100.0) is None
    assert expiry(None, 100.0, timeout_s=60.0, call_made_s=40.0) == 160.0


def test_a_question_with_a_call_does_not_outlive_seven_days_of_it() -> None:
    wished = 40.0 + LONGEST_WITH_CALL_S + 1

    assert expiry(wished, 100.0, timeout_s=60.0, call_made_s=40.0) == 40.0 + LONGEST_WITH_CALL_S
    assert expiry(wished, 100.0) == wished


@pytest.mark.parametrize("wished", [99.0, 100.0])
def test_a_question_that_is_over_already_is_refused(wished: float) -> None:
    assert refusal(expiry(wished, 100.0)) == RejectionCode.INTERACTION_INVALID


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T01:01:00+01:00", 60.0),
        ("1970-01-01T00:00:00.250Z", 0.25),
        ("2026-02-30T00:00:00Z", None),
        ("2026-01-01T24:61:00Z", None),
        ("0001-01-01T00:00:00+23:59", None),
    ],
)
def test_a_time_is_read_with_its_offset(text: str, seconds: float | None) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(("now", "over"), [(9.0, False), (10.0, True), (11.0, True)])
def test_a_question_is_overdue_from_the_very_moment_on(now: float, over: bool) -> None:  # noqa: FBT001 - a table
    assert is_overdue(a_row(expires_wall_s=10.0), now) is over
    assert not is_overdue(a_row(InteractionStatus.CANCELLED, expires_wall_s=10.0), now)
    assert not is_overdue(a_row(), now)


def test_only_a_notice_without_a_label_needs_no_answer() -> None:
    assert needs_no_answer(a_request("notice", acknowledge_label=None))
    assert not any(needs_no_answer(a_request(kind)) for kind in ("notice", "choice", "confirm", "input"))


# --- where it is shown ---


@pytest.mark.parametrize(
    ("scope", "source", "wish", "in_front", "listed_until", "place"),
    [
        ("chat", "agent_tool", "modal", False, None, "inline"),
        ("chat", "miniapp_tool", "default", True, LATER, "inline"),
        ("notes", "runtime_policy", "inline", False, LATER, "modal"),
        ("notes", "miniapp_tool", "modal", False, None, "listed"),
        ("notes", "miniapp_tool", "default", True, None, "modal"),
        ("notes", "miniapp_tool", "modal", True, None, "modal"),
        ("notes", "miniapp_tool", "inline", True, None, "inline"),
        ("notes", "miniapp_tool", "modal", True, LATER, "listed"),
        ("notes", "miniapp_tool", "modal", True, EARLIER, "modal"),
    ],
)
def test_a_question_is_placed_by_the_first_thing_that_holds(  # noqa: PLR0917 - a table
    scope: str,
    source: Source,
    wish: Presentation,
    in_front: bool,  # noqa: FBT001 - a table
    listed_until: str | None,
    place: str,
) -> None:
    now = "2026-01-01T12:00:00.000Z"

    assert placement(scope, source, wish, in_front=in_front, listed_until=listed_until, now=now) == place
