"""The golden files at the runtime's end: frames, digests, and what the doors answer."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from runtime_actors.contract import codec, envelope
from runtime_actors.contract.protocol import KINDS
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.rules.registration import RegisteredApp, register
from tests.golden_files import ACCEPTED, Case, ManifestCase, every_case, manifests, stories, story
from tests.golden_runtime import GoldenRuntime, catalogue

CASES: Final = list(every_case())
ENVELOPES: Final = [case for case in CASES if case.envelope is not None]
UNREADABLE: Final = [case for case in CASES if case.envelope is None]


def _id(case: Case | ManifestCase) -> str:
    return f"{case.story}: {case.name}" if isinstance(case, Case) else case.name


@pytest.fixture
def make_runtime() -> Iterator[Callable[[str], GoldenRuntime]]:
    """Makes the runtime of a story."""
    made: list[GoldenRuntime] = []
    with tempfile.TemporaryDirectory(prefix="lu-") as folder:

        def make(name: str) -> GoldenRuntime:
            made.append(GoldenRuntime(Path(folder) / "state", catalogue(name)))
            return made[-1]

        yield make
        for one in made:
            one.close()


@pytest.mark.parametrize("case", ENVELOPES, ids=_id)
def test_an_envelope_has_exactly_this_canonical_form(case: Case) -> None:
    assert codec.encode(case.envelope) == case.frame
    assert codec.decode(case.sent) == case.envelope
    assert codec.encode(codec.decode(case.sent)) == case.frame


@pytest.mark.parametrize("case", UNREADABLE, ids=_id)
def test_a_frame_that_is_no_envelope_is_refused_by_its_code(case: Case) -> None:
    with pytest.raises(codec.IntakeError) as refused:
        envelope.decode(case.sent)

    assert refused.value.code == case.expect


@pytest.mark.parametrize("case", [case for case in ENVELOPES if case.is_accepted], ids=_id)
def test_an_accepted_body_holds_and_goes_out_again_as_it_came(case: Case) -> None:
    body = KINDS[case.kind].body.model_validate(case.body)

    said_again = body.to_wire()

    assert case.door in KINDS[case.kind].doors
    assert case.direction == KINDS[case.kind].direction
    assert KINDS[case.kind].body.model_validate(said_again) == body
    assert {name: said_again[name] for name in case.body} == case.body
    if case.direction == "out":
        assert said_again == case.body


def test_every_message_type_has_an_accepted_example_with_each_of_its_fields() -> None:
    shown: defaultdict[str, set[str]] = defaultdict(set)
    for case in ENVELOPES:
        if case.kind in KINDS and case.expect != "message_invalid":
            shown[case.kind] |= case.body.keys()

    assert {case.kind for case in ENVELOPES if case.is_accepted} == KINDS.keys()
    for name, kind in KINDS.items():
        assert shown[name] == kind.body.model_fields.keys(), name


def test_equal_bodies_have_one_digest_however_they_were_spelt() -> None:
    by_name = {(case.story, case.name): case for case in ENVELOPES}
    pairs = [(case, by_name[case.story, case.same_body_as]) for case in ENVELOPES if case.same_body_as]

    assert len(pairs) >= 4
    assert any(again.sent != again.frame for again, _ in pairs)
    for again, first in pairs:
        read_again = envelope.decode(again.sent).body
        assert codec.digest(read_again) == codec.digest(envelope.decode(first.sent).body)
        assert list(read_again) == sorted(read_again)


def test_a_refusal_in_the_files_is_a_code_of_the_contract() -> None:
    assert {case.expect for case in CASES} - {ACCEPTED} <= set(RejectionCode)


@pytest.mark.parametrize("name", stories())
def test_a_story_goes_at_the_runtime_as_it_is_written(name: str, make_runtime: Callable[[str], GoldenRuntime]) -> None:
    runtime = make_runtime(name)

    outcomes = [(case.name, runtime.play(case)) for case in story(name)]

    assert outcomes == [(case.name, case.expect) for case in story(name)]
    assert runtime.rig.aside == []


def test_every_refusal_in_the_stories_is_in_the_audit_log(make_runtime: Callable[[str], GoldenRuntime]) -> None:
    runtime = make_runtime("calls")
    for case in story("calls"):
        runtime.play(case)
    refused = sum(not case.is_accepted for case in story("calls"))

    noted = [event for event in runtime.rig.events() if event.endswith(".refused")]

    assert len(noted) == refused


@pytest.mark.parametrize("case", manifests(), ids=_id)
def test_a_manifest_is_registered_or_refused_at_this_path(case: ManifestCase) -> None:
    outcome = register(case.manifest, "/apps/golden", packaged=False)

    found = ACCEPTED if isinstance(outcome, RegisteredApp) else outcome[0][0]
    assert found == case.expect
