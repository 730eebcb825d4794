"""Plants every named fault and looks for the test that finds it: `python -m tests.mutants.run`, or `scripts/mutants`.

The short form takes the first finder of each, the long form (`--long`) all of them. docs/mutants.md is written from
what a run of all mutants found; `--check` only looks whether it names the mutants there are.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from queue import SimpleQueue
from typing import Final

from tests.mutants import page
from tests.mutants.nursery import NotCollected, Nursery, collected
from tests.mutants.planted import Mutant, NoLongerFits, existing, mutants
from tests.mutants.tree import ROOT, Tree, copied_tree
from tests.mutants.trial import End, Outcome, try_tests

_CLEAN_LIMIT_S: Final = 600.0
_ANYTHING: Final = ("tests/commands/test_machine.py", "tests/models")
"""Machines that run everything: the long form asks them last."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one mutant."""

    mutant: Mutant
    end: End
    test: str
    error: str
    seconds: float

    @property
    def is_found(self) -> bool:
        """Whether a test failed because of it."""
        return self.end is End.FOUND


class NotClean(Exception):
    """The finders fail without any fault: what they find says nothing."""


def finders_of(mutant: Mutant, *, is_long: bool) -> tuple[str, ...]:
    """Those to try, in their order: in the short form the first that is there."""
    if is_long:
        return existing((*mutant.finders, *_ANYTHING), ROOT)
    return existing(mutant.finders, ROOT)[:1]


def check_clean(nursery: Nursery, finders: Sequence[str]) -> None:
    """All finders pass on a tree without faults.

    Raises:
        NotClean: One does not.

    """
    try:
        outcome = nursery.ask({}, finders, limit_s=_CLEAN_LIMIT_S)
    except NotCollected:
        outcome = Outcome(End.BROKEN, 0.0, error="the collection of the finders")
    if outcome is None or outcome.end is not End.SURVIVED:
        raise NotClean(f"without a fault this fails: {outcome}")


def find(tree: Tree, mutant: Mutant, finders: Sequence[str], nursery: Nursery | None = None) -> Verdict:
    """Plant one, and try finders until one finds it.

    What seems to survive, or break, in a child of the nursery is tried again in a process of its own.

    Raises:
        NoLongerFits: It has no place.

    """
    outcome, seconds = Outcome(End.SURVIVED, 0.0), 0.0
    texts = mutant.texts(tree.root)
    warm = nursery.ask(texts, finders) if nursery is not None else None
    if warm is not None and warm.end is End.FOUND:
        return Verdict(mutant, warm.end, warm.test, warm.error, warm.seconds)
    with mutant.planted(tree):
        for finder in finders:
            outcome = try_tests(tree, [finder])
            seconds += outcome.seconds
            if outcome.end is not End.SURVIVED:
                break
    return Verdict(mutant, outcome.end, outcome.test, outcome.error, seconds)


def find_all(
    chosen: Sequence[Mutant], *, is_long: bool, jobs: int = 1, told: Callable[[Verdict], None] = lambda _: None
) -> list[Verdict]:
    """Every verdict, in the order of `chosen`; `told` hears of each as it comes.

    Raises:
        NotClean: The finders find something where nothing is.
        NoLongerFits: A mutant has no place.

    """
    for mutant in chosen:
        mutant.texts(ROOT)
    finders = sorted({one for mutant in chosen for one in finders_of(mutant, is_long=is_long)})
    with ExitStack() as stack:
        workshops: SimpleQueue[tuple[Tree, Nursery]] = SimpleQueue()
        first = stack.enter_context(copied_tree())
        for number in range(jobs):  # further ones are copies of the first: somebody may be at work on the tree itself
            tree = first if number == 0 else stack.enter_context(copied_tree(first.root))
            workshops.put((tree, stack.enter_context(collected(tree, finders))))
        tree, nursery = workshops.get()
        check_clean(nursery, finders)
        workshops.put((tree, nursery))

        def one(mutant: Mutant) -> Verdict:
            tree, nursery = workshop = workshops.get()
            try:
                return find(tree, mutant, finders_of(mutant, is_long=is_long), nursery)
            finally:
                workshops.put(workshop)

        with ThreadPoolExecutor(jobs) as pool:
            verdicts = [future.result() for future in _told(pool, one, chosen, told)]
    return sorted(verdicts, key=lambda verdict: chosen.index(verdict.mutant))


def _told(
    pool: ThreadPoolExecutor,
    one: Callable[[Mutant], Verdict],
    chosen: Sequence[Mutant],
    told: Callable[[Verdict], None],
) -> Iterator[Future[Verdict]]:
    for future in as_completed([pool.submit(one, mutant) for mutant in chosen]):
        told(future.result())
        yield future


def main() -> int:
    """0 when all were found and docs/mutants.md is as it should be."""
    options = _options()
    all_of_them = mutants()
    if options.check:
        return page.check(all_of_them)
    chosen = [one for one in all_of_them if not options.only or any(word in one.name for word in options.only)]
    if options.only and not chosen:
        complain("no mutant has such a name")
        return 2
    begun = time.monotonic()
    progress = _Progress(len(chosen))
    try:
        verdicts = find_all(chosen, is_long=options.long, jobs=options.jobs, told=progress.told)
    except (NotClean, NoLongerFits) as error:
        complain(str(error))
        return 2
    found = [verdict for verdict in verdicts if verdict.is_found]
    if options.json:
        for verdict in verdicts:
            told = asdict(verdict) | {"mutant": verdict.mutant.name, "seconds": round(verdict.seconds, 2)}
            say(json.dumps(told))
    else:
        for verdict in verdicts:
            say(f"{verdict.mutant.name:44} {verdict.seconds:6.1f} s  {verdict.test or verdict.end}")
        say(f"{len(found)} of {len(verdicts)} found in {time.monotonic() - begun:.0f} s")
    if not options.only and len(found) == len(verdicts):
        page.write([(verdict.mutant, verdict.test) for verdict in verdicts])
    return 0 if len(found) == len(verdicts) else 1


def say(line: str) -> None:
    """On standard output."""
    sys.stdout.write(f"{line}\n")


def complain(line: str) -> None:
    """On standard error, at once."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class _Progress:
    """A line for each mutant that is done, on standard error."""

    def __init__(self, count: int) -> None:
        self._count, self._done = count, 0

    def told(self, verdict: Verdict) -> None:
        self._done += 1
        word = verdict.end if verdict.is_found else f"{verdict.end.upper()} {verdict.error}".rstrip()
        line = f"[{self._done}/{self._count}] {verdict.mutant.name}: {word} ({verdict.seconds:.1f} s)"
        complain(line)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="mutants with this in their name")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each mutant")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="mutants at a time, each in its own copy")
    parser.add_argument("--long", action="store_true", help="try all finders of each, not only the first")
    parser.add_argument("--check", action="store_true", help="only look whether docs/mutants.md names them all")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
