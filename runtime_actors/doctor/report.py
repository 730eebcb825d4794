"""What `lineup doctor` shows: JSON for scripts, a table for people."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from runtime_actors.client import ClientError
from runtime_actors.contract.base import JsonObject
from runtime_actors.doctor.apps.intruder import attempts
from runtime_actors.doctor.examination import DoctorFailed, Examination, Finding
from runtime_actors.rules.text import neutral
from runtime_actors.supervisor.isolation import Level, meets

_STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NO_TERMINAL_WIDTH: Final = 120
_TOO_WEAK: Final = (
    "Workers are not confined well enough here to run a MiniApp that you do not trust. It takes Linux 5.13 or newer on"
    " x86_64 or aarch64, with Landlock switched on ('landlock' is in /sys/kernel/security/lsm) and seccomp filters"
    " allowed; the profile of a container must allow both. Until then the runtime starts nothing, unless it is told"
    " --min-isolation with the level below. What could use up this machine (bombs) was not tried."
)
_A_HOLE: Final = (
    "An attempt that should be stopped here was not: do not run a MiniApp that you do not trust, and report it."
)


def run(*, as_json: bool, landlock_abi: int | None) -> int:
    """Examine this machine; 0 only if all is stopped that the level in force promises to stop."""
    screen = _JsonScreen() if as_json else _Screen()
    for number in _STOPS:
        signal.signal(number, _stop)
    try:
        with Examination(landlock_abi) as examination:
            return _examine(examination, screen)
    except (DoctorFailed, ClientError) as failed:
        screen.fail(str(failed))
        return 1


def _stop(*_: object) -> None:
    """Once: what is cleaned up then must not be interrupted."""
    for number in _STOPS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _examine(examination: Examination, screen: _Screen | _JsonScreen) -> int:
    confinement = examination.confinement()
    names = examination.attempts(confinement.level)
    findings = (examination.find(name, confinement) for name in names)
    seen = list(screen.follow(findings, len(names)))
    ok = all(finding.ok for finding in seen) and meets(confinement.level, Level.SEALED)
    screen.end(seen, confinement.level, ok=ok)
    return 0 if ok else 1


class _JsonScreen:
    """One JSON object an attempt; the last line has the verdict."""

    def follow(self, findings: Iterator[Finding], _: int) -> Iterator[Finding]:
        for finding in findings:
            _print(finding.to_json())
            yield finding

    def end(self, seen: Sequence[Finding], level: Level, *, ok: bool) -> None:
        _print({"level": level, "attempts": len(seen), "ok": ok})

    def fail(self, why: str) -> None:
        _print({"level": Level.PROCESS, "attempts": 0, "ok": False, "why": why})


class _Screen:
    """A bar while it goes on, then a table for each thing that is attacked, and the verdict."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        if not self._console.is_terminal:
            self._console.width = _NO_TERMINAL_WIDTH

    def follow(self, findings: Iterator[Finding], count: int) -> Iterator[Finding]:
        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("Attacking decoys", total=count)
            for finding in findings:
                bar.advance(task)
                yield finding

    def end(self, seen: Sequence[Finding], level: Level, *, ok: bool) -> None:
        for group, names in attempts.GROUPS.items():
            table = Table(group, "", "by", "stopped by", box=None, pad_edge=False)
            for finding in (one for one in seen if one.attempt in names):
                outcome = Text(finding.outcome, style="green" if finding.ok else "bold red")
                table.add_row(finding.attempt, outcome, finding.errno or "", _behind(finding, level))
            if table.rows:
                self._console.print(table)
                self._console.print()
        holes = [finding.attempt for finding in seen if not finding.ok]
        if not meets(level, Level.SEALED):
            self._console.print(_TOO_WEAK)
        elif holes:
            self._console.print(_A_HOLE)
        verdict = f"level {level}: {len(seen)} attempts, {len(holes)} of them not stopped as they must be"
        self._console.print(verdict, style="bold green" if ok else "bold red")

    def fail(self, why: str) -> None:
        self._console.print(Text(neutral(f"lineup doctor: {why}", lines=True), style="bold red"))


def _behind(finding: Finding, level: Level) -> str:
    if finding.outcome == "open":
        return "" if finding.promised else f"not promised at {level}"
    return ", ".join(finding.stopped_by) or "by none of the layers that should"


def _print(row: JsonObject) -> None:
    print(json.dumps(row), flush=True)  # noqa: T201 - scripts read this
