"""A daemon with nothing but a zygote and its workers, to be killed. Run as a script: LOG_FOLDER kernel|pipes FIFO.

The workers are asked for from a thread that ends at once, as an actor's thread may. Prints the pids of the zygote and
of the workers in one line, then waits for its stdin to close.
"""

# ruff: noqa: T201 - its output is for the test that started it

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from runtime_actors.supervisor.log_files import LogFolder
from runtime_actors.supervisor.logs import LogCapture
from runtime_actors.supervisor.process import Ties, WorkerProcess
from runtime_actors.supervisor.zygote import ZygoteProcess


def main(folder: str, ties: str, fifo: str) -> None:
    logs = LogCapture(LogFolder(Path(folder)))
    logs.start()
    zygote = ZygoteProcess(Ties[ties])
    log_fd = logs.open("i", "a")
    zygote.start(log_fd)
    workers: list[WorkerProcess] = []

    def ask() -> None:
        for name in ("one", "two"):
            entry = "tests.supervisor.entries:wait"
            worker = zygote.fork(name, {"says_to": fifo}, log_fd=log_fd, entry=entry)
            worker.release()
            workers.append(worker)

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()
    print(zygote.pid, *(worker.pid for worker in workers), flush=True)
    sys.stdin.read()
    # Reached only when the test has not killed this process: then show whether the workers outlived the thread.
    print(*(worker.reap() for worker in workers), flush=True)
    for worker in workers:
        worker.kill_group()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
