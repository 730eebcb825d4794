"""How long a MiniApp takes from a call to its first word, beside a bare fork, and what an idle one costs.

    python scripts/measure_start.py [--starts 50] [--durability power|process] [--min-isolation LEVEL] [--json]

Starts a private daemon, and again and again calls a tool in a new conversation, which needs a new instance: a process
is forked, confined, sealed and measured, the app imported, the call given to it, and its first progress delivered.
Between two of these a process with the zygote's modules forks a child that ends at once: the bare fork that times are
given in. In the end all instances are idle, and their private memory is read.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from runtime_actors.client import AgentSession, Delivered, DoorClient, door_of, read_token

_TOOL = "task-dashboard.open"
_WITHIN_S = 30.0


def bare_fork() -> float:
    """Seconds until a forked child that does nothing was waited for."""
    begun = time.perf_counter()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return time.perf_counter() - begun


def forks_like_the_zygote() -> Callable[[], float]:
    """In a process of its own with one thread and the zygote's modules, as this one has threads and more modules."""
    code = (
        "import gc, importlib, sys; sys.path.insert(0, sys.argv[1]); from scripts.measure_start import bare_fork\n"
        "from miniapp_worker.zygote import PRELOAD\n"
        "for name in PRELOAD: importlib.import_module(name)\n"
        "gc.collect(); gc.freeze(); print('ready', flush=True)\n"
        "for _ in sys.stdin: print(bare_fork(), flush=True)"
    )
    root = Path(__file__).resolve().parent.parent
    forker = subprocess.Popen(
        [sys.executable, "-c", code, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    reads, writes = forker.stdout, forker.stdin
    assert reads is not None  # noqa: S101 - for the type checker
    assert writes is not None  # noqa: S101 - for the type checker
    reads.readline()

    def fork() -> float:
        writes.write("\n")
        writes.flush()
        return float(reads.readline())

    return fork


def start_once(session: AgentSession, number: int) -> float:
    """Seconds from a call in a new conversation to the first word of the app."""
    conversation = f"start-{number}"
    assert session.inventory is not None  # noqa: S101 - for the type checker
    begun = time.perf_counter()
    session.send(
        "lineup.v1.tool.invoke",
        {
            "call_id": f"call-{number}",
            "tool_id": _TOOL,
            "inventory_revision": session.inventory.revision,
            "input": {"task_id": f"t{number}", "title": "a start"},
        },
        conversation_id=conversation,
    )
    while time.perf_counter() - begun < _WITHIN_S:
        event = session.next_event(1.0)
        if isinstance(event, Delivered):
            took_s = time.perf_counter() - begun
            session.acknowledge(event.delivery.number)
            return took_s
    sys.exit("no word of the app in time")


def private_bytes(pid: int) -> int | None:
    """Memory that is this process's alone; None where the kernel does not tell (proc(5), smaps_rollup)."""
    try:
        text = Path("/proc", str(pid), "smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return None
    return 1024 * sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_"))


def rows(state: Path, what: str) -> list[dict[str, object]]:
    """A listing of the daemon's."""
    with DoorClient(door_of(state, "control")) as door:
        return list(door.request("lineup.v1.control.query", {"what": what}, timeout_s=10)[1]["rows"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--durability", choices=("power", "process"), default="power")
    parser.add_argument("--min-isolation", default="sealed")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lu-", ignore_cleanup_errors=True) as name:
        figures = measure(Path(name), chosen)
    if chosen.json:
        print(json.dumps(figures))
        return
    for what, value in figures.items():
        print(f"{what:28} {value}")


def measure(state: Path, chosen: argparse.Namespace) -> dict[str, object]:
    """In this state folder."""
    command = [sys.executable, "-m", "runtime_actors", "run", f"--state={state}", f"--durability={chosen.durability}"]
    daemon = subprocess.Popen(
        [*command, f"--min-isolation={chosen.min_isolation}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert daemon.stdout is not None  # noqa: S101 - for the type checker
    if not daemon.stdout.readline().startswith(b"ready"):
        sys.exit(f"the daemon ended with {daemon.wait()}")
    try:
        fork = forks_like_the_zygote()
        starts, forks = [], []
        with AgentSession(door_of(state, "agent"), "local", read_token(state, "local")) as session:
            session.attach()
            for number in range(chosen.starts):
                forks.append(fork())
                starts.append(start_once(session, number))
                print(f"\r{number + 1} starts", end="", file=sys.stderr)
        print(file=sys.stderr)
        running = [row for row in rows(state, "ps") if row.get("pid")]
        private = [found for row in running if (found := private_bytes(int(str(row["pid"])))) is not None]
    finally:
        daemon.terminate()
        daemon.wait(30)
    fork_s, start_s = statistics.median(forks), statistics.median(starts)
    return {
        "level": sorted({str(row["level"]) for row in running}),
        "bare_fork_ms": round(fork_s * 1000, 2),
        "start_ms": round(start_s * 1000, 2),
        "start_in_forks": round(start_s / fork_s, 1),
        "instances": len(running),
        "private_mib_median": round(statistics.median(private) / 2**20, 2) if private else None,
        "private_mib_most": round(max(private) / 2**20, 2) if private else None,
    }


if __name__ == "__main__":
    main()
