"""`python -m runtime_actors.checker FOLDER`: whether the run that left this folder kept every promise."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from runtime_actors.checker.evidence import Unreadable
from runtime_actors.checker.figures import figures, vacuous
from runtime_actors.checker.files import read
from runtime_actors.checker.verdict import violations
from runtime_actors.checker.violation import RULES, Violation

KEPT, BROKEN, UNREADABLE = 0, 1, 2
_WIDTH: Final = 240
"""Characters of a line of evidence that are shown."""
_SHOWN: Final = 50
"""Violations that are shown one by one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a folder: 0 for kept, 1 for broken or vacuous, 2 for evidence that cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m runtime_actors.checker",
        description="Check what a run left (docs/history.md) against every rule. "
        "Exit code 1: a rule is broken, or the run proves too little; 2: the folder cannot be read.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="histories/*.jsonl, audit.jsonl, listings.json")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options = parser.parse_args(arguments)
    try:
        seen, required = read(options.folder)
        found, counted = violations(seen), figures(seen)
        lacking = vacuous(counted, required)
    except Unreadable as error:
        sys.stderr.write(f"cannot be checked: {error}\n")
        return UNREADABLE
    show = _as_json if options.json else _as_text
    sys.stdout.write(show(found, counted, lacking))
    return BROKEN if found or lacking else KEPT


def _as_json(found: Sequence[Violation], counted: Mapping[str, int], lacking: Sequence[str]) -> str:
    rows = [
        {
            "rule": one.rule,
            "kind": "liveness" if one.is_liveness else "safety",
            "subject": one.subject,
            "message": one.message,
            "shortest": list(one.shortest),
        }
        for one in found
    ]
    return json.dumps({"violations": rows, "vacuous": list(lacking), "figures": dict(counted)}) + "\n"


def _as_text(found: Sequence[Violation], counted: Mapping[str, int], lacking: Sequence[str]) -> str:
    lines = [f"{name} {count}" for name, count in counted.items()]
    text = f"seen: {', '.join(lines)}\n"
    for title, is_liveness in (("broken", False), ("did not happen", True)):
        these = [one for one in found if one.is_liveness is is_liveness]
        for one in these[:_SHOWN]:
            text += f"\n{title}: {one}\n  rule: {RULES[one.rule]}\n"
            text += "".join(f"  {_cut(json.dumps(row))}\n" for row in one.shortest)
        if len(these) > _SHOWN:
            text += f"\n{title}: {len(these) - _SHOWN} more\n"
    text += "".join(f"\nproves too little: {one}\n" for one in lacking)
    rules = sorted({one.rule for one in found})
    return text + (f"\n{len(found)} violations of {', '.join(rules)}\n" if found else "\nno rule is broken\n")


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."


if __name__ == "__main__":
    sys.exit(main())
