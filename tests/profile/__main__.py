"""Where each microsecond of a call goes: `python -m tests.profile --help`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from runtime_actors.bench.agent import Agent
from runtime_actors.bench.ground import Daemon, ground
from tests.profile.journey import Journey, journey
from tests.profile.page import call_part, figures_part, replaced
from tests.profile.picture import draw
from tests.profile.tracks import Mark, note, noted

ROOT: Final = Path(__file__).parents[2]
APPS: Final = Path(__file__).with_name("apps")
PAGE: Final = ROOT / "docs" / "performance.md"
PICTURE: Final = ROOT / "docs" / "performance-call.svg"
ECHO: Final = "traced.echo"
MARKS: Final = "traced.marks"
_AT_ONCE: Final = 1500
"""Marks that the app gives in one result."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="profile_call", description=__doc__.partition(":")[0])
    parser.add_argument(
        "part",
        nargs="?",
        choices=("call", "figures"),
        default="call",
        help="call: profile calls, draw docs/performance-call.svg, renew the table of docs/performance.md; "
        "figures: renew the other table from what `lineup bench --json` printed, on standard input",
    )
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--show", action="store_true", help="only print the table")
    chosen = parser.parse_args()
    if chosen.part == "figures":
        part = figures_part(sys.stdin)
    else:
        found = profile(chosen.calls)
        part = call_part(found)
        if not chosen.show:
            PICTURE.write_text(draw(found), encoding="utf-8")
    if chosen.show:
        print(part)  # noqa: T201 - what was asked for
    else:
        PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), chosen.part, part), encoding="utf-8")


def profile(calls: int) -> Journey:
    """Make calls one at a time to a daemon whose hand-overs are noted."""
    noted.clear()
    with ground(None, quick=True) as folder:
        file = folder / "marks"
        with Daemon(folder / "s", apps=_laid(folder), entry=("-m", "tests.profile.daemon", str(file))) as daemon:
            theirs = _of_worker(daemon, calls)
        ours = list(noted)
        return journey([*ours, *theirs, *(Mark(*one) for one in json.loads(file.read_text(encoding="utf-8")))])


def _laid(folder: Path) -> Path:
    """Copied to where a worker with a uid of its own can read."""
    for source in (APPS / "traced").iterdir():
        if source.is_file():
            place = folder / "apps" / "traced" / source.name
            place.parent.mkdir(exist_ok=True, mode=0o755)
            place.write_bytes(source.read_bytes())
    return folder / "apps"


def _of_worker(daemon: Daemon, calls: int) -> list[Mark]:
    """Make the calls, after some that warm up; what the worker noted meanwhile."""
    with Agent(daemon) as agent:
        for _ in range(calls // 5):
            agent.call(ECHO)
        while len(_given(agent)) == _AT_ONCE:
            pass
        for _ in range(calls):
            note("asks", "agent")
            agent.call(ECHO)
            note("has the result", "agent")
        found: list[Mark] = []
        while len(page := _given(agent)) == _AT_ONCE:
            found += page
        return found + page


def _given(agent: Agent) -> list[Mark]:
    lines = (line.partition(" ") for line in agent.result(MARKS)["marks"])
    return [Mark(int(at), "worker", what) for at, _, what in lines]


if __name__ == "__main__":
    main()
