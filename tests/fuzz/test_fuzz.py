"""What CI feeds: more than 100,000 inputs, the same each time; `scripts/fuzz` feeds others."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from runtime_actors.channel.intake import REQUESTS
from runtime_actors.contract import codec
from runtime_actors.contract.protocol import KINDS
from runtime_actors.contract.zmtp import Violation
from runtime_actors.gateway.peers import ROLES
from tests.fuzz import run, targets
from tests.fuzz.campaign import fuzz, load, replay
from tests.fuzz.handler_target import ANY, PREFIX

INPUTS: Final = 112_000
SEED: Final = "ci"
CORPUS: Final = sorted((Path(__file__).parent / "corpus").glob("*.json"))
_FRAMES: Final = {codec.MESSAGE_INVALID, codec.MESSAGE_TOO_LARGE}
_OF_CALLS: Final = {"call_not_found", "conversation_denied", "not_attached", "role_denied"}
_OF_REPORTS: Final = {"call_not_found", "call_already_final"}
REFUSALS: Final[dict[str, set[str]]] = {
    "codec": _FRAMES,
    "zmtp": {*Violation, "unfinished"},
    "schema": {"outside the subset"},
    "manifest": {"manifest_invalid"},
    "policy": {"policy_invalid"},
    "patch": {"surface_invalid", "no patch"},
    "operator": {"usage"},
    "worker side": {"ignored"},
    "sockets": {*Violation, "unfinished"} - {Violation.AS_SERVER},
    "daemon": {"stream", "tcp", codec.MESSAGE_INVALID},
    "agent/agent.attach": {"attach_denied", "role_denied", "not_attached"},
    "agent/agent.relay": {"attach_denied"},
    "agent/tool.invoke": {
        *{"tool_not_advertised", "tool_input_invalid", "inventory_revision_mismatch", "call_id_conflict"},
        *{"capability_denied", "conversation_denied", "not_attached", "role_denied"},
    },
    "agent/tool.cancel": {*_OF_CALLS, "call_already_final"},
    "agent/tool.get": _OF_CALLS,
    "agent/message": {"app_scope_mismatch", "message_not_subscribed", "message_id_conflict", "conversation_denied"},
    "agent/audit.get": {"not_found", "not_attached"},
    "host/control.query": {"role_denied", "not_attached"},
    "control/control.query": {"not_found"},
    "control/control.kill": {"not_found", "role_denied"},
    "control/control.switch": {"not_found"},
    "control/control.add_agent": {"agent_exists"},
    "worker/session.hello": {"attach_denied", "session_stale"},
    "worker/session.resume": {"session_stale", "capability_set_incompatible"},
    "worker/inbox.acknowledge": {"message_not_found"},
    "worker/tools.report_progress": _OF_REPORTS,
    "worker/tools.complete": {*_OF_REPORTS, "tool_output_invalid"},
    "worker/tools.fail": _OF_REPORTS,
    "worker/tools.cancel": _OF_REPORTS,
    f"agent/{ANY}": {"role_denied"},
    f"worker/{ANY}": {"closed"},
}
"""Refusals that each target must have met, or its inputs are not what they are meant to be."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", targets.NAMES)
def test_no_input_breaks_a_promise(name: str) -> None:
    figures = fuzz(name, targets.planned(INPUTS)[name], SEED)

    assert [found.fault for found in figures.found] == []
    assert figures.inputs >= (1000 if name in targets.HANDLERS else 100)
    assert figures.accepted > 0
    assert set(figures.verdicts) >= REFUSALS.get(name, {codec.MESSAGE_INVALID})


def test_ci_feeds_as_many_inputs_as_it_says_and_each_kind_gets_a_thousand() -> None:
    planned = targets.planned(INPUTS)

    assert sum(planned.values()) >= 100_000
    assert min(planned[name] for name in targets.HANDLERS) >= 1000


def test_whatever_a_door_lets_in_has_a_target() -> None:
    let_in = {f"{role}/{kind.removeprefix(PREFIX)}" for role, table in ROLES.items() for kind in table}
    let_in |= {f"worker/{kind.removeprefix(PREFIX)}" for kind in REQUESTS}
    let_in |= {
        f"{door}/{kind.removeprefix(PREFIX)}"
        for kind, one in KINDS.items()
        for door in one.doors
        if one.direction == "in"
    }

    assert let_in == {name for name in targets.HANDLERS if not name.endswith(f"/{ANY}")}
    assert len(let_in) > 30


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_once_was_a_fault_is_none_any_more(path: Path) -> None:
    found = load(path)

    assert replay(found) is None


def test_the_corpus_is_there() -> None:
    assert len(CORPUS) >= 10


def test_the_same_seed_makes_the_same_inputs_whatever_else_is_fuzzed() -> None:
    once, again = (fuzz("zmtp", 300, "same") for _ in range(2))

    assert once.verdicts == again.verdicts
    assert fuzz("zmtp", 300, "other").verdicts != once.verdicts


def test_the_jobs_of_a_run_are_all_of_its_inputs() -> None:
    jobs = list(run.jobs_of(1_000_000, 7, []))

    assert sum(count for _, count, _ in jobs) >= 1_000_000
    assert {name for name, _, _ in jobs} == set(targets.NAMES)
    assert len({(name, seed) for name, _, seed in jobs}) == len(jobs)


def test_a_run_of_one_target_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    code = run.main(["--inputs", "200", "--seed", "1", "--target", "operator", "--jobs", "1", "--json"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert '"target": "operator", "inputs": 200' in lines[0]
    assert '"faults": 0' in lines[-1]
