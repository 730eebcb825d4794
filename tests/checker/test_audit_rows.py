"""No single entry of the audit log can be lost, doubled or changed, by whomever, without a rule that is broken."""

from __future__ import annotations

from typing import Final, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_actors.checker import violations
from tests.checker.evidence import Spoilt, evidence, recorded, spoilt

Way = Literal["drop", "double", "change", "swap"]

ENTRIES: Final = len(recorded().audit)
ONLY_CHAINED: Final = {
    ("attempt.ready", "drop"),
    ("attempt.ready", "double"),
    ("call.interrupted", "drop"),
    ("call.refused", "drop"),
    ("call.refused", "double"),
    ("focus.changed", "double"),
    ("instance.changed", "double"),
    ("report.refused", "drop"),
    ("report.refused", "double"),
    ("request.refused", "drop"),
    ("request.refused", "double"),
    ("runtime.recovered", "drop"),
    ("runtime.recovered", "double"),
}
"""Accidents that may change nothing but the log itself: only the chain tells of these."""
EVENTS: Final = sorted({row["event"] for row in recorded().audit})


def _spoil(run: Spoilt, way: Way, at: int) -> None:
    row = run.audit[at]
    if way == "drop":
        del run.audit[at]
    elif way == "double":
        run.audit.insert(at + 1, row.copy())
    elif way == "swap":
        run.audit[at - 1 : at + 1] = [row, run.audit[at - 1]]
    else:
        row["detail"] = row["detail"] | {"extra": at}


ways: Final = st.sampled_from(["drop", "double", "change", "swap"])


@settings(max_examples=60)
@given(way=ways, at=st.integers(1, ENTRIES - 1))
def test_an_accident_to_any_entry_is_found(way: Way, at: int) -> None:
    run = spoilt()
    _spoil(run, way, at)

    assert {"chain-broken", "mark-off-chain"} & {one.rule for one in violations(evidence(run))}


@settings(max_examples=60)
@given(way=ways, at=st.integers(1, ENTRIES - 1))
def test_a_chain_that_was_made_anew_around_any_entry_is_found(way: Way, at: int) -> None:
    run = spoilt()
    _spoil(run, way, at)
    run.rechain()

    assert violations(evidence(run))


@pytest.mark.parametrize(
    ("event", "way"),
    [(event, way) for event in EVENTS for way in ("drop", "double") if (event, way) not in ONLY_CHAINED],
)
def test_what_changes_a_record_is_missed_even_if_nobody_kept_a_place_on_the_chain(event: str, way: Way) -> None:
    places = [at for at, row in enumerate(recorded().audit) if row["event"] == event]
    found: set[str] = set()
    for at in {places[0], places[len(places) // 2], places[-1]}:  # some may say what others have said before
        run = spoilt()
        _spoil(run, way, at)
        run.rechain()
        run.forget_marks()
        found |= {one.rule for one in violations(evidence(run))}

    assert found - {"answer-disagrees"}  # which says no more than that a mark is lacking
