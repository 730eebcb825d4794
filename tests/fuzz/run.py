"""`scripts/fuzz`: hostile inputs against everything that reads what others say. A seed makes the same inputs again."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from tests.fuzz import targets
from tests.fuzz.campaign import Figures, fuzz, load, replay

_CHUNK: Final = 10_000
"""Inputs of one job: large enough to be worth a process's time, small enough to share."""
_WIDTH: Final = 26

Job = tuple[str, int, str]
"""Target, inputs, seed."""


def jobs_of(inputs: int, seed: int, only: list[str]) -> Iterator[Job]:
    """A part of a target is a job of its own. With `only`, those targets share all inputs as they would all of them."""
    planned = targets.planned(inputs)
    chosen = {name: count for name, count in planned.items() if not only or name in only}
    total = sum(chosen.values())
    for name, count in chosen.items():
        left = count if not only else max(1, inputs * count // total)
        for part in range(-(-left // _CHUNK)):
            yield name, min(_CHUNK, left - part * _CHUNK), f"{seed}.{part}" if part else str(seed)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many in all (default: 1,000,000)")
    parser.add_argument("--seed", type=int, help="default: another one each time; it is printed")
    parser.add_argument("--target", action="append", default=[], metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="processes at the same time (default: 2)")
    parser.add_argument("--json", action="store_true", help="figures as one JSON object a line")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "lineup-fuzz", metavar="DIR")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="feed the inputs of a file again")
    parser.add_argument("--list", action="store_true", help="name the targets")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.target if name not in targets.NAMES]
    if unknown:
        parser.error(f"no such target: {', '.join(unknown)} (--list names them)")
    if options.list:
        _say("\n".join(targets.NAMES))
        return 0
    if options.replay is not None:
        return _replay(options.replay)
    seed = int(time.time()) if options.seed is None else options.seed
    return _run(list(jobs_of(options.inputs, seed, options.target)), seed, options)


def _run(jobs: list[Job], seed: int, options: argparse.Namespace) -> int:
    begun, done, failed = time.monotonic(), 0, 0
    of_target: dict[str, Figures] = {}
    _tell(f"seed {seed}: {sum(count for _, count, _ in jobs)} inputs for {len({one[0] for one in jobs})} targets")
    with ProcessPoolExecutor(options.jobs) as pool:
        for ended in as_completed([pool.submit(fuzz, *job) for job in jobs]):
            figures = ended.result()
            done += 1
            of_target.setdefault(figures.target, Figures(figures.target)).add(figures)
            _tell(f"[{done}/{len(jobs)} {time.monotonic() - begun:4.0f} s] {figures.inputs} inputs of {figures.target}")
            for found in figures.found:
                failed += 1
                path = found.save(options.out)
                _tell(f"FAULT in {found.target}: {found.fault}\n  again: scripts/fuzz --replay {path}")
    for name in (name for name in targets.NAMES if name in of_target):
        _say(json.dumps(of_target[name].to_json()) if options.json else _line(of_target[name]))
    total = sum(one.inputs for one in of_target.values())
    taken = time.monotonic() - begun
    slowest = max(of_target.values(), key=lambda one: one.slowest_s)
    summary = {
        "seed": seed,
        "inputs": total,
        "seconds": round(taken, 1),
        "accepted": sum(one.accepted for one in of_target.values()),
        "slowest_ms": round(slowest.slowest_s * 1000, 2),
        "slowest_target": slowest.target,
        "memory_growth_bytes": max(one.growth_bytes for one in of_target.values()),
        "faults": failed,
    }
    _say(json.dumps(summary) if options.json else ", ".join(f"{key} {value}" for key, value in summary.items()))
    return 1 if failed or not total else 0


def _line(figures: Figures) -> str:
    one = figures.to_json()
    refused = ", ".join(f"{code} {count}" for code, count in figures.verdicts.most_common(6) if code != "accepted")
    return (
        f"{figures.target:{_WIDTH}} {one['inputs']:7} inputs {one['per_second'] or 0:6}/s, "
        f"accepted {one['accepted']:6}, slowest {one['slowest_ms']:6.1f} ms, "
        f"grown {figures.growth_bytes / 1e6:4.1f} MB; {refused}"
    )


def _replay(path: Path) -> int:
    found = load(path)
    fault = replay(found)
    _say(f"{found.target}, {len(found.inputs)} inputs: {fault or 'nothing is wrong any more'}")
    return 0 if fault is None else 1


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
