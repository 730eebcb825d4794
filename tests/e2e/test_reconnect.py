"""Agents that come and go: they miss nothing, and can tell repeats apart."""

from __future__ import annotations

from typing import Final

from runtime_actors import checker
from tests.e2e.agent import Agent
from tests.e2e.daemon import wait_until
from tests.faults.world import World

TRIES: Final = 100


def test_an_agent_that_reconnects_in_the_middle_misses_nothing_and_can_tell_repeats_apart(
    world: World, agent: Agent
) -> None:
    agent.acknowledges = False
    keys = []
    for number in range(200):
        keys.append(agent.invoke("probe.echo", f"call {number}", conversation=f"c{number % 3}"))
        agent.pump(0.001)
        if number % 40 == 39:
            agent.disconnect()
    agent.wait("every result", lambda: all(key in agent.finals for key in keys), 30.0)

    agent.acknowledges = True
    agent.disconnect()
    world.drain()

    figures = checker.figures(world.evidence())
    assert figures["duplicates"] > 100
    assert figures["attaches"] >= 6  # one that broke before it was answered is not counted
    assert len(agent.handled) == len({frame for _, _, frame in agent.deliveries})
    assert world.violations() == []


def test_a_new_process_of_the_same_agent_gets_what_the_old_one_missed(world: World, agent: Agent) -> None:
    agent.acknowledges = False
    keys = [agent.invoke("probe.slow", f"call {n}", steps=3) for n in range(2)]
    for key in keys:
        agent.accepted(key)
    agent.disconnect()
    wait_until("both ended", lambda: all(row["status"] == "completed" for row in world.daemon.listed("calls")))

    other = world.agent()
    world.agents.remove(agent)
    other.adopt(world.history)
    other.attached()

    assert [other.final(key)["status"] for key in keys] == ["completed", "completed"]
    results = [number for number, kind, _ in other.deliveries if kind == "tool.result"]
    assert len(results) == len(set(results)) == 2
    world.drain()
    assert world.violations() == []
    agent.close()


def test_a_result_that_commits_while_the_agent_attaches_is_delivered_without_a_further_event(
    world: World, agent: Agent
) -> None:
    """Reported for other runtimes: the replay ran just before the append, and nothing woke the agent again."""
    for number in range(TRIES):
        key = agent.invoke("probe.slow", f"{number}", steps=1, step_ms=number % 5, conversation=f"c{number % 2}")
        agent.accepted(key)
        agent.disconnect()
        agent.final(key, within_s=5.0)

    assert world.daemon.listed("status")[0]["open_calls"] == 0
    world.drain()
    assert world.violations() == []


def test_a_wait_that_ends_at_the_very_moment_of_the_result_loses_nothing(world: World, agent: Agent) -> None:
    for number in range(TRIES):
        key = agent.invoke("probe.slow", f"{number}", steps=1, step_ms=5, conversation="c1")
        for _ in range(500):
            if key in agent.finals:
                break
            agent.pump(0.005 + number % 3 * 0.001)
        assert agent.get(key)[1]["call"]["status"] == "completed"

    assert len(agent.finals) == TRIES
    world.drain()
    assert world.violations() == []


def test_a_request_after_a_reconnect_in_the_middle_of_a_call_is_answered(world: World, agent: Agent) -> None:
    first = agent.invoke("probe.slow", "first", steps=5, step_ms=40, conversation="c1")
    agent.wait("it works", lambda: agent.progress.get(first[1]))

    agent.disconnect()
    second = agent.invoke("probe.echo", "second", conversation="c2")

    assert {agent.final(key)["status"] for key in (first, second)} == {"completed"}
    world.drain()
    assert world.violations() == []


def test_three_agents_that_send_all_at_once_are_all_answered_without_another_word(world: World) -> None:
    """An edge-triggered socket that is not read to its end would leave some of it lying."""
    agents = [world.agent() for _ in range(3)]
    for one in agents:
        one.attached()
    keys = [
        (one, one.invoke("probe.nothing", f"{number}", conversation="c1")) for number in range(300) for one in agents
    ]

    for one, key in keys:
        assert one.accepted(key, within_s=10.0)["code"] == "tool_not_advertised"

    assert world.daemon.listed("calls") == []
