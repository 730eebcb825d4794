from __future__ import annotations

import json
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from runtime_actors.supervisor.process import ExitStatus, Ties, WorkerProcess, reap_strangers, strongest_ties
from runtime_actors.supervisor.zygote import WorkerLimits
from tests.supervisor.conftest import LIMIT_S, Nursery, wait_readable

pytestmark = pytest.mark.skipif(strongest_ties() is not Ties.KERNEL, reason="needs pidfds")


def facts_of(nursery: Nursery, limits: WorkerLimits | None = None) -> dict[str, Any]:
    worker = nursery.fork("describe", limits=limits)
    facts: dict[str, Any] = json.loads(nursery.output_of(worker)[-1])
    assert facts["pid"] == worker.pid
    return facts


def test_a_worker_is_a_child_of_the_daemon_in_a_session_of_its_own(nursery: Nursery) -> None:
    facts = facts_of(nursery)

    assert facts["ppid"] == os.getpid()
    assert facts["sid"] == facts["pgid"] == facts["pid"]
    assert facts["threads"] == 1
    assert facts["blocked"] == []
    assert facts["no_new_privs"] == "1"
    assert facts["ready_made"]


def test_nothing_of_the_daemons_environment_reaches_a_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LINEUP_TEST_SECRET", "secret")
    nursery = Nursery(tmp_path / "logs", None)
    try:
        facts = facts_of(nursery)
    finally:
        nursery.end()

    assert facts["environ"] == {"LANG": "C.UTF-8"}
    assert facts["exec_environ"] == ["LANG=C.UTF-8"]
    assert facts["cwd"] == "/"
    assert facts["umask"] == 0o077


def test_a_worker_holds_its_log_and_no_other_descriptor(nursery: Nursery) -> None:
    held = os.open("/", os.O_RDONLY)
    os.set_inheritable(held, True)  # noqa: FBT003 - the name says it
    try:
        facts = facts_of(nursery)
    finally:
        os.close(held)

    fds = {int(fd): target for fd, target in facts["fds"].items()}
    assert fds.pop(0) == "/dev/null"
    assert fds.pop(1) == fds.pop(2)
    assert all(target.startswith("/proc/") for target in fds.values())  # the listing itself


def test_the_limits_asked_for_are_in_force(nursery: Nursery) -> None:
    limits = WorkerLimits(memory_bytes=200 * 2**20, address_space_bytes=900 * 2**20, cpu_s=77, open_files=33)

    in_force = facts_of(nursery, limits=limits)["limits"]

    assert in_force == {
        "RLIMIT_CORE": [0, 0],
        "RLIMIT_FSIZE": [0, 0],
        "RLIMIT_NOFILE": [33, 33],
        "RLIMIT_CPU": [77, 78],
        "RLIMIT_DATA": [200 * 2**20] * 2,
        "RLIMIT_AS": [900 * 2**20] * 2,
    }


def test_a_limit_above_what_the_daemon_may_have_is_lowered_to_that(nursery: Nursery) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        pytest.skip("no hard limit here")

    in_force = facts_of(nursery, limits=WorkerLimits(open_files=hard + 1))["limits"]

    assert in_force["RLIMIT_NOFILE"] == [hard, hard]


def test_a_worker_that_eats_memory_gets_a_memory_error(nursery: Nursery) -> None:
    worker = nursery.fork("eat_memory")

    assert nursery.end_of(worker) == ExitStatus(code=7)


def test_a_worker_that_spins_is_killed_at_its_share_of_processor_time(nursery: Nursery) -> None:
    worker = nursery.fork("spin", limits=WorkerLimits(cpu_s=1))

    assert nursery.end_of(worker) == ExitStatus(signal=signal.SIGXCPU)


def test_a_worker_cannot_write_a_file(nursery: Nursery, tmp_path: Path) -> None:
    worker = nursery.fork("write_file", path=str(tmp_path / "file"))

    assert "File too large" in nursery.output_of(worker)[-1]
    assert worker.reap() == ExitStatus(code=1)


def test_two_workers_draw_different_random_numbers(nursery: Nursery) -> None:
    workers = [nursery.fork("describe") for _ in range(2)]

    for worker in workers:
        nursery.end_of(worker)
    outputs = [nursery.output_of(worker) for worker in workers]

    assert len({json.loads(lines[-1])["random"] for lines in outputs}) == 2


@pytest.mark.parametrize("code", [0, 3, 255])
def test_what_the_entry_returns_is_the_exit_code(nursery: Nursery, code: int) -> None:
    worker = nursery.fork("code", code=code)

    assert nursery.end_of(worker) == ExitStatus(code=code)


def test_an_entry_that_raises_ends_with_code_1_and_its_traceback_in_the_log(nursery: Nursery) -> None:
    worker = nursery.fork("fail")

    lines = nursery.output_of(worker)

    assert worker.reap() == ExitStatus(code=1)
    assert lines[0].startswith("Traceback")
    assert lines[-1] == "ValueError: the planted fault"


def test_an_entry_that_cannot_be_imported_ends_with_code_1_and_says_so(nursery: Nursery) -> None:
    worker = nursery.fork("no_such_entry")

    assert "no_such_entry" in nursery.output_of(worker)[-1]
    assert worker.reap() == ExitStatus(code=1)


def test_sys_exit_with_a_text_ends_with_code_1_and_the_text_in_the_log(nursery: Nursery) -> None:
    worker = nursery.fork("leave", reason="nothing to do")

    assert nursery.output_of(worker) == ["nothing to do"]
    assert worker.reap() == ExitStatus(code=1)


def test_a_crash_in_c_code_ends_by_its_signal_and_leaves_the_python_stack_in_the_log(nursery: Nursery) -> None:
    worker = nursery.fork("crash")

    lines = nursery.output_of(worker)

    assert worker.reap() == ExitStatus(signal=signal.SIGSEGV)
    assert any("in crash" in line for line in lines)


def test_a_worker_waits_at_its_gate_until_it_is_released_and_ends_if_it_is_given_up(nursery: Nursery) -> None:
    log_fd = nursery.logs.open("held", "held")
    released, given_up = (
        nursery.zygote.fork(name, {}, log_fd=log_fd, entry="tests.supervisor.entries:describe") for name in "ab"
    )
    nursery.workers += [released, given_up]
    os.close(log_fd)
    assert released.reap() is given_up.reap() is None

    pidfd = os.pidfd_open(given_up.pid)
    given_up.close()
    wait_readable(pidfd)
    os.close(pidfd)
    released.release()

    assert nursery.end_of(released) == ExitStatus(code=0)
    nursery.logs.stop()
    assert len(nursery.logs.tail("held", 10)) == 1


def held(nursery: Nursery) -> WorkerProcess:
    log_fd = os.open("/dev/null", os.O_WRONLY)
    spec = {"says_to": str(nursery.fifo)}
    worker = nursery.zygote.fork("held", spec, log_fd=log_fd, entry="tests.supervisor.entries:seal")
    os.close(log_fd)
    nursery.workers.append(worker)
    worker.release("token", held=True)
    return worker


def test_a_held_worker_goes_no_further_than_its_seal_before_it_is_admitted(nursery: Nursery) -> None:
    worker = held(nursery)
    assert nursery.hear() == "sealing"
    assert not nursery.says_more()

    worker.admit()

    assert nursery.hear() == "sealed"
    assert nursery.end_of(worker) == ExitStatus(code=0)


def test_a_held_worker_that_is_given_up_ends_without_going_further(nursery: Nursery) -> None:
    worker = held(nursery)
    assert nursery.hear() == "sealing"

    worker._close_gate()  # as the end of the daemon does

    assert nursery.end_of(worker) == ExitStatus(code=1)
    assert not nursery.says_more()


def test_with_pipes_a_worker_that_should_be_held_is_not(nursery_with_pipes: Nursery) -> None:
    worker = held(nursery_with_pipes)

    wait_readable(worker.fileno())
    assert nursery_with_pipes.hear().endswith("sealed")


def test_a_signal_reaches_a_running_worker_and_is_refused_for_one_that_ended(nursery: Nursery) -> None:
    worker = nursery.fork("wait")
    nursery.hear()

    assert worker.signal(signal.SIGTERM)

    assert nursery.end_of(worker) == ExitStatus(signal=signal.SIGTERM)
    assert not worker.signal(signal.SIGTERM)
    worker.close()
    assert not worker.signal(signal.SIGTERM)
    worker.kill_group()
    assert worker.reap() == ExitStatus(signal=signal.SIGTERM)
    assert worker.rss_bytes() is None


def test_stopping_a_worker_at_the_instant_it_ends_never_raises_and_tells_one_end(nursery: Nursery) -> None:
    """D3 of the bug scenarios."""
    for number in range(300):
        worker = nursery.fork("code", code=number % 256)
        nursery.watcher.watch(worker.attempt_id, worker)
        worker.signal(signal.SIGTERM)
        worker.kill_group()

    told = [nursery.ends.get(timeout=LIMIT_S)[0] for _ in range(300)]

    assert len(set(told)) == 300
    assert nursery.ends.empty()


def test_the_children_of_a_worker_end_with_it(nursery: Nursery) -> None:
    worker = nursery.fork("wait_with_child")
    child = int(nursery.hear())
    pidfd = os.pidfd_open(child)

    worker.signal(signal.SIGKILL)

    assert nursery.end_of(worker) == ExitStatus(signal=signal.SIGKILL)
    wait_readable(pidfd)
    os.close(pidfd)


def test_strangers_that_a_subreaper_inherits_are_reaped_and_owned_children_are_not(nursery: Nursery) -> None:
    worker = nursery.fork("leave_orphan")
    orphan = int(nursery.hear())
    pidfd = os.pidfd_open(orphan)
    wait_readable(pidfd)
    wait_readable(worker.fileno())

    first = reap_strangers({worker.pid})
    status = worker.reap()
    second = reap_strangers(())
    os.close(pidfd)

    assert status == ExitStatus(code=0)
    assert first + second == [orphan]


def test_the_memory_of_a_worker_can_be_read_while_it_runs(nursery: Nursery) -> None:
    worker = nursery.fork("wait")

    assert (worker.rss_bytes() or 0) > 2**20


def test_with_pipes_a_worker_runs_and_its_end_is_seen_with_an_unknown_status(nursery_with_pipes: Nursery) -> None:
    worker = nursery_with_pipes.fork("code", code=3)

    assert nursery_with_pipes.end_of(worker) == ExitStatus()
    assert not worker.signal(signal.SIGTERM)


def test_with_pipes_a_worker_can_be_signalled(nursery_with_pipes: Nursery) -> None:
    worker = nursery_with_pipes.fork("wait")
    assert worker.reap() is None

    assert worker.signal(signal.SIGKILL)

    assert nursery_with_pipes.end_of(worker) == ExitStatus()


def test_with_pipes_closing_a_worker_ends_it_and_its_children(nursery_with_pipes: Nursery) -> None:
    worker = nursery_with_pipes.fork("wait_with_child")
    child = int(nursery_with_pipes.hear())
    pidfds = [os.pidfd_open(pid) for pid in (worker.pid, child)]

    worker.close()

    for pidfd in pidfds:
        wait_readable(pidfd)
        os.close(pidfd)


def test_exit_statuses_read_well() -> None:
    assert [str(ExitStatus(code=3)), str(ExitStatus(signal=9)), str(ExitStatus())] == [
        "exit code 3",
        "signal SIGKILL",
        "unknown",
    ]
