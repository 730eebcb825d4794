"""Print the state tables of docs/states.md; with --check, only see if it drifted."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from runtime_actors.rules.calls import TRANSITIONS
from runtime_actors.rules.grants import TRANSITIONS as GRANT_TRANSITIONS
from runtime_actors.rules.instances import ATTEMPT_TRANSITIONS, INSTANCE_TRANSITIONS
from runtime_actors.rules.interactions import TRANSITIONS as INTERACTION_TRANSITIONS

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)
Table = dict[str, dict[str, str]]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "states.md"
HEADER = """# States

Printed by `scripts/state_tables.py` from the tables in `runtime_actors/rules/`; a test fails when this page is not
what they say. An empty cell is an event that does not fit: what agents and apps report is refused there
(`call_already_final` when the call is final, `call_not_ready` otherwise), and an event of the runtime's own would be a
bug. Statuses are explained in `protocol.md`, section 4.3.
"""
CALLS = """`received` and `routing` are passed within the transaction that admits a call, unless a person has to
permit it: such a call waits as `received`. `submitted` is passed within the one that completes it. A wish to cancel is
a field of the record and changes no status."""
INTERACTIONS = """What a person is asked. `submitted` is passed within the transaction that takes the answer. To a
`confirm` that is dismissed the answer is no. A final one answers `interaction_already_final`."""
GRANTS = """What a person was asked to permit. A grant for `always` is not `used` up. One whose time is over is
`expired` from the next look at it."""
INSTANCES = "An instance is live until it is `closing`. One that is `suspended` has no process."
ATTEMPTS = "An attempt is one process of an instance. The end of one that is `stopping` is no crash."


def plain(table: Mapping[S, Mapping[E, S]]) -> Table:
    """A table as words."""
    return {str(state): {str(event): str(after) for event, after in row.items()} for state, row in table.items()}


def page() -> str:
    """The whole page."""
    sections = (
        ("Calls", CALLS, plain(TRANSITIONS)),
        ("Interactions", INTERACTIONS, plain(INTERACTION_TRANSITIONS)),
        ("Grants", GRANTS, plain(GRANT_TRANSITIONS)),
        ("Instances", INSTANCES, plain(INSTANCE_TRANSITIONS)),
        ("Attempts", ATTEMPTS, plain(ATTEMPT_TRANSITIONS)),
    )
    parts = [f"## {title}\n\n{text}\n\n{diagram(table)}\n\n{cells(table)}\n" for title, text, table in sections]
    return "\n".join([HEADER, *parts])


def diagram(table: Table) -> str:
    """A mermaid diagram: one arrow for all events from one state to another; loops stand in the cells only."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(table))}"]
    for state, row in table.items():
        arrows: dict[str, list[str]] = {}
        for event, after in row.items():
            if after != state:
                arrows.setdefault(after, []).append(event)
        lines += [f"    {state} --> {after}: {', '.join(events)}" for after, events in arrows.items()]
        if not row:
            lines.append(f"    {state} --> [*]")
    return "\n".join([*lines, "```"])


def cells(table: Table) -> str:
    """A Markdown table: a line an event, a column a state that any event leaves."""
    columns = [state for state, row in table.items() if row]
    events = list(dict.fromkeys(event for row in table.values() for event in row))
    lines = [["event", *columns], ["---"] * (len(columns) + 1)]
    lines += [[f"`{event}`", *(table[state].get(event, "") for state in columns)] for event in events]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description="Print the state tables into docs/states.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page has drifted")
    made = page()
    if not parser.parse_args().check:
        PAGE.write_text(made, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == made:
        return 0
    print("docs/states.md is not what the tables say: run scripts/state_tables.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
