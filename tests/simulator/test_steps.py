"""The step language."""

from __future__ import annotations

from importlib import resources

import pytest

from runtime_actors.contract.tools import CallStatus
from runtime_actors.simulator import ScenarioInvalid, read_scenario
from runtime_actors.simulator.steps import CallStep, WaitStep


def test_a_step_has_its_defaults_and_comments_are_skipped() -> None:
    steps = read_scenario(["# nothing", "", '{"do": "call", "tool": "a.b", "as": "other"}\n'])

    [step] = steps
    assert isinstance(step, CallStep)
    assert (step.tool, step.as_, step.conversation, step.input, step.answer) == ("a.b", "other", "main", {}, "accepted")


@pytest.mark.parametrize(
    ("status", "meant"),
    [('"running"', CallStatus.RUNNING), ('["failed", "expired"]', (CallStatus.FAILED, CallStatus.EXPIRED))],
)
def test_a_wait_may_name_one_status_or_several(status: str, meant: object) -> None:
    [step] = read_scenario([f'{{"do": "wait", "call_id": "c", "status": {status}, "timeout_s": 3}}'])

    assert isinstance(step, WaitStep)
    assert (step.status, step.timeout_s) == (meant, 3)


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        "{}",
        '{"do": "dance"}',
        '{"do": "call"}',
        '{"do": "call", "tool": "a.b", "inptu": {}}',
        '{"do": "wait", "call_id": "c", "status": "nearly"}',
        '{"do": "wait", "call_id": "c", "timeout_s": -1}',
        '{"do": "kill", "signal": 9}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_no_step_is_named_before_anything_is_played(line: str) -> None:
    with pytest.raises(ScenarioInvalid) as refused:
        read_scenario(['{"do": "audit"}', line])

    assert refused.value.line == 2


def test_the_packaged_scenario_can_be_read() -> None:
    scenario = resources.files("runtime_actors") / "scenarios" / "demo.jsonl"

    assert len(read_scenario(scenario.read_text().splitlines())) > 20
