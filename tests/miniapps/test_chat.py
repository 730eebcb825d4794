"""What Interact shows, and what becomes of the questions of agents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniapp_worker.sdk import AgentText
from miniapps.chat.timeline import EMPTY, KEPT, Timeline, echo, of_person, of_question, of_text
from runtime_actors.contract import codec
from runtime_actors.contract.interactions import InteractionRecord
from runtime_actors.contract.surfaces import MAX_SURFACE_STATE_BYTES
from runtime_actors.rules.merge_patch import merged
from tests.worker.runtime_end import RuntimeEnd, runtime_end, served

FOLDER = Path(__file__).parent.parent.parent / "miniapps" / "chat"
CONFIRM = {"kind": "confirm", "title": "Deploy?", "prompt": "To everybody."}
CHOICE = {
    "kind": "choice",
    "title": "Which?",
    "prompt": "",
    "mode": "multi-choice",
    "actions": [{"id": "a", "label": "Apples"}, {"id": "b", "label": "Pears"}],
}
FIELDS = {"kind": "input", "title": "Who?", "prompt": "", "fields": [{"id": "n", "label": "Name", "type": "text"}]}
NOTICE = {"kind": "notice", "title": "Done", "message": "All of it.", "acknowledge_label": "Fine"}


@pytest.fixture
def runtime() -> Iterator[RuntimeEnd]:
    with runtime_end() as runtime:
        yield runtime


def asked(request: dict[str, Any], status: str = "pending", **more: object) -> dict[str, Any]:
    return {
        "interaction_id": "int-1",
        "owner": {
            "app_scope": "chat",
            "instance_id": "ins-1",
            "conversation_id": "c1",
            "parent_call_id": "call-1",
            "source": "agent_tool",
        },
        "kind": request["kind"],
        "request": request,
        "status": status,
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
        **more,
    }


def end(runtime: RuntimeEnd, number: int, record: dict[str, Any]) -> None:
    runtime.say(
        "inbox.message",
        message_id=f"m{number}",
        number=number,
        kind="interaction",
        created_at="2026-01-01T00:00:00Z",
        interaction=record,
    )


# --- the timeline


def test_entries_are_numbered_as_they_come_and_what_comes_again_changes_nothing() -> None:
    timeline = Timeline()

    first = timeline.put("m1", of_person("one"))
    assert first == {"entries": {"m1": {"who": "person", "kind": "text", "text": "one", "n": 1}}}
    timeline.put("m2", of_person("two"))

    assert timeline.put("m1", of_person("one")) is None
    assert [entry["n"] for entry in timeline.entries.values()] == [1, 2]


@given(st.lists(st.tuples(st.integers(0, 150), st.text(max_size=900)), max_size=300))
def test_the_state_of_the_surface_is_the_fold_of_the_patches(told: list[tuple[int, str]]) -> None:
    timeline, state = Timeline(), dict(EMPTY)

    for number, text in told:
        patch = timeline.put(f"m{number}", of_person(text))
        if patch is not None:
            state = merged(state, patch)

    assert state["entries"] == timeline.entries
    assert len(timeline.entries) <= KEPT


def test_the_longest_entries_fit_a_surface() -> None:
    timeline, state = Timeline(), dict(EMPTY)
    for number in range(2 * KEPT):
        patch = timeline.put(f"question-{number}-{'x' * 100}", of_person("y" * 1000))
        state = merged(state, patch or {})

    assert len(codec.encode(state)) <= MAX_SURFACE_STATE_BYTES


def test_a_kind_that_is_not_known_is_shown_as_unknown_and_not_interpreted() -> None:
    assert of_text(AgentText(text="<b>", data={"kind": "widget", "html": "<script>"})) == {
        "who": "agent",
        "kind": "unknown",
        "text": "<b>",
    }
    assert of_text(AgentText(text="*hello*", data={"kind": "markdown"}))["kind"] == "markdown"


@pytest.mark.parametrize(
    ("request_", "result", "words"),
    [
        (CONFIRM, {"approved": True}, "yes"),
        (CONFIRM | {"cancel_label": "Later"}, {"approved": False}, "Later"),
        (CHOICE, {"action_ids": ["a", "b"]}, "Apples, Pears"),
        (FIELDS, {"values": {"n": "Ada"}}, "Name: Ada"),
        (NOTICE, {"acknowledged": True}, "Fine"),
    ],
)
def test_an_answer_is_echoed_in_the_words_of_the_question(
    request_: dict[str, Any], result: dict[str, Any], words: str
) -> None:
    record = InteractionRecord.model_validate(asked(request_, "completed", result=result))

    assert echo(record) == words
    assert of_question(record)["answer"] == words


# --- the app


@pytest.mark.parametrize(
    ("status", "more", "word", "said"),
    [
        ("completed", {"result": {"approved": True}}, "tools.complete", {"result": {"approved": True}}),
        ("cancelled", {"reason": "no"}, "tools.cancel", {"reason": "no"}),
        ("expired", {}, "tools.fail", {"failure": {"code": "app.question_expired"}}),
        ("failed", {}, "tools.fail", {"failure": {"code": "app.question_failed"}}),
    ],
)
def test_the_end_of_an_agents_question_ends_its_call(
    runtime: RuntimeEnd, status: str, more: dict[str, Any], word: str, said: dict[str, Any]
) -> None:
    with served(runtime, FOLDER, "chat"):
        runtime.start_app()
        runtime.call(1, "chat.confirm", input={"title": "Deploy?", "prompt": "To everybody."})
        runtime.accept(runtime.hear("inbox.acknowledge"))
        end(runtime, 2, asked(CONFIRM, status, **more))
        runtime.refuse(runtime.hear("surfaces.open"), "host_unsupported")

        ended = runtime.hear(word)
        assert ended.body["call_id"] == "call-1"
        name, value = next(iter(said.items()))
        told = ended.body[name]
        assert (told if not isinstance(told, dict) else told | value) == (told if isinstance(told, dict) else value)
        runtime.accept(ended)
        runtime.accept(runtime.hear("inbox.acknowledge"))


def test_what_the_person_wrote_goes_to_the_agent_once_for_its_action(runtime: RuntimeEnd) -> None:
    with served(runtime, FOLDER, "chat"):
        runtime.start_app()
        action = {"action_id": "act-1", "kind": "text", "text": "hello"}
        runtime.say(
            "inbox.message", message_id="m1", number=1, kind="action", created_at="2026-01-01T00:00:00Z", action=action
        )

        sent = runtime.hear("conversation.send_text")
        assert sent.body == {"text": "hello", "action_id": "act-1"}
        runtime.accept(sent)
        runtime.refuse(runtime.hear("surfaces.open"), "host_unsupported")
        runtime.accept(runtime.hear("inbox.acknowledge"))


@pytest.mark.parametrize("kind", ["close", "focus"])
def test_what_a_person_does_to_it_as_an_app_is_taken_over_and_changes_nothing(runtime: RuntimeEnd, kind: str) -> None:
    with served(runtime, FOLDER, "chat"):
        runtime.start_app()
        action = {"action_id": "act-1", "kind": kind}
        runtime.say(
            "inbox.message", message_id="m1", number=1, kind="action", created_at="2026-01-01T00:00:00Z", action=action
        )
        acknowledged = runtime.hear("inbox.acknowledge")
        runtime.accept(acknowledged)

    assert acknowledged.body["message_id"] == "m1"


def test_another_mode_is_declared_and_refused(runtime: RuntimeEnd) -> None:
    manifest = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["kind"] == "system"
    with served(runtime, FOLDER, "chat"):
        runtime.start_app()
        action = {"action_id": "act-1", "kind": "app", "name": "mode", "data": {"mode": "video"}}
        runtime.say(
            "inbox.message", message_id="m1", number=1, kind="action", created_at="2026-01-01T00:00:00Z", action=action
        )

        opened = runtime.hear("surfaces.open")
        assert opened.body["surface"]["state"] == EMPTY
        runtime.refuse(opened, "host_unsupported")
        runtime.accept(runtime.hear("inbox.acknowledge"))
