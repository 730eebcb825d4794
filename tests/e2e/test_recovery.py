"""A daemon that comes back: what was promised before it died holds afterwards."""

from __future__ import annotations

import sqlite3
import time
from datetime import datetime
from typing import Final

import pytest

from tests.e2e.agent import Agent
from tests.e2e.conftest import MakeWorld
from tests.e2e.daemon import wait_until
from tests.e2e.made_apps import a_tool, write_app
from tests.faults.world import World, worker_words

STOP_S: Final = 5.0
"""3 s on a machine that has nothing else to do."""
TEXTS: Final = 50

WAITS: Final = """
import asyncio

async def main(sdk):
    @sdk.tools.handler(sdk.context.app_scope + ".go")
    async def go(call):
        await sdk.inbox.acknowledge(call.message_id)
        if call.progress is not None:
            print("begins at", int(call.progress.percent), flush=True)
        for step in range(1 + int(call.progress.percent if call.progress else 0), 6):
            await sdk.tools.report_progress(call.call_id, percent=step)

    await sdk.run_until_stopped()
"""
"""Reports progress 1 to 5 and then never ends its call."""
BLOCKS: Final = """
import time

async def main(sdk):
    @sdk.tools.handler(sdk.context.app_scope + ".go")
    async def go(call):
        await sdk.inbox.acknowledge(call.message_id)
        if not call.repeated:
            time.sleep(3600)
        return {"text": call.input["text"]}

    await sdk.run_until_stopped()
"""


def _die_and_come_back(world: World) -> None:
    world.daemon.kill()
    for agent in world.agents:
        agent.disconnect()
    world.start()


def test_a_deadline_survives_the_daemon(make_world: MakeWorld) -> None:
    """Reported for other runtimes: the timer is lost when the state is loaded again."""
    world = make_world()
    limited = [a_tool("limited.go", "limited", timeout_ms=4000)]
    world.daemon.apps += (write_app(world.daemon.state / "apps" / "limited", "limited", WAITS, tools=limited),)
    _die_and_come_back(world)
    agent = world.agent()
    agent.attached()
    key = agent.invoke("limited.go", "")
    agent.until_running(key)

    _die_and_come_back(world)
    ended = agent.final(key)

    assert (ended["status"], ended["error_code"]) == ("expired", "deadline_passed")
    begun, over = (world.daemon.audit(event)[0]["at"] for event in ("call.admitted", "call.ended"))
    assert 4.0 <= (datetime.fromisoformat(over) - datetime.fromisoformat(begun)).total_seconds() < 5.0
    world.drain()
    assert world.violations() == []


def test_a_call_whose_record_is_spoiled_ends_and_the_others_are_recovered(world: World, agent: Agent) -> None:
    keys = [agent.invoke("probe.hold", f"call {number}") for number in range(10)]
    for key in keys:
        agent.until_running(key)
    world.daemon.kill()
    with sqlite3.connect(world.daemon.state / "store.db") as sql:
        sql.execute("update calls set input = x'c1' where call_id = ?", (keys[2][1],))
    sql.close()

    agent.disconnect()
    world.start()

    assert (agent.final(keys[2])["status"], agent.final(keys[2])["error_code"]) == ("failed", "internal_error")
    for key in keys[:2] + keys[3:]:
        agent.until_running(key)
        agent.cancel(key)
        assert agent.final(key)["status"] == "cancelled"
    world.drain()
    assert world.violations() == []


def test_progress_made_before_the_kill_is_there_after_it(make_world: MakeWorld) -> None:
    world = make_world()
    world.daemon.apps += (write_app(world.daemon.state / "apps" / "steps", "steps", WAITS),)
    _die_and_come_back(world)
    agent = world.agent()
    agent.attached()
    key = agent.invoke("steps.go", "")
    agent.wait("the last step", lambda: agent.get(key)[1]["call"].get("progress", {}).get("percent") == 5)

    _die_and_come_back(world)

    assert agent.get(key)[1]["call"]["progress"] == {"percent": 5}
    wait_until("the app knows it", lambda: "begins at 5" in world.daemon.worker_log())
    agent.cancel(key)
    agent.final(key)
    world.drain()


def test_acknowledged_messages_do_not_come_back(world: World, agent: Agent) -> None:
    for number in range(TEXTS):
        agent.say(f"text {number}")
    agent.final(agent.invoke("probe.echo", "wake up"))  # there was no instance: the texts waited for one
    wait_until("all are acknowledged", lambda: len(world.daemon.audit("message.acknowledged")) >= TEXTS)
    assert world.daemon.listed("inbox") == []

    _die_and_come_back(world)

    pid = world.daemon.worker("c1")["pid"]
    agent.final(agent.invoke("probe.echo", "after"))
    given = [one for one in worker_words(world.daemon) if one["what"] == "given" and one["pid"] == pid]
    assert [one["message_id"] for one in given if "text" in one] == []
    world.drain()
    assert world.violations() == []


def test_stopping_waits_for_no_agent_and_loses_no_delivery(world: World, agent: Agent) -> None:
    agent.acknowledges = False
    keys = [agent.invoke("probe.echo", f"{number}", conversation=f"c{number % 2}") for number in range(500)]
    for key in keys:
        agent.accepted(key)
    agent.disconnect()
    wait_until("all are done", lambda: world.daemon.listed("status")[0]["outbox_deliveries"] == len(keys), 20)

    begun = time.monotonic()
    assert world.daemon.terminate() == 0
    assert time.monotonic() - begun < STOP_S
    world.start()
    agent.acknowledges = True

    agent.wait("every result", lambda: all(key in agent.finals for key in keys))
    world.drain()
    assert world.violations() == []


def test_a_stop_is_not_held_up_by_a_stuck_call_which_goes_on_afterwards(make_world: MakeWorld) -> None:
    world = make_world()
    world.daemon.apps += (write_app(world.daemon.state / "apps" / "blocks", "blocks", BLOCKS),)
    _die_and_come_back(world)
    agent = world.agent()
    agent.attached()
    key = agent.invoke("blocks.go", "stuck")
    agent.until_running(key)

    begun = time.monotonic()
    assert world.daemon.terminate() == 0
    stopped_after_s = time.monotonic() - begun
    agent.disconnect()
    world.start()

    assert stopped_after_s < STOP_S
    assert agent.final(key)["result"] == {"text": "stuck"}
    world.drain()


@pytest.mark.parametrize("after_ack", [False, True])
def test_a_worker_that_dies_in_a_call_costs_seconds_and_not_the_deadline(
    world: World, agent: Agent, *, after_ack: bool
) -> None:
    """The tools' deadline is ten minutes away."""
    begun = time.monotonic()
    once = agent.invoke("probe.die", "once", after_ack=after_ack)
    assert agent.final(once)["result"]["text"] == "once"

    always = agent.invoke("probe.die", "always", always=True, after_ack=after_ack)
    ended = agent.final(always)

    assert (ended["status"], ended["error_code"]) == ("failed", "app_crashed")
    assert time.monotonic() - begun < 15
    world.drain()
    assert world.violations() == []
