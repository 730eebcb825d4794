"""`lineup demo`: the whole journey of a call on one screen, with real processes and real crashes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runtime_actors.client import ClientError, Delivered, PersonSaid, SessionEvent
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.tools import ToolProgressDelivery
from runtime_actors.errors import ExitCode
from runtime_actors.rules.text import neutral
from runtime_actors.simulator import Player, StepResult, read_scenario

_SEALED, _PROCESS = "sealed", "process"
_ISOLATION: Final = {
    _SEALED: "Minimum isolation of this demo: sealed. The kernel confines each MiniApp to one socket and the files it"
    " may read; `lineup doctor` attacks one and shows what is stopped here.",
    _PROCESS: "Minimum isolation of this demo: process, as this machine cannot confine MiniApps better. Each has a"
    " process of its own with limits, and can still do what you can do.",
}
_COMMAND_S: Final = 60.0
_LOG_LINES: Final = 15
_QUIET: Final = "--suspend-after=1"
"""So that an app that is quiet gives up its process before the story is over."""


def run(*, as_json: bool, keep: bool) -> int:
    """Run the demo, and return 0 only if everything that it shows was as it should be."""
    state = Path(tempfile.mkdtemp(prefix="lineup-demo-"))
    screen = _JsonScreen() if as_json else _Screen()
    ok = False
    try:
        isolation = _SEALED
        started = _lineup("start", state, _QUIET)
        if started.returncode == ExitCode.ISOLATION:
            isolation = _PROCESS
            started = _lineup("start", state, _QUIET, f"--min-isolation={isolation}")
        screen.begin(state, isolation)
        if started.returncode == 0:
            ok = _play(state, screen)
        else:
            screen.fail(started.stderr)
    finally:
        stopped = _lineup("stop", state)
        if stopped.returncode != 0:
            screen.fail(stopped.stderr)
        if not ok:
            screen.fail(_end_of_log(state))
        if not keep:
            shutil.rmtree(state)
    ok = ok and stopped.returncode == 0
    screen.end(state if keep else None, ok=ok)
    return 0 if ok else 1


def _play(state: Path, screen: _Screen | _JsonScreen) -> bool:
    scenario = resources.files("runtime_actors") / "scenarios" / "demo.jsonl"
    steps = read_scenario(scenario.read_text(encoding="utf-8").splitlines())
    done: StepResult | None = None
    try:
        with Player(state, on_event=screen.hear) as player:
            for done in player.play(steps):
                screen.step(done)
            screen.calls(player)
    except ClientError as error:
        screen.fail(str(error))
        return False
    return done is not None and done.ok and done.number == len(steps)


def _lineup(command: str, state: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runtime_actors", command, f"--state={state}", *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="backslashreplace",
        timeout=2 * _COMMAND_S,
        check=False,
    )


def _end_of_log(state: Path) -> str:
    try:
        text = (state / "logs" / "daemon.log").read_text(encoding="utf-8", errors="backslashreplace")
    except FileNotFoundError:
        return "the daemon wrote no log"
    return "\n".join(text.splitlines()[-_LOG_LINES:])


class _Screen:
    """For people: a terminal with colours, or plain text elsewhere."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._isolation = Text()

    def begin(self, state: Path, isolation: str) -> None:
        self._isolation = Text(_ISOLATION[isolation], style="green" if isolation == _SEALED else "yellow")
        self._console.print(self._isolation)
        self._console.print(f"The daemon keeps its state in {state}\n")

    def hear(self, agent: str, event: SessionEvent) -> None:
        if isinstance(event, PersonSaid):
            told = f"the person: {neutral(event.said.text, limit=60)}"
            self._console.print(Text(f"        {agent} hears {told}", style="dim"))
        if not isinstance(event, Delivered):
            return
        one = event.delivery
        if isinstance(one, ToolProgressDelivery):
            percent = "" if one.progress.percent is None else f" {one.progress.percent:g} %"
            told = f"{one.call_id}: progress{percent} {neutral(one.progress.note or '', limit=60)}"
        else:
            result = "" if one.call.result is None else f" {neutral(json.dumps(one.call.result), limit=60)}"
            told = f"{one.call.call_id}: {one.call.status}{result}"
        self._console.print(Text(f"        {agent} hears {told}", style="dim"))

    def step(self, done: StepResult) -> None:
        mark = Text(" ok   " if done.ok else " FAIL ", style="green" if done.ok else "bold red")
        detail = Text(neutral(done.detail), style="dim" if done.ok else "red")
        if done.step.note is None:
            self._console.print(mark + detail)
        else:
            self._console.print(mark + Text(done.step.note))
            self._console.print(Text("      ") + detail)

    def calls(self, player: Player) -> None:
        table = Table("call", "conversation", "ended", "results delivered", box=None, pad_edge=False)
        for (_, conversation, call_id), known in player.calls.items():
            table.add_row(call_id, conversation, known.state.status, str(len(known.results)))
        self._console.print()
        self._console.print(table)

    def fail(self, why: str) -> None:
        self._console.print(Text(neutral(why.rstrip(), lines=True), style="red"))

    def end(self, state: Path | None, *, ok: bool) -> None:
        self._console.print()
        if ok:
            self._console.print("All of it held.", style="bold green")
        else:
            self._console.print("Something did not hold: see above.", style="bold red")
        if state is not None:
            self._console.print(
                f"For a closer look:  lineup start --state {state}\n"
                f"then:               lineup calls --state {state}\n"
                f"                    lineup audit --state {state}\n"
                f"in the end:         lineup stop --state {state}; rm -r {state}"
            )
        self._console.print(self._isolation)


class _JsonScreen:
    """For scripts: one JSON object a line; the last has the verdict."""

    def __init__(self) -> None:
        self._calls: list[JsonObject] = []
        self._why: list[str] = []
        self._isolation = ""

    def begin(self, state: Path, isolation: str) -> None:
        self._isolation = isolation
        _print({"min_isolation": isolation, "state": str(state)})

    def hear(self, agent: str, event: SessionEvent) -> None:
        if isinstance(event, Delivered):
            _print({"agent": agent, "delivery": event.body})

    def step(self, done: StepResult) -> None:
        _print(done.to_json())

    def calls(self, player: Player) -> None:
        self._calls = [
            {"agent": agent, "results": len(known.results), "call": known.state.to_wire()}
            for (agent, *_), known in player.calls.items()
        ]

    def fail(self, why: str) -> None:
        self._why.append(why)

    def end(self, state: Path | None, *, ok: bool) -> None:
        told: JsonObject = {"ok": ok, "calls": self._calls, "min_isolation": self._isolation}
        _print(told | ({"state": str(state)} if state else {}) | ({"why": self._why} if self._why else {}))


def _print(row: JsonObject) -> None:
    print(json.dumps(row), flush=True)  # noqa: T201 - scripts read this
