"""Which level an attempt is confined at, from what the kernel says about it and from its own canaries.

A worker's report counts because it leaves before any MiniApp code is imported: what it says later would be worth
nothing. What the kernel shows of any process, it is asked itself. Of Landlock it shows nothing, so there the canaries
speak alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runtime_actors.channel.session import Verdict
from runtime_actors.contract.session import Confined
from runtime_actors.supervisor.isolation import Level, meets
from runtime_actors.supervisor.process import Ties

FILTERS_OF_A_SEALED_WORKER: Final = 2
_LAYERS: Final = ("landlock", "filter", "seal")


@dataclass(frozen=True, slots=True)
class KernelReport:
    """`/proc/PID/status`, the weakest of all threads.

    It can be read of a process that is not dumpable too, unless /proc hides what is not one's own (`hidepid`).
    """

    uid: int
    no_new_privs: bool
    filters: int
    capabilities: int
    """Permitted ones: what is effective can only be among them."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker says when it is sealed."""

    namespaces: frozenset[str]
    """Names in /proc/PID/ns whose inode it saw change."""
    landlock_abi: int
    """0: none."""
    canaries: Mapping[str, bool]
    """For each layer that has canaries: whether all of them failed as they should."""


def read_kernel(pid: int) -> KernelReport | None:
    """None once the process has ended, and where it is hidden."""
    threads = []
    try:
        for path in Path("/proc", str(pid), "task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
                threads.append(_status(path / "status"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    if not threads:
        return None
    return KernelReport(
        uid=int(threads[0]["Uid"].split()[1]),
        no_new_privs=all(thread["NoNewPrivs"] == "1" for thread in threads),
        filters=min(int(thread.get("Seccomp_filters", thread["Seccomp"])) for thread in threads),
        capabilities=max(int(thread["CapPrm"], 16) for thread in threads),
    )


def level_of(worker: WorkerReport, kernel: KernelReport, daemon: KernelReport) -> Level:
    """The level in force. A layer that is said to be there and whose canaries disagree does not count.

    `daemon` is compared with: in a container it has a filter itself, which its workers inherit.
    """
    added = kernel.filters - daemon.filters
    holds = {layer: worker.canaries.get(layer, False) for layer in _LAYERS}
    has_filters = added >= FILTERS_OF_A_SEALED_WORKER and holds["filter"] and holds["seal"] and kernel.no_new_privs
    has_landlock = worker.landlock_abi > 0 and holds["landlock"]
    if has_filters and has_landlock and kernel.capabilities == 0:
        is_apart = "mnt" in worker.namespaces or kernel.uid != daemon.uid
        return Level.STRONG if "net" in worker.namespaces and is_apart else Level.SEALED
    return Level.PARTIAL if has_filters or has_landlock else Level.PROCESS


class Measure:
    """Judges what a worker reports, for the channel."""

    def __init__(self, minimum: Level, daemon_pid: int, ties: Ties) -> None:
        self._minimum = minimum
        self._ties = ties
        self._daemon = read_kernel(daemon_pid)

    def __call__(self, pid: int, said: Confined) -> Verdict:
        """The level of process `pid`. Reads /proc: some 0.1 ms."""
        kernel = read_kernel(pid)
        level = Level.PROCESS
        if kernel is not None and self._daemon is not None and self._ties is Ties.KERNEL:
            report = WorkerReport(frozenset(said.namespaces), said.landlock_abi, said.canaries)
            level = level_of(report, kernel, self._daemon)
        return Verdict(level.value, enough=meets(level, self._minimum), sealed=meets(level, Level.SEALED))


def _status(path: Path) -> dict[str, str]:
    rows = (line.partition(":") for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    return {name: value.strip() for name, _, value in rows}
