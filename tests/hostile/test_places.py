"""The same attacks where the daemon was started by an ordinary user, or in a container: less can be had there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.hostile.conftest import CAN_BE_SEALED
from tests.isolation.places import ROOT

_ENTER = """
import os, sys
from tests.isolation import places
places.enter(sys.argv[1])
os.execv(sys.executable, [sys.executable, "-B", "-m", "pytest", *sys.argv[2:]])
"""
_ATTACKS = (
    "tests/hostile/test_reaching.py::test_no_file_is_read_that_is_not_its_own_and_none_is_written",
    "tests/hostile/test_reaching.py::test_no_socket_is_opened_and_no_door_is_found",
    "tests/hostile/test_reaching.py::test_no_process_is_started_and_nobody_elses_is_touched",
    "tests/hostile/test_reaching.py::test_the_level_is_shown_of_every_process",
    "tests/hostile/test_resources.py::test_memory_ends_where_its_limit_is",
    "tests/hostile/test_resources.py::test_threads_end_where_their_limit_is",
)


@pytest.mark.timeout(120)
@pytest.mark.skipif(os.getuid() != 0, reason="only root can play others; an ordinary user runs all of it as it is")
@pytest.mark.skipif(not CAN_BE_SEALED, reason="no worker can be sealed on this kernel")
@pytest.mark.parametrize("place", ["user", "container"])
def test_attacks_are_refused_wherever_the_daemon_was_started(place: str) -> None:
    options = ["-n0", "-q", "-p", "no:cacheprovider", "--tb=short"]

    ran = subprocess.run(
        [sys.executable, "-B", "-c", _ENTER, place, *options, *_ATTACKS],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    assert "7 passed" in ran.stdout, ran.stdout[-1000:]
