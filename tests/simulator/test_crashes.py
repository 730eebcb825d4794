"""The simulator against a real daemon that is killed while it works."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_actors.client import AgentSession, Refused, door_of, read_token
from runtime_actors.simulator import Player, SimulatedAgent, read_scenario
from tests.e2e.daemon import ACCEPTED

pytestmark = pytest.mark.xdist_group("simulator-daemon")


def lineup(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runtime_actors", *arguments], capture_output=True, text=True, timeout=90, check=False
    )


@pytest.fixture
def state() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lu-") as folder:
        started = lineup("start", "--state", folder, "--durability", "process", *ACCEPTED)
        try:
            assert started.returncode == 0, started.stderr
            yield Path(folder)
        finally:
            assert lineup("stop", "--state", folder).returncode == 0


def cancel(agent: SimulatedAgent, call_id: str) -> None:
    try:
        agent.cancel("crash", call_id, timeout_s=30)
    except Refused as refused:  # its first answer was lost with the daemon, and its wish was not
        if refused.code != "call_already_final":
            raise


def test_every_call_made_while_the_daemon_is_killed_again_and_again_has_exactly_one_result(state: Path) -> None:
    total, kills = 60, 3
    stop = threading.Event()

    def kill_the_daemon() -> None:
        with Player(state) as player:
            kill = read_scenario(['{"do": "kill", "daemon": true, "timeout_s": 20}'])
            for _ in range(kills):
                for done in player.play(kill):
                    assert done.ok, done.detail
                if stop.wait(0.3):
                    return

    killer = threading.Thread(target=kill_the_daemon)
    session = AgentSession(door_of(state, "agent"), "local", read_token(state, "local"))
    with SimulatedAgent(session) as agent:
        session.attach()
        killer.start()
        for number in range(total):
            agent.invoke(
                "task-dashboard.open",
                {"task_id": f"t{number}", "title": "A task"},
                conversation_id="crash",
                call_id=f"open-{number}",
                timeout_s=30,
            )
            cancel(agent, f"open-{number}")
        for number in range(total):
            agent.wait("crash", f"open-{number}", lambda known: known.is_final and bool(known.results), 60)
        stop.set()
        killer.join(30)

        assert {key[1]: len(known.results) for key, known in agent.calls.items()} == {
            f"open-{number}": 1 for number in range(total)
        }


def test_an_agent_that_leaves_finds_what_came_meanwhile(state: Path) -> None:
    scenario = read_scenario(
        [
            '{"do":"call","tool":"task-dashboard.open","input":{"task_id":"t","title":"T"},"call_id":"open"}',
            '{"do":"wait","call_id":"open","status":"running"}',
            '{"do":"cancel","call_id":"open"}',
            '{"do":"leave"}',
            '{"do":"wait","call_id":"open","status":"cancelled"}',
            '{"do":"finish"}',
            '{"do":"audit"}',
        ]
    )

    with Player(state) as player:
        played = list(player.play(scenario))

    assert [(done.step.do, done.ok, done.detail) for done in played if not done.ok] == []
    assert len(played) == len(scenario)


def test_a_scenario_says_what_did_not_happen(state: Path) -> None:
    steps = read_scenario(
        [
            '{"do":"switch","kind":"tool","name":"task-dashboard.open","enabled":false}',
            '{"do":"call","tool":"task-dashboard.open","call_id":"c"}',
        ]
    )

    with Player(state) as player:
        played = list(player.play(steps))

    assert [done.ok for done in played] == [True, False]
    assert played[1].detail.startswith("expected accepted, got ")


def test_the_demo_tells_its_story_with_all_three_apps() -> None:
    done = lineup("demo", "--json")

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout[-2000:]
    assert rows[-1]["ok"] is True
    calls = rows[-1]["calls"]
    assert {one["results"] for one in calls} == {1}
    assert {one["call"]["status"] for one in calls} == {"completed"}
    assert {one["call"]["app_scope"] for one in calls} == {"chat", "task-dashboard", "whiteboard"}
    steps = [row["do"] for row in rows if "do" in row]
    assert (steps.count("kill"), steps.count("answer")) == (2, 2)
