"""What a person has to permit, by real processes: the call waits, whoever is killed in between."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from runtime_actors.client import HostSession, Refused, door_of
from tests.e2e.agent import Agent
from tests.e2e.daemon import ROOT, Daemon, short_folder, wait_until
from tests.e2e.made_apps import a_tool, write_app
from tests.faults.world import World

LIMIT_S: Final = 20.0
WANTS: Final = """
import json

async def main(sdk):
    @sdk.tools.handler("wisher.go")
    async def go(call):
        await sdk.inbox.acknowledge(call.message_id)
        receipt = await sdk.capabilities.ask(call.input["text"], "to show that it works")
        return {"text": json.dumps([receipt.accepted, receipt.decision, receipt.code])}

    await sdk.run_until_stopped()
"""
TOOLS: Final = [
    a_tool("wisher.go", "wisher", timeout_ms=600_000),
    a_tool("wisher.send", "wisher", permissions=["notify"]),
]
ASK: Final = '[[rule]]\ntool = "probe.echo"\ndecision = "ask"\n'


def rules(daemon: Daemon, text: str) -> None:
    (daemon.state / "policy.toml").write_text(text, encoding="utf-8")


@pytest.fixture
def world() -> Iterator[World]:
    """Not started yet."""
    with short_folder() as folder:
        world = World(folder / "s")
        world.daemon.state.mkdir(mode=0o700)
        made = write_app(
            folder / "wisher", "wisher", WANTS, tools=TOOLS, requested_capabilities=["notify", "clipboard"]
        )
        world.daemon.apps += (made,)
        yield world
        world.close()


@pytest.fixture
def host(world: World) -> Iterator[HostSession]:
    with HostSession(door_of(world.daemon.state, "host"), "screen") as host:
        yield host


def start_with(world: World, text: str) -> Agent:
    """A daemon that reads these rules at its start, and an agent."""
    rules(world.daemon, text)
    world.start()
    agent = world.agent()
    agent.attached()
    return agent


def question(host: HostSession, within_s: float = LIMIT_S) -> dict[str, Any]:
    """The question of policy that is open."""

    def look() -> dict[str, Any] | None:
        return next((one["interaction"] for one in host.rows("interactions")), None)

    found = wait_until("a question", look, within_s)
    assert found["owner"]["source"] == "runtime_policy"
    return found


def status(agent: Agent, key: tuple[str, str]) -> str:
    return str(agent.get(key)[1]["call"]["status"])


def test_a_call_waits_for_a_persons_yes_also_over_the_death_of_the_daemon_and_then_runs(
    world: World, host: HostSession
) -> None:
    agent = start_with(world, ASK)
    key = agent.invoke("probe.echo", "hello")
    assert agent.accepted(key)["call"]["status"] == "received"
    host.attach(LIMIT_S)
    asked = question(host)["interaction_id"]

    world.daemon.kill()
    agent.disconnect()
    world.start()
    agent.attached()
    assert status(agent, key) == "received"
    assert question(host)["interaction_id"] == asked
    host.answer(asked, {"approved": True})

    assert agent.final(key, LIMIT_S)["status"] == "completed"
    (grant,) = world.daemon.listed("grants", all=True)
    assert (grant["capability"], grant["status"]) == ("tool:probe.echo", "used")
    events = [row["event"] for row in world.daemon.audit() if row["event"].startswith(("grant.", "policy."))]
    assert events == ["policy.loaded", "grant.asked", "grant.given", "grant.used"]
    world.drain()
    assert world.violations() == []


def test_a_declined_call_is_delivered_as_rejected(world: World, host: HostSession) -> None:
    agent = start_with(world, ASK)
    key = agent.invoke("probe.echo", "hello")
    agent.accepted(key)
    host.attach(LIMIT_S)

    host.dismiss(question(host)["interaction_id"])

    ended = agent.final(key, LIMIT_S)
    assert (ended["status"], ended["error_code"]) == ("rejected", "permission_declined")
    assert world.daemon.listed("ps") == []
    world.drain()
    assert world.violations() == []


def test_an_app_that_asks_is_killed_and_asks_again_and_is_told_what_the_person_said(
    world: World, host: HostSession
) -> None:
    agent = start_with(world, '[[rule]]\ncapability = "notify"\ndecision = "ask"\n')
    key = agent.invoke("wisher.go", "notify")
    host.attach(LIMIT_S)
    asked = question(host)["interaction_id"]
    (row,) = world.daemon.listed("ps")

    world.daemon.control("kill", {"instance_id": row["instance_id"], "signal": "SIGKILL"})
    wait_until("another process", lambda: {one["pid"] for one in world.daemon.listed("ps")} - {row["pid"], None})
    host.answer(asked, {"approved": True})

    assert json.loads(agent.final(key, LIMIT_S)["result"]["text"]) == [True, "granted", None]
    assert [one["status"] for one in world.daemon.listed("grants", all=True)] == ["used"]
    wait_until("the decision was acknowledged", lambda: not world.daemon.listed("inbox"))


def test_an_app_is_told_a_no_and_goes_on(world: World, host: HostSession) -> None:
    agent = start_with(world, '[[rule]]\ncapability = "notify"\ndecision = "ask"\n')
    key = agent.invoke("wisher.go", "notify")
    host.attach(LIMIT_S)

    host.answer(question(host)["interaction_id"], {"approved": False})

    assert json.loads(agent.final(key, LIMIT_S)["result"]["text"]) == [False, "denied", "permission_declined"]
    assert status(agent, key) == "completed"


@pytest.mark.parametrize("capability", ["clipboard", "files.pick", "notify"])
def test_what_is_closed_undeclared_or_not_ruled_about_is_denied_at_once(world: World, capability: str) -> None:
    agent = start_with(world, '[[rule]]\ncapability = "clipboard"\ndecision = "allow"\n')

    key = agent.invoke("wisher.go", capability)

    assert json.loads(agent.final(key, LIMIT_S)["result"]["text"]) == [False, "denied", "capability_denied"]


def test_a_reload_is_in_force_at_once_and_agents_are_told_what_they_see_then(world: World) -> None:
    agent = start_with(world, "")
    assert "probe.echo" in {tool["id"] for tool in agent.inventory["tools"]}
    before = agent.revision

    rules(world.daemon, '[[rule]]\napp = "probe"\ndecision = "deny"\n')
    told = world.daemon.control("reload_policy", {})["data"]
    agent.wait("the new inventory", lambda: agent.revision != before)

    assert told["rules"] == 1
    assert told["revision"] == agent.revision
    assert {app["app_scope"] for app in agent.inventory["apps"]} & {"probe", "wisher"} == {"wisher"}
    assert agent.code_of(agent.invoke("probe.echo", "hello")) == "tool_not_advertised"


def test_a_reload_with_a_mistake_is_refused_with_its_line_and_the_old_policy_stays(world: World) -> None:
    agent = start_with(world, ASK)
    rules(world.daemon, '[[rule]]\ndecision = "perhaps"\n')

    with pytest.raises(Refused, match="line 2, rule 1, decision") as refused:
        world.daemon.control("reload_policy", {})

    assert refused.value.code == "policy_invalid"
    assert agent.accepted(agent.invoke("probe.echo", "hello"))["call"]["status"] == "received"


def test_a_mistake_refuses_the_start_with_its_line() -> None:
    with short_folder() as folder:
        daemon = Daemon(folder / "s")
        daemon.state.mkdir(mode=0o700)
        rules(daemon, '\n[[rule]]\napp = "Probe"\ndecision = "deny"\n')

        with daemon:
            daemon.launch()
            wait_until("its end", lambda: not daemon.running, LIMIT_S)

            assert daemon.exit_code == 2
            assert "policy.toml: line 3, rule 1, app: write the app_scope of a MiniApp" in daemon.said()


def lineup(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runtime_actors", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_commands_check_show_reload_list_and_revoke(world: World, host: HostSession) -> None:
    agent = start_with(world, ASK + 'for = "always"\nexpires_s = 3600\n')
    state = f"--state={world.daemon.state}"
    file = world.daemon.state / "policy.toml"
    checked = lineup("policy", "check", str(file))
    shown = lineup("policy", "show", state, "--json")
    agent.accepted(agent.invoke("probe.echo", "hello"))
    host.attach(LIMIT_S)
    host.answer(question(host)["interaction_id"], {"approved": True})
    listed = lineup("grants", state, "--json")
    grant = json.loads(listed.stdout)
    revoked = lineup("grants", "revoke", grant["grant_id"], state)
    again = lineup("grants", "revoke", "gra-nobody", state, "--json")
    file.write_text('[[rule]]\ncapability = "camera"\ndecision = "ask"\n')
    useless = lineup("policy", "check", str(file), "--json")
    file.write_text('[[rule]]\ndecision = "no"\n')
    wrong = lineup("policy", "reload", state)
    unchecked = lineup("policy", "check", str(file), "--json")

    assert (checked.returncode, shown.returncode, listed.returncode, revoked.returncode) == (0, 0, 0, 0)
    assert json.loads(shown.stdout)["name"] == "probe.echo"
    assert (grant["status"], grant["span"]) == ("granted", "always")
    assert "revoked" in revoked.stdout
    assert (again.returncode, json.loads(again.stdout)["code"]) == (3, "not_found")
    assert (useless.returncode, "never granted" in json.loads(useless.stdout)["warning"]) == (0, True)
    assert (wrong.returncode, unchecked.returncode) == (2, 1)
    assert "line 2" in wrong.stderr
    assert "line 2" in json.loads(unchecked.stdout)["fault"]
