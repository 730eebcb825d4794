"""How long it takes to walk, copy, shorten and restore a large store.

    python scripts/measure_store.py [--finished 200000] [--folder DIR]

What a large store costs calls and the start of a daemon is measured by `lineup bench`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime_actors.bench import stores
from runtime_actors.bench.ground import Daemon, ground
from runtime_actors.client import DoorClient, door_of
from runtime_actors.store import backup

_SEED = 1000


def order(daemon: Daemon, kind: str, body: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
    """What is said of an order that was carried out, and seconds."""
    begun = time.perf_counter()
    with DoorClient(door_of(daemon.state, "control")) as door:
        answer = door.request(f"lineup.v1.control.{kind}", body, timeout_s=600, repeat=False)[1]
    return answer["data"], time.perf_counter() - begun


def measure(folder: Path, finished: int) -> None:
    """In this folder."""
    state = folder / "long"
    stores.make_history(folder / "seed", _SEED)
    begun = time.perf_counter()
    stores.lengthen(folder / "seed", state, finished, lambda: None)
    size_mb = sum(path.stat().st_size for path in state.glob("store.db*")) / 1e6
    print(f"filled                      {time.perf_counter() - begun:7.2f} s, {size_mb:.0f} MB")
    with Daemon(state) as daemon:
        data, took_s = order(daemon, "verify_audit", {})
        print(f"audit verify                {took_s:7.2f} s for {data['entries']} entries")
        data, took_s = order(daemon, "backup", {"path": str(folder / "copy")})
        print(f"backup, verified            {took_s:7.2f} s for {data['bytes'] / 1e6:.0f} MB")
        data, took_s = order(daemon, "export_audit", {"path": str(folder / "old.jsonl"), "keep": 1000})
        print(f"audit export                {took_s:7.2f} s for {data['entries']} entries")
    begun = time.perf_counter()
    backup.restore(state, folder / "copy")
    print(f"restore, verified           {time.perf_counter() - begun:7.2f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--finished", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, help="as of lineup bench")
    chosen = parser.parse_args()
    with ground(chosen.folder, quick=chosen.finished <= 200_000) as folder:  # noqa: PLR2004 - some 200 MB
        measure(folder, chosen.finished)


if __name__ == "__main__":
    main()
