"""The stores that are measured with are stores that hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_actors.bench import stores
from runtime_actors.bench.agent import Agent
from runtime_actors.bench.ground import Daemon, ground
from runtime_actors.client import DoorClient, door_of
from tests.e2e.daemon import CAN_SEAL

pytestmark = pytest.mark.skipif(not CAN_SEAL, reason="the daemon confines its workers")


@pytest.fixture
def folder() -> Iterator[Path]:
    with ground(None, quick=True) as made:
        yield made


def test_a_lengthened_history_is_a_whole_store_with_a_whole_chain(folder: Path) -> None:
    steps: list[int] = []
    stores.make_history(folder / "short", 30)

    stores.lengthen(folder / "short", folder / "long", 12_000, lambda: steps.append(1))

    with Daemon(folder / "long") as daemon, Agent(daemon) as agent:
        agent.call()
        with DoorClient(door_of(daemon.state, "control")) as door:
            verified = door.request("lineup.v1.control.verify_audit", {}, timeout_s=60)[1]["data"]
        newest = daemon.rows("calls")
    assert len(steps) == 2
    assert verified["entries"] > 2 * 12_000
    assert {row["status"] for row in newest} == {"completed"}
    assert len({row["call_id"] for row in newest}) == len(newest)


def test_calls_that_a_killed_daemon_left_open_are_done_by_the_next(folder: Path) -> None:
    stores.leave_open_calls(folder / "left", folder / "apps", 30)

    with Daemon(folder / "left") as daemon, Agent(daemon) as agent:
        agent.drain(30)
        agent.settle()
        left = daemon.rows("calls", open=True)
    assert left == []
