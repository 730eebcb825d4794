"""A stranger slips: random faults, one at a time, and whether the tests that execute the place find them.

`python -m tests.mutants.stranger --count 150 --seed 1`: prints each with the test that found it, then those that
survived, then shares. Survivors that change nothing that anybody could see are listed with the reason in
`accepted.toml` and not counted. `--nth` repeats single ones by their number.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.mutants.chance import Slip, slips
from tests.mutants.lines import FOLDERS, TRACED, Lines
from tests.mutants.nursery import Nursery, collected
from tests.mutants.planted import existing
from tests.mutants.tree import Tree, copied_tree
from tests.mutants.trial import End, Outcome, try_tests

TESTS: Final = ("tests/rules", "tests/commands", "tests/actors", "tests/channel", "tests/store")
SLOW: Final = ("tests/store/test_daemon.py", "tests/store/test_full_disk.py", "tests/actors/test_giving_up.py")
"""They start daemons, in which nothing is traced."""
ACCEPTED: Final = Path(__file__).with_name("accepted.toml")
MACHINES: Final = {
    "runtime_actors/rules/delivery.py": ("tests/rules/test_delivery.py",),
    "runtime_actors/commands/": ("tests/commands/test_machine.py", "tests/commands/test_people_machine.py"),
    "runtime_actors/rules/": ("tests/commands/test_machine.py",),
    "runtime_actors/records/": ("tests/commands/test_machine.py",),
}
LAST: Final = ("tests/models",)
_LIMIT_S: Final = 300.0
_MOST: Final = 500
"""Tests that are asked about one slip, the quickest first."""
_FEW: Final = 60


@dataclass(frozen=True, slots=True)
class Found:
    """What became of one slip."""

    number: int
    slip: Slip
    outcome: Outcome
    accepted: str
    """Why it changes nothing, if it is known to."""


def say(line: str) -> None:
    """On standard output, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """0 if all that were not accepted were found."""
    options = _options()
    with copied_tree() as tree:
        sources = _sources(tree.root, options.files)
        places = [slip for name, source in sources.items() for slip in slips(name, source)]
        chosen = _chosen(places, sources, options)
        reasons = accepted()
        say(f"{len(chosen)} of {len(places)} slips, seed {options.seed}")
        lines = _lines(tree, options.lines)
        with collected(tree, _collected(tree)) as nursery:
            asked = Asked(tree, lines, nursery)
            found = [_try(asked, number, slip, reasons.get(slip.name, "")) for number, slip in chosen]
    return _conclude(found)


def _sources(root: Path, files: Sequence[str]) -> dict[str, str]:
    wanted = [path for name in FOLDERS for path in sorted((root / "runtime_actors" / name).glob("*.py"))]
    names = [str(path.relative_to(root)) for path in wanted]
    chosen = [name for name in names if not files or any(one in name for one in files)]
    return {name: (root / name).read_text(encoding="utf-8") for name in chosen}


def _chosen(places: Sequence[Slip], sources: Mapping[str, str], options: argparse.Namespace) -> list[tuple[int, Slip]]:
    numbered = list(enumerate(places))
    if options.nth:
        return [numbered[number] for number in options.nth]
    by_place: dict[tuple[str, int, str], list[tuple[int, Slip]]] = {}
    for number, slip in numbered:  # an enum has many constants: each place has one chance
        by_place.setdefault((slip.file, slip.start, slip.kind), []).append((number, slip))
    choose = random.Random(options.seed)  # noqa: S311 - to be repeated
    order = choose.sample(sorted(by_place), len(by_place))
    some = (choose.choice(by_place[place]) for place in order)
    return list(itertools.islice((one for one in some if one[1].is_program(sources[one[1].file])), options.count))


def _lines(tree: Tree, kept: Path | None) -> Lines:
    """Which tests run what: read, or found out and kept."""
    path = kept or tree.root / "lines.json"
    if not path.exists():
        say("finding out which test executes which line ...")
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-p", "tests.mutants.lines"]
        command += [*TESTS, *(f"--ignore={one}" for one in SLOW), "--timeout=300"]
        environment = {TRACED: str(path.resolve()), "PYTHONPATH": str(tree.root)}
        subprocess.run(command, cwd=tree.root, env=os.environ | environment, stdout=subprocess.DEVNULL, check=False)
    return Lines.read(path)


def _collected(tree: Tree) -> list[str]:
    return [*TESTS, *existing(LAST, tree.root), *(f"--ignore={one}" for one in SLOW)]


@dataclass(frozen=True, slots=True)
class Asked:
    """Who is asked about a slip."""

    tree: Tree
    lines: Lines
    nursery: Nursery

    def about(self, slip: Slip) -> Outcome:
        """The tests that execute the place, then machines; what survives is tried again in a process of its own."""
        begun = time.monotonic()
        last = slip.line if slip.kind == "deleted" else slip.line + slip.old.count("\n")
        running = self.lines.of(slip.file, slip.line, last)[:_MOST]
        tests = running or self.lines.of_file(slip.file)[:_MOST]
        machines = (*_machines(slip.file), *existing(LAST, self.tree.root))
        text = slip.text((self.tree.root / slip.file).read_text(encoding="utf-8"))
        # What runs at the import alone cannot be taken over by a process that has imported.
        outcome = self.nursery.ask({slip.file: text}, [*tests, *machines], limit_s=_LIMIT_S) if running else None
        if outcome is None or outcome.end is not End.FOUND:
            with self.tree.planted(slip.file, text):
                few = outcome is not None  # they were all asked; left are effects at the import
                outcome = self._cold(tests[:_FEW] if few else tests, () if few else machines)
        return replace(outcome, seconds=time.monotonic() - begun)

    def _cold(self, tests: Sequence[str], machines: Sequence[str]) -> Outcome:
        outcome = Outcome(End.SURVIVED, 0.0)
        if tests:
            files = sorted({test.partition("::")[0] for test in tests})
            outcome = try_tests(self.tree, files, chosen=tests, limit_s=_LIMIT_S)
        for machine in machines:
            if outcome.end is End.SURVIVED:
                outcome = try_tests(self.tree, [machine], limit_s=_LIMIT_S)
        return outcome


def _try(asked: Asked, number: int, slip: Slip, reason: str) -> Found:
    outcome = Outcome(End.SURVIVED, 0.0) if reason else asked.about(slip)
    word = f"accepted: {reason}" if reason else f"{outcome.end} {outcome.test or outcome.error}"
    say(f"#{number} {slip}\n    {word} ({outcome.seconds:.1f} s)")
    return Found(number, slip, outcome, reason)


def _machines(file: str) -> tuple[str, ...]:
    return tuple(one for start, those in MACHINES.items() if file.startswith(start) for one in those)


def accepted() -> dict[tuple[str, str, str, str], str]:
    """Slips that nobody could notice, each with the reason."""
    rows = tomllib.loads(ACCEPTED.read_text(encoding="utf-8")).get("slip", []) if ACCEPTED.exists() else []
    return {(row["file"], row["context"], row["old"], row["new"]): row["why"] for row in rows}


def _conclude(found: Sequence[Found]) -> int:
    counted = [one for one in found if not one.accepted and one.outcome.end is not End.BROKEN]
    left = [one for one in counted if one.outcome.end is End.SURVIVED]
    say("\nsurvived:" if left else "\nnone survived")
    for one in left:
        say(f"  #{one.number} {one.slip}\n      {one.slip.context}")
    all_of, found_of = Counter(_area(one) for one in counted), Counter(_area(one) for one in counted if one not in left)
    for area, count in sorted(all_of.items()):
        say(f"{area:14} {found_of[area]:4} of {count:4}  {100 * found_of[area] / count:5.1f} %")
    others = Counter("accepted" if one.accepted else "broken" for one in found if one not in counted)
    say(f"all            {len(counted) - len(left):4} of {len(counted):4}; beside them: {dict(others)}")
    return 1 if left else 0


def _area(one: Found) -> str:
    return one.slip.file.split("/")[1]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.stranger", description=__doc__)
    parser.add_argument("--count", type=int, default=150, metavar="N", help="how many slips")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which ones")
    parser.add_argument("--files", nargs="*", default=[], metavar="PART", help="only files with this in their path")
    parser.add_argument("--nth", nargs="*", type=int, default=[], metavar="NUMBER", help="only these, by number")
    parser.add_argument("--lines", type=Path, metavar="FILE", help="keep there which test executes which line")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
