"""Every cell of the call table, spelled out here and not read from it."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.tools import CallStatus
from runtime_actors.errors import IllegalTransition
from runtime_actors.rules.calls import FINAL, CallEvent, CallRecord, advance, must_advance

LATER: Final = "2026-01-01T12:00:01.000Z"

# One line a status, one column an event in the order of CallEvent; "." is a refusal.
CELLS: Final = """
                adm dec que acc red can pro los out res rec fai acl gra ddl giv
received        rou rej .   .   .   rec .   .   .   .   .   fai can can exp fai
routing         .   .   wai .   .   rou .   .   .   .   .   fai can can exp fai
waiting_for_app .   .   .   run wai wai .   wai .   .   .   fai can can exp fai
running         .   .   .   .   .   run run wai run sub .   fai can can exp fai
submitted       .   .   .   .   .   .   .   .   .   .   com .   .   .   .   .
completed       .   .   .   .   .   .   .   .   .   .   .   .   .   .   .   .
failed          .   .   .   .   .   .   .   .   .   .   .   .   .   .   .   .
cancelled       .   .   .   .   .   .   .   .   .   .   .   .   .   .   .   .
expired         .   .   .   .   .   .   .   .   .   .   .   .   .   .   .   .
rejected        .   .   .   .   .   .   .   .   .   .   .   .   .   .   .   .
"""
ENDS: Final = {"completed", "failed", "cancelled", "expired", "rejected"}
EVENTS: Final = (
    "admitted", "declined", "queued", "accepted", "redelivered", "cancel_requested", "progressed", "worker_lost",
    "output_refused", "result_submitted", "recorded", "app_failed", "app_cancelled", "grace_passed", "deadline_passed",
    "given_up",
)  # fmt: skip


def expected_cells() -> dict[tuple[str, str], str | None]:
    lines = [line.split() for line in CELLS.strip().splitlines()[1:]]
    names = {line[0][:3]: line[0] for line in lines}
    return {
        (line[0], event): None if cell == "." else names[cell]
        for line in lines
        for event, cell in zip(EVENTS, line[1:], strict=True)
    }


def a_call(status: CallStatus) -> CallRecord:
    return CallRecord(
        seq=1, agent_id="local", conversation_id="talk", call_id="c1", tool_id="notes.write", inventory_revision="r6",
        app_scope="notes", instance_id="ins-1", status=status, input=b"", digest=b"", handling="direct",
        deadline_boot_s=60.0, deadline_wall_s=60.0, due_boot_s=None if status in ENDS else 60.0,
        created_at="2026-01-01T12:00:00.000Z", updated_at="2026-01-01T12:00:00.000Z",
    )  # fmt: skip


def test_the_cells_below_are_those_of_all_statuses_and_events() -> None:
    assert set(expected_cells()) == {(str(status), str(event)) for status, event in product(CallStatus, CallEvent)}
    assert len(expected_cells()) == 10 * 16


@pytest.mark.parametrize(("status", "event"), list(product(CallStatus, CallEvent)))
def test_a_call_in_a_status_takes_an_event_as_its_cell_says(status: CallStatus, event: CallEvent) -> None:
    call = a_call(status)

    moved = advance(call, event, at=LATER)

    target = expected_cells()[status, event]
    if target is not None:
        assert isinstance(moved, CallRecord)
        assert (moved.status, moved.updated_at) == (target, LATER)
        assert (moved.due_boot_s is None) == (target in ENDS)
    else:
        assert isinstance(moved, Rejection)
        final = status in ENDS
        assert moved.code is (RejectionCode.CALL_ALREADY_FINAL if final else RejectionCode.CALL_NOT_READY)
        with pytest.raises(IllegalTransition):
            must_advance(call, event, at=LATER)


def test_the_final_statuses_are_the_five_of_the_seed() -> None:
    assert FINAL == ENDS


def test_a_clock_that_was_set_back_does_not_make_a_record_older() -> None:
    moved = must_advance(a_call(CallStatus.RUNNING), CallEvent.PROGRESSED, at="2020-01-01T00:00:00.000Z")

    assert moved.updated_at == "2026-01-01T12:00:00.000Z"


@given(st.lists(st.sampled_from(CallEvent), max_size=30))
def test_no_sequence_of_events_leaves_a_final_status(events: list[CallEvent]) -> None:
    call = a_call(CallStatus.RECEIVED)
    reached_final = False

    for event in events:
        moved = advance(call, event, at=LATER)
        assert not (reached_final and isinstance(moved, CallRecord))
        if isinstance(moved, CallRecord):
            call = moved
        reached_final = call.status in ENDS
        assert (call.due_boot_s is None) == reached_final
