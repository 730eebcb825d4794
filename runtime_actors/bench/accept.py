"""How soon a call is accepted when calls come at a steady rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from runtime_actors.bench.agent import Agent
from runtime_actors.bench.calls import WARM_UP, WIDTH
from runtime_actors.bench.families import Bench, Family, in_turns
from runtime_actors.bench.figures import Bar, Figure, Sample, at, median_of
from runtime_actors.bench.floor import Floor
from runtime_actors.bench.ground import Daemon

HALF: Final = Bar(1.0, "value at most")
MOST: Final = Bar(10.0, "value at most")
_A_SECOND: Final = 200
_TURNS: Final = 4
_FLOORS: Final = 50
_MS: Final = 1e3
_FLOOR_IS: Final = "one ZeroMQ round trip and one durable commit"


def accepting(bench: Bench) -> Iterator[Figure]:
    """The receipts of calls at 200 a second, each measured from when it was due."""
    most: list[float] = []
    with Daemon(bench.folder / "accept") as daemon, Agent(daemon) as agent, Floor(bench.folder) as floor:

        def paced() -> float:
            took = agent.paced(_A_SECOND, bench.effort.paced_s / _TURNS)
            most.append(at(took, 0.99))
            return median_of(took)

        def lone() -> float:
            return median_of([floor.half() for _ in range(_FLOORS)])

        agent.flow(WARM_UP, WIDTH)
        found = in_turns(bench, _TURNS, {"paced": paced, "floor": lone})
    half, reference = found["paced"] * _MS, found["floor"] * _MS
    what = f"a call's receipt at {_A_SECOND} calls a second"
    yield Figure("accept.p50", "ms", f"{what}, median", half, reference, _FLOOR_IS, HALF)
    yield Figure("accept.p99", "ms", f"{what}, 99 of 100", Sample.of(most[1:]) * _MS, reference, _FLOOR_IS, MOST)


ACCEPT: Final = Family("accept", lambda _: _TURNS + 1, accepting)
