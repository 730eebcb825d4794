from __future__ import annotations

import os
import subprocess
from dataclasses import replace

import pytest

from runtime_actors.supervisor.isolation import Level
from runtime_actors.supervisor.measured import KernelReport, WorkerReport, level_of, read_kernel

DAEMON = KernelReport(uid=1000, no_new_privs=False, filters=0, capabilities=0)
KERNEL = KernelReport(uid=1000, no_new_privs=True, filters=2, capabilities=0)
WORKER = WorkerReport(
    namespaces=frozenset({"net", "mnt"}), landlock_abi=1, canaries={"landlock": True, "filter": True, "seal": True}
)


def without(canary: str) -> WorkerReport:
    return replace(WORKER, canaries={**WORKER.canaries, canary: False})


@pytest.mark.parametrize(
    ("worker", "kernel", "level"),
    [
        (WORKER, KERNEL, Level.STRONG),
        (replace(WORKER, namespaces=frozenset({"net"})), replace(KERNEL, uid=9), Level.STRONG),
        (replace(WORKER, namespaces=frozenset({"net"})), KERNEL, Level.SEALED),
        (replace(WORKER, namespaces=frozenset({"mnt"})), KERNEL, Level.SEALED),
        (replace(WORKER, landlock_abi=0), KERNEL, Level.PARTIAL),
        (WORKER, replace(KERNEL, capabilities=1), Level.PARTIAL),
        (WORKER, replace(KERNEL, no_new_privs=False), Level.PARTIAL),
        (WORKER, replace(KERNEL, filters=1), Level.PARTIAL),
        (without("landlock"), KERNEL, Level.PARTIAL),
        (without("seal"), KERNEL, Level.PARTIAL),
        (replace(without("filter"), landlock_abi=0), KERNEL, Level.PROCESS),
        (replace(WORKER, canaries={}), KERNEL, Level.PROCESS),
    ],
)
def test_the_level_is_what_both_witnesses_agree_on(worker: WorkerReport, kernel: KernelReport, level: Level) -> None:
    assert level_of(worker, kernel, DAEMON) == level


def test_filters_that_a_worker_inherited_do_not_count() -> None:
    in_container = replace(DAEMON, filters=1)

    assert level_of(WORKER, KERNEL, in_container) == Level.PARTIAL
    assert level_of(WORKER, replace(KERNEL, filters=3), in_container) == Level.STRONG


def test_the_kernel_is_read_for_a_living_process_and_not_for_a_gone_one() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait(5)

    own = read_kernel(os.getpid())
    assert own is not None
    assert own.uid == os.geteuid()
    assert read_kernel(gone.pid) is None
