"""Hostile MiniApps that reach for what is not theirs: files, the network, other processes, the kernel."""

from __future__ import annotations

import os
import platform
from typing import Any

import pytest

from tests.e2e.daemon import APPS
from tests.hostile.arena import CONFINED, HOSTILE, Arena, bystander, doors, left_files, listeners

pytestmark = pytest.mark.timeout(120)


REFUSALS = frozenset({"EPERM", "EACCES", "ENOSYS"})
NOT_THERE = REFUSALS | {"ENOENT", "EROFS", "unable to open database file", "nothing is left"}
"""In a root of its own, files of others do not even exist."""
NOBODY_HEARS = REFUSALS | {"ENOENT", "ENOPROTOOPT", "[Errno -3] Temporary failure in name resolution"}
NOBODY_THERE = REFUSALS | {"ENOENT", "out of pty devices"}


def opened(reached: dict[str, Any], at_least: int, refusals: frozenset[str] = REFUSALS) -> dict[str, str]:
    """The attempts that were not refused, of so many that must have been made."""
    assert len(reached) >= at_least
    return {name: how for name, how in reached.items() if how not in refusals}


def test_no_file_is_read_that_is_not_its_own_and_none_is_written(arena: Arena) -> None:
    state = arena.daemon.state
    sibling = APPS / "guest"
    logs = [str(path) for path in (state / "logs").glob("*/*.log")]
    token = str(state / "tokens" / "local")
    given = {
        "daemon": arena.daemon.pid,
        "state": str(state),
        "store": str(state / "store.db"),
        "files": [str(state / "store.db"), token, *logs, f"{HOSTILE}/network/app.py", f"{sibling}/app.py"],
        "apps": [str(HOSTILE), str(HOSTILE / "network"), str(HOSTILE.parents[2])],
    }

    ended = arena.attack("files.attack", given)

    assert opened(arena.reached(ended), 100, NOT_THERE) == {}
    assert left_files(state) == []
    assert arena.ends(arena.instance_of(ended)) == []


def test_no_socket_is_opened_and_no_door_is_found(arena: Arena) -> None:
    with listeners() as given:
        ended = arena.attack("network.attack", {"doors": doors(arena.daemon.state), **given})

    assert opened(arena.reached(ended), 200, NOBODY_HEARS) == {}
    assert arena.ends(arena.instance_of(ended)) == []


def test_another_connection_of_libzmq_never_comes_up(arena: Arena) -> None:
    with listeners() as given:
        for address in (f"tcp://127.0.0.1:{given['tcp']}", f"ipc://{doors(arena.daemon.state)['agent']}"):
            ended = arena.attack("network.libzmq", {"act": "connect", "address": address})

            assert arena.reached(ended) == {"repeated": False}


def test_a_process_whose_libzmq_aborts_is_replaced_and_its_call_completes(arena: Arena) -> None:
    ended = arena.attack("network.libzmq", {"act": "bind", "address": "tcp://127.0.0.1:*"})

    assert arena.reached(ended) == {"repeated": True}
    assert arena.ends(arena.instance_of(ended)) == ["signal SIGABRT"]


def test_no_process_is_started_and_nobody_elses_is_touched(arena: Arena) -> None:
    held = arena.hold("sibling")
    sibling = int(arena.daemon.worker("sibling")["pid"])
    zygote, before = arena.zygote(), os.getpriority(os.PRIO_PROCESS, arena.daemon.pid)

    with bystander() as victim:
        given = {"daemon": arena.daemon.pid, "zygote": zygote, "sibling": sibling, "bystander": victim.pid}
        ended = arena.attack("processes.attack", given)

    assert opened(arena.reached(ended), 120, NOBODY_THERE) == {}
    assert int(arena.daemon.worker("sibling")["pid"]) == sibling
    assert (arena.zygote(), os.getpriority(os.PRIO_PROCESS, arena.daemon.pid)) == (zygote, before)
    assert arena.ends(arena.instance_of(ended)) == []
    arena.release(held)


def test_the_kernel_looks_at_no_call_that_computing_does_not_need(arena: Arena) -> None:
    ended = arena.attack("kernel.attack")

    assert opened(arena.reached(ended), 100) == {}
    assert arena.ends(arena.instance_of(ended)) == []


@pytest.mark.skipif(platform.machine() != "x86_64", reason="this machine has one table of system calls")
@pytest.mark.parametrize("way", ["x32", "int 0x80"])
def test_a_call_by_the_numbers_of_another_architecture_ends_the_process(arena: Arena, way: str) -> None:
    ended = arena.attack("kernel.foreign", {"way": way})

    assert arena.reached(ended) == {"repeated": True}
    assert arena.ends(arena.instance_of(ended)) == ["signal SIGSYS"]


def test_the_level_is_shown_of_every_process(arena: Arena) -> None:
    arena.serves()

    levels = arena.levels()

    assert levels
    assert levels <= CONFINED
