"""The verdict on a worker that says how it is confined. `level_of` itself is tested in `tests/isolation`."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product

import pytest

from runtime_actors.channel.session import Verdict
from runtime_actors.contract.session import Confined
from runtime_actors.supervisor import measured
from runtime_actors.supervisor.isolation import Level
from runtime_actors.supervisor.measured import KernelReport, Measure
from runtime_actors.supervisor.process import Ties

DAEMON, WORKER = 100, 200
HOLDS = {"landlock": True, "filter": True, "seal": True}
SAID = {
    Level.STRONG: Confined(namespaces=("net", "mnt"), landlock_abi=6, canaries=HOLDS),
    Level.SEALED: Confined(namespaces=(), landlock_abi=6, canaries=HOLDS),
    Level.PARTIAL: Confined(namespaces=(), landlock_abi=0, canaries={"filter": True, "seal": True}),
    Level.PROCESS: Confined(namespaces=(), landlock_abi=0, canaries={}),
}


@pytest.fixture
def _kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel knows a daemon, and a worker with everything that it shows of one."""
    known = {
        DAEMON: KernelReport(uid=1000, no_new_privs=False, filters=0, capabilities=0),
        WORKER: KernelReport(uid=1000, no_new_privs=True, filters=2, capabilities=0),
    }
    monkeypatch.setattr(measured, "read_kernel", known.get)


@pytest.mark.usefixtures("_kernel")
def test_a_level_is_enough_from_the_minimum_on_and_sealed_from_sealed_on() -> None:
    strongest_first = list(Level)

    for level, minimum in product(Level, Level):
        verdict = Measure(minimum, DAEMON, Ties.KERNEL)(WORKER, SAID[level])

        enough = strongest_first.index(level) <= strongest_first.index(minimum)
        sealed = level in {Level.STRONG, Level.SEALED}
        assert verdict == Verdict(level.value, enough=enough, sealed=sealed), (level, minimum)


@pytest.mark.usefixtures("_kernel")
def test_a_process_that_could_outlive_its_daemon_has_the_least_level() -> None:
    verdict = Measure(Level.PARTIAL, DAEMON, Ties.PIPES)(WORKER, SAID[Level.STRONG])

    assert verdict == Verdict("process", enough=False, sealed=False)


@pytest.mark.usefixtures("_kernel")
def test_a_process_that_has_gone_meanwhile_has_the_least_level() -> None:
    verdict = Measure(Level.PARTIAL, DAEMON, Ties.KERNEL)(WORKER + 1, SAID[Level.STRONG])

    assert verdict == Verdict("process", enough=False, sealed=False)


@pytest.mark.usefixtures("_kernel")
def test_a_daemon_that_cannot_read_about_itself_believes_nobody() -> None:
    verdict = Measure(Level.SEALED, DAEMON + 1, Ties.KERNEL)(WORKER, SAID[Level.STRONG])

    assert verdict == Verdict("process", enough=False, sealed=False)


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is measured elsewhere")
def test_a_process_that_only_says_that_it_is_sealed_is_not() -> None:
    """This process has no filter of a worker, whatever it says."""
    with subprocess.Popen(["sleep", "60"]) as liar:
        verdict = Measure(Level.SEALED, os.getpid(), Ties.KERNEL)(liar.pid, SAID[Level.STRONG])
        liar.kill()

    assert not verdict.enough
    assert not verdict.sealed
    assert verdict.level == "partial"  # of Landlock the kernel shows nothing, and a worker's word comes before its app
