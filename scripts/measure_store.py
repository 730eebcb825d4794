"""How long a daemon takes to serve again with a large store, beside an empty one.

    python scripts/measure_store.py [--open 10000] [--finished 200000] [--entries 3]

Fills a store in a temporary folder with open calls, finished calls and their audit entries, and measures: the start of
an empty one, the start of this one after a crash, the walk along the whole chain, backup, export and restore.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from runtime_actors import registry, state_folder
from runtime_actors.client import DoorClient, door_of
from runtime_actors.commands import calls, instances
from runtime_actors.config import Bounds
from runtime_actors.contract import codec
from runtime_actors.records.transaction import Settings, Transaction
from runtime_actors.rules.calls import CallKey
from runtime_actors.rules.flood import FloodMeter
from runtime_actors.rules.restart import RestartPolicy
from runtime_actors.store import backup
from runtime_actors.store.opening import OpenStore, open_store
from runtime_actors.system import RandomIds, SystemClock

_SLICE = 1000
_CONVERSATIONS = 10
_TOOL = "task-dashboard.open"
_CLONE = """
insert into calls (agent_id, conversation_id, call_id, tool_id, inventory_revision, app_scope, instance_id, status,
    input, digest, result, handling, deadline_boot_s, deadline_wall_s, created_at, updated_at)
select agent_id, conversation_id, ?1 || '-' || call_id, tool_id, inventory_revision, app_scope, instance_id,
    'completed', input, digest, x'81a673746174757304', handling, deadline_boot_s, deadline_wall_s, created_at,
    updated_at
from calls where due_boot_s is not null limit ?2
"""


class Filler:
    """Fills a store with the runtime's own commands, where that is quick enough."""

    def __init__(self, opened: OpenStore) -> None:
        catalogue, _ = registry.load(())
        bounds = Bounds(open_calls=10**9, open_calls_per_instance=10**9, inbox_messages=10**9)
        self._settings = Settings(catalogue, bounds, RestartPolicy(), cancel_grace_s=10, stop_grace_s=2)
        self._opened, self._ids, self._clock = opened, RandomIds(), SystemClock()

    def transaction(self) -> Transaction:
        opened = self._opened
        return Transaction(opened.sql, opened.chain, self._settings, self._ids, self._clock.now(), FloodMeter())

    def open_calls(self, count: int) -> None:
        self._opened.sql.execute("begin")
        for number in range(count):
            given = {"task_id": f"t{number}", "title": "A task"}
            key = CallKey("local", f"talk-{number % _CONVERSATIONS}", f"c{number}")
            digest = hashlib.sha256(str(number).encode()).digest()
            invoke = calls.CheckedInvoke(key, _TOOL, "r", codec.encode(given), digest, None)
            answer = calls.admit(self.transaction(), invoke)
            if not isinstance(answer, calls.CallAnswer):
                sys.exit(f"a call was refused: {answer}")
            instance_id = str(answer.call.instance_id)
            if number < _CONVERSATIONS:
                begun = instances.begin_attempt(self.transaction(), instance_id)
                if not isinstance(begun, instances.AttemptBegun):
                    sys.exit(f"an attempt was refused: {begun}")
                instances.attach(self.transaction(), instances.Attached(begun.attempt_id, "process", b"\x80"))
            if number % 2:
                by = calls.Reporter(instance_id, "", f"q{number}", key.call_id)
                calls.report_progress(self.transaction(), calls.ProgressReport(by, codec.encode({"percent": 1})))
        self._opened.sql.execute("commit")

    def finished_calls(self, count: int, entries: int) -> None:
        sql, made = self._opened.sql, 0
        while made < count:
            sql.execute("begin")
            made += sql.execute(_CLONE, (made, min(count - made, _SLICE * 10))).rowcount
            sql.execute("commit")
        for begin in range(0, count * entries, _SLICE * 10):
            sql.execute("begin")
            tx = self.transaction()
            for number in range(begin, min(begin + _SLICE * 10, count * entries)):
                tx.note(
                    "call.ended", digest=b"d" * 32, agent_id="local", call_id=f"c{number}", detail={"to": "completed"}
                )
            sql.execute("commit")
        self._opened.side.write(self._opened.chain.seq, self._opened.chain.head)


def fill(state: Path, open_calls: int, finished: int, entries: int) -> None:
    """In a child that ends as if killed."""
    child = os.fork()
    if child == 0:
        state_folder.prepare(state)
        filler = Filler(open_store(state, "process", SystemClock()))
        filler.open_calls(open_calls)
        filler.finished_calls(finished, entries)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("the store could not be filled")


def start(state: Path) -> tuple[subprocess.Popen[bytes], float]:
    """A daemon that serves, and how long that took."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "runtime_actors", "run", f"--state={state}"]
    daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if daemon.stdout is None or not daemon.stdout.readline().startswith(b"ready"):
        sys.exit(f"the daemon ended with {daemon.wait()}")
    return daemon, time.perf_counter() - begun


def order(state: Path, kind: str, **body: Any) -> tuple[dict[str, Any], float]:  # noqa: ANN401 - JSON
    begun = time.perf_counter()
    with DoorClient(door_of(state, "control")) as door:
        answer = door.request(f"lineup.v1.control.{kind}", body, timeout_s=600, repeat=False)[1]
    return answer["data"], time.perf_counter() - begun


def stop(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    daemon.wait(30)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--open", type=int, default=10_000)
    parser.add_argument("--finished", type=int, default=200_000)
    parser.add_argument("--entries", type=int, default=3, help="audit entries a finished call")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lu-", ignore_cleanup_errors=True) as name:
        measure(Path(name), chosen)


def measure(folder: Path, chosen: argparse.Namespace) -> None:
    """In this folder."""
    empty = []
    for number in range(3):
        daemon, took_s = start(folder / f"empty{number}")
        stop(daemon)
        empty.append(took_s)
    print(f"empty start                 {min(empty):7.2f} s (best of 3)")
    state = folder / "s"
    begun = time.perf_counter()
    fill(state, chosen.open, chosen.finished, chosen.entries)
    size_mb = sum(path.stat().st_size for path in state.glob("store.db*")) / 1e6
    print(f"filled                      {time.perf_counter() - begun:7.2f} s, {size_mb:.0f} MB")
    shutil.copytree(state, folder / "again")
    starts = []
    for one in (state, folder / "again"):
        daemon, took_s = start(one)
        starts.append(took_s)
        if one is state:
            daemon.kill()
            daemon.wait()
    print(f"start with {chosen.open} open and {chosen.finished} finished calls: {min(starts):.2f} s")
    state = folder / "again"
    data, took_s = order(state, "verify_audit")
    print(f"audit verify                {took_s:7.2f} s for {data['entries']} entries")
    data, took_s = order(state, "backup", path=str(folder / "copy"))
    print(f"backup, verified            {took_s:7.2f} s for {data['bytes'] / 1e6:.0f} MB")
    data, took_s = order(state, "export_audit", path=str(folder / "old.jsonl"), keep=1000)
    print(f"audit export                {took_s:7.2f} s for {data['entries']} entries")
    stop(daemon)
    begun = time.perf_counter()
    backup.restore(state, folder / "copy")
    print(f"restore, verified           {time.perf_counter() - begun:7.2f} s")


if __name__ == "__main__":
    main()
