"""One call at a time, and 64 in flight, beside the floor and the peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from runtime_actors.bench.agent import Agent
from runtime_actors.bench.families import Bench, Family, in_turns
from runtime_actors.bench.figures import Bar, Figure, Sample, median_of
from runtime_actors.bench.floor import Floor
from runtime_actors.bench.ground import Daemon
from runtime_actors.bench.peer import GET_IT, IN_FLIGHT, IS, Peer, peer

FLOORS: Final = Bar(2.0)
PEERS: Final = Bar(1.25)
TIMES_THE_PEER: Final = Bar(4.0, "ratio at least")
FSYNCS: Final = Bar(0.5, "value at most")
"""Well under one."""
_MS: Final = 1e3
WIDTH: Final = 64
WARM_UP: Final = 300
"""Calls after which the store's log has grown to its size."""
_FLOOR_IS: Final = "two ZeroMQ round trips and two durable commits"


def calls(bench: Bench) -> Iterator[Figure]:
    """The median of one durable call, one at a time."""
    count = bench.effort.calls
    with (
        Daemon(bench.folder / "calls") as daemon,
        Agent(daemon) as agent,
        Floor(bench.folder) as floor,
        peer() as other,
    ):
        agent.flow(WARM_UP, WIDTH)
        subjects: dict[str, Callable[[], float]] = {
            "call": lambda: median_of([agent.call() for _ in range(count)]),
            "floor": lambda: median_of([floor.once() for _ in range(count)]),
        }
        if other is not None:
            subjects["peer"] = lambda: median_of(other.calls(count))
        found = {name: sample * _MS for name, sample in in_turns(bench, bench.effort.turns, subjects).items()}
    what = "a durable call, one at a time"
    yield Figure("call.floor", "ms", what, found["call"], found["floor"], _FLOOR_IS, FLOORS)
    yield Figure("call.peer", "ms", what, found["call"], found.get("peer"), IS if other else GET_IT, PEERS)


def flow(bench: Bench) -> Iterator[Figure]:
    """Calls a second with 64 in flight, and fsyncs a call."""
    count = bench.effort.flow_calls
    with Daemon(bench.folder / "flow") as daemon, Agent(daemon) as agent, peer() as other:
        fsyncs: list[float] = []
        cpu: list[float] = []

        def ours() -> float:
            commits, cpu_s = _commits(daemon), daemon.cpu_s
            took_s = agent.flow(count, WIDTH)
            cpu.append((daemon.cpu_s - cpu_s) / count)
            fsyncs.append((_commits(daemon) - commits) / count)
            return count / took_s

        subjects: dict[str, Callable[[], float]] = {"flow": ours}
        if other is not None:
            few = count // 3  # its rate is steady from the start, and there are several
            subjects |= {f"peer {width}": _of_peer(other, few, width) for width in IN_FLIGHT}
        found = in_turns(bench, bench.effort.flow_turns, subjects)
    peers = [sample for name, sample in found.items() if name.startswith("peer")]
    best = max(peers, key=lambda sample: sample.median) if peers else None
    what = f"durable calls a second, {WIDTH} in flight"
    is_best = f"{IS}, at its best of {', '.join(map(str, IN_FLIGHT))} in flight"
    yield Figure(
        "flow.peer", "calls/s", what, found["flow"], best, is_best if best else GET_IT, TIMES_THE_PEER, digits=0
    )
    what = f"commits, each one fsync, a durable call, {WIDTH} in flight"
    yield Figure("flow.fsyncs", "a call", what, Sample.of(fsyncs[1:]), bar=FSYNCS)
    what = f"processor time of the daemon a durable call, {WIDTH} in flight"
    yield Figure("flow.cpu", "ms", what, Sample.of(cpu[1:]) * _MS)


def _of_peer(other: Peer, calls: int, width: int) -> Callable[[], float]:
    return lambda: calls / other.flow(calls, width)


def _commits(daemon: Daemon) -> int:
    return int(daemon.rows("status")[0]["commit"]["count"])


CALLS: Final = Family("call", lambda effort: effort.turns + 1, calls)
FLOW: Final = Family("flow", lambda effort: effort.flow_turns + 1, flow)
