from __future__ import annotations

import os
import queue
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_actors.supervisor.exits import ExitWatcher
from runtime_actors.supervisor.log_files import LogFolder
from runtime_actors.supervisor.logs import LogCapture
from runtime_actors.supervisor.process import ExitStatus, Ties, WorkerProcess, reap_strangers
from runtime_actors.supervisor.zygote import Keeps, WorkerLimits, ZygoteProcess

LIMIT_S = 5.0


class Nursery:
    """A zygote, a log and a watch over all that comes of them, the way a supervisor holds them."""

    def __init__(self, root: Path, ties: Ties | None) -> None:
        self.logs = LogCapture(LogFolder(root))
        self.ends: queue.Queue[tuple[str, ExitStatus]] = queue.Queue()
        self.watcher = ExitWatcher(lambda key, status: self.ends.put((key, status)))
        self.zygote = ZygoteProcess(ties)
        self.workers: list[WorkerProcess] = []
        self.fifo = root.parent / "says"
        os.mkfifo(self.fifo)
        self._said = os.open(self.fifo, os.O_RDWR | os.O_NONBLOCK)
        self.logs.start()
        self.watcher.start()
        self.start_zygote()

    def start_zygote(self) -> None:
        log_fd = self.logs.open("zygote", "zygote")
        try:
            self.zygote.start(log_fd)
        finally:
            os.close(log_fd)
        self.zygote.wait_ready()

    def fork(
        self, entry: str, *, limits: WorkerLimits | None = None, keeps: Keeps | None = None, **spec: object
    ) -> WorkerProcess:
        """A released, unwatched worker; its log is that of the instance named like its attempt."""
        attempt_id = f"attempt-{len(self.workers)}"
        log_fd = self.logs.open(attempt_id, attempt_id)
        try:
            worker = self.zygote.fork(
                attempt_id,
                {"says_to": str(self.fifo), **spec},
                log_fd=log_fd,
                limits=limits or WorkerLimits(),
                keeps=keeps,
                entry=f"tests.supervisor.entries:{entry}",
            )
        finally:
            os.close(log_fd)
        self.workers.append(worker)
        worker.release()
        return worker

    def hear(self) -> str:
        """The next thing a worker says to its test."""
        wait_readable(self._said)
        return os.read(self._said, 4096).decode().strip()

    def says_more(self, within_s: float = 0.2) -> bool:
        """Whether a worker says anything else."""
        return bool(select.select([self._said], [], [], within_s)[0])

    def end_of(self, worker: WorkerProcess) -> ExitStatus:
        wait_readable(worker.fileno())
        status = worker.reap()
        assert status is not None
        return status

    def output_of(self, worker: WorkerProcess) -> list[str]:
        """All lines, once the worker has ended and its log was read to the end."""
        self.end_of(worker)
        self.logs.stop()
        return self.logs.tail(worker.attempt_id, 1000)

    def end(self) -> None:
        self.watcher.stop()
        for worker in self.workers:
            worker.kill_group()
            worker.close()
        self.zygote.close()
        self.logs.stop()
        os.close(self._said)
        reap_strangers(())


def wait_readable(fd: int, limit_s: float = LIMIT_S) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    assert poll.poll(limit_s * 1000), "nothing happened within the limit"


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    yield from a_nursery(tmp_path, None)


@pytest.fixture
def nursery_with_pipes(tmp_path: Path) -> Iterator[Nursery]:
    yield from a_nursery(tmp_path, Ties.PIPES)


def a_nursery(tmp_path: Path, ties: Ties | None) -> Iterator[Nursery]:
    made = Nursery(tmp_path / "logs", ties)
    try:
        yield made
    finally:
        made.end()
