"""What `lineup conformance` shows: JSON for scripts, a table for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from runtime_actors.authoring.daemon import NotServed
from runtime_actors.authoring.promises import PROMISES, Finding
from runtime_actors.authoring.trials import Conformance
from runtime_actors.client import ClientError
from runtime_actors.contract.base import JsonObject
from runtime_actors.rules.text import neutral

_NO_TERMINAL_WIDTH: Final = 160
_MARKS: Final = {True: ("holds", "green"), False: ("BROKEN", "bold red"), None: ("not tried", "yellow")}


def run(folder: Path, given: Mapping[str, list[JsonObject]], *, as_json: bool) -> int:
    """Try the app in `folder`; 0 only if no promise is broken and none had to be left untried for a broken one."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _NO_TERMINAL_WIDTH
    try:
        found = list(_followed(Conformance(folder, given).findings(), as_json=as_json))
    except (NotServed, ClientError, ValueError) as failed:
        console.print(Text(neutral(f"lineup conformance: {failed}", lines=True), style="bold red"))
        return 2 if isinstance(failed, ValueError) else 1
    broken = [one.promise.id for one in found if one.broken]
    if not as_json:
        _show(console, found, broken)
    return 1 if broken else 0


def _followed(findings: Iterator[Finding], *, as_json: bool) -> Iterator[Finding]:
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Trying promises", total=len(PROMISES))
        for finding in findings:
            bar.advance(task)
            if as_json:
                print(json.dumps(finding.to_json()), flush=True)  # noqa: T201 - scripts read this
            yield finding


def _show(console: Console, found: list[Finding], broken: list[str]) -> None:
    table = Table("promise", "", "what was found", box=None, pad_edge=False)
    for one in found:
        word, style = _MARKS[one.holds]
        table.add_row(one.promise.id, Text(word, style=style), Text(neutral(one.detail, lines=True)))
    console.print(table)
    console.print()
    for one in found:
        if one.broken:
            console.print(f"{one.promise.id}: {one.promise.sentence} (section {one.promise.section})")
    verdict = (
        f"{len(broken)} of {len(found)} promises are broken: {', '.join(broken)}" if broken else "All of it holds."
    )
    console.print(verdict, style="bold red" if broken else "bold green")
