from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from miniapp_worker.sdk import CallFailed
from miniapps.task_dashboard.board import Board, Task
from runtime_actors.contract import json_schema
from runtime_actors.contract.manifest import MiniAppManifest
from tests.worker.runtime_end import RuntimeEnd, Worker, runtime_end, served, spec_of

FOLDER = Path(__file__).parent.parent.parent / "miniapps" / "task_dashboard"
MANIFEST = MiniAppManifest.model_validate(json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8")))
OPEN, UPDATE = (tool.id for tool in MANIFEST.tools)
ASKED = {"task_id": "t1", "title": "Write"}
AT = "2026-01-01T00:00:00Z"


@pytest.fixture
def runtime() -> Iterator[RuntimeEnd]:
    with runtime_end() as runtime:
        yield runtime


def summary(status: str, progress: float) -> dict[str, Any]:
    return {"task_id": "t1", "title": "Write", "status": status, "progress": progress}


def open_task(runtime: RuntimeEnd) -> None:
    """Call 1 opens task t1."""
    runtime.call(1, OPEN, input=ASKED)
    runtime.accept(runtime.hear("tools.report_progress"), call_status="running")
    runtime.accept(runtime.hear("inbox.acknowledge"))


# --- the board


def test_a_task_begins_as_asked() -> None:
    assert Board().open("c1", ASKED, None) == Task("t1", "Write", "pending", 0)
    assert Board().open("c1", ASKED | {"status": "running"}, None) == Task("t1", "Write", "running", 0)


def test_a_task_that_was_served_before_goes_on_from_its_last_report() -> None:
    assert Board().open("c1", ASKED, summary("running", 40)) == Task("t1", "Write", "running", 40)


def test_a_task_that_is_open_cannot_be_opened_again_until_it_has_ended() -> None:
    board = Board()
    board.open("c1", ASKED, None)

    with pytest.raises(CallFailed, match=r"^app\.task_already_open"):
        board.open("c2", ASKED, None)

    board.update({"task_id": "t1", "status": "failed"}, repeated=False)
    assert board.open("c2", ASKED, None).status == "pending"
    assert board.call_of("t1") == "c2"


@pytest.mark.parametrize(
    ("asked", "status", "progress"),
    [
        ({"progress": 10}, "running", 10),
        ({"status": "pending", "progress": 10}, "pending", 10),
        ({"status": "running"}, "running", 0),
        ({"status": "completed"}, "completed", 0),
        ({"status": "cancelled", "progress": 99.5}, "cancelled", 99.5),
    ],
)
def test_an_update_changes_what_it_names(asked: dict[str, Any], status: str, progress: float) -> None:
    board = Board()
    board.open("c1", ASKED, None)

    assert board.update({"task_id": "t1"} | asked, repeated=False) == Task("t1", "Write", status, progress)


def test_an_update_needs_something_to_change_and_an_open_task() -> None:
    board = Board()
    with pytest.raises(CallFailed, match=r"^app\.nothing_to_update"):
        board.update({"task_id": "t1"}, repeated=False)
    with pytest.raises(CallFailed, match=r"^app\.task_not_found"):
        board.update({"task_id": "t1", "progress": 1}, repeated=False)

    board.open("c1", ASKED, None)
    board.end_call("c1")
    with pytest.raises(CallFailed, match=r"^app\.task_not_found"):
        board.update({"task_id": "t1", "progress": 1}, repeated=False)


def test_only_the_same_update_again_finds_a_task_that_it_ended_itself() -> None:
    board = Board()
    board.open("c1", ASKED, summary("completed", 100))

    assert board.update({"task_id": "t1", "status": "completed"}, repeated=True).has_ended
    with pytest.raises(CallFailed, match=r"^app\.task_not_found"):
        board.update({"task_id": "t1", "status": "completed"}, repeated=False)
    with pytest.raises(CallFailed, match=r"^app\.task_not_found"):
        board.update({"task_id": "t1", "status": "failed"}, repeated=True)


# --- the app, in a worker


def test_its_schemas_are_inside_the_subset_and_fit_what_it_returns() -> None:
    compiled = {tool.id: json_schema.compile_schema(tool.output_schema) for tool in MANIFEST.tools}
    for tool in MANIFEST.tools:
        json_schema.compile_schema(tool.input_schema)

    assert compiled[UPDATE].find_fault(summary("running", 12.5)) is None
    assert compiled[OPEN].find_fault({"status": "cancelled"}) is None


def test_a_task_is_opened_updated_and_ended(runtime: RuntimeEnd) -> None:
    with served(runtime, FOLDER, "task-dashboard"):
        runtime.start_app()
        runtime.call(1, OPEN, input=ASKED)
        opened = runtime.hear("tools.report_progress")
        runtime.accept(opened, call_status="running")
        runtime.accept(runtime.hear("inbox.acknowledge"))

        runtime.call(2, UPDATE, input={"task_id": "t1", "progress": 50})
        half = runtime.hear("tools.report_progress")
        runtime.accept(half, call_status="running")
        updated = runtime.hear("tools.complete")
        runtime.accept(updated, call_status="completed")

        runtime.call(3, UPDATE, input={"task_id": "t1", "status": "completed"})
        runtime.accept(runtime.hear("tools.report_progress"), call_status="running")
        ended = [runtime.hear("tools.complete")]
        runtime.accept(ended[0], call_status="completed")
        ended.append(runtime.hear("tools.complete"))
        runtime.accept(ended[1], call_status="completed")

    assert opened.body["progress"] == {"percent": 0, "note": "pending", "data": summary("pending", 0)}
    assert half.body == {
        "call_id": "call-1",
        "progress": {"percent": 50, "note": "running", "data": summary("running", 50)},
    }
    assert updated.body == {"call_id": "call-2", "result": summary("running", 50)}
    assert [one.body for one in ended] == [
        {"call_id": "call-3", "result": summary("completed", 50)},
        {"call_id": "call-1", "result": {"status": "completed"}},
    ]


def test_after_a_restart_it_goes_on_from_the_progress_of_the_open_call(runtime: RuntimeEnd) -> None:
    reported = {"percent": 40, "data": summary("running", 40)}
    with served(runtime, FOLDER, "task-dashboard"):
        runtime.start_app()
        runtime.call(1, OPEN, repeated=True, input=ASKED, status="running", progress=reported)
        again = runtime.hear("tools.report_progress")
        runtime.accept(again, call_status="running")
        runtime.accept(runtime.hear("inbox.acknowledge"))

    assert again.body["progress"]["data"] == summary("running", 40)


def test_an_end_that_a_crash_cut_short_is_finished_after_the_restart(runtime: RuntimeEnd) -> None:
    reported = {"data": summary("failed", 40)}
    with served(runtime, FOLDER, "task-dashboard"):
        runtime.start_app()
        runtime.call(1, OPEN, repeated=True, input=ASKED, status="running", progress=reported)
        opened = runtime.hear("tools.complete")
        runtime.accept(opened, call_status="completed")
        runtime.call(2, UPDATE, repeated=True, input={"task_id": "t1", "status": "failed"})
        updated = runtime.hear("tools.complete")
        runtime.accept(updated, call_status="completed")
        runtime.refuse(runtime.hear("tools.complete"), "call_already_final")

    assert opened.body["result"] == {"status": "failed"}
    assert updated.body["result"] == summary("failed", 40)


def test_a_wish_to_cancel_the_open_call_ends_the_task(runtime: RuntimeEnd) -> None:
    with served(runtime, FOLDER, "task-dashboard"):
        runtime.start_app()
        open_task(runtime)
        runtime.say("call.changed", call_id="call-1", status="running", cancel_requested=True)
        cancelled = runtime.hear("tools.cancel")
        runtime.accept(cancelled, call_status="cancelled")
        runtime.call(2, UPDATE, input={"task_id": "t1", "progress": 60})
        failed = runtime.hear("tools.fail")
        runtime.accept(failed, call_status="failed")

    assert cancelled.body["call_id"] == "call-1"
    assert failed.body["failure"]["code"] == "app.task_not_found"


def test_a_call_that_was_cancelled_before_it_came_opens_no_task(runtime: RuntimeEnd) -> None:
    with served(runtime, FOLDER, "task-dashboard"):
        runtime.start_app()
        runtime.call(1, OPEN, input=ASKED, cancel_requested=True)
        runtime.accept(runtime.hear("tools.cancel"), call_status="cancelled")


def test_an_update_whose_task_the_runtime_ended_meanwhile_fails(runtime: RuntimeEnd) -> None:
    with served(runtime, FOLDER, "task-dashboard"):
        runtime.start_app()
        open_task(runtime)
        runtime.call(2, UPDATE, input={"task_id": "t1", "status": "completed"})
        runtime.refuse(runtime.hear("tools.report_progress"), "call_already_final")
        failed = runtime.hear("tools.fail")
        runtime.accept(failed, call_status="failed")

    assert failed.body["failure"]["code"] == "app.task_not_found"


def test_it_ends_with_its_attempt(runtime: RuntimeEnd) -> None:
    with Worker(spec_of(runtime, FOLDER, "task-dashboard")) as worker:
        runtime.start_app()
        runtime.say("session.stop", reason="closing", grace_ms=500)

        assert runtime.hear("session.bye").body == {"reason": "stopped"}
        assert worker.wait_exit_code() == 0


# --- its questions


def question(key: str, kind: str, status: str, result: dict[str, Any] | None = None, **owner: str) -> dict[str, Any]:
    asked: dict[str, Any] = {"kind": kind, "title": "t", "prompt": "p"}
    if kind == "input":
        asked["fields"] = [{"id": "description", "label": "Description", "type": "textarea"}]
    shown = {
        "interaction_id": "int-1",
        "owner": {
            "app_scope": "task-dashboard",
            "instance_id": "ins-1",
            "conversation_id": "c1",
            "source": "miniapp_tool",
            **owner,
        },
        "kind": kind,
        "key": key,
        "request": asked,
        "status": status,
        "created_at": AT,
        "updated_at": AT,
    }
    return shown if result is None else shown | {"result": result}


def end_question(runtime: RuntimeEnd, number: int, record: dict[str, Any]) -> None:
    runtime.say(
        "inbox.message",
        message_id=f"m{number}",
        number=number,
        kind="interaction",
        created_at=AT,
        interaction=record,
    )


def wish_to_close(runtime: RuntimeEnd) -> None:
    action = {"action_id": "act-1", "kind": "close"}
    runtime.say("inbox.message", message_id="m2", number=2, kind="action", created_at=AT, action=action)


@pytest.mark.parametrize("meant", [True, False])
def test_unfinished_work_is_closed_only_if_the_person_means_it(runtime: RuntimeEnd, *, meant: bool) -> None:
    with served(runtime, FOLDER, "task-dashboard"):
        runtime.start_app()
        open_task(runtime)
        wish_to_close(runtime)
        asked = runtime.hear("ui.request")
        assert (asked.body["key"], asked.body["request"]["kind"]) == ("close-act-1", "confirm")
        record = question("close-act-1", "confirm", "pending")
        runtime.say("ui.receipt", request_id=asked.id, accepted=True, interaction=record)
        runtime.accept(runtime.hear("inbox.acknowledge"))
        end_question(runtime, 3, question("close-act-1", "confirm", "completed", {"approved": meant}))
        if meant:
            cancelled = runtime.hear("tools.cancel")
            assert cancelled.body["call_id"] == "call-1"
            runtime.accept(cancelled, call_status="cancelled")
        runtime.accept(runtime.hear("inbox.acknowledge"))
        assert runtime.stays_quiet()


def test_a_yes_to_closing_that_came_before_the_calls_after_a_restart_counts(runtime: RuntimeEnd) -> None:
    with served(runtime, FOLDER, "task-dashboard"):
        runtime.start_app()
        end_question(runtime, 1, question("close-act-1", "confirm", "completed", {"approved": True}))
        runtime.accept(runtime.hear("inbox.acknowledge"))
        runtime.call(2, OPEN, repeated=True, input=ASKED, status="running", progress={"data": summary("running", 40)})

        cancelled = runtime.hear("tools.cancel")
        assert cancelled.body["call_id"] == "call-2"
        runtime.accept(cancelled, call_status="cancelled")


def test_a_wish_to_close_that_came_before_the_calls_after_a_restart_is_asked_about_when_they_come(
    runtime: RuntimeEnd,
) -> None:
    with served(runtime, FOLDER, "task-dashboard"):
        runtime.start_app()
        wish_to_close(runtime)
        runtime.refuse(runtime.hear("lifecycle.request_close"), "lifecycle_denied")
        assert runtime.stays_quiet()
        runtime.call(3, OPEN, repeated=True, input=ASKED, status="running", progress={"data": summary("running", 40)})

        heard = [runtime.hear_any() for _ in range(2)]

        asked = next(one for one in heard if one.type.endswith("ui.request"))
        assert asked.body["key"] == "close-act-1"


def test_an_empty_dashboard_closes_at_once(runtime: RuntimeEnd) -> None:
    with served(runtime, FOLDER, "task-dashboard"):
        runtime.start_app()
        wish_to_close(runtime)
        runtime.accept(runtime.hear("lifecycle.request_close"))
        runtime.accept(runtime.hear("inbox.acknowledge"))


def test_a_missing_description_is_asked_for_once(runtime: RuntimeEnd) -> None:
    asks = ASKED | {"ask_description": True}
    with served(runtime, FOLDER, "task-dashboard"):
        runtime.start_app()
        runtime.call(1, OPEN, input=asks)
        runtime.accept(runtime.hear("tools.report_progress"), call_status="running")
        runtime.accept(runtime.hear("inbox.acknowledge"))
        asked = runtime.hear("ui.request")
        assert (asked.body["key"], asked.body["parent_call_id"]) == ("description", "call-1")
        record = question("description", "input", "pending", parent_call_id="call-1")
        runtime.say("ui.receipt", request_id=asked.id, accepted=True, interaction=record)
        answer = {"values": {"description": "All of it."}}
        end_question(runtime, 2, question("description", "input", "completed", answer, parent_call_id="call-1"))
        heard = {one.type: one for one in (runtime.hear_any(), runtime.hear_any())}
        for one in heard.values():
            runtime.accept(one, call_status="running")

    reported = heard["lineup.v1.tools.report_progress"].body["progress"]
    assert reported["data"]["description"] == "All of it."
    assert "lineup.v1.inbox.acknowledge" in heard


def test_a_description_that_was_given_or_known_is_not_asked_for(runtime: RuntimeEnd) -> None:
    known = {"data": summary("running", 40) | {"description": "All of it."}}
    with served(runtime, FOLDER, "task-dashboard"):
        runtime.start_app()
        runtime.call(1, OPEN, repeated=True, input=ASKED | {"ask_description": True}, status="running", progress=known)
        again = runtime.hear("tools.report_progress")
        runtime.accept(again, call_status="running")
        runtime.accept(runtime.hear("inbox.acknowledge"))

        assert again.body["progress"]["data"]["description"] == "All of it."
        assert runtime.stays_quiet()
