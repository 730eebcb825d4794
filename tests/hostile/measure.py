"""What attacks on the channel cost an innocent caller: `python -m tests.hostile.measure --help`.

For each kind, in turns: the innocent agent alone; under attack; and, as a control, beside processes that burn as much
CPU as the attackers did and touch nothing of ours. The ratio of the last two is what the channel is to blame for; the
ratio of the first two also holds what any busy process on the machine costs.
"""

# ruff: noqa: T201 - it prints

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Final

import psutil

from runtime_actors.client import Refused
from tests.e2e.daemon import short_folder
from tests.hostile.assault import HOSTILE_APPS, MIB, Scene, Watch, beside
from tests.hostile.from_outside import KINDS as OUTSIDE

_WARM_UP_S: Final = 2.0
_SETTLE_S: Final = 0.5


@dataclass
class Figures:
    """Of one kind. Latencies in ms, over all its turns."""

    kind: str
    calls: int
    alone_p50: float
    alone_p99: float
    control_p50: float
    control_p99: float
    attacked_p50: float
    attacked_p99: float
    ratio_p99_to_control: float
    ratio_p99_to_alone: float
    attackers_cpu: float
    """CPUs that they kept busy; the control burns as much."""
    rss_growth_mib: float
    ends: list[str] = field(default_factory=list)
    """The reasons with which attempts ended meanwhile."""


@dataclass
class Turns:
    """What was measured of one kind so far."""

    alone: list[float] = field(default_factory=list)
    control: list[float] = field(default_factory=list)
    attacked: list[float] = field(default_factory=list)
    growth: int = 0
    cpu: float = 0.0


def inside_kinds() -> tuple[str, ...]:
    """As the hostile app's code lists them: it can be imported only by a worker."""
    _, _, listed = (HOSTILE_APPS / "channel" / "app.py").read_text().partition("for one in (")
    return tuple(name.strip() for name in listed.partition(")")[0].split(",") if name.strip())


def main() -> None:
    parser = argparse.ArgumentParser(prog="measure_channel", description=__doc__.partition("\n")[0])
    inside = inside_kinds()
    parser.add_argument(
        "kinds", nargs="*", help=f"inside:KIND or outside:KIND; all if none. {', '.join(inside)}; {', '.join(OUTSIDE)}"
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--json", action="store_true", help="print a JSON line a kind")
    chosen = parser.parse_args()
    every = [f"inside:{kind}" for kind in inside] + [f"outside:{kind}" for kind in OUTSIDE]
    if unknown := sorted(set(chosen.kinds) - set(every)):
        parser.error(f"no such kind: {', '.join(unknown)}")
    found = []
    kinds = chosen.kinds or every
    for number, kind in enumerate(kinds, 1):
        print(f"{number}/{len(kinds)} {kind} ...", file=sys.stderr, flush=True)
        figures = measure(kind, chosen.turns, chosen.seconds)
        found.append(figures)
        if chosen.json:
            print(json.dumps(asdict(figures)), flush=True)
    if not chosen.json:
        print_table(found)


def measure(kind: str, turns: int, seconds: float) -> Figures:
    """In a daemon of its own."""
    with short_folder() as folder, Scene(folder / "s") as scene:
        scene.innocent.calls_for(_WARM_UP_S)
        seen = Turns()
        for _ in range(turns):
            measure_turn(scene, kind, seconds, seen)
        reasons = [reason for reasons in scene.ends().values() for reason in reasons]
    alone, control, attacked = sorted(seen.alone), sorted(seen.control), sorted(seen.attacked)
    return Figures(
        kind=kind,
        calls=len(attacked),
        alone_p50=ms(alone, 0.5),
        alone_p99=ms(alone, 0.99),
        control_p50=ms(control, 0.5),
        control_p99=ms(control, 0.99),
        attacked_p50=ms(attacked, 0.5),
        attacked_p99=ms(attacked, 0.99),
        ratio_p99_to_control=round(at(attacked, 0.99) / at(control, 0.99), 2),
        ratio_p99_to_alone=round(at(attacked, 0.99) / at(alone, 0.99), 2),
        attackers_cpu=round(seen.cpu / turns, 2),
        rss_growth_mib=round(seen.growth / MIB, 1),
        ends=sorted(set(reasons)),
    )


def measure_turn(scene: Scene, kind: str, seconds: float, seen: Turns) -> None:
    used, began = cpu_beside(scene), time.monotonic()
    seen.alone += scene.innocent.calls_for(seconds)
    idle = (cpu_beside(scene) - used) / (time.monotonic() - began)

    with Watch(scene.daemon.pid) as watch, attacked(scene, kind) as attacker:
        scene.innocent.calls_for(_SETTLE_S)
        used, own, began = cpu_beside(scene), total(attacker), time.monotonic()
        seen.attacked += scene.innocent.calls_for(seconds)
        took_s = time.monotonic() - began
        busy = (cpu_beside(scene) - used + total(attacker) - own) / took_s
    seen.growth = max(seen.growth, watch.growth)
    cpu = max(0.0, busy - idle)
    seen.cpu += cpu

    for instance_id in {row["instance_id"] for row in scene.daemon.listed("ps") if row["app_scope"] == "channel"}:
        with contextlib.suppress(Refused):  # it has ended by itself
            scene.daemon.control("kill", {"instance_id": instance_id})
    with burning(cpu):
        scene.innocent.calls_for(_SETTLE_S)
        seen.control += scene.innocent.calls_for(seconds)


@contextlib.contextmanager
def attacked(scene: Scene, kind: str) -> Iterator[psutil.Process]:
    where, _, name = kind.partition(":")
    if where == "inside":
        with beside("tests.hostile.from_inside", name, str(scene.daemon.state)) as attacker:
            yield attacker
    else:
        with beside("tests.hostile.from_outside", name, str(scene.door("agent"))) as attacker:
            yield attacker


@contextlib.contextmanager
def burning(cpus: float) -> Iterator[None]:
    """So many CPUs are kept busy, by one process for each begun one."""
    with contextlib.ExitStack() as stack:
        for left in range(math.ceil(cpus)):
            stack.enter_context(beside("tests.hostile.burn", str(min(1.0, cpus - left))))
        yield


def cpu_beside(scene: Scene) -> float:
    """Seconds that the daemon's children used, dead ones included: the zygote and all workers."""
    daemon = psutil.Process(scene.daemon.pid)
    spent = daemon.cpu_times()
    used = float(spent.children_user + spent.children_system)
    for child in daemon.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            used += total(child)
    return used


def total(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return float(spent.user + spent.system)


def at(took: list[float], share: float) -> float:
    return took[min(len(took) - 1, int(len(took) * share))]


def ms(took: list[float], share: float) -> float:
    return round(1000 * at(took, share), 2)


def print_table(found: list[Figures]) -> None:
    print("p50/p99 in ms           alone        control       attacked   p99/control  p99/alone  CPUs  RSS MiB  ended")
    for one in found:
        print(
            f"{one.kind:26} {one.alone_p50:5.1f}/{one.alone_p99:<6.1f} {one.control_p50:5.1f}/{one.control_p99:<6.1f} "
            f"{one.attacked_p50:5.1f}/{one.attacked_p99:<6.1f} {one.ratio_p99_to_control:8.2f} "
            f"{one.ratio_p99_to_alone:10.2f} {one.attackers_cpu:6.2f} {one.rss_growth_mib:7.1f}  {', '.join(one.ends)}"
        )


if __name__ == "__main__":
    main()
