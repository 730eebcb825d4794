"""A long run is checked in time that grows as it does."""

from __future__ import annotations

import gc
import time

from runtime_actors.checker import Evidence, violations
from tests.checker import made_up


def _seconds(seen: Evidence) -> float:
    """CPU seconds of this process: others may be busy."""
    gc.collect()
    begun = time.process_time()
    assert violations(seen) == []
    return time.process_time() - begun


def test_a_hundred_thousand_entries_are_checked_in_seconds() -> None:
    seen = made_up.run(100_000 // made_up.ENTRIES_A_CALL)

    took_s = _seconds(seen)

    print(f"{len(seen.audit)} entries and {len(seen.history)} lines: {took_s:.1f} s")  # noqa: T201 - a figure of the note
    assert len(seen.audit) > 100_000
    assert took_s < 30


def test_four_times_the_run_takes_no_more_than_a_few_times_as_long() -> None:
    short, long = made_up.run(1_000), made_up.run(4_000)

    assert min(_seconds(long) for _ in range(3)) < 8 * min(_seconds(short) for _ in range(3))
