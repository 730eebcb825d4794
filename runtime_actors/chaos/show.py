"""What `lineup chaos` shows: a JSON line a run for scripts, a table for people, and a bar meanwhile."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from runtime_actors.chaos import page
from runtime_actors.chaos.campaign import Run, Total, Wanted, campaign
from runtime_actors.chaos.ground import ground
from runtime_actors.chaos.judge import sentence_of
from runtime_actors.chaos.lines import told
from runtime_actors.chaos.seen import ChaosFailed
from runtime_actors.chaos.timeline import picture
from runtime_actors.client import ClientError
from runtime_actors.contract.base import JsonObject
from runtime_actors.rules.text import neutral

_STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BROKEN: Final = 1
_LINES: Final = 24
_EVERY: Final = 20
"""Runs between two lines of progress, where no bar can be drawn."""
_LINE: Final = 220
_SHOWN: Final = 3
_KEPT: Final = 20
"""Broken runs whose evidence is kept."""


def run(scenario: str, wanted: Wanted, *, report: Path | None, as_json: bool) -> int:
    """Play all of it and show it: 0 if every rule held and every point named was hit, else 1."""
    screen = _JsonScreen() if as_json else _Screen(scenario)
    for number in _STOPS:
        signal.signal(number, _stop)
    total, begun = Total(), time.monotonic()
    try:
        with ground() as root, contextlib.closing(campaign(wanted, root)) as runs:
            screen.begin(wanted)
            for one in runs:
                total.add(one)
                screen.show(one)
                if report is not None:
                    one.drawn = picture(one.played)
                if one.ok or sum(not run.ok for run in total.runs) > _KEPT:
                    one.played.forget()
    except (ChaosFailed, ClientError) as failed:
        screen.fail(str(failed))
        return _BROKEN
    except KeyboardInterrupt:
        if report is not None and total.runs:
            page.save(report, scenario, wanted, total)  # of the runs that were played
        raise
    finally:
        screen.close()
    try:
        saved = page.save(report, scenario, wanted, total) if report is not None else None
    except OSError as error:  # what was found is told all the same
        screen.fail(f"the report could not be written: {error.strerror}: {error.filename}")
        saved = None
    screen.end(wanted, total, time.monotonic() - begun, saved)
    return 0 if total.ok else _BROKEN


def _stop(*_: object) -> None:
    """Once: what is cleaned up then must not be interrupted."""
    for number in _STOPS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


class _JsonScreen:
    """One JSON object a run; the last line has the verdict."""

    def begin(self, _wanted: Wanted) -> None:
        """Nothing is known yet."""

    def show(self, run: Run) -> None:
        _print(run.to_json())

    def close(self) -> None:
        """Nothing is left on the screen."""

    def end(self, wanted: Wanted, total: Total, took_s: float, saved: Path | None) -> None:
        told: JsonObject = {
            "ok": total.ok,
            "runs": len(total.runs),
            "failed": sum(not run.ok for run in total.runs),
            "seed": wanted.seed,
            "rules": dict(total.rules),
            "never_hit": sum(bool(run.never_hit) for run in total.runs),
            "planned": {str(kind): count for kind, count in sorted(total.planned.items())},
            "struck": {str(kind): count for kind, count in sorted(total.struck.items())},
            "proves_nothing": total.proves_nothing,
            "calls": total.figures["accepted"],
            "min_isolation": total.runs[-1].min_isolation,
            "took_s": round(took_s, 1),
        }
        _print(told | ({"report": str(saved)} if saved is not None else {}))

    def fail(self, why: str) -> None:
        _print({"ok": False, "runs": 0, "why": why})


class _Screen:
    """For people."""

    def __init__(self, scenario: str) -> None:
        self._scenario = scenario
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._errors = Console(stderr=True, highlight=False)
        self._bar = Progress(console=self._errors, transient=True, disable=not self._errors.is_terminal)
        self._task = self._bar.add_task("playing", total=None)
        self._bar.start()
        self._failed = self._done = self._wanted = 0

    def begin(self, wanted: Wanted) -> None:
        kinds = ", ".join(wanted.kinds)
        places = f" at {', '.join(map(str, wanted.at))}" if wanted.at else ""
        self._console.print(f"{wanted.runs} runs from seed {wanted.seed} on: {kinds}{places}")
        self._bar.update(self._task, total=wanted.runs)
        self._wanted = wanted.runs

    def show(self, run: Run) -> None:
        self._bar.advance(self._task)
        self._done += 1
        if not run.ok:
            self._tell_failed(run)
        if not self._errors.is_terminal and self._done % _EVERY == 0 and self._done < self._wanted:
            self._errors.print(f"{self._done}/{self._wanted} runs, {self._failed} failed")

    def _tell_failed(self, run: Run) -> None:
        self._failed += 1
        self._bar.update(self._task, description=f"playing, {self._failed} failed")
        what = ", ".join([*run.played.rules, *run.never_hit])
        faults = ", ".join(map(str, run.played.faults)) or "no fault"
        line = f"run {run.number}, seed {run.played.seed}: {neutral(what, limit=_LINE)} (planned: {faults})"
        self._console.print(Text(line, style="red"))

    def close(self) -> None:
        self._bar.stop()

    def end(self, wanted: Wanted, total: Total, took_s: float, saved: Path | None) -> None:
        self._console.print(_table(total))
        for run in total.runs:
            if run.shortest is not None:
                self._explain(run, wanted)
        if saved is not None:
            self._console.print(f"the report: {saved}")
        failed = sum(not run.ok for run in total.runs)
        if total.proves_nothing:
            self._console.print("no fault struck at all, so this proves nothing", style="bold red")
        verdict = f"{failed} of {len(total.runs)} runs failed" if failed else f"all {len(total.runs)} runs held"
        isolation = total.runs[-1].min_isolation
        self._console.print(
            f"{verdict}, {took_s:.0f} s, isolation {isolation}", style="bold green" if total.ok else "bold red"
        )

    def _explain(self, run: Run, wanted: Wanted) -> None:
        shortest = run.shortest or run.played
        faults = ", ".join(map(str, shortest.faults)) or "no fault at all"
        self._console.print()
        self._console.print(Text(f"seed {run.played.seed} breaks with {faults}:", style="bold"))
        for one in shortest.violations[:_SHOWN]:
            line = f"  {one.rule}: {one.subject}: {one.message}"
            self._console.print(Text(neutral(line, limit=_LINE), style="red"))
            self._console.print(Text(f"    what must hold: {sentence_of(one.rule)}"))
            for row in one.shortest[:_LINES]:
                self._console.print(Text(f"    {neutral(told(row), limit=_LINE)}", style="dim"))
        options = "".join(f" --at {point}" for point in wanted.at)
        kinds = ",".join(wanted.kinds)
        again = f"lineup chaos {self._scenario} --seed {run.played.seed} --runs 1 --faults {kinds}{options}"
        self._console.print(f"  again: {again}{''.join(f' --app {folder}' for folder in wanted.apps)}")

    def fail(self, why: str) -> None:
        self._console.print(Text(neutral(f"lineup chaos: {why}", lines=True), style="bold red"))


def _table(total: Total) -> Table:
    table = Table("fault", "planned", "struck", box=None, pad_edge=False)
    for kind, count in sorted(total.planned.items()):
        table.add_row(str(kind), str(count), str(total.struck[kind]))
    return table


def _print(row: JsonObject) -> None:
    print(json.dumps(row), flush=True)  # noqa: T201 - scripts read this
