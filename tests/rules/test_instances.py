"""Every cell of the instance and attempt tables, spelled out here and not read from them."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from runtime_actors.errors import IllegalTransition
from runtime_actors.rules.instances import (
    LIVE,
    AttemptEvent,
    AttemptRecord,
    AttemptState,
    InstanceEvent,
    InstanceRecord,
    InstanceState,
    attempt_after,
    must_move,
)

AT: Final = "2026-01-01T12:00:00.000Z"
LATER: Final = "2026-01-01T12:00:01.000Z"

# One line a state, one column an event; "." is a bug of the runtime.
EVENTS: Final = (
    "ready_in_front", "ready_behind", "fronted", "covered", "suspended", "woken", "process_lost", "close_wanted",
    "process_ended", "given_up",
)  # fmt: skip
CELLS: Final = """
           front  behind fronted covered susp woken lost close ended given
starting   fore   back   star    star    .    .     star clsg  .     fail
foreground .      .      fore    back    susp .     star clsg  .     fail
background .      .      fore    back    susp .     star clsg  .     fail
suspended  .      .      star    susp    .    star  .    clsg  susp  .
closing    .      .      .       clsg    .    .     clsd .     clsd  .
closed     .      .      .       .       .    .     .    .     .     .
failed     .      .      .       .       .    .     .    .     .     .
"""
NAMES: Final = {
    "star": "starting",
    "fore": "foreground",
    "back": "background",
    "susp": "suspended",
    "clsg": "closing",
    "clsd": "closed",
    "fail": "failed",
    ".": None,
}

ATTEMPT_EVENTS: Final = ("attached", "stop_ordered", "ended")
ATTEMPT_CELLS: Final[dict[str, tuple[str | None, str | None, str | None]]] = {
    "starting": ("ready", "stopping", "ended"),
    "ready": (None, "stopping", "ended"),
    "stopping": (None, "stopping", "ended"),  # told to end before it was ready: it never gets work
    "ended": (None, None, None),
}


def expected_cells() -> dict[tuple[str, str], str | None]:
    lines = [line.split() for line in CELLS.strip().splitlines()[1:]]
    return {(line[0], event): NAMES[cell] for line in lines for event, cell in zip(EVENTS, line[1:], strict=True)}


def an_instance(state: InstanceState) -> InstanceRecord:
    return InstanceRecord(
        instance_id="ins-1", conversation_id="talk", app_scope="notes", app_version="1.0.0", state=state, created_at=AT,
        updated_at=AT,
    )  # fmt: skip


def test_the_cells_below_are_those_of_all_instance_states_and_events() -> None:
    assert set(expected_cells()) == {(str(state), str(event)) for state, event in product(InstanceState, InstanceEvent)}
    assert len(expected_cells()) == 7 * 10


@pytest.mark.parametrize(("state", "event"), list(product(InstanceState, InstanceEvent)))
def test_an_instance_in_a_state_takes_an_event_as_its_cell_says(state: InstanceState, event: InstanceEvent) -> None:
    instance = an_instance(state)

    target = expected_cells()[state, event]
    if target is None:
        with pytest.raises(IllegalTransition):
            must_move(instance, event, at=LATER)
    else:
        moved = must_move(instance, event, at=LATER)
        assert (moved.state, moved.updated_at) == (target, LATER)


def test_an_instance_is_live_in_the_four_states_of_the_seed() -> None:
    assert {"starting", "foreground", "background", "suspended"} == LIVE


def test_an_instance_whose_clock_was_set_back_does_not_get_older() -> None:
    moved = must_move(an_instance(InstanceState.FOREGROUND), InstanceEvent.COVERED, at="2020-01-01T00:00:00.000Z")

    assert moved.updated_at == AT


@pytest.mark.parametrize(("state", "event"), list(product(AttemptState, AttemptEvent)))
def test_an_attempt_in_a_state_takes_an_event_as_its_cell_says(state: AttemptState, event: AttemptEvent) -> None:
    attempt = AttemptRecord(attempt_id="att-1", instance_id="ins-1", state=state, started_at=AT, started_boot_s=1000.0)

    after = attempt_after(attempt, event)

    assert after == ATTEMPT_CELLS[state][ATTEMPT_EVENTS.index(event)]


def test_the_cells_of_attempts_are_those_of_all_states_and_events() -> None:
    assert set(ATTEMPT_CELLS) == {str(state) for state in AttemptState}
    assert set(ATTEMPT_EVENTS) == {str(event) for event in AttemptEvent}
