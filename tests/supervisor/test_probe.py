"""One worker without an app, measured before a daemon opens any door."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.errors import ZygoteLost
from runtime_actors.supervisor import probe as module
from runtime_actors.supervisor.isolation import Level
from runtime_actors.supervisor.measured import KernelReport, WorkerReport, level_of
from runtime_actors.supervisor.probe import Probed, lacking, probe
from runtime_actors.supervisor.process import Ties, reap_strangers, strongest_ties
from runtime_actors.supervisor.zygote import ZygoteProcess
from tests.supervisor.conftest import wait_readable

ROOT = Path(__file__).parents[2]
PLAN = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from miniapp_worker import layers
plan = layers.plan(Path(sys.argv[1]))
apart = plan.uids is not None or (plan.way is not None and plan.way.with_root)
print(json.dumps({"landlock": plan.landlock_abi > 0, "filters": plan.sealing is not None,
                  "apart": plan.way is not None and apart}))
"""
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="nothing confines a worker elsewhere")
MakeZygote = Callable[..., ZygoteProcess]


@pytest.fixture
def make_zygote(tmp_path: Path) -> Iterator[MakeZygote]:
    with ExitStack() as made, (tmp_path / "zygote.log").open("wb") as log:

        def make(ties: Ties | None = None, **options: Any) -> ZygoteProcess:  # noqa: ANN401
            zygote = ZygoteProcess(ties, **options)
            zygote.start(log.fileno())
            made.callback(zygote.close)
            return zygote

        yield make
    reap_strangers(())


@pytest.fixture(scope="module")
def here() -> dict[str, bool]:
    """What this machine can do, asked as a zygote asks it: in a process of one thread."""
    asked = subprocess.run([sys.executable, "-I", "-c", PLAN, str(ROOT)], capture_output=True, timeout=30, check=True)
    return dict(json.loads(asked.stdout))


def expected(here: dict[str, bool]) -> Level:
    if here["landlock"] and here["filters"]:
        return Level.STRONG if here["apart"] else Level.SEALED
    return Level.PARTIAL if here["landlock"] or here["filters"] else Level.PROCESS


def probed(zygote: ZygoteProcess, limit_s: float = 10.0) -> Probed:
    return probe(zygote, zygote.wait_ready(), limit_s)


# --- real workers ---


@on_linux
def test_a_worker_gets_what_this_machine_can_do(make_zygote: MakeZygote, here: dict[str, bool]) -> None:
    if strongest_ties() is not Ties.KERNEL:
        pytest.skip("no pidfds here")

    found = probed(make_zygote(Ties.KERNEL))

    assert found.level == expected(here)
    assert (found.lacks == "") == (found.level is Level.STRONG)


@on_linux
def test_a_worker_that_nothing_but_pipes_ties_to_its_daemon_gets_the_least(make_zygote: MakeZygote) -> None:
    found = probed(make_zygote(Ties.PIPES))

    assert found.level is Level.PROCESS
    assert "pidfd" in found.lacks


@on_linux
@pytest.mark.parametrize("abi", [1, 3])
def test_an_older_landlock_seals_as_well(make_zygote: MakeZygote, here: dict[str, bool], abi: int) -> None:
    assert probed(make_zygote(landlock_at_most=abi)).level == expected(here)


@on_linux
def test_without_landlock_the_level_is_partial_and_it_is_said_why(
    make_zygote: MakeZygote, here: dict[str, bool]
) -> None:
    found = probed(make_zygote(landlock_at_most=0))

    assert found.level == expected(here | {"landlock": False})
    assert "no Landlock" in found.lacks


@pytest.mark.parametrize(
    ("entry", "last_words"),
    [
        ("tests.supervisor.entries:fail", "ValueError: the planted fault"),
        ("tests.supervisor.entries:no_such_entry", "no_such_entry"),
        ("tests.supervisor.entries:length", "KeyError: 'text'"),
    ],
)
def test_a_worker_that_fails_on_its_way_gives_the_least_level_and_its_last_words(
    make_zygote: MakeZygote, monkeypatch: pytest.MonkeyPatch, entry: str, last_words: str
) -> None:
    monkeypatch.setattr(module, "ENTRY", entry)

    found = probed(make_zygote())

    assert found.level == Level.PROCESS
    assert last_words in found.lacks


def test_a_worker_that_says_nothing_within_the_limit_is_ended_and_gives_the_least_level(
    make_zygote: MakeZygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ENTRY", "tests.supervisor.entries:spin")
    zygote = make_zygote()
    zygote.wait_ready()

    found = probed(zygote, limit_s=0.2)

    assert (found.level, found.lacks[-7:]) == (Level.PROCESS, "no word")


@pytest.mark.parametrize("entry", [module.ENTRY, "tests.supervisor.entries:fail"])
def test_a_probe_leaves_no_process_and_no_descriptor(
    make_zygote: MakeZygote, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    monkeypatch.setattr(module, "ENTRY", entry)
    zygote = make_zygote()
    zygote.wait_ready()
    own = psutil.Process()
    before = own.num_fds(), own.children(recursive=True)

    probed(zygote)

    assert (own.num_fds(), own.children(recursive=True)) == before


def test_without_a_zygote_there_is_no_worker_to_measure(make_zygote: MakeZygote) -> None:
    zygote = make_zygote()
    offers = zygote.wait_ready()
    assert zygote.pid is not None
    os.kill(zygote.pid, signal.SIGKILL)
    wait_readable(zygote.fileno())
    before = psutil.Process().num_fds()

    with pytest.raises(ZygoteLost):
        probe(zygote, offers)

    assert psutil.Process().num_fds() <= before


# --- what is lacking ---

DAEMON = KernelReport(uid=1000, no_new_privs=False, filters=1, capabilities=0)
KERNEL = KernelReport(uid=1000, no_new_privs=True, filters=3, capabilities=0)
HOLDS = {"filter": True, "seal": True}


def report(*namespaces: str, abi: int = 0, **canaries: bool) -> WorkerReport:
    return WorkerReport(frozenset(namespaces), abi, canaries)


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        (report("net", "mnt", abi=6, landlock=True, **HOLDS), ""),
        (report(abi=6, landlock=True, **HOLDS), "namespaces may not be made here"),
        (report("net", abi=6, landlock=True, **HOLDS), "a worker gets neither a root nor a uid of its own"),
        (report("net", "mnt", **HOLDS), "the kernel offers no Landlock"),
        (report("net", "mnt", abi=6, landlock=True), "the kernel offers no seccomp filters"),
        (report("net", "mnt", abi=6, landlock=False, **HOLDS), "the canaries of landlock were not all refused"),
        (
            report(),
            "the kernel offers no Landlock; the kernel offers no seccomp filters; namespaces may not be made here",
        ),
    ],
)
def test_what_a_better_level_would_need_is_said(said: WorkerReport, lacks: str) -> None:
    assert lacking(said, KERNEL, DAEMON) == lacks


@st.composite
def reports(draw: st.DrawFn) -> WorkerReport:
    """What a worker may report: it attacks each layer that it has."""
    abi = draw(st.integers(0, 10))
    attacked = (["landlock"] if abi else []) + (["filter", "seal"] if draw(st.booleans()) else [])
    canaries = {layer: draw(st.booleans()) for layer in attacked}
    return WorkerReport(draw(st.frozensets(st.sampled_from(["net", "mnt", "ipc", "uts"]))), abi, canaries)


@given(
    reports(),
    st.builds(
        KernelReport,
        uid=st.sampled_from([0, 1000]),
        no_new_privs=st.booleans(),
        filters=st.integers(0, 4),
        capabilities=st.integers(0, 1),
    ),
)
def test_something_is_lacking_exactly_where_the_level_is_not_the_best(said: WorkerReport, kernel: KernelReport) -> None:
    best = level_of(said, kernel, DAEMON) is Level.STRONG

    assert (lacking(said, kernel, DAEMON) == "") == best
