"""The rungs that need no record: the first failing one answers."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.contract.tools import ToolInvoke
from runtime_actors.rules import inventory
from runtime_actors.rules.admission import verdict
from runtime_actors.rules.inventory import Catalogue
from runtime_actors.rules.policy import Policy, Rule, Verdict
from runtime_actors.rules.registration import RegisteredApp, register
from tests.fakes import CATALOGUE

APP_OFF: Final = ("app", "notes")
TOOL_OFF: Final = ("tool", "notes.write")
INVALID: Final[dict[str, Any]] = {"text": 1}


def judge(
    tool_id: str = "notes.write",
    given: dict[str, Any] | None = None,
    *,
    revision: str | None = None,
    disabled: frozenset[tuple[str, str]] = frozenset(),
) -> RejectionCode | None:
    """The code of the verdict; at the current revision unless one is named."""
    now = inventory.build(CATALOGUE, disabled)
    invoke = ToolInvoke(call_id="c1", tool_id=tool_id, inventory_revision=revision or now.revision, input=given or {})
    found = verdict(invoke, CATALOGUE, now)
    return None if found is None else found.code


def test_what_holds_is_let_through() -> None:
    assert judge(given={"text": "hello"}) is None


def test_each_fault_alone_has_its_code() -> None:
    assert judge(revision="r-old") is RejectionCode.INVENTORY_REVISION_MISMATCH
    assert judge("notes.unknown") is RejectionCode.TOOL_NOT_ADVERTISED
    assert judge("unknown.write") is RejectionCode.TOOL_NOT_ADVERTISED
    assert judge(disabled=frozenset({APP_OFF})) is RejectionCode.APP_DISABLED
    assert judge(disabled=frozenset({TOOL_OFF})) is RejectionCode.APP_DISABLED
    assert judge(given=INVALID) is RejectionCode.TOOL_INPUT_INVALID


def test_a_switch_of_another_app_or_tool_does_not_matter() -> None:
    assert judge(disabled=frozenset({("app", "board"), ("tool", "notes.once"), ("tool", "notes")})) is None


@pytest.mark.parametrize(("stale", "unknown", "off", "invalid"), list(product([False, True], repeat=4)))
def test_of_several_faults_the_first_rung_answers(*, stale: bool, unknown: bool, off: bool, invalid: bool) -> None:
    found = judge(
        "notes.unknown" if unknown else "notes.write",
        INVALID if invalid else {},
        revision="r-old" if stale else None,
        disabled=frozenset({APP_OFF}) if off else frozenset(),
    )

    rungs = [
        (stale, RejectionCode.INVENTORY_REVISION_MISMATCH),
        (unknown, RejectionCode.TOOL_NOT_ADVERTISED),
        (off, RejectionCode.APP_DISABLED),
        (invalid, RejectionCode.TOOL_INPUT_INVALID),
    ]
    assert found is next((code for failed, code in rungs if failed), None)


def test_a_refused_input_is_named_by_path_and_never_quoted() -> None:
    now = inventory.build(CATALOGUE, frozenset())
    secret = "s3cret" * 50
    invoke = ToolInvoke(call_id="c1", tool_id="notes.write", inventory_revision=now.revision, input={"text": secret})

    found = verdict(invoke, CATALOGUE, now)

    assert found is not None
    assert "/text" in found.detail
    assert "s3cret" not in found.detail


def test_a_stale_invocation_is_told_the_current_revision() -> None:
    now = inventory.build(CATALOGUE, frozenset())
    invoke = ToolInvoke(call_id="c1", tool_id="notes.write", inventory_revision="r-old", input={})

    found = verdict(invoke, CATALOGUE, now)

    assert found is not None
    assert now.revision in found.detail


def test_a_tool_that_policy_hides_is_not_advertised() -> None:
    policy = Policy((Rule(number=1, verdict=Verdict.DENY, app="notes"),))
    now = inventory.build(CATALOGUE, frozenset(), policy)
    invoke = ToolInvoke(call_id="c1", tool_id="notes.write", inventory_revision=now.revision, input={})

    found = verdict(invoke, CATALOGUE, now)

    assert found is not None
    assert found.code is RejectionCode.TOOL_NOT_ADVERTISED


TWINS: Final[dict[str, Any]] = {
    "title": "Pick",
    "prompt": "",
    "mode": "button",
    "actions": [{"id": "a", "label": "One"}, {"id": "a", "label": "Other"}],
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (TWINS, RejectionCode.TOOL_INPUT_INVALID),
        (TWINS | {"actions": TWINS["actions"][:1]}, None),
        (TWINS | {"actions": [{"id": f"a{n}", "label": "x" * 120, "description": "y" * 500} for n in range(16)]}, None),
    ],
)
def test_a_question_is_held_to_the_contract_beyond_its_schema(given: dict[str, Any], expected: object) -> None:
    manifest = json.loads((Path(__file__).parents[2] / "miniapps" / "chat" / "manifest.json").read_text("utf-8"))
    chat = register(manifest, "chat", packaged=True)
    assert isinstance(chat, RegisteredApp), chat
    catalogue = Catalogue.of([chat])
    now = inventory.build(catalogue, frozenset())
    asked = ToolInvoke(call_id="c1", tool_id="chat.choice", inventory_revision=now.revision, input=given)

    found = verdict(asked, catalogue, now)

    assert (found and found.code) == expected
