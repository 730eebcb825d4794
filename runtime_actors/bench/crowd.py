"""Many conversations on few processes: what a crowd costs, what a quiet conversation costs, and how soon one wakes."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from runtime_actors.bench.agent import Agent
from runtime_actors.bench.families import Bench, Family, in_turns
from runtime_actors.bench.figures import Bar, Figure, Sample
from runtime_actors.bench.ground import BenchFailed, Daemon

PROCESSES: Final = Bar(64.0, "value at most")
RESIDENT: Final = Bar(300.0, "value at most")
QUIET: Final = Bar(50.0, "value at most")
WAKE: Final = Bar(2.0)

SCOPES: Final = ("bench", "second", "third")
_ROUNDS: Final = 2
_IN_FLIGHT: Final = 512
"""Calls at once: more answers than that would have to wait for an agent that still asks."""
_OPTIONS: Final = ("--suspend-after=1", "--sweep=0.5")
_LOOK_S: Final = 0.02
_ASLEEP_WITHIN_S: Final = 60.0
_MS: Final = 1e3
_MIB: Final = 2**20
_KIB: Final = 2**10


class Watch(threading.Thread):
    """Looks again and again at how many workers a daemon has, and how much memory, until told to stop."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(name="watch", daemon=True)
        self._pid = daemon.pid
        self._over = threading.Event()
        self.processes = 0
        self.resident_bytes = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Until stopped."""
        while not self._over.wait(_LOOK_S):
            self.processes = max(self.processes, workers(self._pid))
            self.resident_bytes = max(self.resident_bytes, resident(self._pid))


def workers(pid: int) -> int:
    """Processes of a daemon besides its zygote (proc(5), task/TID/children)."""
    lists = Path("/proc", str(pid), "task").glob("*/children")
    return sum(len(_text(one).split()) for one in lists) - 1


def resident(pid: int) -> int:
    """Bytes (proc(5), status)."""
    [line] = [line for line in _text(Path("/proc", str(pid), "status")).splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * _KIB


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:  # a thread that has ended
        return ""


def crowd(bench: Bench) -> Iterator[Figure]:
    """Every app of every conversation is called, and once more; then all are left alone, and some are woken.

    A crowd of the same size comes before, so that what the daemon keeps for its busiest moment is there already.
    """
    state, count = bench.folder / "crowd", bench.effort.crowd
    daemon = Daemon(state, apps=_three_apps(bench.folder), options=_OPTIONS)
    with daemon, Agent(daemon) as agent:
        _call_all(agent, "before", count)
        _wait_asleep(daemon)
        before_bytes = resident(daemon.pid)
        with Watch(daemon) as seen:
            begun = time.perf_counter()
            for _ in range(_ROUNDS):
                _call_all(agent, "crowd", count)
                bench.step()
            took_s = time.perf_counter() - begun
        _wait_asleep(daemon)
        grown_bytes = resident(daemon.pid) - before_bytes
    each_bytes = _stored(state) / (2 * count) + grown_bytes / count
    calls = count * len(SCOPES) * _ROUNDS
    what = f"{calls} calls of {count} conversations with {len(SCOPES)} apps each, up to {_IN_FLIGHT} at once"
    yield Figure("crowd.calls", "calls/s", what, Sample.of([calls / took_s]))
    what = "worker processes at most, meanwhile"
    yield Figure("crowd.processes", "", what, Sample.of([seen.processes]), bar=PROCESSES)
    what = "resident memory of the daemon at most, meanwhile"
    yield Figure("crowd.daemon_rss", "MiB", what, Sample.of([seen.resident_bytes / _MIB]), bar=RESIDENT)
    what = "of the store and of the daemon's memory for each conversation, once all are quiet and no process is left"
    yield Figure("crowd.quiet_bytes", "KiB", what, Sample.of([each_bytes / _KIB]), bar=QUIET)
    with daemon, Agent(daemon) as agent:
        found = _wakes(bench, daemon, agent)
    what = "a call of a suspended app to its result"
    yield Figure("crowd.wake", "ms", what, found["wake"], found["start"], "the same of an app never started", WAKE)


def _three_apps(folder: Path) -> Path:
    """The bench's app under three scopes."""
    apps = folder / "crowd-apps"
    for scope in SCOPES:
        made = shutil.copytree(folder / "apps" / "bench", apps / scope)
        for name in ("manifest.json", "app.py"):
            text = (made / name).read_text(encoding="utf-8")
            (made / name).write_text(text.replace("bench.", f"{scope}."), encoding="utf-8")
        manifest = json.loads((made / "manifest.json").read_text(encoding="utf-8"))
        manifest["app_scope"] = scope
        for tool in manifest["tools"]:
            tool["target"]["app_scope"] = scope
        (made / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    for path in (apps, *apps.rglob("*")):  # workers may have a uid of their own
        path.chmod(0o755 if path.is_dir() else 0o644)
    return apps


def _call_all(agent: Agent, name: str, conversations: int) -> None:
    """Call every app of so many conversations, as good as at once, and wait until each call has completed."""
    wanted = [(f"{scope}.echo", f"{name}-{number}") for number in range(conversations) for scope in SCOPES]
    for place, (tool, conversation) in enumerate(wanted):
        agent.invoke(tool, conversation)
        if place >= _IN_FLIGHT:
            _take_result(agent)
    for _ in wanted[:_IN_FLIGHT]:
        _take_result(agent)
    agent.settle()


def _take_result(agent: Agent) -> None:
    call = agent.wait("tool.result")["call"]
    if call["status"] != "completed":
        raise BenchFailed(f"a call of the crowd did not complete: {call}")
    agent.acknowledge()


def _wait_asleep(daemon: Daemon) -> None:
    deadline = time.monotonic() + _ASLEEP_WITHIN_S
    while workers(daemon.pid):
        if time.monotonic() > deadline:
            raise BenchFailed(f"{workers(daemon.pid)} apps are awake {_ASLEEP_WITHIN_S:g} s after their last call")
        time.sleep(_LOOK_S)


def _stored(state: Path) -> int:
    """Bytes of the store of a daemon that was stopped."""
    return sum(path.stat().st_size for path in state.glob("store.db*"))


def _wakes(bench: Bench, daemon: Daemon, agent: Agent) -> dict[str, Sample]:
    """Each turn calls one that sleeps, and one in a new conversation."""
    names = iter(range(10**9))

    def wake() -> float:
        _wait_asleep(daemon)  # also what was started last
        return agent.call("bench.echo", "crowd-0")

    def start() -> float:
        return agent.call("bench.echo", f"new-{next(names)}")

    found = in_turns(bench, bench.effort.wakes, {"wake": wake, "start": start})
    return {name: one * _MS for name, one in found.items()}


CROWD: Final = Family("crowd", lambda effort: _ROUNDS + effort.wakes + 1, crowd)
