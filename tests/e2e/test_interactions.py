"""Questions from a real app to a person, by real processes: whoever is killed in between, the answer arrives once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from runtime_actors.client import Refused, door_of
from runtime_actors.client.host import HostSession
from tests.e2e.agent import Agent
from tests.e2e.conftest import MakeWorld
from tests.e2e.daemon import wait_until
from tests.e2e.made_apps import a_tool, write_app
from tests.faults.world import World

ASKS: Final = """
import json

async def main(sdk):
    @sdk.tools.handler("asker.go")
    async def go(call):
        await sdk.inbox.acknowledge(call.message_id)
        asked = json.loads(call.input["text"])
        record = await sdk.ui.ask(asked["request"], parent_call_id=call.call_id, key="q", **asked.get("how", {}))
        return {"text": json.dumps({"status": record.status.value, "result": record.result})}

    @sdk.tools.handler("asker.forge")
    async def forge(call):
        body = {"request": {"kind": "confirm", "title": "Sure?", "prompt": ""}, "owner": {"app_scope": "chat"}}
        receipt = await sdk.ui._pending.request("lineup.v1.ui.request", body)
        return {"text": receipt["code"]}

    @sdk.tools.handler("asker.last")
    async def last(call):
        return {"text": json.dumps([one.interaction_id for one in await sdk.ui.list()])}

    await sdk.run_until_stopped()
"""
SURE: Final = {"kind": "confirm", "title": "Sure?", "prompt": "It cannot be undone"}
NOTE: Final = {"kind": "notice", "title": "By the way", "message": "It is late"}
LONG_S: Final = 20.0


@pytest.fixture
def world(make_world: MakeWorld, tmp_path: Path) -> World:
    tools = [
        a_tool("asker.go", "asker", timeout_ms=600_000),
        a_tool("asker.forge", "asker"),
        a_tool("asker.last", "asker"),
    ]
    return make_world(apps=(write_app(tmp_path / "asker", "asker", ASKS, tools=tools),))


@pytest.fixture
def agent(world: World) -> Agent:
    agent = world.agent()
    agent.attached()
    return agent


@pytest.fixture
def host(world: World) -> Iterator[HostSession]:
    with HostSession(door_of(world.daemon.state, "host"), "screen") as host:
        host.attach(LONG_S)
        yield host


def asks(agent: Agent, request: dict[str, Any] = SURE, **how: object) -> tuple[str, str]:
    return agent.invoke("asker.go", json.dumps({"request": request, "how": how}))


def opened(host: HostSession, status: str = "pending") -> dict[str, Any]:
    """The next question that a host is told of."""

    def look() -> dict[str, Any] | None:
        return next((data for data in questions(host) if data["interaction"]["status"] == status), None)

    return wait_until(f"a question is {status}", look, LONG_S)


def questions(host: HostSession) -> Iterator[dict[str, Any]]:
    for event in host.events(0.05):
        if event.kind.startswith("interaction."):
            yield event.data


def ended(agent: Agent, key: tuple[str, str]) -> dict[str, Any]:
    call = agent.final(key)
    assert call["status"] == "completed", call
    found: dict[str, Any] = json.loads(call["result"]["text"])
    return found


def comes_back(world: World) -> None:
    world.daemon.kill()
    for agent in world.agents:
        agent.disconnect()
    world.start()


def test_an_answer_reaches_the_app_that_asked(world: World, agent: Agent, host: HostSession) -> None:
    key = asks(agent)
    question = opened(host)

    host.presented(question["interaction"]["interaction_id"])
    done = host.answer(question["interaction"]["interaction_id"], {"approved": True})

    assert done.data["status"] == "completed"
    assert ended(agent, key) == {"status": "completed", "result": {"approved": True}}
    owner = question["interaction"]["owner"]
    assert (owner["app_scope"], owner["parent_call_id"], owner["source"]) == ("asker", key[1], "miniapp_tool")
    assert world.daemon.listed("interactions") == []
    wait_until("the end is acknowledged", lambda: not world.daemon.listed("inbox"))


def test_of_two_hosts_that_answer_the_first_one_counts_and_both_hear_of_it(
    world: World, agent: Agent, host: HostSession
) -> None:
    with HostSession(door_of(world.daemon.state, "host"), "window") as other:
        other.attach(LONG_S)
        key = asks(agent)
        interaction_id = opened(host)["interaction"]["interaction_id"]
        assert opened(other)["interaction"]["interaction_id"] == interaction_id

        host.answer(interaction_id, {"approved": False}, request_id="mine")
        again = host.answer(interaction_id, {"approved": False}, request_id="mine")
        with pytest.raises(Refused) as late:
            other.answer(interaction_id, {"approved": True})

        assert (again.repeated, late.value.code) == (True, "interaction_already_final")
        assert opened(other, "completed")["interaction"]["result"] == {"approved": False}
        assert ended(agent, key)["result"] == {"approved": False}


def test_an_app_that_is_killed_while_its_question_is_open_gets_the_answer_all_the_same(
    world: World, agent: Agent, host: HostSession
) -> None:
    key = asks(agent)
    interaction_id = opened(host)["interaction"]["interaction_id"]
    pid = world.daemon.kill_worker("c1", "asker")

    host.answer(interaction_id, {"approved": True})
    world.daemon.worker("c1", "asker", not_pid=pid)

    assert ended(agent, key) == {"status": "completed", "result": {"approved": True}}
    assert len(world.daemon.audit("interaction.opened")) == 1


def test_a_daemon_that_is_killed_loses_no_question_no_draft_and_no_answer(
    world: World, agent: Agent, host: HostSession
) -> None:
    request = {
        "kind": "input", "title": "Who?", "prompt": "", "fields": [{"id": "name", "label": "Name", "type": "text"}],
    }  # fmt: skip
    key = asks(agent, request)
    interaction_id = opened(host)["interaction"]["interaction_id"]
    host.draft(interaction_id, 1, {"name": "Zo"})

    comes_back(world)

    [listed] = host.rows("interactions")
    assert (listed["interaction"]["interaction_id"], listed["draft"]) == (interaction_id, {"name": "Zo"})
    host.answer(interaction_id, {"values": {"name": "Zoë"}})
    comes_back(world)
    assert ended(agent, key) == {"status": "completed", "result": {"values": {"name": "Zoë"}}}


def test_a_question_expires_also_while_no_daemon_runs(world: World, agent: Agent, host: HostSession) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
    key = asks(agent, expires_at=soon)
    opened(host)
    world.daemon.kill()
    agent.disconnect()
    wait_until("its time is over", lambda: datetime.now(UTC) > datetime.fromisoformat(soon))
    world.start()

    assert host.rows("interactions") == []
    assert ended(agent, key) == {"status": "expired", "result": None}


def test_a_question_expires_when_its_time_has_come(agent: Agent) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()

    assert ended(agent, asks(agent, expires_at=soon)) == {"status": "expired", "result": None}


def test_a_notice_without_a_label_ends_when_it_is_shown(agent: Agent, host: HostSession) -> None:
    key = asks(agent, NOTE)

    host.presented(opened(host)["interaction"]["interaction_id"])

    assert ended(agent, key) == {"status": "completed", "result": {"acknowledged": False}}


def test_an_owner_cannot_be_forged(world: World, agent: Agent) -> None:
    assert agent.final(agent.invoke("asker.forge", ""))["result"]["text"] == "message_invalid"
    assert world.daemon.listed("interactions", all=True) == []


def test_a_question_ends_with_its_call(agent: Agent, host: HostSession) -> None:
    key = asks(agent)
    opened(host)

    agent.cancel(key)

    assert opened(host, "cancelled")["interaction"]["reason"] == "its call has ended"
    assert agent.final(key)["status"] == "cancelled"  # when its grace is over: the app thinks of nothing else


# --- agents ---


def confirms(agent: Agent) -> tuple[str, str]:
    return agent.invoke_with("chat.confirm", {"title": "Sure?", "prompt": "It cannot be undone"})


def confirms_by_old_form(agent: Agent) -> tuple[str, str]:
    body = {"call_id": "old-1", "tool": "confirm", "input": {"title": "Sure?", "prompt": "It cannot be undone"}}
    agent.calls["c1", "old-1"] = agent.send("tool.call", body, conversation="c1")
    return "c1", "old-1"


@pytest.mark.parametrize("form", [confirms, confirms_by_old_form])
def test_an_agents_question_comes_back_as_the_result_of_its_call(
    agent: Agent,
    host: HostSession,
    form: Any,  # noqa: ANN401 - a function above
) -> None:
    key = form(agent)
    question = opened(host)["interaction"]
    assert (question["owner"]["app_scope"], question["owner"]["source"]) == ("chat", "agent_tool")

    host.answer(question["interaction_id"], {"approved": True})

    call = agent.final(key)
    assert (call["tool_id"], call["status"], call["result"]) == ("chat.confirm", "completed", {"approved": True})


def test_an_agents_question_outlives_interact_and_the_daemon(world: World, agent: Agent, host: HostSession) -> None:
    key = confirms(agent)
    question = opened(host)["interaction"]
    world.daemon.kill_worker("c1", "chat")
    comes_back(world)

    host.answer(question["interaction_id"], {"approved": False})

    assert agent.final(key)["result"] == {"approved": False}


def test_an_agent_that_no_longer_wants_an_answer_withdraws_its_question(agent: Agent, host: HostSession) -> None:
    key = confirms(agent)
    opened(host)

    agent.cancel(key)

    assert agent.final(key)["status"] == "cancelled"
    assert opened(host, "cancelled")["interaction"]["owner"]["parent_call_id"] == key[1]


def test_a_question_of_an_agent_that_is_no_question_is_refused(agent: Agent) -> None:
    key = agent.invoke_with("chat.confirm", {"title": "two\nlines", "prompt": ""})

    agent.wait("an answer", lambda: agent.code_of(key))

    assert agent.code_of(key) == "tool_input_invalid"
