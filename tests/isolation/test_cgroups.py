from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Final

import pytest

from runtime_actors.supervisor.cgroups import Group, Parents

LIMIT_S: Final = 20
AT_THE_GATE: Final = "import os, sys; sys.stdin.read(1);"


@pytest.fixture
def parents() -> Parents:
    found = Parents.find(os.getpid(), "test") if sys.platform == "linux" else None
    if found is None:
        pytest.skip("no cgroups can be made here")
    return found


@pytest.fixture
def group(parents: Parents) -> Iterator[Group]:
    made = parents.make(f"test-{uuid.uuid4().hex}", memory_bytes=64 * 2**20, processes=8)
    yield made
    made.remove()
    assert not any(folder.exists() for folder in made.folders.values())


def end_of(program: str, group: Group) -> int:
    worker = subprocess.Popen([sys.executable, "-I", "-c", AT_THE_GATE + program], stdin=subprocess.PIPE)
    try:
        group.take(worker.pid)
        worker.communicate(b"g", timeout=LIMIT_S)
    finally:
        worker.kill()
        worker.wait(LIMIT_S)
    return worker.returncode


def test_too_much_memory_ends_the_process_and_is_told(group: Group) -> None:
    code = end_of("import mmap; held = mmap.mmap(-1, 256 * 2**20); held.write(b'x' * (256 * 2**20))", group)

    assert code == -9
    assert group.oom_kills() == 1


def test_enough_memory_is_no_reason(group: Group) -> None:
    assert end_of("held = bytearray(16 * 2**20)", group) == 0
    assert group.oom_kills() == 0


def test_threads_are_counted(group: Group) -> None:
    program = (
        "import threading\nstop = threading.Event(); made = []\n"
        "try:\n while len(made) < 30: made.append(threading.Thread(target=stop.wait)); made[-1].start()\n"
        "except RuntimeError: pass\n"
        "stop.set(); os._exit(len(made))"
    )

    assert end_of(program, group) == 8  # the eighth could not be started
