"""What `lineup bench` shows: a JSON line a figure for scripts, a table for people, and a bar meanwhile."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from runtime_actors.bench import accept, calls, crowd, history, starts
from runtime_actors.bench.effort import FULL, QUICK, Effort
from runtime_actors.bench.families import Bench, Family
from runtime_actors.bench.figures import Figure
from runtime_actors.bench.ground import BenchFailed, ground
from runtime_actors.client import ClientError
from runtime_actors.contract.base import JsonObject
from runtime_actors.rules.text import neutral

FAMILIES: Final[tuple[Family, ...]] = (
    calls.CALLS,
    calls.FLOW,
    accept.ACCEPT,
    starts.START,
    crowd.CROWD,
    history.HISTORY,
    history.BOOT,
)
_STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NO_TERMINAL_WIDTH: Final = 150
_UNMET: Final = 1


def run(*, as_json: bool, quick: bool, check: bool, only: Sequence[str], folder: Path | None) -> int:
    """Measure and show; 0 if it was measured, and with `check` only if every bar that could be judged is met."""
    screen = _JsonScreen() if as_json else _Screen()
    for number in _STOPS:
        signal.signal(number, _stop)
    effort = QUICK if quick else FULL
    try:
        with ground(folder, quick=quick) as place:
            seen = list(_measured(place, effort, only, screen))
    except (BenchFailed, ClientError) as failed:
        screen.fail(str(failed))
        return 1
    ok = all(figure.ok is not False for figure in seen)
    screen.end(seen, ok=ok)
    return _UNMET if check and not ok else 0


def _stop(*_: object) -> None:
    """Once: what is cleaned up then must not be interrupted."""
    for number in _STOPS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def families_of(only: Sequence[str]) -> list[Family]:
    """The families that hold figures of these names, or all of them; a name may be a family's own."""
    wanted = {name.partition(".")[0] for name in only}
    return [family for family in FAMILIES if not wanted or family.name in wanted]


def _measured(place: Path, effort: Effort, only: Sequence[str], screen: _JsonScreen | _Screen) -> Iterator[Figure]:
    chosen = families_of(only)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=sum(family.steps(effort) for family in chosen))
        for family in chosen:
            bar.update(task, description=f"measuring {family.name}")
            for figure in family.measure(Bench(place, effort, lambda: bar.advance(task))):
                if not only or figure.name in only or family.name in only:
                    screen.show(figure)
                    yield figure


class _JsonScreen:
    """One JSON object a figure; the last line has the verdict."""

    def show(self, figure: Figure) -> None:
        _print(figure.to_json())

    def end(self, seen: Sequence[Figure], *, ok: bool) -> None:
        _print({"figures": len(seen), "ok": ok})

    def fail(self, why: str) -> None:
        _print({"figures": 0, "ok": False, "why": why})


class _Screen:
    """A table in the end."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        if not self._console.is_terminal:
            self._console.width = _NO_TERMINAL_WIDTH

    def show(self, figure: Figure) -> None:
        """All at once in the end."""

    def end(self, seen: Sequence[Figure], *, ok: bool) -> None:
        table = Table(*COLUMNS, box=None, pad_edge=False)
        for figure in seen:
            colour = {True: "green", False: "bold red", None: ""}[figure.ok]
            table.add_row(*(Text(cell) for cell in cells(figure)[:-1]), Text(cells(figure)[-1], style=colour))
        self._console.print(table)
        missing = sorted({figure.reference_is for figure in seen if figure.bar is not None and figure.ok is None})
        for what in missing:
            self._console.print(f"not judged for want of {what}")
        unmet = sum(figure.ok is False for figure in seen)
        verdict = f"{len(seen)} figures, {unmet} of them beside their bars" if unmet else f"{len(seen)} figures"
        self._console.print(verdict, style="bold green" if ok else "bold red")

    def fail(self, why: str) -> None:
        self._console.print(Text(neutral(f"lineup bench: {why}", lines=True), style="bold red"))


COLUMNS: Final = ("figure", "what", "median", "quarters", "reference", "ratio", "bar", "met")


def cells(figure: Figure) -> tuple[str, ...]:
    """A figure as words, a cell for each of `COLUMNS`."""
    row = figure.to_json()
    bar = figure.bar
    return (
        figure.name,
        figure.what,
        "-" if row["value"] is None else f"{row['value']:g} {figure.unit}",
        "-" if row["spread"] is None else "{:g} to {:g}".format(*row["spread"]),
        "-" if row["reference"] is None else f"{row['reference']:g}",
        "-" if row["ratio"] is None else f"{row['ratio']:.2f}",
        "-" if bar is None else f"{bar.of.replace('at most', '<=').replace('at least', '>=')} {bar.limit:g}",
        {True: "yes", False: "NO", None: "-"}[figure.ok],
    )


def _print(row: JsonObject) -> None:
    print(json.dumps(row), flush=True)  # noqa: T201 - scripts read this
