"""Feeds targets, measures what each input costs, keeps what fails and finds which of them it takes."""

from __future__ import annotations

import base64
import contextlib
import gc
import json
import logging
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from tests.fuzz import targets
from tests.fuzz.source import Source
from tests.fuzz.target import ACCEPTED, PER_BYTE, Fault, Input, Target

MAX_CPU_S: Final = 0.5
"""Of the product, for one input; the slowest takes a fifth of that, and up to half on a busy machine."""
MAX_GROWTH: Final = 64 * 1024 * 1024
"""Bytes by which the process may grow over a run, once it is warm."""
MAX_FAULTS: Final = 3
"""After so many a target is left alone."""
WATCH_EVERY: Final = 40
"""Of so many inputs one is watched for what it allocates, which takes several times as long."""
_WARM: Final = 500
_MOST_TRIES: Final = 60

Make = Callable[[str], Target]


@dataclass(frozen=True, slots=True)
class Found:
    """A fault, and the inputs that lead to it."""

    target: str
    fault: str
    inputs: tuple[Input, ...]
    """The last one shows it; the others come before."""

    def save(self, folder: Path) -> Path:
        """Write it where `load` finds it."""
        folder.mkdir(parents=True, exist_ok=True)
        steps = [{"to": one.to, "zlib": base64.b64encode(zlib.compress(one.data, 9)).decode()} for one in self.inputs]
        text = json.dumps({"target": self.target, "fault": self.fault, "inputs": steps}, indent=1) + "\n"
        path = folder / f"{self.target.replace('/', '-').replace(' ', '-')}-{zlib.crc32(text.encode()):08x}.json"
        path.write_text(text, encoding="utf-8")
        return path


def load(path: Path) -> Found:
    """What `Found.save` wrote."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    steps = (Input(zlib.decompress(base64.b64decode(one["zlib"])), one["to"]) for one in raw["inputs"])
    return Found(raw["target"], raw["fault"], tuple(steps))


@dataclass(slots=True)
class Figures:
    """Of one target."""

    target: str
    inputs: int = 0
    seconds: float = 0.0
    """CPU time of the thread that fed, oracles included."""
    verdicts: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    slowest: Input | None = None
    peak_bytes: int = 0
    """The most that one watched input had allocated."""
    growth_bytes: int = 0
    found: list[Found] = field(default_factory=list)

    @property
    def accepted(self) -> int:
        return self.verdicts[ACCEPTED]

    def add(self, other: Figures) -> None:
        """Those of another run of the same target."""
        self.inputs += other.inputs
        self.seconds += other.seconds
        self.verdicts.update(other.verdicts)
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)
        self.growth_bytes = max(self.growth_bytes, other.growth_bytes)
        self.found += other.found
        if other.slowest_s > self.slowest_s:
            self.slowest_s, self.slowest = other.slowest_s, other.slowest

    def to_json(self) -> dict[str, Any]:
        """One line of the figures."""
        return {
            "target": self.target,
            "inputs": self.inputs,
            "per_second": round(self.inputs / self.seconds) if self.seconds else None,
            "accepted": self.accepted,
            "refused": {code: count for code, count in sorted(self.verdicts.items()) if code != ACCEPTED},
            "slowest_ms": round(self.slowest_s * 1000, 2),
            "peak_bytes": self.peak_bytes,
            "memory_growth_bytes": self.growth_bytes,
            "faults": [one.fault for one in self.found],
        }


def fuzz(name: str, count: int, seed: str, make: Make = targets.make, *, shrinks: bool = True) -> Figures:
    """Feed a target `count` inputs; what fails is shrunk, unless it is enough to know that it does."""
    figures = Figures(name)
    process = psutil.Process()
    with quiet():
        gc.collect()
        start, warm = time.thread_time(), process.memory_info().rss
        lives = _Lives(name, seed, make)
        try:
            for number in range(count):
                if number == _WARM:
                    gc.collect()
                    warm = process.memory_info().rss
                _one(lives, figures, watches=number % WATCH_EVERY == 0)
                if len(figures.found) >= MAX_FAULTS:
                    break
        finally:
            lives.end(figures)
        gc.collect()
        figures.seconds = time.thread_time() - start
        figures.growth_bytes = max(0, process.memory_info().rss - warm)
    if figures.growth_bytes > MAX_GROWTH:
        figures.found.append(Found(name, f"the process grew by {figures.growth_bytes} bytes", ()))
    if shrinks:
        figures.found = [shrunk(one, make) for one in figures.found]
    return figures


class _Lives:
    """A target, renewed as often as it wants, and what it was fed since."""

    def __init__(self, name: str, seed: str, make: Make) -> None:
        self._name, self._seed, self._make = name, seed, make
        self.target = make(name)
        self.since: list[Input] = []
        self._lives = 0
        self._source = Source(f"{seed}/{name}")

    def next(self, figures: Figures) -> Input:
        """The next input, renewed before it where needed."""
        life = self.target.life
        if life and (not self._lives or self.target.worn or len(self.since) >= life):
            self._lives += 1
            self._source = Source(f"{self._seed}/{self._name}/{self._lives}")
            self._guarded(figures, self.target.renew)
            self.since = []
        made = self.target.make(self._source)
        self.since = [*self.since, made] if life else [made]
        return made

    def fail(self, figures: Figures, fault: str) -> None:
        """Keep what happened, and go on as if new."""
        figures.found.append(Found(self._name, fault, tuple(self.since)))
        self.target.worn = True

    def end(self, figures: Figures) -> None:
        self._guarded(figures, self.target.close)

    def _guarded(self, figures: Figures, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            figures.found.append(Found(self._name, _told(error), tuple(self.since)))


def _one(lives: _Lives, figures: Figures, *, watches: bool) -> None:
    made = lives.next(figures)
    watches = watches or made.greedy
    cost = lives.target.cost
    cost.begin(watches=watches)
    try:
        figures.verdicts[lives.target.feed(made)] += 1
        figures.inputs += 1
        if not watches and cost.cpu_s > figures.slowest_s:
            figures.slowest_s, figures.slowest = cost.cpu_s, made
        figures.peak_bytes = max(figures.peak_bytes, cost.peak_bytes)
        _within_bounds(lives.target, made)
    except Exception as error:  # noqa: BLE001 - as above
        lives.fail(figures, _told(error))


def _within_bounds(target: Target, made: Input) -> None:
    cost = target.cost
    most = target.allowance + PER_BYTE * len(made.data)
    if cost.peak_bytes > most:
        raise Fault(f"{len(made.data)} bytes made it allocate {cost.peak_bytes}")
    if not cost.watches and cost.cpu_s > MAX_CPU_S:
        raise Fault(f"it took {cost.cpu_s:.2f} s of CPU")


def _told(error: BaseException) -> str:
    kind = "" if isinstance(error, Fault) else f"{type(error).__name__}: "
    return f"{kind}{str(error)[:500]}"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What actors log about hostile peers is right, and of no use here."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


# --- what was found ---


def replay(found: Found, make: Make = targets.make) -> str | None:
    """Feed the inputs again, from a new start: the fault, or None if there is none any more."""
    with quiet():
        target = make(found.target)
        try:
            if target.life:
                target.renew()
            for one in found.inputs:
                target.cost.begin(watches=False)
                target.feed(one)
                _within_bounds(target, one)
            target.close()
        except Exception as error:  # noqa: BLE001 - the fault that is looked for
            with contextlib.suppress(Exception):  # it is broken already
                target.close()
            return _told(error)
    return None


def shrunk(found: Found, make: Make) -> Found:
    """The same fault from fewer inputs, as far as a few tries get."""
    tries = 0

    def fails(inputs: tuple[Input, ...]) -> bool:
        nonlocal tries
        tries += 1
        fault = replay(Found(found.target, found.fault, inputs), make)
        return fault is not None and _kind(fault) == _kind(found.fault)

    kept = found.inputs
    if not kept or found.target == "daemon" or not fails(kept):
        return found
    if len(kept) > 1 and fails(kept[-1:]):
        kept = kept[-1:]
    step = len(kept) // 2
    while step and tries < _MOST_TRIES:
        for at in range(0, len(kept) - 1, step):
            fewer = kept[:at] + kept[at + step :]
            if fewer[-1:] == kept[-1:] and len(fewer) < len(kept) and tries < _MOST_TRIES and fails(fewer):
                kept = fewer
                break
        else:
            step //= 2
    return Found(found.target, found.fault, kept)


def _kind(fault: str) -> str:
    """Faults that differ only in their figures are one."""
    return "".join(one for one in fault[:60] if not one.isdigit())
