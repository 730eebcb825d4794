"""Hostile MiniApps that attack, fail or never end while they are started."""

from __future__ import annotations

import pytest

from tests.e2e.daemon import wait_until
from tests.hostile.arena import Arena

pytestmark = pytest.mark.timeout(120)

CRASHES = {"leaves": "exit 0", "aborts": "signal SIGABRT", "ends": "exit 0"}


def test_an_import_reaches_nothing(arena: Arena) -> None:
    ended = arena.attack("startup.report")

    reached = arena.reached(ended)
    assert len(reached) == 7
    assert set(reached.values()) <= {"EPERM", "EACCES", "EINVAL"}


@pytest.mark.parametrize("variant", ["raises", "exits"])
def test_an_import_that_fails_is_not_tried_again(arena: Arena, variant: str) -> None:
    ended = arena.attack(f"startup-{variant}.report")

    assert (ended["status"], ended["error_code"]) == ("failed", "app_start_failed")
    assert arena.ends(arena.instance_of(ended)) == ["import_failed"]


@pytest.mark.parametrize("variant", CRASHES)
def test_a_process_that_ends_at_once_for_ever_is_given_up(arena: Arena, variant: str) -> None:
    ended = arena.attack(f"startup-{variant}.report")

    assert (ended["status"], ended["error_code"]) == ("failed", "app_crashed")
    assert wait_until("the instance is given up", lambda: given_up(arena, ended["instance_id"])) == "app_crashed"
    ends = arena.ends(arena.instance_of(ended))
    assert (set(ends), len(ends)) == ({CRASHES[variant]}, 6)


def given_up(arena: Arena, instance_id: str) -> str | None:
    """With which reason an instance has failed, as `lineup ps --all` shows it."""
    rows = (row for row in arena.daemon.listed("ps", all=True) if row["instance_id"] == instance_id)
    return next((row["end_reason"] for row in rows if row["state"] == "failed"), None)
