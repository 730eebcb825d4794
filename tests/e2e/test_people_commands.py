"""`lineup answer`, `dismiss`, `front`, `close`, `say` and `agent listen`, on a real daemon."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.agent import Agent
from tests.e2e.conftest import MakeWorld
from tests.e2e.daemon import ROOT, wait_until
from tests.e2e.people import asker, deaf
from tests.faults.world import World


@pytest.fixture
def world(make_world: MakeWorld, tmp_path: Path) -> World:
    """With an app that asks and one that hangs."""
    return make_world(apps=(asker(tmp_path), deaf(tmp_path)))


def lineup(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runtime_actors", *words, "--state", str(world.daemon.state)]
    return subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
    )


def told(done: subprocess.CompletedProcess[str]) -> tuple[int, dict[str, Any]]:
    """Exit code and the one JSON object."""
    return done.returncode, json.loads(done.stdout)


def asked(world: World, agent: Agent, conversation: str) -> tuple[tuple[str, str], str]:
    """A call that waits for the person, and its question."""
    key = agent.invoke("asker.go", "now?", conversation=conversation)

    def look() -> str | None:
        agent.pump(0.01)
        rows = world.daemon.listed("interactions", conversation_id=conversation)
        return rows[0]["interaction"]["interaction_id"] if rows else None

    return key, wait_until("the question", look)


def test_a_question_is_answered_or_dismissed_once(world: World, agent: Agent) -> None:
    answered, first = asked(world, agent, "c1")
    dismissed, second = asked(world, agent, "c2")

    wrong = told(lineup(world, "answer", first, '{"acknowledged": true}', "--json"))
    done = told(lineup(world, "answer", first, '{"approved": true}', "--json"))
    again = lineup(world, "answer", first, '{"approved": false}')
    gone = lineup(world, "dismiss", second)

    assert (wrong[0], wrong[1]["code"]) == (3, "interaction_invalid")
    assert (done[0], done[1]["data"]["status"]) == (0, "completed")
    assert (again.returncode, again.stderr.split(":")[2]) == (3, " interaction_already_final")
    assert (gone.returncode, gone.stdout) == (0, f"{second} is completed\n")
    assert agent.final(answered)["result"] == {"text": "completed: True"}
    assert agent.final(dismissed)["result"] == {"text": "completed: False"}


@pytest.mark.parametrize("given", ["[1]", "{", '{"approved": tru}', '{"interaction_id": "x"}'])
def test_what_is_no_answer_is_not_sent(given: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "runtime_actors", "answer", "int-1", given, "--state", str(tmp_path)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 2


def test_an_instance_is_put_in_front_and_closed(world: World, agent: Agent) -> None:
    key = agent.invoke("deaf.go", "")
    agent.until_running(key)
    instance_id = str(world.daemon.worker("c1", "deaf")["instance_id"])

    in_front = lineup(world, "front", instance_id)
    stack = world.daemon.listed("focus")[0]["stack"]
    polite = told(lineup(world, "close", instance_id, "--json"))
    forced = lineup(world, "close", instance_id, "--force")
    gone = lineup(world, "front", instance_id)

    assert (in_front.returncode, in_front.stdout) == (0, f"{instance_id} is in front\n")
    assert stack[-1] == instance_id
    assert (polite[0], sorted(polite[1]["data"])) == (0, ["action_id"])
    assert (forced.returncode, agent.final(key)["error_code"]) == (0, "app_closed")
    assert (gone.returncode, "lineup ps" in gone.stderr) == (3, True)


def test_what_a_person_says_is_heard_by_the_agent_that_listens(world: World, agent: Agent) -> None:
    agent.final(agent.invoke("probe.echo", "hello"))
    agent.close()
    world.agents.remove(agent)

    said = lineup(world, "say", "c1", "good morning")
    heard = told(lineup(world, "agent", "listen", "--conversation", "c1", "--count", "1", "--timeout", "20", "--json"))
    again = lineup(world, "agent", "listen", "--conversation", "c1", "--count", "1", "--timeout", "0.2")
    nowhere = lineup(world, "say", "nowhere", "hello?")

    assert said.returncode == 0
    assert (heard[0], heard[1]["text"], heard[1]["conversation_id"]) == (0, "good morning", "c1")
    assert (again.returncode, again.stdout) == (4, "")
    assert (nowhere.returncode, "not_found" in nowhere.stderr) == (3, True)


def test_without_a_daemon_it_says_how_to_start_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "runtime_actors", "dismiss", "int-1", "--state", str(tmp_path)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)

    assert (done.returncode, "lineup start" in done.stderr) == (7, True)
