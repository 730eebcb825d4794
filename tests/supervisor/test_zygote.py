from __future__ import annotations

import json
import os
import signal
import socket
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
from runtime_actors.supervisor.zygote import Keeps, Offers, WorkerLimits, ZygoteProcess
from tests.e2e.daemon import short_folder
from tests.supervisor.conftest import LIMIT_S, Nursery, wait_readable

pytestmark = pytest.mark.skipif(strongest_ties() is not Ties.KERNEL, reason="watches strangers through pidfds")

ROOT = Path(__file__).parents[2]


def kill_zygote(nursery: Nursery) -> None:
    pid = nursery.zygote.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_readable(nursery.zygote.fileno())


def test_the_zygote_is_single_threaded_in_a_session_of_its_own(nursery: Nursery) -> None:
    zygote = psutil.Process(nursery.zygote.pid)

    assert zygote.num_threads() == 1
    assert os.getsid(zygote.pid) == zygote.pid


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into a zygote")
def test_the_zygote_holds_three_standard_descriptors_and_two_of_its_own_and_a_clean_environment(
    nursery: Nursery,
) -> None:
    zygote = psutil.Process(nursery.zygote.pid)

    assert zygote.num_fds() == 5
    assert zygote.environ() == {"LANG": "C.UTF-8"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into every process")
def test_nobody_of_its_user_may_look_into_the_zygote(nursery: Nursery) -> None:
    zygote = psutil.Process(nursery.zygote.pid)

    for look in (zygote.environ, zygote.num_fds, zygote.memory_full_info):
        with pytest.raises(psutil.AccessDenied):
            look()


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
        workers.append(nursery.fork("wait_openly", limits=WorkerLimits()))
        took_ms.append((time.perf_counter() - before) * 1000)
    heard = 0
    while heard < 100:
        heard += nursery.hear().count("waiting")

    private = [psutil.Process(worker.pid).memory_full_info().uss / 2**20 for worker in workers[:10]]

    record_property("median_fork_ms", statistics.median(took_ms))
    record_property("median_private_mib", statistics.median(private))
    assert statistics.median(took_ms) < 100
    assert statistics.median(private) < 4


# --- what a zygote offers, and what a worker keeps of it ---

OFFERS = Offers(trees=(Path("/usr/lib"), Path("/opt/runtime/miniapp_worker")))


def test_what_a_zygote_says_first_is_read_as_it_is_meant() -> None:
    said = {"uids": [70_000, 3], "own_root": True, "trees": ["/usr/lib", "/etc/localtime"]}

    assert Offers.read(said) == Offers(range(70_000, 70_003), True, (Path("/usr/lib"), Path("/etc/localtime")))  # noqa: FBT003


def test_where_many_uids_are_offered_each_daemon_begins_somewhere_in_the_lower_half_of_them() -> None:
    """Two daemons of one machine then rarely count for each other's limits."""
    said = {"uids": [70_000, 65_536], "own_root": False, "trees": []}

    offered = [Offers.read(said).uids for _ in range(20)]

    assert {uids.stop for uids in offered} == {70_000 + 65_536}
    assert all(70_000 <= uids.start < 70_000 + 65_536 // 2 for uids in offered)
    assert len({uids.start for uids in offered}) > 1


def test_where_nothing_confines_a_zygote_offers_nothing() -> None:
    assert Offers.read({"uids": None, "own_root": False, "trees": []}) == Offers()


@pytest.mark.parametrize(
    ("secret", "tree"),
    [
        ("/usr/lib", "/usr/lib"),
        ("/usr/lib/lineup/state", "/usr/lib"),
        ("/opt/runtime", "/opt/runtime/miniapp_worker"),
        ("/opt/runtime/miniapp_worker/../miniapp_worker/x", "/opt/runtime/miniapp_worker"),
        ("/", "/usr/lib"),
        ("/usr/library", None),
        ("/opt/runtime/state", None),
        ("/home/someone/.lineup", None),
    ],
)
def test_a_folder_is_exposed_where_it_and_a_readable_tree_lie_one_in_the_other(secret: str, tree: str | None) -> None:
    assert OFFERS.exposes(Path(secret)) == (None if tree is None else Path(tree))


def test_a_link_into_a_readable_tree_exposes_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "tree" / "state").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "tree" / "state")
    tree = (tmp_path / "tree").resolve()

    assert Offers(trees=(tree,)).exposes(tmp_path / "link") == tree


@pytest.mark.skipif(sys.platform != "linux", reason="nothing confines a worker elsewhere")
def test_a_zygote_offers_the_trees_of_a_worker_and_neither_the_runtime_nor_a_state_folder(
    nursery: Nursery, tmp_path: Path
) -> None:
    offers = nursery.zygote.wait_ready()

    assert ROOT / "miniapp_worker" in offers.trees
    assert [tree for tree in offers.trees if not tree.exists() or tree != tree.resolve()] == []
    assert offers.exposes(ROOT / "runtime_actors" / "store") is None
    assert offers.exposes(ROOT / "tests") is None
    assert offers.exposes(tmp_path) is None
    assert offers.exposes(ROOT) is not None
    assert os.geteuid() not in offers.uids
    assert nursery.zygote.wait_ready() is offers


def facts_of(nursery: Nursery, *paths: Path, keeps: Keeps | None) -> dict[str, object]:
    worker = nursery.fork("look_around", keeps=keeps, paths=":".join(map(str, paths)))
    facts: dict[str, object] = json.loads(nursery.output_of(worker)[-1])
    return facts


def test_a_worker_that_was_ordered_to_keep_nothing_in_particular_has_limits_only(
    nursery: Nursery, tmp_path: Path
) -> None:
    (tmp_path / "folder" / "file").mkdir(parents=True)

    facts = facts_of(nursery, tmp_path / "folder", keeps=None)

    assert facts["listed"] == {str(tmp_path / "folder"): "file"}
    assert (facts["planned"], facts["landlock_abi"], facts["filters"]) == (False, 0, 0)
    assert facts["uid"] == os.geteuid()


@pytest.mark.skipif(sys.platform != "linux", reason="nothing confines a worker elsewhere")
def test_a_worker_keeps_the_uid_and_the_folder_of_its_order_and_no_other_folder(nursery: Nursery) -> None:
    offers = nursery.zygote.wait_ready()
    uid = offers.uids[-1] if offers.uids else None
    with short_folder() as folder, socket.socket(socket.AF_UNIX) as door:
        folder.chmod(0o755)
        mine, other = folder / "mine", folder / "other"
        for app in (mine, other):
            app.mkdir()
            (app / "app.py").touch()
            (app / "app.py").chmod(0o644)
            app.chmod(0o755)
        door.bind(str(folder / "door"))
        if uid is not None:
            os.chown(folder / "door", uid, -1)

        facts = facts_of(nursery, mine, other, keeps=Keeps(mine, folder / "door", uid))

    listed = facts["listed"]
    assert isinstance(listed, dict)
    assert listed[str(mine)] == "app.py"
    assert listed[str(other)] in {"EACCES", "ENOENT"}
    assert facts["uid"] == (os.geteuid() if uid is None else uid)
    assert facts["planned"] is True
