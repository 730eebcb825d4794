"""Attacks that take their time, all at once: others are served all the while."""

from __future__ import annotations

from typing import Final

import pytest

from tests.hostile.arena import GROWTH_BYTES, Arena

pytestmark = pytest.mark.timeout(120)

LOG_BYTES: Final = 2 * 2**20


def test_a_flood_of_log_and_an_import_without_end_delay_nobody(arena: Arena) -> None:
    before = arena.rss_bytes()
    keys = [arena.begin("resources.log"), arena.begin("startup-hangs.report")]

    while not all(key in arena.agent.finals for key in keys):
        arena.complete_task(arena.open_task())
        arena.agent.pump(0.01)

    flood, hang = (arena.agent.finals[key] for key in keys)
    assert flood["result"] == {"repeated": False}
    folder = arena.daemon.state / "logs" / arena.instance_of(flood)
    assert 0 < sum(path.stat().st_size for path in folder.iterdir()) < LOG_BYTES
    assert arena.rss_bytes() - before < GROWTH_BYTES
    assert (hang["status"], hang["error_code"]) == ("failed", "app_start_failed")
    assert arena.ends(arena.instance_of(hang)) == ["start_timeout"]
    arena.is_unharmed()
