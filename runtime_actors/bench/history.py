"""How the cost of a call, and the start of a daemon, depend on what the store holds already."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from runtime_actors.bench import stores
from runtime_actors.bench.agent import Agent
from runtime_actors.bench.effort import Effort
from runtime_actors.bench.families import Bench, Family, in_turns
from runtime_actors.bench.figures import Bar, Figure, Sample, median_of
from runtime_actors.bench.ground import Daemon

SAME: Final = Bar(1.2)
SECOND_MORE: Final = Bar(1.0, "value at most")
DRAINED: Final = Bar(20.0, "value at most")
_MS: Final = 1e3
_SLICE: Final = 10_000


def histories(bench: Bench) -> dict[int, Path]:
    """Stopped stores with so many finished calls, made once a run."""
    made: dict[int, Path] = {}
    for count in bench.effort.finished:
        state = made[count] = bench.folder / f"history-{count}"
        if state.exists():
            continue
        if count == bench.effort.finished[0]:
            stores.make_history(state, count)
        else:
            shorter = bench.folder / f"history-{max(other for other in made if other != count)}"
            stores.lengthen(shorter, state, count, bench.step)
    return made


def _steps_to_make(effort: Effort) -> int:
    lengths = zip(effort.finished, effort.finished[1:], strict=False)
    return sum(-(-(longer - shorter) // _SLICE) for shorter, longer in lengths)


# --- cost a call ---


def history(bench: Bench) -> Iterator[Figure]:
    """The median of a call in daemons whose stores hold more and less, in turns."""
    made, effort = histories(bench), bench.effort
    shortest, longest = effort.finished[0], effort.finished[-1]
    sizes = {count: _bytes(state) for count, state in made.items()}
    with contextlib.ExitStack() as kept:
        agents = {count: kept.enter_context(Agent(kept.enter_context(Daemon(made[count])))) for count in made}
        subjects = {str(count): _calls(agent, effort.calls) for count, agent in agents.items()}
        found = in_turns(bench, effort.turns, subjects)
    reference = found[str(shortest)] * _MS
    for count in effort.finished[1:]:
        what = f"a durable call after {count:,} finished ones"
        yield Figure(
            f"history.call_{count}", "ms", what, found[str(count)] * _MS, reference, f"after {shortest:,}", SAME
        )
    each = (sizes[longest] - sizes[shortest]) / (longest - shortest)
    yield Figure("history.bytes", "bytes", "database for each finished call", Sample.of([each]), digits=0)


def _calls(agent: Agent, count: int) -> Callable[[], float]:
    return lambda: median_of([agent.call() for _ in range(count)])


def _bytes(state: Path) -> int:
    return sum(path.stat().st_size for path in state.glob("store.db*"))


# --- starts of a daemon ---


def boot(bench: Bench) -> Iterator[Figure]:
    """Starts of killed daemons up to the first receipt: an empty one, one with open calls, one with a long history."""
    effort, folder = bench.effort, bench.folder
    left, full = folder / "left-open", histories(bench)[effort.finished[-1]]
    stores.leave_open_calls(left, folder / "apps", effort.open_calls)

    def with_open() -> float:
        shutil.rmtree(folder / "open", ignore_errors=True)
        shutil.copytree(left, folder / "open")
        return serves_again(Daemon(folder / "open"))

    subjects = {
        "empty": lambda: serves_again(Daemon(folder / "empty")),
        "open": with_open,
        "full": lambda: serves_again(Daemon(full)),
    }
    found = in_turns(bench, effort.boots, subjects)
    empty = found["empty"]
    is_empty = "an empty daemon's start up to its first receipt, s"
    yield Figure("boot.empty", "s", "start of an empty daemon up to its first receipt", empty)
    what = f"more for a killed daemon with {effort.open_calls:,} open calls"
    yield Figure("boot.open", "s", what, found["open"] - empty, empty, is_empty, SECOND_MORE)
    what = f"more for a killed daemon with {effort.finished[-1]:,} finished calls"
    yield Figure("boot.finished", "s", what, found["full"] - empty, empty, is_empty, SECOND_MORE)
    yield _drained(bench, left)


def serves_again(daemon: Daemon) -> float:
    """Seconds from the start of a daemon's process to its first receipt; then it is killed."""
    begun = time.perf_counter()
    try:
        daemon.start()
        with Agent(daemon) as agent:
            agent.accepted()
        return time.perf_counter() - begun
    finally:
        daemon.kill()


def _drained(bench: Bench, left: Path) -> Figure:
    """Seconds from the first attach to a killed daemon that was started, to the last result of what was open."""
    state, count = bench.folder / "drain", bench.effort.open_calls
    shutil.copytree(left, state)
    with Daemon(state) as daemon, Agent(daemon) as agent:
        took_s = agent.drain(count)
    bench.step()
    what = f"until the {count:,} calls that a killed daemon left open were done and delivered"
    bar = Bar(DRAINED.limit * count / 10_000, DRAINED.of)
    return Figure("boot.drain", "s", what, Sample.of([took_s]), bar=bar)


HISTORY: Final = Family("history", lambda effort: _steps_to_make(effort) + effort.turns + 1, history)
BOOT: Final = Family("boot", lambda effort: _steps_to_make(effort) + effort.boots + 2, boot)
