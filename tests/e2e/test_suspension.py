"""Apps that give up their process while they are quiet, and go on as if nothing had been when they are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from runtime_actors.client import door_of
from runtime_actors.client.host import HostSession
from tests.e2e.agent import Agent
from tests.e2e.conftest import MakeWorld
from tests.e2e.daemon import wait_until
from tests.e2e.made_apps import a_tool, write_app
from tests.faults.world import World

SOON: Final = ("--suspend-after=0.3",)
ASKS: Final = """
import asyncio
import json

async def main(sdk):
    changed = asyncio.Event()

    @sdk.lifecycle.subscribe
    def now(state):
        print(f"now {state}", flush=True)
        changed.set()

    @sdk.tools.handler("asks.go")
    async def go(call):
        await sdk.inbox.acknowledge(call.message_id)
        done = call.progress.percent if call.progress and call.progress.percent else 0
        if not done:
            await sdk.tools.report_progress(call.call_id, percent=40.0, note="half of it")
        yes = await sdk.ui.confirm("Go on?", "It will be sent.", parent_call_id=call.call_id, key="sure")
        return {"text": f"{yes} from {done:g} %"}

    @sdk.tools.handler("asks.wish")
    async def wish(call):
        wished = call.input["text"]
        receipt = await getattr(sdk.lifecycle, "request_" + wished)()
        while receipt.accepted and sdk.context.state != wished:  # the receipt comes first, context.changed after it
            changed.clear()
            await changed.wait()
        return {"text": json.dumps([receipt.accepted, receipt.code, sdk.context.state])}

    @sdk.tools.handler("asks.leave")
    async def leave(call):
        await sdk.tools.complete(call.call_id, {"text": ""})
        await sdk.lifecycle.request_close("nothing is left to do")

    await sdk.run_until_stopped()
"""


@pytest.fixture
def asks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tools = [a_tool(f"asks.{name}", "asks") for name in ("go", "wish", "leave")]
    return write_app(tmp_path_factory.mktemp("apps") / "asks", "asks", ASKS, tools=tools)


@pytest.fixture
def world(make_world: MakeWorld, asks: Path) -> World:
    return make_world(*SOON, apps=(asks,))


@pytest.fixture
def person(world: World) -> Iterator[HostSession]:
    with HostSession(door_of(world.daemon.state, "host"), "test") as session:
        session.attach()
        yield session


def asleep(world: World, scope: str = "probe", conversation: str = "c1") -> dict[str, Any]:
    """Wait until an instance is suspended and has no process; its row."""

    def look() -> dict[str, Any] | None:
        row = world.daemon.instance(conversation, scope)
        return row if row is not None and row["state"] == "suspended" and not row["pid"] else None

    return wait_until("it sleeps", look)


def test_a_quiet_app_gives_up_its_process_and_a_call_wakes_it(world: World, agent: Agent) -> None:
    first = agent.final(agent.invoke("probe.echo", "one"))["result"]
    row = asleep(world)
    assert not psutil.pid_exists(int(first["by"]))

    second = agent.final(agent.invoke("probe.echo", "two"))["result"]

    assert (second["text"], second["by"] != first["by"]) == ("two", True)
    after = world.daemon.instance("c1")
    assert after is not None
    assert after["instance_id"] == row["instance_id"]
    ends = [entry["detail"] for entry in world.daemon.audit("attempt.ended")]
    assert ends == [{"reason": "stopped", "unexpected": False}]
    world.drain()
    assert world.violations() == []


def test_a_text_wakes_an_app(world: World, agent: Agent) -> None:
    agent.final(agent.invoke("probe.echo", "one"))
    asleep(world)

    agent.say("hello")

    given = wait_until("the text", lambda: [line for line in world.daemon.worker_log() if '"hello"' in line])
    assert len(given) == 1


def test_sleeping_apps_sleep_on_when_the_daemon_is_killed_and_wake_in_the_next_one(world: World, agent: Agent) -> None:
    agent.final(agent.invoke("probe.echo", "one"))
    asleep(world)
    world.daemon.kill()
    world.daemon.start()
    row = world.daemon.instance("c1")
    assert row is not None
    assert (row["state"], row["pid"]) == ("suspended", None)

    assert agent.final(agent.invoke("probe.echo", "two"))["result"]["text"] == "two"

    world.drain()
    assert world.violations() == []


def test_an_app_sleeps_while_a_person_thinks_and_goes_on_from_its_progress(
    world: World, agent: Agent, person: HostSession
) -> None:
    key = agent.invoke("asks.go", "")
    asleep(world, "asks")
    [question] = person.rows("interactions")
    assert agent.get(key)[1]["call"]["status"] == "waiting_for_app"

    person.answer(question["interaction"]["interaction_id"], {"approved": True})

    assert agent.final(key)["result"] == {"text": "True from 40 %"}


def test_an_app_is_told_that_it_is_suspended_before_it_is_stopped(world: World, agent: Agent) -> None:
    agent.final(agent.invoke("asks.wish", "background"))
    asleep(world, "asks")

    assert [line for line in world.daemon.worker_log() if line.startswith("now ")][-1] == "now suspended"


def test_the_front_of_a_conversation_that_a_person_sees_stays_awake_and_others_wake_when_they_are_seen(
    world: World, agent: Agent, person: HostSession
) -> None:
    assert agent.final(agent.invoke("asks.wish", "foreground"))["result"]["text"] == '[true, null, "foreground"]'
    row = asleep(world, "asks")

    person.show("c1")

    worker = world.daemon.worker("c1", "asks")
    assert (worker["instance_id"], worker["state"]) == (row["instance_id"], "foreground")


def test_an_app_that_closes_itself_is_gone_and_the_next_call_makes_another(world: World, agent: Agent) -> None:
    refused = agent.final(agent.invoke("asks.wish", "close"))["result"]["text"]
    assert refused.startswith('[false, "lifecycle_denied"')  # its own call is open
    before = world.daemon.worker("c1", "asks")

    agent.final(agent.invoke("asks.leave", ""))

    wait_until("it closes", lambda: world.daemon.instance("c1", "asks") is None)
    wait_until("its end", lambda: world.daemon.audit("attempt.ended"))
    assert [entry["detail"]["unexpected"] for entry in world.daemon.audit("attempt.ended")] == [False]
    agent.final(agent.invoke("asks.wish", "background"))
    after = world.daemon.instance("c1", "asks")
    assert after is not None
    assert after["instance_id"] != before["instance_id"]


def test_calls_that_must_not_run_twice_run_once_whenever_their_app_is_suspended(make_world: MakeWorld) -> None:
    world = make_world("--suspend-after=0", "--sweep=0.05")
    agent = world.agent()
    agent.attached()

    for number in range(40):
        key = agent.invoke("probe.once", f"{number}", steps=1, step_ms=0, conversation=f"c{number % 2}")
        agent.final(key)
        agent.pump(0.01 * (number % 7))  # so that the next one meets another moment of the suspension

    assert {call["status"] for call in agent.finals.values()} == {"completed"}
    assert len(world.daemon.audit("attempt.started")) > 5
    world.drain()
    assert world.violations() == []
