"""`scripts/crash`: every failpoint with many seeds. A seed varies where the fault strikes, the load and the timing."""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from runtime_actors.client import ClientError
from tests.e2e.agent import History
from tests.e2e.daemon import TooLong, short_folder
from tests.faults import campaign, world
from tests.faults.matrix import all_commands

Job = tuple[campaign.Case, int]
"""What is planted, and the seed."""


_KINDS: Final = ("daemon", "zygote", "worker")


def planned(seeds: range, only: str | None) -> Iterator[Job]:
    """Seed 0 is all kills and drops, a command a run. With the others several share a run, and the sieges come too."""
    for seed in seeds:
        choose = random.Random(seed)  # noqa: S311 - where the faults strike
        found: Iterable[campaign.Case] = itertools.chain.from_iterable(map(campaign.cases, all_commands()))
        if seed:
            found = itertools.chain(campaign.crowds(choose), campaign.sieges(all_commands(), choose))
        yield from ((case, seed) for case in found if only is None or only in case.name)


def play(job: Job, template: Path, history: History) -> tuple[str, dict[str, int]]:
    """One run: what was wrong with it, "" for nothing, and its figures."""
    case, seed = job
    with short_folder() as folder:
        try:
            outcome = campaign.run(case, template, history, folder / "s", seed)
        except (TooLong, AssertionError, ClientError) as error:
            return f"{case.name}: {error} (again: scripts/crash --only {case.name} --seed {seed})", {}
    struck = [fault for fault in case.faults if fault not in outcome.missed]
    figures = outcome.figures | {"deaths": outcome.deaths, "hit": len(struck)}
    figures |= {f"{fault.command}:{fault.point}:{fault.action}": 1 for fault in struck}
    if outcome.violations or (outcome.missed and not seed):
        return campaign.describe(case, seed, outcome), figures
    return "", figures


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/crash", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds each failpoint is run with")
    parser.add_argument("--seed", type=int, help="this seed alone")
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    options = parser.parse_args()
    seeds = range(options.seeds) if options.seed is None else range(options.seed, options.seed + 1)
    jobs = list(planned(seeds, options.only))
    begun, failed, totals = time.monotonic(), 0, Counter[str]()
    with short_folder() as folder, ProcessPoolExecutor(options.jobs) as pool:
        history = world.prepare(folder / "template")
        runs = [pool.submit(play, job, folder / "template", history) for job in jobs]
        for done, run in enumerate(as_completed(runs), start=1):
            wrong, figures = run.result()
            totals.update(figures)
            if wrong:
                failed += 1
                say(f"FAILED {wrong}")
            if done % 20 == 0 or done == len(jobs):
                say(f"{done}/{len(jobs)} runs, {failed} failed, {time.monotonic() - begun:.0f} s")
    say(
        f"{len(jobs)} runs: {totals['hit']} faults struck, {totals['deaths']} daemons died, {totals['accepted']} calls "
        f"accepted, {totals['final']} ended, {totals['redelivered']} redelivered, {totals['duplicates']} duplicate "
        f"deliveries, {totals['entries']} audit entries; {failed} runs broke a promise"
    )
    points = {f"{one.command}:{one.point}:{one.action}" for case, _ in jobs for one in case.faults}
    kills = {kind: sum(totals[point] for point in points if point.endswith(f":kill-{kind}")) for kind in _KINDS}
    say("processes killed: " + ", ".join(f"{count} {kind}s" for kind, count in kills.items()))
    rarest = sorted(points, key=lambda point: totals[point])[:3]
    say(f"{len(points)} failpoints; least often struck: " + ", ".join(f"{point} {totals[point]}x" for point in rarest))
    return 1 if failed or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
