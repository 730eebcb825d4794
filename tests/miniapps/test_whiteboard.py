from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniapp_worker.sdk import CallFailed
from miniapps.whiteboard import board, drawing
from runtime_actors.contract import envelope, json_schema
from runtime_actors.contract.manifest import MiniAppManifest
from runtime_actors.contract.surfaces import MAX_SURFACE_STATE_BYTES
from runtime_actors.rules.merge_patch import merged
from tests.worker.runtime_end import RuntimeEnd, runtime_end, served

FOLDER = Path(__file__).parent.parent.parent / "miniapps" / "whiteboard"
MANIFEST = MiniAppManifest.model_validate(json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8")))
OPEN, SUBMIT = (tool.id for tool in MANIFEST.tools)
ASKED: Final = {"board_id": "b1", "title": "Plan"}
LINE: Final = {"points": [0, 0, 10, 20.5], "color": "#00ff00", "width": 3}
AT: Final = "2026-01-01T00:00:00Z"
SVG: Final = "{http://www.w3.org/2000/svg}"

_ANYTHING: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)


@pytest.fixture
def runtime() -> Iterator[RuntimeEnd]:
    with runtime_end() as runtime:
        yield runtime


# --- the board


def test_a_board_begins_as_asked() -> None:
    assert board.first_state(ASKED | {"initial": {"strokes": [LINE]}}) == {
        "board_id": "b1",
        "title": "Plan",
        "status": "open",
        "strokes": {"a1": LINE},
    }


@pytest.mark.parametrize(
    "stroke",
    [
        {"points": [1, 2, 3]},
        {"points": []},
        {"points": [1, True]},
        {"points": [1, 1001]},
        {"points": [0, 0] * (board.MAX_POINTS + 1)},
        {"points": [1, 2], "color": "#12345"},
        {"points": [1, 2], "color": '#000000"/><script>'},
        {"points": [1, 2], "width": 0},
        {"points": [1, 2], "href": "file:"},
        "line",
    ],
)
def test_what_cannot_be_drawn_is_no_stroke(stroke: Any) -> None:  # noqa: ANN401 - JSON
    assert board.strokes_of({"strokes": {"s1": stroke, "s2": LINE}}).keys() == {"s2"}
    with pytest.raises(CallFailed, match=r"^app\.board_invalid"):
        board.first_state(ASKED | {"initial": {"strokes": [stroke]}})


@pytest.mark.parametrize("board_id", ["", "a board", "x" * 65, "bört"])
def test_a_board_id_is_short_and_visible(board_id: str) -> None:
    with pytest.raises(CallFailed, match=r"^app\.board_invalid"):
        board.first_state(ASKED | {"board_id": board_id})


def test_a_board_holds_so_many_strokes_and_the_rest_is_taken_away() -> None:
    strokes = {f"s{number}": {"points": [1, 1]} for number in range(board.MAX_STROKES + 3)}

    patch = board.tidied({"strokes": strokes}, "b1", "Plan")

    assert len(board.strokes_of(merged({"strokes": strokes}, patch))) == board.MAX_STROKES
    assert [name for name, one in patch["strokes"].items() if one is None] == ["s256", "s257", "s258"]


@given(st.dictionaries(st.text(max_size=6), _ANYTHING, max_size=4))
def test_whatever_a_host_wrote_is_tidied_once_and_can_be_drawn(written: dict[str, Any]) -> None:
    state = merged(board.first_state(ASKED | {"initial": {"strokes": [LINE]}}), written)

    tidy = merged(state, board.tidied(state, "b1", "Plan"))

    assert merged(tidy, board.tidied(tidy, "b1", "Plan")) == tidy
    assert tidy["strokes"].keys() == board.strokes_of(tidy).keys()
    assert tidy["summary"] == board.summary(board.strokes_of(tidy))
    ET.fromstring(drawing.svg("Plan", board.strokes_of(tidy)))  # noqa: S314 - our own
    assert board.strokes_of(merged(tidy, board.cleared(tidy))) == {}


# --- the picture


def test_a_picture_shows_every_stroke_in_order_and_is_always_the_same() -> None:
    strokes = board.strokes_of({"strokes": {"b": LINE, "a": {"points": [5, 5]}}})

    picture = drawing.svg('A <b> & "c"', strokes)

    root = ET.fromstring(picture)  # noqa: S314 - our own
    assert [one.attrib["points"] for one in root.iter(f"{SVG}polyline")] == ["5,5 5,5", "0,0 10,20.5"]
    title = root.find(f"{SVG}title")
    assert title is not None
    assert title.text == 'A <b> & "c"'
    assert picture == drawing.svg('A <b> & "c"', dict(reversed(strokes.items())))


def test_the_largest_board_makes_a_picture_that_is_an_artifact() -> None:
    points = [999.5, 0.125] * board.MAX_POINTS
    strokes = {f"s{number}": {"points": points} for number in range(board.MAX_STROKES)}

    picture = drawing.svg("x" * 200, board.strokes_of({"strokes": strokes}))

    assert len(picture) < 8 * 1024 * 1024
    assert len(json.dumps(strokes)) > MAX_SURFACE_STATE_BYTES  # no surface holds that much


# --- the app, in a worker


def test_its_schemas_are_inside_the_subset_and_fit_what_it_takes_and_returns() -> None:
    given = {tool.id: json_schema.compile_schema(tool.input_schema) for tool in MANIFEST.tools}
    answered = {tool.id: json_schema.compile_schema(tool.output_schema) for tool in MANIFEST.tools}

    assert given[OPEN].find_fault(ASKED | {"initial": {"strokes": [LINE]}}) is None
    assert given[OPEN].find_fault(ASKED | {"initial": {"strokes": ["line"]}}) is not None
    assert answered[OPEN].find_fault({"status": "submitted", "artifact_id": "art-1"}) is None
    summary = board.summary(board.strokes_of({"strokes": {"s1": LINE}}))
    assert answered[SUBMIT].find_fault({"board_id": "b1", "summary": summary}) is None


class Board:
    """The runtime's part of a board with the call `call-1` and the surface `srf-1`."""

    def __init__(self, runtime: RuntimeEnd, strokes: dict[str, Any]) -> None:
        self.runtime = runtime
        self.state: dict[str, Any] = ASKED | {"status": "open", "strokes": strokes}
        self.revision = 1

    def receipt(self, request: envelope.Envelope) -> None:
        self.runtime.say(
            "surfaces.receipt", request_id=request.id, accepted=True, surface_id="srf-1", revision=self.revision
        )

    def show(self, request: envelope.Envelope) -> None:
        record = {
            "surface_id": "srf-1", "app_scope": "whiteboard", "instance_id": "ins-1", "conversation_id": "c-1",
            "call_id": "call-1", "kind": "whiteboard", "title": "Plan", "state": self.state, "revision": self.revision,
            "status": "open", "created_at": AT, "updated_at": AT,
        }  # fmt: skip
        self.runtime.say("surfaces.surface", request_id=request.id, surface=record)

    def update(self) -> envelope.Envelope:
        """Take the app's next patch."""
        request = self.runtime.hear("surfaces.update")
        self.state, self.revision = merged(self.state, request.body["patch"]), self.revision + 1
        self.receipt(request)
        return request

    def open(self) -> None:
        """Call 1 opens the board."""
        self.runtime.call(1, OPEN, input=ASKED)
        asked = self.runtime.hear("surfaces.open")
        assert (asked.body["call_id"], asked.body["key"]) == ("call-1", "b1")
        self.receipt(asked)
        self.show(self.runtime.hear("surfaces.get"))
        wish = self.runtime.hear("capabilities.request")
        assert wish.body["capability"] == "notify"
        denied = {"accepted": False, "decision": "denied", "code": "capability_denied"}
        self.runtime.say("capabilities.receipt", request_id=wish.id, **denied)
        assert self.update().body["patch"] == {"notify": "denied"}
        self.runtime.accept(self.runtime.hear("tools.report_progress"), call_status="running")
        self.runtime.accept(self.runtime.hear("inbox.acknowledge"))

    def store(self) -> None:
        """Take the picture."""
        begun = self.runtime.hear("artifacts.begin")
        assert re.fullmatch("[0-9a-f]{64}", begun.body["sha256"])
        self.runtime.say("artifacts.receipt", request_id=begun.id, accepted=True, artifact_id="art-1", complete=True)


def test_a_board_goes_on_after_its_capability_was_denied_and_is_submitted(runtime: RuntimeEnd) -> None:
    made = Board(runtime, {"s1": LINE})
    with served(runtime, FOLDER, "whiteboard"):
        runtime.start_app()
        made.open()
        runtime.call(2, SUBMIT, input={"board_id": "b1"})
        made.show(runtime.hear("surfaces.get"))
        made.store()
        patch = made.update()
        reported = runtime.hear("tools.report_progress")
        runtime.accept(reported, call_status="running")
        ended = [runtime.hear("tools.complete")]
        runtime.accept(ended[0], call_status="completed")
        ended.append(runtime.hear("tools.complete"))
        runtime.accept(ended[1], call_status="completed")

    assert patch.body["revision"] == 2
    assert reported.body["progress"]["data"]["status"] == "submitted"
    summary = {"strokes": 1, "points": 2, "colors": ["#00ff00"]}
    assert [one.body for one in ended] == [
        {"call_id": "call-2", "result": {"board_id": "b1", "summary": summary, "artifact_id": "art-1"}},
        {"call_id": "call-1", "result": {"status": "submitted", "artifact_id": "art-1"}},
    ]


def test_a_person_who_draws_on_is_not_left_out_of_the_picture(runtime: RuntimeEnd) -> None:
    made = Board(runtime, {"s1": LINE})
    with served(runtime, FOLDER, "whiteboard"):
        runtime.start_app()
        made.open()
        runtime.call(2, SUBMIT, input={"board_id": "b1"})
        made.show(runtime.hear("surfaces.get"))
        made.store()
        late = runtime.hear("surfaces.update")
        made.state["strokes"]["s2"] = LINE
        made.revision += 1
        runtime.say(
            "surfaces.receipt",
            request_id=late.id, accepted=False, surface_id="srf-1", revision=made.revision, code="surface_stale",
        )  # fmt: skip
        made.show(runtime.hear("surfaces.get"))
        made.store()
        again = made.update()
        runtime.accept(runtime.hear("tools.report_progress"), call_status="running")
        for _ in range(2):
            runtime.accept(runtime.hear("tools.complete"), call_status="completed")

    assert again.body["patch"]["summary"]["strokes"] == 2


def test_a_submit_that_a_crash_cut_short_is_finished_after_the_restart(runtime: RuntimeEnd) -> None:
    summary = {"strokes": 1, "points": 2, "colors": ["#00ff00"]}
    reported = {"data": {"status": "submitted", "summary": summary, "artifact_id": "art-1"}}
    with served(runtime, FOLDER, "whiteboard"):
        runtime.start_app()
        runtime.call(1, OPEN, repeated=True, input=ASKED, status="running", progress=reported)
        ended = [runtime.hear("tools.complete")]
        runtime.accept(ended[0], call_status="completed")
        runtime.call(2, SUBMIT, repeated=True, input={"board_id": "b1"})
        ended.append(runtime.hear("tools.complete"))
        runtime.accept(ended[1], call_status="completed")
        runtime.refuse(runtime.hear("tools.complete"), "call_already_final")
        runtime.call(3, SUBMIT, input={"board_id": "b1"})
        failed = runtime.hear("tools.fail")
        runtime.accept(failed, call_status="failed")

    assert [one.body["result"] for one in ended] == [
        {"status": "submitted", "artifact_id": "art-1"},
        {"board_id": "b1", "summary": summary, "artifact_id": "art-1"},
    ]
    assert failed.body["failure"]["code"] == "app.board_not_found"


def test_an_action_that_comes_before_its_board_after_a_restart_waits_for_it(runtime: RuntimeEnd) -> None:
    made = Board(runtime, {"s1": LINE, "bad": {"points": "x"}})
    with served(runtime, FOLDER, "whiteboard"):
        runtime.start_app()
        runtime.say(
            "inbox.message",
            message_id="m7", number=7, kind="action", created_at=AT, repeated=True,
            action={"action_id": "act-1", "kind": "surface.update", "surface_id": "srf-1", "revision": 1},
        )  # fmt: skip
        made.show(runtime.hear("surfaces.get"))
        assert runtime.stays_quiet()
        runtime.call(1, OPEN, repeated=True, input=ASKED, status="running", progress={"data": {"status": "open"}})
        made.receipt(runtime.hear("surfaces.open"))
        made.show(runtime.hear("surfaces.get"))
        said = [envelope.decode(runtime.hear_frame()) for _ in range(2)]
        for one in said:
            made.receipt(one) if one.type == "lineup.v1.surfaces.update" else runtime.accept(one)
        taken = runtime.hear("inbox.acknowledge")
        runtime.accept(taken)

    patches = [one.body["patch"] for one in said if one.type == "lineup.v1.surfaces.update"]
    assert [(one["strokes"], one["summary"]["strokes"]) for one in patches] == [({"bad": None}, 1)]
    assert {one.body.get("message_id") for one in (*said, taken)} >= {"m1", "m7"}


def test_a_wish_to_close_that_comes_before_the_board_after_a_restart_ends_it_when_it_comes(runtime: RuntimeEnd) -> None:
    made = Board(runtime, {"s1": LINE})
    with served(runtime, FOLDER, "whiteboard"):
        runtime.start_app()
        action = {"action_id": "act-1", "kind": "close"}
        runtime.say("inbox.message", message_id="m7", number=7, kind="action", created_at=AT, action=action)
        runtime.refuse(runtime.hear("lifecycle.request_close"), "lifecycle_denied")
        assert runtime.stays_quiet()
        runtime.call(1, OPEN, repeated=True, input=ASKED, status="running", progress={"data": {"status": "open"}})
        made.receipt(runtime.hear("surfaces.open"))
        made.show(runtime.hear("surfaces.get"))

        heard = [runtime.hear_any() for _ in range(2)]

        cancelled = next(one for one in heard if one.type == "lineup.v1.tools.cancel")
        assert cancelled.body["call_id"] == "call-1"


def test_a_refused_surface_fails_the_call(runtime: RuntimeEnd) -> None:
    with served(runtime, FOLDER, "whiteboard"):
        runtime.start_app()
        runtime.call(1, OPEN, input=ASKED)
        runtime.refuse(runtime.hear("surfaces.open"), "host_unsupported")
        failed = runtime.hear("tools.fail")
        runtime.accept(failed, call_status="failed")

    assert failed.body["failure"]["code"] == "app.board_not_shown"


def test_a_wish_to_cancel_ends_the_board(runtime: RuntimeEnd) -> None:
    made = Board(runtime, {})
    with served(runtime, FOLDER, "whiteboard"):
        runtime.start_app()
        made.open()
        runtime.say("call.changed", call_id="call-1", status="running", cancel_requested=True)
        runtime.accept(runtime.hear("tools.cancel"), call_status="cancelled")
        runtime.call(2, SUBMIT, input={"board_id": "b1"})
        failed = runtime.hear("tools.fail")
        runtime.accept(failed, call_status="failed")

    assert failed.body["failure"]["code"] == "app.board_not_found"


def test_drawing_asks_nobody_anything(runtime: RuntimeEnd) -> None:
    made = Board(runtime, {"s1": LINE})
    with served(runtime, FOLDER, "whiteboard"):
        runtime.start_app()
        made.open()
        action = {"action_id": "act-1", "kind": "surface.update", "surface_id": "srf-1", "revision": 2}
        runtime.say("inbox.message", message_id="m2", number=2, kind="action", created_at=AT, action=action)
        made.show(runtime.hear("surfaces.get"))
        made.update()
        taken = runtime.hear("inbox.acknowledge")
        runtime.accept(taken)

        assert taken.body == {"message_id": "m2"}
        assert runtime.stays_quiet()
