"""`scripts/storm`: storm after storm, until so many seconds are over and so many processes were killed.

The first storm has the seed that is printed, each further one the next. A seed draws the same strikes and the same load
again; what meets what is up to the machine.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from runtime_actors.checker import vacuous
from tests.e2e.daemon import ROOT
from tests.storms.schedule import KILLS, LEAST, Kind

STORM_S: Final = 30.0
_LIMIT_S: Final = 400.0
"""A storm that has not ended by then hangs."""
REQUIRED: Final = {"accepted": 50, "redelivered": 1, "duplicates": 1, "unknown": 1, "given again": 1, "recoveries": 2}
"""What all storms together must have seen at least."""
_FIGURES: Final = ("accepted", "final", "redelivered", "duplicates", "unknown", "given again", "recoveries", "entries")


@dataclass(slots=True)
class Total:
    """All storms so far."""

    storms: int = 0
    violations: list[str] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def kills(self) -> int:
        return sum(self.struck[kind] for kind in KILLS)

    def add(self, verdict: Mapping[str, Any], folder: Path) -> None:
        self.storms += 1
        self.violations += [f"seed {verdict['seed']}: {one} (logs: {folder})" for one in verdict["violations"]]
        for name in ("struck", "figures", "ends", "errors"):
            getattr(self, name).update(verdict[name])
        self.left_out |= verdict["left_out"]

    def lacking(self, kinds: tuple[Kind, ...]) -> list[str]:
        """What was not exercised enough to prove anything."""
        wanted = {str(kind): LEAST for kind in kinds if kind not in self.left_out}
        return vacuous(self.struck, wanted) + vacuous(self.figures, REQUIRED)


def play(seed: int, seconds: float, kinds: tuple[Kind, ...]) -> tuple[Mapping[str, Any], Path]:
    """One storm in a process of its own; its folder is gone afterwards, unless something was wrong."""
    folder = Path(tempfile.mkdtemp(prefix="lu-storm-"))
    command = [sys.executable, "-m", "tests.storms.storm", str(folder), str(seed), str(seconds), ",".join(kinds)]
    with (folder / "storm.err").open("wb") as errors:
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    try:
        out, _ = child.communicate(timeout=_LIMIT_S + 5 * seconds)
    except subprocess.TimeoutExpired:
        child.terminate()  # it ends what it started
        out, _ = child.communicate(timeout=60)
    if child.returncode not in {0, 1} or not out.strip():
        said = (folder / "storm.err").read_text()[-2000:]
        lost: dict[str, Any] = {name: {} for name in ("struck", "figures", "ends", "errors", "left_out")}
        return {"seed": seed, "violations": [f"the storm itself ended with {child.returncode}: {said}"], **lost}, folder
    verdict: dict[str, Any] = json.loads(out.splitlines()[-1])
    if not verdict["violations"]:
        shutil.rmtree(folder, ignore_errors=True)
    return verdict, folder


def storms(options: argparse.Namespace, kinds: tuple[Kind, ...], total: Total) -> Iterator[Mapping[str, Any]]:
    """Play until it is enough, a few at a time."""
    begun, seed = time.monotonic(), options.seed
    running: set[Future[tuple[Mapping[str, Any], Path]]] = set()

    def is_enough() -> bool:
        gone_s = time.monotonic() - begun
        return bool(gone_s > 2 * options.seconds or (gone_s >= options.seconds and total.kills >= options.kills))

    with ThreadPoolExecutor(options.jobs) as pool:
        while running or not total.storms:
            while len(running) < options.jobs and not (is_enough() and total.storms + len(running)):
                length = min(STORM_S, options.seconds)
                running.add(pool.submit(play, seed, length, kinds))
                seed += 1
                threading.Event().wait(0.01)
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                verdict, folder = one.result()
                total.add(verdict, folder)
                yield verdict
            if total.violations and not options.keep_going:
                options.seconds = options.kills = 0
            if not running and not is_enough():
                running.add(pool.submit(play, seed, min(STORM_S, options.seconds), kinds))
                seed += 1


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    kinds = tuple(Kind(kind) for kind in options.kinds.split(","))
    begun, total = time.monotonic(), Total()
    if not options.json:
        say(f"seed {options.seed}: {', '.join(kinds)}")
    for verdict in storms(options, kinds, total):
        if not options.json:
            wrong = f", BROKEN: {verdict['violations'][0]}" if verdict["violations"] else ""
            say(f"{time.monotonic() - begun:5.0f} s: seed {verdict['seed']}, {total.kills} kills so far{wrong}")
    gone_s = time.monotonic() - begun
    lacking = total.lacking(kinds)
    if total.kills < options.kills:
        lacking.append(f"kills: {total.kills}, and at least {options.kills} must be")
    if options.json:
        say(_as_json(options.seed, gone_s, total, lacking))
    else:
        _tell(gone_s, total, lacking)
    return 1 if total.violations or lacking else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/storm", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="go on for so long (default: 60)")
    parser.add_argument("--kills", type=int, default=0, help="and until so many were killed, twice as long at most")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of the first storm")
    parser.add_argument("--kinds", default=",".join(Kind), help=f"what strikes, of {','.join(Kind)}")
    parser.add_argument("--jobs", type=int, default=1, help="storms at the same time (default: 1)")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end, and nothing else")
    return parser.parse_args(arguments)


def _as_json(seed: int, gone_s: float, total: Total, lacking: list[str]) -> str:
    told: dict[str, Any] = {"seed": seed, "seconds": round(gone_s, 1), "storms": total.storms, "kills": total.kills}
    told |= {"kills_by_kind": {kind: total.struck[kind] for kind in KILLS}, "struck": total.struck}
    told |= {name.replace(" ", "_"): total.figures[name] for name in _FIGURES}
    told |= {"ends": total.ends, "errors": total.errors, "left_out": total.left_out}
    return json.dumps({**told, "calls": total.figures["accepted"], "violations": total.violations, "lacking": lacking})


def _tell(gone_s: float, total: Total, lacking: list[str]) -> None:
    for one in total.violations:
        say(f"BROKEN {one}")
    for one in lacking:
        say(f"proves too little: {one}")
    for kind, why in total.left_out.items():
        say(f"left out: {kind}: {why}")
    say("struck: " + ", ".join(f"{kind} {count}" for kind, count in sorted(total.struck.items())))
    say("logged as errors: " + (", ".join(f"{what} {count}x" for what, count in total.errors.items()) or "nothing"))
    say("seen: " + ", ".join(f"{total.figures[name]} {name}" for name in _FIGURES))
    say(
        f"{total.storms} storms, {gone_s:.0f} s: {total.kills} kills ({total.kills / gone_s * 60:.0f} a minute), "
        f"{total.figures['accepted']} calls, {len(total.violations)} violations"
    )


if __name__ == "__main__":
    sys.exit(main())
