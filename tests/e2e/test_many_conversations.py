"""More apps than processes: every call completes, and what is quiet costs none. `lineup bench` has the figures."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.e2e.agent import Agent
from tests.e2e.conftest import MakeWorld
from tests.e2e.daemon import APPS, Daemon, wait_until
from tests.e2e.made_apps import write_app

CONVERSATIONS: Final = 30
PROCESSES: Final = 8
TOOLS: Final = ("probe.echo", "guest.echo", "third.go")


class Watch(threading.Thread):
    """Counts the workers of a daemon again and again."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon=True)
        self._of = psutil.Process(daemon.pid)
        self._over = threading.Event()
        self.most = 0

    def run(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, self.count())

    def count(self) -> int:
        """Children of the daemon besides the zygote."""
        return len(self._of.children()) - 1

    def stop(self) -> None:
        self._over.set()
        self.join(5)


@pytest.mark.timeout(180)
def test_many_conversations_share_a_few_processes_and_every_call_completes(
    make_world: MakeWorld, tmp_path_factory: pytest.TempPathFactory
) -> None:
    third: Path = write_app(tmp_path_factory.mktemp("apps") / "third", "third")
    world = make_world(f"--live-processes={PROCESSES}", "--suspend-after=1", apps=(APPS / "guest", third))
    agent: Agent = world.agent()
    watch = Watch(world.daemon)
    watch.start()

    for _ in range(2):
        keys = [agent.invoke(tool, "x", conversation=f"c{n}") for n in range(CONVERSATIONS) for tool in TOOLS]
        assert {agent.final(key, 60)["status"] for key in keys} == {"completed"}

    wait_until("all sleep", lambda: watch.count() == 0, 20)
    watch.stop()
    assert 1 < watch.most <= PROCESSES
    assert {row["state"] for row in world.daemon.listed("ps")} == {"suspended"}
    assert {entry["detail"]["unexpected"] for entry in world.daemon.audit("attempt.ended")} == {False}
    world.drain()
    assert world.violations() == []
