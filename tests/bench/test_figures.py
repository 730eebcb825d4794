from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runtime_actors.bench.effort import QUICK
from runtime_actors.bench.families import Bench, in_turns
from runtime_actors.bench.figures import Bar, BarIs, Figure, Sample, at
from runtime_actors.bench.report import COLUMNS, FAMILIES, cells, families_of
from runtime_actors.cli import bench as command


def a_figure(*turns: float, reference: Sample | None = None, bar: Bar | None = None) -> Figure:
    return Figure("call.floor", "ms", "a call", Sample.of(turns), reference, "the floor", bar)


def test_a_figure_is_one_flat_json_object() -> None:
    figure = a_figure(4.0, 5.0, 6.0, reference=Sample.of([2.0, 2.5, 3.0]), bar=Bar(2.0))

    assert figure.to_json() == {
        "name": "call.floor",
        "value": 5.0,
        "unit": "ms",
        "reference": 2.5,
        "reference_is": "the floor",
        "ratio": 2.0,
        "bar": 2.0,
        "bar_is": "ratio at most",
        "ok": True,
        "median": 5.0,
        "spread": [4.5, 5.5],
        "repeats": 3,
        "what": "a call",
    }


@pytest.mark.parametrize(
    ("of", "value", "reference", "ok"),
    [
        ("ratio at most", 4.0, 2.0, True),
        ("ratio at most", 4.2, 2.0, False),
        ("ratio at least", 4.0, 2.0, True),
        ("ratio at least", 3.8, 2.0, False),
        ("value at most", 2.0, None, True),
        ("value at most", 2.1, None, False),
    ],
)
def test_a_bar_is_met_or_not(of: BarIs, value: float, reference: float | None, ok: bool) -> None:  # noqa: FBT001
    beside = None if reference is None else Sample.of([reference])

    assert a_figure(value, reference=beside, bar=Bar(2.0, of)).ok is ok


def test_without_its_reference_a_figure_is_shown_and_not_judged() -> None:
    row = a_figure(5.0, bar=Bar(2.0)).to_json()

    assert (row["value"], row["reference"], row["ratio"], row["ok"]) == (5.0, None, None, None)


def test_what_could_not_be_measured_has_no_value_and_meets_no_bar() -> None:
    figure = Figure("start.private", "MiB", "memory", None, None, "readable by root", Bar(4.0, "value at most"))

    row = figure.to_json()

    assert (row["value"], row["spread"], row["repeats"], row["ok"]) == (None, None, 0, None)
    assert len(cells(figure)) == len(COLUMNS)


def test_a_machine_that_becomes_slower_does_not_change_a_ratio() -> None:
    subject, reference = Sample.of([2.0, 4.0, 40.0]), Sample.of([1.0, 2.0, 20.0])

    assert subject.ratio_to(reference) == 2.0


def test_a_share_of_values_lies_below_the_value_at_it() -> None:
    assert at([float(number) for number in range(100)], 0.99) == 99.0


def test_subjects_take_turns_and_the_first_turn_only_warms_up() -> None:
    order: list[str] = []
    steps: list[str] = []

    def subject(name: str) -> Callable[[], float]:
        def measure() -> float:
            order.append(name)
            return float(len(order))

        return measure

    bench = Bench(Path(), QUICK, lambda: steps.append("step"))
    found = in_turns(bench, 2, {"a": subject("a"), "b": subject("b")})

    assert order == ["a", "b"] * 3
    assert found == {"a": Sample.of([3.0, 5.0]), "b": Sample.of([4.0, 6.0])}
    assert len(steps) == 3


def test_the_command_knows_the_families_without_loading_them() -> None:
    assert tuple(family.name for family in FAMILIES) == command.FAMILIES


def test_a_family_is_chosen_by_its_own_name_or_by_a_figure_of_it() -> None:
    chosen = [family.name for family in families_of(["start.private", "call"])]

    assert chosen == ["call", "start"]
