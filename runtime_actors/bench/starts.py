"""Starts of workers beside a bare fork, what they keep of memory, and how soon a killed one works again.

`python -m runtime_actors.bench.starts` is a process that forks whenever it reads a line.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from miniapp_worker.zygote import PRELOAD
from runtime_actors.bench.agent import Agent
from runtime_actors.bench.families import Bench, Family, in_turns
from runtime_actors.bench.figures import Bar, Figure, Sample, median_of
from runtime_actors.bench.ground import Daemon

FORKS: Final = Bar(15.0)
PRIVATE: Final = Bar(4.0, "value at most")
STARTS: Final = Bar(2.0)

_MS: Final = 1e3
_MIB: Final = 2**20
_FORKS_A_TURN: Final = 5


class _Workers:
    """Starts them, one in each new conversation, and kills the newest."""

    def __init__(self, daemon: Daemon, agent: Agent) -> None:
        self._daemon, self._agent = daemon, agent
        self._known: set[str] = set()
        self._newest = 0

    def start(self) -> float:
        """Seconds from asking for a call to the first word about it."""
        took_s = self._agent.first_word(f"start-{len(self._known)}")
        (new,) = (row for row in self._daemon.rows("ps") if row["instance_id"] not in self._known)
        self._known.add(new["instance_id"])
        self._newest = int(new["pid"])
        return took_s

    def again(self) -> float:
        """Seconds from killing the newest to its successor's first word about the same call."""
        begun = time.perf_counter()
        os.kill(self._newest, signal.SIGKILL)
        self._agent.wait_word()
        return time.perf_counter() - begun

    def fill(self, count: int) -> None:
        """Start more, until there are so many."""
        while len(self._known) < count:
            self.start()


def starts(bench: Bench) -> Iterator[Figure]:
    """Each turn forks, starts a worker in a new conversation, and kills it; then so many are left idle."""
    with Daemon(bench.folder / "starts") as daemon, Agent(daemon) as agent, forker() as fork:
        alone = _resident(daemon)
        workers = _Workers(daemon, agent)
        subjects = {"fork": fork, "start": workers.start, "again": workers.again}
        found = {name: one * _MS for name, one in in_turns(bench, bench.effort.starts, subjects).items()}
        workers.fill(bench.effort.idle)
        running = [row for row in daemon.rows("ps") if row.get("pid")]
        private = [size for row in running if (size := _private(int(row["pid"]))) is not None]
        among = _resident(daemon)
    level = " and ".join(sorted({str(row["level"]) for row in running}))
    what = f"a call in a new conversation to its app's first word, worker {level}"
    yield Figure("start.forks", "ms", what, found["start"], found["fork"], "a bare fork of a zygote's size", FORKS)
    what = "the kill of a worker to its successor's first word about the same call"
    yield Figure("start.recovery", "ms", what, found["again"], found["start"], "the start of a worker", STARTS)
    what = f"private memory of each of {len(running)} idle instances"
    unreadable = "" if private else "root, who alone may read it"
    yield Figure("start.private", "MiB", what, Sample.of(private) if private else None, None, unreadable, PRIVATE)
    yield Figure("start.daemon", "MiB", "resident memory of the daemon, without workers", alone)
    yield Figure("start.daemon_busy", "MiB", f"resident memory of the daemon, with {len(running)} instances", among)


def _resident(daemon: Daemon) -> Sample:
    return Sample.of([daemon.rows("status")[0]["memory"]["rss_bytes"] / _MIB])


def _private(pid: int) -> float | None:
    """MiB that are this process's alone; None where the kernel does not tell (proc(5), smaps_rollup)."""
    try:
        text = Path("/proc", str(pid), "smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return None
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")) / 1024


@contextlib.contextmanager
def forker() -> Iterator[Callable[[], float]]:
    """A function that forks, in a process with one thread and the zygote's modules: seconds, median of a few."""
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    writes, reads = process.stdin, process.stdout
    assert writes is not None  # noqa: S101 - as asked for
    assert reads is not None  # noqa: S101 - as asked for

    def fork() -> float:
        writes.write("\n")
        writes.flush()
        return float(reads.readline())

    with process:
        yield fork
        writes.close()  # it ends with its input


def be_forked() -> None:
    """Fork whenever a line comes, and tell how long that took."""
    for name in PRELOAD:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    for _ in sys.stdin:
        print(median_of([_bare_fork() for _ in range(_FORKS_A_TURN)]), flush=True)  # noqa: T201 - to its parent


def _bare_fork() -> float:
    begun = time.perf_counter()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return time.perf_counter() - begun


START: Final = Family("start", lambda effort: effort.starts + 1, starts)

if __name__ == "__main__":
    be_forked()
