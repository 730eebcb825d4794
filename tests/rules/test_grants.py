"""Grants: what can happen to one, and when it is over."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Final

import pytest

from runtime_actors.errors import IllegalTransition
from runtime_actors.rules.grants import (
    DECLINE_REMEMBERED_S,
    GrantEvent,
    GrantRecord,
    GrantStatus,
    is_over,
    is_remembered,
    must_advance,
)

EARLIER, NOW = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.000Z"
ASKED: Final = GrantRecord(
    grant_id="g1", app_scope="notes", conversation_id="talk", interaction_id="q1", capability="notify", span="once",
    status=GrantStatus.ASKING, created_at=EARLIER, updated_at=EARLIER,
)  # fmt: skip
CELLS: Final = {
    ("asking", "approved"): "granted",
    ("asking", "declined"): "denied",
    ("asking", "unanswered"): "denied",
    ("granted", "used"): "used",
    ("granted", "revoked"): "revoked",
    ("granted", "expired"): "expired",
}
"""All there are."""


@pytest.mark.parametrize(("status", "event"), list(product(GrantStatus, GrantEvent)))
def test_a_grant_takes_the_steps_of_its_table_and_no_other(status: GrantStatus, event: GrantEvent) -> None:
    grant = replace(ASKED, status=status)

    if (status, event) in CELLS:
        moved = must_advance(grant, event, at=NOW)
        assert moved == replace(grant, status=GrantStatus(CELLS[status, event]), updated_at=NOW)
    else:
        with pytest.raises(IllegalTransition, match=f"g1 is {status} and cannot take {event}"):
            must_advance(grant, event, at=NOW)


def test_a_step_takes_more_along_and_is_never_older_than_the_last() -> None:
    moved = must_advance(replace(ASKED, updated_at=NOW), GrantEvent.APPROVED, at=EARLIER, expires_wall_s=5.0)

    assert (moved.updated_at, moved.expires_wall_s) == (NOW, 5.0)


@pytest.mark.parametrize(("until_s", "over"), [(None, False), (99.9, True), (100.0, True), (100.1, False)])
def test_a_grant_is_over_at_its_time(until_s: float | None, *, over: bool) -> None:
    assert is_over(replace(ASKED, expires_wall_s=until_s), 100.0) == over


@pytest.mark.parametrize(
    ("now_s", "remembered"),
    [(99.9, False), (100.0, True), (99.9 + DECLINE_REMEMBERED_S, True), (100.0 + DECLINE_REMEMBERED_S, False)],
)
def test_a_no_is_remembered_for_a_while_and_not_before_it_was_said(now_s: float, *, remembered: bool) -> None:
    assert is_remembered(100.0, now_s) == remembered
