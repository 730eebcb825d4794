"""The page of limits says what the code says, and each code on it is reached by a test that is named here."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from pydantic import ValidationError

from runtime_actors import registry
from runtime_actors.config import Bounds
from runtime_actors.contract import agent, base, codec, interactions, lifecycle, surfaces
from runtime_actors.errors import AppRefused
from runtime_actors.limits import SECTIONS, Limit
from runtime_actors.rules.rates import Rate
from tests.fakes import NOTES

ROOT: Final = Path(__file__).resolve().parent.parent
LIMITS: Final = {limit.name: limit for section in SECTIONS for limit in section.limits}
REACHED: Final = {
    "what one agent invokes, sends and reads of artifacts": (
        "actors/test_gateway.py",
        "test_an_agent_that_asks_too_often_is_refused_and_nobody_else_is",
    ),
    "what one instance asks for": (
        "actors/test_channel_requests.py",
        "test_an_app_that_asks_too_often_is_refused_and_what_ends_a_call_or_a_message_is_not",
    ),
    "requests of one worker without an answer": (
        "actors/test_channel_requests.py",
        "test_exactly_the_window_may_be_undecided_and_one_more_ends_the_attempt",
    ),
    "open calls": ("commands/test_admit.py", "test_too_many_open_calls_are_refused_until_one_ends"),
    "texts and actions that one inbox holds": (
        "commands/test_texts.py",
        "test_a_full_inbox_is_busy_until_a_message_is_acknowledged",
    ),
    "deliveries of one agent that it has not acknowledged": (
        "commands/test_admit.py",
        "test_too_many_unacknowledged_deliveries_of_the_agent_are_refused",
    ),
    "messages that wait for an actor": (
        "actors/test_gateway.py",
        "test_while_too_much_waits_for_the_store_new_work_is_refused_and_the_rest_is_not",
    ),
    "questions that are open, or ended and not acknowledged": (
        "commands/test_interactions.py",
        "test_an_instance_may_have_so_many_questions_until_it_acknowledges_their_ends",
    ),
    "a question in canonical form": ("commands/test_interactions.py", "test_a_request_is_at_most_48_kib"),
    "a draft, or an answer, in canonical form": (
        "commands/test_interactions.py",
        "test_a_draft_is_an_inputs_and_not_large",
    ),
    "actions of a choice, fields of an input": (
        "test_limits.py",
        "test_a_question_with_one_action_or_field_too_many_is_no_question",
    ),
    "how long a question of policy waits": (
        "commands/test_permissions.py",
        "test_a_question_that_nobody_answers_in_ten_minutes_declines_it",
    ),
    "after a no to a permission": (
        "commands/test_permissions.py",
        "test_after_a_no_the_next_call_is_refused_for_a_minute",
    ),
    "after a person dismissed or closed an app": (
        "commands/test_lifecycle.py",
        "test_an_app_that_a_person_sent_away_stays_behind_for_a_minute",
    ),
    "open surfaces of one instance": (
        "commands/test_surfaces.py",
        "test_an_instance_has_four_open_surfaces_and_no_fifth",
    ),
    "the state of a surface in canonical form": (
        "commands/test_surfaces.py",
        "test_a_state_that_would_become_too_large_is_refused",
    ),
    "an artifact": ("test_limits.py", "test_an_artifact_of_one_byte_too_many_is_no_request"),
    "artifacts of one conversation": (
        "commands/test_artifacts.py",
        "test_a_conversation_holds_so_many_artifacts_and_no_more",
    ),
    "all artifacts": ("commands/test_artifacts.py", "test_bytes_are_bounded_in_a_conversation_and_in_all"),
    "an artifact that does not become complete": (
        "commands/test_artifacts.py",
        "test_what_is_not_complete_after_an_hour_is_dropped_and_gives_its_room_back",
    ),
    "a frame": (
        "contract/test_codec.py",
        "test_a_frame_of_the_largest_size_is_accepted_and_one_byte_more_is_too_large",
    ),
    "nesting and nodes of a frame": (
        "contract/test_codec.py",
        "test_a_limit_is_accepted_and_one_more_is_refused_in_both_directions",
    ),
    "an input or a result in canonical form": ("e2e/test_races.py", "test_an_input_of_one_byte_too_many_is_refused"),
    "`data` of a progress report, a failure, a text or an action": (
        "test_limits.py",
        "test_data_and_texts_of_one_byte_too_many_are_no_request",
    ),
    "a text of an agent or a person": ("test_limits.py", "test_data_and_texts_of_one_byte_too_many_are_no_request"),
    "active time of a call": (
        "commands/test_time.py",
        "test_a_call_past_its_deadline_expires_and_its_message_is_withdrawn",
    ),
    "after a wish to cancel": ("commands/test_time.py", "test_a_call_ends_when_its_grace_is_over_and_not_before"),
    "deaths of the process that had a call": (
        "commands/test_attempts.py",
        "test_a_launch_call_that_ends_with_its_crash_closes_the_instance_for_good",
    ),
    "invalid results of a call": (
        "commands/test_reports.py",
        "test_an_invalid_result_leaves_the_call_running_and_the_third_ends_it",
    ),
    "a manifest": ("test_limits.py", "test_a_manifest_of_one_byte_too_many_is_refused"),
    "a schema of a tool": (
        "contract/test_json_schema.py",
        "test_a_schema_at_each_limit_is_accepted_and_one_more_is_refused",
    ),
    "a policy file": ("rules/test_policy.py", "test_what_is_no_rule_is_refused"),
}
"""For each limit that has a code, the test that meets it."""


def test_the_page_says_what_the_code_says() -> None:
    checked = subprocess.run(
        [sys.executable, "scripts/limits_page.py", "--check"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (checked.returncode, checked.stderr) == (0, "")


def test_every_limit_with_a_code_has_a_test_and_no_other_is_named() -> None:
    assert set(REACHED) == {name for name, limit in LIMITS.items() if limit.code is not None}


@pytest.mark.parametrize("name", REACHED)
def test_the_test_of_a_limit_is_there(name: str) -> None:
    file, function = REACHED[name]
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))

    assert function in {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}


def test_names_of_limits_are_unique() -> None:
    assert len(LIMITS) == sum(len(section.limits) for section in SECTIONS)
    assert all(isinstance(limit, Limit) and limit.value and limit.what for limit in LIMITS.values())


def test_every_bound_of_the_configuration_is_on_the_page() -> None:
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    inner = {"group"}  # nobody outside can meet it

    for name in Bounds.__dataclass_fields__.keys() - inner:
        value = getattr(Bounds(), name)
        spelled = f"{value.per_s:,g} a second" if isinstance(value, Rate) else f"{value:,}"
        assert spelled in page, name


# --- limits of a model, met here because they are nobody else's ---


def test_a_question_with_one_action_or_field_too_many_is_no_question() -> None:
    actions = [{"id": f"a{number}", "label": "One"} for number in range(interactions.MAX_ACTIONS + 1)]
    fields = [{"id": f"f{number}", "label": "One", "type": "text"} for number in range(interactions.MAX_FIELDS + 1)]
    choice = {"kind": "choice", "title": "One of many", "prompt": "", "mode": "single-choice"}
    wanted = {"kind": "input", "title": "Many", "prompt": ""}

    for most, more in (({"actions": actions[1:]}, {"actions": actions}), ({"fields": fields[1:]}, {"fields": fields})):
        question = choice if "actions" in most else wanted
        assert interactions.UiRequest.model_validate({"request": question | most})
        with pytest.raises(ValidationError):
            interactions.UiRequest.model_validate({"request": question | more})


def test_an_artifact_of_one_byte_too_many_is_no_request() -> None:
    announced = {"name": "picture.png", "media_type": "image/png", "sha256": "0" * 64}

    assert surfaces.ArtifactBegin.model_validate(announced | {"size": surfaces.MAX_ARTIFACT_BYTES})
    with pytest.raises(ValidationError):
        surfaces.ArtifactBegin.model_validate(announced | {"size": surfaces.MAX_ARTIFACT_BYTES + 1})


def test_data_and_texts_of_one_byte_too_many_are_no_request() -> None:
    fits, over = ({"fill": "x" * (base.MAX_SIDE_BYTES - 9 - more)} for more in (0, -1))
    said = {"message_id": "m1", "text": "x" * lifecycle.MAX_TEXT_BYTES}

    assert len(codec.encode(fits)) == base.MAX_SIDE_BYTES
    assert agent.AgentMessage.model_validate(said | {"data": fits})
    assert lifecycle.SendText(text=said["text"])
    for wrong in (said | {"data": over}, said | {"text": said["text"] + "x"}):
        with pytest.raises(ValidationError):
            agent.AgentMessage.model_validate(wrong)
    with pytest.raises(ValidationError):
        lifecycle.SendText(text=said["text"] + "x")


def test_a_manifest_of_one_byte_too_many_is_refused(tmp_path: Path) -> None:
    (tmp_path / "app.py").touch()
    manifest = json.dumps(NOTES)
    (tmp_path / registry.MANIFEST).write_text(manifest.ljust(registry.MAX_MANIFEST_BYTES))
    assert registry.read_app(tmp_path).manifest.app_scope == "notes"
    (tmp_path / registry.MANIFEST).write_text(manifest.ljust(registry.MAX_MANIFEST_BYTES + 1))

    with pytest.raises(AppRefused):
        registry.read_app(tmp_path)
