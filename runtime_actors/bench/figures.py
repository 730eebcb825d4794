"""What is measured, and what it is worth: pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from runtime_actors.contract.base import JsonObject

BarIs = Literal["ratio at most", "ratio at least", "value at most"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured turn by turn."""

    turns: tuple[float, ...]
    """One value a turn: where a turn holds several measurements, their median."""

    @classmethod
    def of(cls, turns: Sequence[float]) -> Sample:
        """At least one turn."""
        return cls(tuple(turns))

    @property
    def median(self) -> float:
        return statistics.median(self.turns)

    @property
    def spread(self) -> tuple[float, float]:
        """The quarter below and the quarter above."""
        if len(self.turns) == 1:
            return self.turns[0], self.turns[0]
        low, _, high = statistics.quantiles(self.turns, n=4, method="inclusive")
        return low, high

    def __mul__(self, factor: float) -> Sample:
        return Sample(tuple(one * factor for one in self.turns))

    def __sub__(self, other: Sample) -> Sample:
        """Turn by turn."""
        return Sample(tuple(mine - theirs for mine, theirs in zip(self.turns, other.turns, strict=True)))

    def ratio_to(self, other: Sample) -> float:
        """Turn by turn where both took turns, so that a machine whose speed drifts divides itself out."""
        if len(self.turns) == len(other.turns):
            return statistics.median(mine / theirs for mine, theirs in zip(self.turns, other.turns, strict=True))
        return self.median / other.median


@dataclass(frozen=True, slots=True)
class Bar:
    """What is asked of a figure."""

    limit: float
    of: BarIs = "ratio at most"

    def is_met(self, value: float, ratio: float | None) -> bool | None:
        """None if it is about a ratio, and there is none."""
        if self.of == "value at most":
            return value <= self.limit
        if ratio is None:
            return None
        return ratio <= self.limit if self.of == "ratio at most" else ratio >= self.limit


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report."""

    name: str
    unit: str
    what: str
    """A few words for the table."""
    sample: Sample | None
    """None where it cannot be measured; `reference_is` says how it could."""
    reference: Sample | None = None
    reference_is: str = ""
    """What the reference is, or, if there is none, how to get one."""
    bar: Bar | None = None
    digits: int = 3

    @property
    def ratio(self) -> float | None:
        if self.sample is None or self.reference is None:
            return None
        return self.sample.ratio_to(self.reference)

    @property
    def ok(self) -> bool | None:
        """Whether the bar is met; None without one, and where something is missing that it takes to know."""
        return None if self.bar is None or self.sample is None else self.bar.is_met(self.sample.median, self.ratio)

    def to_json(self) -> JsonObject:
        """As `lineup bench --json` prints it."""
        ratio = self.ratio
        return {
            "name": self.name,
            "value": self._rounded(self.sample),
            "unit": self.unit,
            "reference": self._rounded(self.reference),
            "reference_is": self.reference_is,
            "ratio": None if ratio is None else round(ratio, 3),
            "bar": None if self.bar is None else self.bar.limit,
            "bar_is": None if self.bar is None else self.bar.of,
            "ok": self.ok,
            "median": self._rounded(self.sample),
            "spread": None if self.sample is None else [round(end, self.digits) for end in self.sample.spread],
            "repeats": 0 if self.sample is None else len(self.sample.turns),
            "what": self.what,
        }

    def _rounded(self, sample: Sample | None) -> float | None:
        return None if sample is None else round(sample.median, self.digits)


def median_of(values: Sequence[float]) -> float:
    """The median of one turn's measurements."""
    return statistics.median(values)


def at(values: Sequence[float], share: float) -> float:
    """The value below which that share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
