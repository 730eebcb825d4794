"""Print the table of attempts and places into docs/isolation.md, from what `lineup doctor` finds in each place.

Needs root, which can play every place, and takes about a minute. With --check nothing is run or written: it only sees
whether the page's rows are the attempts that there are, in their order.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from runtime_actors.doctor.apps.intruder import attempts  # noqa: E402

PAGE: Final = ROOT / "docs" / "isolation.md"
BEGIN: Final = "<!-- generated: attack table"
END: Final = "<!-- end of generated"
PLACES: Final = {
    "root": ("root",),
    "ordinary user": ("user",),
    "container": ("container",),
    "container, Landlock ABI 1": ("container", "--landlock-abi=1"),
}
LIMIT_S: Final = 60
INTRODUCTION: Final = """
What `scripts/isolation_table.py` saw, by `lineup doctor` on Linux {kernel}: for each attempt the errno that stopped it;
*stopped* where the answer was none (the process ended, or the daemon refused), *capped* where a limit bounded it,
*open* where the level does not promise to stop it.
"""


def examine(place: str, *options: str) -> dict[str, str]:
    """The cell of each attempt in one place, and of `level`."""
    command = [sys.executable, "-I", str(ROOT / "tests/isolation/places.py"), place]
    command += [sys.executable, "-m", "runtime_actors", "doctor", "--json", *options]
    ran = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    *rows, verdict = map(json.loads, ran.stdout.splitlines())
    if not verdict["ok"]:
        sys.exit(f"{place}: {[row for row in rows if not row['ok']]} {verdict} {ran.stderr}")
    cells = {row["attempt"]: row["errno"] if row["outcome"] == "stopped" else row["outcome"] for row in rows}
    return {name: cell or "stopped" for name, cell in cells.items()} | {"level": f"`{verdict['level']}`"}


def table(found: dict[str, dict[str, str]]) -> str:
    """A heading and a table for each thing that is attacked."""
    places = list(found)
    head = [f"| {' | '.join(['', *places])} |", f"|{'---|' * (len(places) + 1)}"]

    def line(name: str, *, is_code: bool = True) -> str:
        shown = f"`{name}`" if is_code else name
        return f"| {shown} | {' | '.join(found[place].get(name, '') for place in places)} |"

    parts = [
        INTRODUCTION.format(kernel=os.uname().release.partition("-")[0]),
        "\n".join([*head, line("level", is_code=False)]),
    ]
    for group, names in attempts.GROUPS.items():
        parts.append(f"\n### Attacked: {group}\n")
        parts.append("\n".join([*head, *map(line, names)]))
    return "\n".join(parts) + "\n"


def rows_of(generated: str) -> list[str]:
    return [line.split("`")[1] for line in generated.splitlines() if line.startswith("| `")]


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description="Print the table of attempts into docs/isolation.md.")
    parser.add_argument("--check", action="store_true", help="run and write nothing; exit 1 if the rows have drifted")
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    first, _, rest = rest.partition("\n")
    generated, end, after = rest.partition(END)
    if parser.parse_args().check:
        if rows_of(generated) == [name for names in attempts.GROUPS.values() for name in names]:
            return 0
        print("the rows of docs/isolation.md are not the attempts: run scripts/isolation_table.py", file=sys.stderr)
        return 1
    made = table({place: examine(*how) for place, how in PLACES.items()})
    PAGE.write_text(f"{before}{begin}{first}\n{made}{end}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
