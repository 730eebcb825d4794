"""docs/mutants.md: which test finds which fault. Written by a run that found all; the names in it are checked."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.mutants.planted import Mutant
from tests.mutants.tree import ROOT

PAGE: Final = ROOT / "docs" / "mutants.md"
_HEADER: Final = """# Planted faults

Written by `scripts/mutants` after a run that found every one of them. A mutant is one small, plausible fault, planted
into a copy of the tree; it is found when a test fails because of it. An import that fails, a crash of the interpreter
or a run that does not end finds nothing. The faults are data in `tests/mutants/planted/`. CI plants all of them and
asks the first finder of each (`tests/mutants/test_mutants.py`); `scripts/mutants --long` asks all finders.
`python -m tests.mutants.stranger` makes random ones.
"""
_TITLES: Final = {
    "calls": "Calls: told twice, ended twice, ended by a stranger",
    "deliveries": "Messages and deliveries: lost, given twice, out of order",
    "interruptions": "Deaths, time and restarts",
    "lifecycle": "Focus, suspension and waking",
    "permissions": "Policy, grants and the closed list",
    "questions": "Questions to people and their answers",
    "sessions": "Channels and processes of workers",
    "store": "Commit, disk and audit chain",
    "surfaces": "Surfaces and artifacts",
}
_ROW: Final = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def write(found: Sequence[tuple[Mutant, str]]) -> None:
    """Print each mutant with the test that found it."""
    parts = [_HEADER]
    for area, rows in groupby(found, key=lambda row: row[0].area):
        parts.append(f"## {_TITLES[area]}\n")
        lines = ["| mutant | promise that it breaks | found by |", "|---|---|---|"]
        lines += [f"| `{mutant.name}` | {mutant.promise} | {_spelled(test)} |" for mutant, test in rows]
        parts.append("\n".join(lines) + "\n")
    PAGE.write_text("\n".join(parts), encoding="utf-8")


def _spelled(test: str) -> str:
    file, _, name = test.partition("::")
    words = name.partition("[")[0].replace("::", ".").replace("_", " ").removeprefix("test ")
    return f"`{Path(file).relative_to('tests')}`: {words}"


def named(text: str) -> list[str]:
    """The mutants that a page has a row for."""
    return _ROW.findall(text)


def check(all_of_them: Sequence[Mutant], page: Path = PAGE) -> int:
    """0 if the page names the mutants that there are."""
    on_page = set(named(page.read_text(encoding="utf-8"))) if page.exists() else set()
    differ = on_page ^ {one.name for one in all_of_them}
    if differ:
        sys.stderr.write(f"{page.name} is not up to date ({', '.join(sorted(differ))}): run scripts/mutants\n")
    return 1 if differ else 0
