"""Refusals get an entry each until they are a flood, and none of a flood goes uncounted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.rules.flood import MAX_KEYS, PERIOD_S, PLAIN, FloodMeter


def test_the_first_twenty_refusals_of_a_period_get_an_entry_each() -> None:
    meter = FloodMeter()

    entries = [meter.wants_entry(("local", "busy"), 1000.0) for _ in range(25)]

    assert entries == [True] * 20 + [False] * 5
    assert (PLAIN, PERIOD_S) == (20, 10.0)


def test_another_agent_or_another_code_is_counted_apart() -> None:
    meter = FloodMeter()
    for _ in range(30):
        meter.wants_entry(("local", "busy"), 1000.0)

    assert meter.wants_entry(("other", "busy"), 1000.0)
    assert meter.wants_entry(("local", "app_disabled"), 1000.0)


def test_a_flood_is_told_once_when_its_period_is_over() -> None:
    meter = FloodMeter()
    for _ in range(25):
        meter.wants_entry(("local", "busy"), 1000.0)

    assert meter.over(1009.9) == []
    assert meter.over(1010.0) == [(("local", "busy"), 5)]
    assert meter.over(1020.0) == []


def test_what_was_no_flood_is_forgotten_silently() -> None:
    meter = FloodMeter()
    meter.wants_entry(("local", "busy"), 1000.0)

    assert meter.over(1010.0) == []
    assert meter.counts == {}


def test_what_was_undone_was_never_counted_and_what_was_kept_stays() -> None:
    meter = FloodMeter()
    key = ("local", "busy")
    for _ in range(15):
        meter.wants_entry(key, 1000.0)
    meter.keep()
    for _ in range(10):
        meter.wants_entry(key, 1000.0)

    meter.undo()
    meter.undo()

    assert [meter.wants_entry(key, 1000.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert meter.over(1010.0) == [(key, 2)]


def test_a_flood_of_names_is_counted_under_one() -> None:
    meter = FloodMeter()
    for number in range(MAX_KEYS):
        meter.wants_entry((f"a{number}", "attach_denied"), 1000.0)

    entries = [meter.wants_entry((f"b{number}", "attach_denied"), 1000.0) for number in range(50)]

    assert sum(entries) == PLAIN
    assert len(meter.counts) == MAX_KEYS + 1
    assert meter.over(1010.0) == [(("*", "attach_denied"), 50 - PLAIN)]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0.0, 2.0)), max_size=300))
def test_entries_and_counts_together_are_all_refusals(refusals: list[tuple[str, float]]) -> None:
    meter, now, told = FloodMeter(), 1000.0, 0

    for who, gap in refusals:
        now += gap
        told += sum(count for _, count in meter.over(now))
        told += meter.wants_entry((who, "busy"), now)
    told += sum(count for _, count in meter.over(now + PERIOD_S))

    assert told == len(refusals)
