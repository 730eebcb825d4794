"""The generated parts of docs/performance.md: pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.profile.journey import DISK, HAND_OVER, WIRE, WORK, Journey

_NONE = "-"
_SAYS = {
    WORK: "work",
    HAND_OVER: "hand-overs between threads",
    DISK: "commits",
    WIRE: "sockets and processes",
}


def replaced(page: str, part: str, text: str) -> str:
    """The page with `text` between the markers of `part`.

    Raises:
        ValueError: The markers are not there.

    """
    begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the page has no markers of {part}")
    return f"{before}{begin}\n{text.strip()}\n{end}{after}"


def call_part(journey: Journey) -> str:
    """A line a leg, and how much each kind takes."""
    rows = ["| from | to | what | µs |", "|---|---|---|---:|"]
    rows += [f"| {leg.origin} | {leg.lane} | {leg.what} | {leg.took_us:.0f} |" for leg in journey.legs]
    total = sum(leg.took_us for leg in journey.legs)
    rows += ["", "| of it | µs | share |", "|---|---:|---:|"]
    for kind, says in _SAYS.items():
        took = sum(leg.took_us for leg in journey.legs if leg.kind == kind)
        rows.append(f"| {says} | {took:.0f} | {took / total:.0%} |")
    return "\n".join(rows)


def figures_part(lines: Iterable[str]) -> str:
    """A table of what `lineup bench --json` printed.

    Raises:
        ValueError: It ended before its last line.

    """
    found: list[dict[str, Any]] = [json.loads(line) for line in lines if line.strip()]
    if not found or "figures" not in found[-1]:
        raise ValueError("this is not all of what lineup bench --json prints")
    rows = [
        "| figure | what | median | quarters | beside | ratio | bar | met |",
        "|---|---|---:|---:|---|---:|---:|---|",
    ]
    rows += [_row(one) for one in found[:-1]]
    return "\n".join(rows)


def _row(one: dict[str, Any]) -> str:
    median = _NONE if one["value"] is None else f"{one['value']:g} {one['unit']}"
    quarters = _NONE if one["spread"] is None else "{:g} to {:g}".format(*one["spread"])
    beside = _NONE if one["reference"] is None else f"{one['reference']:g}: {one['reference_is']}"
    ratio = _NONE if one["ratio"] is None else f"{one['ratio']:.2f}"
    bar = _NONE if one["bar"] is None else f"{'≥' if 'least' in one['bar_is'] else '≤'} {one['bar']:g}"
    met = {True: "yes", False: "**no**", None: _NONE}[one["ok"]]
    return f"| `{one['name']}` | {one['what']} | {median} | {quarters} | {beside} | {ratio} | {bar} | {met} |"
