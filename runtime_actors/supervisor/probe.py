"""One worker without an app, measured: what this machine gives, before anything depends on it."""

from __future__ import annotations

import json
import os
import select
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from runtime_actors.supervisor.isolation import Level
from runtime_actors.supervisor.measured import (
    FILTERS_OF_A_SEALED_WORKER,
    KernelReport,
    WorkerReport,
    level_of,
    read_kernel,
)
from runtime_actors.supervisor.process import Ties
from runtime_actors.supervisor.zygote import Keeps, Offers, WorkerLimits, ZygoteProcess

if TYPE_CHECKING:
    from runtime_actors.supervisor.process import WorkerProcess

ENTRY: Final = "miniapp_worker.probe:run"
_MOST_BYTES: Final = 65536


@dataclass(frozen=True, slots=True)
class Probed:
    """The level a worker gets here, and why it is no better."""

    level: Level
    lacks: str
    """For a person; empty at the best level."""


def probe(zygote: ZygoteProcess, offers: Offers, limit_s: float = 10.0) -> Probed:
    """Fork, measure and end a worker. A worker that fails on its way gives `process`, and its last words as the reason.

    Raises:
        ForkRefused, ZygoteLost, OSError: there was no worker.
    """
    heard, said = os.pipe()
    try:
        keeps = Keeps(None, None, next(iter(offers.uids), None))
        worker = zygote.fork("probe", {}, log_fd=said, limits=WorkerLimits(), keeps=keeps, entry=ENTRY)
    except BaseException:
        os.close(heard)
        raise
    finally:
        os.close(said)
    try:
        worker.release()
        line = _first_line(heard, time.monotonic() + limit_s)
        return _judge(zygote, worker.pid, line)
    finally:
        os.close(heard)
        _end(worker, limit_s)


def _judge(zygote: ZygoteProcess, pid: int, line: str) -> Probed:
    kernel, own = read_kernel(pid), read_kernel(os.getpid())
    try:
        said = json.loads(line.splitlines()[-1])
        report = WorkerReport(frozenset(said["namespaces"]), said["landlock_abi"], said["canaries"])
    except (ValueError, LookupError, TypeError):
        return Probed(Level.PROCESS, f"a worker that was to be confined ended: {line.strip()[-500:] or 'no word'}")
    if kernel is None or own is None:
        return Probed(Level.PROCESS, "the kernel says nothing about a worker: /proc is missing, or hides it (hidepid)")
    if zygote.ties is not Ties.KERNEL:
        return Probed(Level.PROCESS, "the kernel offers no pidfds, so a worker could outlive its daemon")
    return Probed(level_of(report, kernel, own), lacking(report, kernel, own))


def lacking(report: WorkerReport, kernel: KernelReport, daemon: KernelReport) -> str:
    """What a better level would need, for a person; empty only where `level_of` gives the best."""
    failed = [layer for layer, held in report.canaries.items() if not held]
    lacks = [f"the canaries of {layer} were not all refused" for layer in failed]
    if not report.landlock_abi:
        lacks.append("the kernel offers no Landlock")
    if "filter" not in report.canaries:
        lacks.append("the kernel offers no seccomp filters")
    elif kernel.filters - daemon.filters < FILTERS_OF_A_SEALED_WORKER:
        lacks.append("a thread of the worker is without the filters")
    if kernel.capabilities or not kernel.no_new_privs:
        lacks.append("the worker kept privileges")
    if "net" not in report.namespaces:
        lacks.append("namespaces may not be made here")
    elif "mnt" not in report.namespaces and kernel.uid == daemon.uid:
        lacks.append("a worker gets neither a root nor a uid of its own")
    return "; ".join(lacks)


def _first_line(heard: int, deadline: float) -> str:
    """All that was said up to the first whole line of JSON, the end, or the deadline."""
    text = b""
    poll = select.poll()
    poll.register(heard, select.POLLIN)
    while len(text) < _MOST_BYTES and poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        piece = os.read(heard, _MOST_BYTES)
        text += piece
        if not piece or (text.endswith(b"\n") and text.splitlines()[-1].startswith(b"{")):
            break
    return text.decode(errors="replace")


def _end(worker: WorkerProcess, limit_s: float) -> None:
    worker.kill_group()
    poll = select.poll()
    poll.register(worker.fileno(), select.POLLIN)
    poll.poll(limit_s * 1000)
    worker.reap()
    worker.close()
