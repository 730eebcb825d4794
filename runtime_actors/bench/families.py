"""What a family of figures is given, and how its turns are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime_actors.bench.effort import Effort
from runtime_actors.bench.figures import Figure, Sample


@dataclass(frozen=True, slots=True)
class Bench:
    """One run."""

    folder: Path
    effort: Effort
    step: Callable[[], None]
    """Moves the bar on."""


@dataclass(frozen=True, slots=True)
class Family:
    """Figures that are measured together."""

    name: str
    """The first word of their names."""
    steps: Callable[[Effort], int]
    """How often the bar is moved on."""
    measure: Callable[[Bench], Iterator[Figure]]


def in_turns(bench: Bench, turns: int, subjects: Mapping[str, Callable[[], float]]) -> dict[str, Sample]:
    """Measure all of them once a turn, one after the other: A B C, A B C, and so on. The first turn warms up."""
    found: dict[str, list[float]] = {name: [] for name in subjects}
    for turn in range(turns + 1):
        for name, measure in subjects.items():
            value = measure()
            if turn:
                found[name].append(value)
        bench.step()
    return {name: Sample.of(values) for name, values in found.items()}
