from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from runtime_actors.errors import ZygoteLost
from runtime_actors.supervisor.process import ExitStatus, Ties, WorkerProcess, reap_strangers, strongest_ties
from runtime_actors.supervisor.zygote import WorkerLimits, ZygoteProcess
from tests.supervisor.conftest import LIMIT_S, Nursery, wait_readable

pytestmark = pytest.mark.skipif(strongest_ties() is not Ties.KERNEL, reason="watches strangers through pidfds")

ROOT = Path(__file__).parents[2]


def kill_zygote(nursery: Nursery) -> None:
    pid = nursery.zygote.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_readable(nursery.zygote.fileno())


def test_the_zygote_is_single_threaded_and_holds_three_standard_descriptors_and_two_of_its_own(
    nursery: Nursery,
) -> None:
    zygote = psutil.Process(nursery.zygote.pid)

    assert zygote.num_threads() == 1
    assert zygote.num_fds() == 5
    assert zygote.environ() == {"LANG": "C.UTF-8"}
    assert os.getsid(zygote.pid) == zygote.pid


def test_the_zygote_has_no_children_left_after_forking(nursery: Nursery) -> None:
    nursery.fork("wait")
    nursery.hear()

    assert psutil.Process(nursery.zygote.pid).children() == []


def test_a_worker_survives_its_zygote_and_its_status_is_still_exact(nursery: Nursery) -> None:
    worker = nursery.fork("wait")
    nursery.hear()

    kill_zygote(nursery)

    assert nursery.zygote.reap() == ExitStatus(signal=signal.SIGKILL)
    assert worker.reap() is None
    worker.signal(signal.SIGUSR1)
    assert nursery.end_of(worker) == ExitStatus(signal=signal.SIGUSR1)


def test_the_end_of_the_zygote_is_told_and_another_one_can_be_started(nursery: Nursery) -> None:
    nursery.watcher.watch("zygote", nursery.zygote)
    first = nursery.zygote.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)

    assert nursery.ends.get(timeout=LIMIT_S) == ("zygote", ExitStatus(signal=signal.SIGKILL))
    assert nursery.zygote.pid is None
    nursery.start_zygote()

    assert nursery.zygote.pid != first
    assert nursery.end_of(nursery.fork("code", code=4)) == ExitStatus(code=4)


def test_asking_a_dead_zygote_for_a_worker_says_so_at_once(nursery: Nursery) -> None:
    kill_zygote(nursery)

    for _ in range(2):
        with pytest.raises(ZygoteLost):
            nursery.fork("wait")


def test_a_zygote_that_does_not_answer_is_killed_and_the_worker_it_was_asked_for_never_runs(nursery: Nursery) -> None:
    pid = nursery.zygote.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    log_fd = nursery.logs.open("i", "a")

    with pytest.raises(ZygoteLost):
        nursery.zygote.fork("a", {}, log_fd=log_fd, entry="tests.supervisor.entries:describe", limit_s=0.1)
    os.close(log_fd)

    wait_readable(nursery.zygote.fileno())
    assert nursery.zygote.reap() == ExitStatus(signal=signal.SIGKILL)
    nursery.logs.stop()
    assert nursery.logs.tail("i", 10) == []


def test_a_spec_that_cannot_be_sent_is_refused_and_harms_nothing(nursery: Nursery) -> None:
    with pytest.raises(TypeError):
        nursery.fork("code", code=object())

    assert nursery.end_of(nursery.fork("code", code=0)) == ExitStatus(code=0)


def test_a_spec_larger_than_a_socket_buffer_arrives_whole(nursery: Nursery) -> None:
    worker = nursery.fork("length", text="x" * 2_000_000)

    assert nursery.output_of(worker) == ["2000000"]


def test_the_zygote_is_only_started_on_the_main_thread() -> None:
    caught: list[Exception] = []

    def start() -> None:
        try:
            ZygoteProcess().start(2)
        except RuntimeError as refused:
            caught.append(refused)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join(LIMIT_S)

    assert len(caught) == 1


def test_closing_ends_the_zygote_and_leaves_the_workers(nursery: Nursery) -> None:
    worker = nursery.fork("wait")
    nursery.hear()
    pid = nursery.zygote.pid
    assert pid is not None

    nursery.zygote.close()

    assert not psutil.pid_exists(pid)
    assert worker.reap() is None
    nursery.zygote.close()


@contextmanager
def small_daemon(tmp_path: Path, ties: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    said = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    daemon = subprocess.Popen(
        [sys.executable, "-m", "tests.supervisor.small_daemon", str(tmp_path / "logs"), ties, str(fifo)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert daemon.stdout is not None
        pids = [int(pid) for pid in daemon.stdout.readline().split()]
        heard = b""
        while heard.count(b"waiting") < len(pids) - 1:  # both workers run
            wait_readable(said)
            heard += os.read(said, 4096)
        yield daemon, pids
    finally:
        daemon.kill()
        daemon.communicate(timeout=LIMIT_S)
        os.close(said)
        reap_strangers(())


@pytest.mark.parametrize("ties", ["KERNEL", "PIPES"])
def test_no_process_lives_one_second_after_the_daemon_was_killed(tmp_path: Path, ties: str) -> None:
    with small_daemon(tmp_path, ties) as (daemon, pids):
        assert len(pids) == 3
        pidfds = [os.pidfd_open(pid) for pid in pids]

        daemon.kill()
        deadline = time.monotonic() + 1.0

        for pidfd in pidfds:
            wait_readable(pidfd, max(deadline - time.monotonic(), 0))
            os.close(pidfd)


def test_a_worker_outlives_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    with small_daemon(tmp_path, "KERNEL") as (daemon, _):
        output, _ = daemon.communicate("", timeout=LIMIT_S)

    assert output.split() == ["None", "None"]


def test_with_pipes_a_worker_survives_its_zygote(nursery_with_pipes: Nursery) -> None:
    worker = nursery_with_pipes.fork("wait")
    nursery_with_pipes.hear()

    kill_zygote(nursery_with_pipes)

    assert worker.reap() is None
    worker.signal(signal.SIGKILL)
    assert nursery_with_pipes.end_of(worker) == ExitStatus()


def test_a_hundred_workers_start_quickly_and_share_their_memory(
    nursery: Nursery, record_property: Callable[[str, object], None]
) -> None:
    took_ms: list[float] = []
    workers: list[WorkerProcess] = []
    for _ in range(100):
        before = time.perf_counter()
        workers.append(nursery.fork("wait", limits=WorkerLimits()))
        took_ms.append((time.perf_counter() - before) * 1000)
    heard = 0
    while heard < 100:
        heard += nursery.hear().count("waiting")

    private = [psutil.Process(worker.pid).memory_full_info().uss / 2**20 for worker in workers[:10]]

    record_property("median_fork_ms", statistics.median(took_ms))
    record_property("median_private_mib", statistics.median(private))
    assert statistics.median(took_ms) < 100
    assert statistics.median(private) < 4
