"""Two things at the same moment: one of them wins, the other is told so, and nothing breaks."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from typing import Final

import pytest

from runtime_actors.client import DoorClient, door_of
from tests.e2e.agent import Agent
from tests.e2e.conftest import MakeWorld
from tests.e2e.daemon import wait_until
from tests.e2e.made_apps import a_tool, write_app
from tests.faults.world import World, worker_words

RACES: Final = 200
MAX_INPUT: Final = 196_608
_AROUND_TEXT: Final = 11
"""Bytes of a canonical `{"text": ...}` around a long text."""
FRONT: Final = {"requires_foreground": True, "restore_previous_focus": True}

DIES_WHEN_STOPPED: Final = """
import os, signal

async def main(sdk):
    @sdk.tools.handler(sdk.context.app_scope + ".go")
    async def go(call):
        return {"text": call.input["text"]}

    await sdk.run_until_stopped()
    os.kill(os.getpid(), signal.SIGKILL)
"""
NEEDS_MEMORY: Final = """
async def main(sdk):
    @sdk.tools.handler(sdk.context.app_scope + ".go")
    async def go(call):
        if call.input["text"] == "much":
            bytearray(1 << 30)
        return {"text": call.input["text"]}

    await sdk.run_until_stopped()
"""
ENDS_AT_ONCE: Final = "async def main(sdk):\n    raise RuntimeError('not today')\n"


def test_a_cancel_and_a_result_at_the_same_moment_leave_one_end(make_world: MakeWorld) -> None:
    world = make_world("--cancel-grace=20")  # the app shall decide, however slow the machine
    agent = world.agent()
    agent.attached()
    for conversation in ("c0", "c1"):
        agent.final(agent.invoke("probe.echo", "its process runs", conversation=conversation))
    keys, cancels = [], []
    for number in range(RACES):
        key = agent.invoke("probe.hold" if number % 2 else "probe.echo", f"{number}", conversation=f"c{number % 2}")
        if number % 3:
            agent.accepted(key)
        keys.append(key)
        cancels.append(agent.cancel(key))
        if number % 20 == 19:
            agent.say("release", conversation="c1")
    for key in keys:
        agent.final(key)

    answers = [agent.answer(cancel) for cancel in cancels]

    codes = Counter(body.get("code", kind) for kind, body in answers)
    assert set(codes) <= {"tool.state", "call_already_final"}
    ends = Counter(agent.finals[key]["status"] for key in keys)
    assert set(ends) == {"completed", "cancelled"}
    late = [row for row in world.daemon.audit("report.refused") if row["detail"]["code"] != "call_already_final"]
    assert late == []
    world.drain()
    assert world.violations() == []


def test_a_result_after_the_end_of_the_grace_is_refused_and_the_process_goes_on(world: World, agent: Agent) -> None:
    key = agent.invoke("probe.slow", "too late", steps=1, step_ms=900, conversation="c1")
    other = agent.invoke("probe.hold", "other", conversation="c1")
    agent.wait("it works", lambda: agent.progress.get(key[1]))
    pid = world.daemon.worker("c1")["pid"]

    agent.cancel(key)

    ended = agent.final(key)
    assert (ended["status"], ended["error_code"]) == ("cancelled", "cancel_grace_passed")
    said = wait_until("the late word", lambda: _said(world, key[1], "tools.complete"))
    assert said == [("fail", "call_already_final")]
    news = [one for one in worker_words(world.daemon) if one["what"] == "changed" and one["call_id"] == key[1]]
    assert [one["status"] for one in news] == ["running", "cancelled"]
    assert world.daemon.worker("c1")["pid"] == pid
    agent.cancel(other)
    agent.final(other)
    world.drain()
    assert [kind for _, kind, _ in agent.deliveries].count("tool.result") == 2
    assert world.violations() == []


def _said(world: World, call_id: str, kind: str) -> list[tuple[str, str | None]]:
    """How an app's requests of a kind about a call went."""
    words = worker_words(world.daemon)
    asked = {one["id"] for one in words if one.get("kind") == kind and one["body"]["call_id"] == call_id}
    return [(one["what"], one["code"]) for one in words if one["what"] in {"ok", "fail"} and one["id"] in asked]


def test_an_instance_that_is_closed_as_it_dies_is_closed_once(world: World, agent: Agent) -> None:
    for number in range(40):
        key = agent.invoke("probe.slow", f"{number}", steps=1, step_ms=0, conversation=f"c{number}")
        _wait_for_progress(agent, key)
        row = world.daemon.instance(key[0])
        agent.final(key)
        if row is not None and row["pid"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(row["pid"], signal.SIGKILL)

    world.drain()
    changes = world.daemon.audit("instance.changed")
    closed = Counter(row["subject"]["instance_id"] for row in changes if row["detail"]["state"] == "closed")
    assert set(closed.values()) == {1}
    assert len(closed) == 40
    assert " error " not in world.daemon.said()
    assert world.violations() == []


def _wait_for_progress(agent: Agent, key: tuple[str, str]) -> None:
    agent.wait("it works", lambda: agent.progress.get(key[1]) or key in agent.finals)


def test_closing_and_opening_again_and_again_is_no_crash_loop(world: World, agent: Agent) -> None:
    for number in range(10):
        key = agent.invoke("probe.slow", f"{number}", steps=1, step_ms=0, conversation="c1")
        assert agent.final(key)["status"] == "completed"

    world.drain()
    assert {row["detail"]["unexpected"] for row in world.daemon.audit("attempt.ended")} == {False}
    assert world.violations() == []


def test_a_process_that_dies_while_it_is_stopped_is_not_started_again(make_world: MakeWorld) -> None:
    world = make_world()
    launch = a_tool("dies.go", "dies", handling="launch", target=FRONT | {"app_scope": "dies"})
    world.daemon.apps += (write_app(world.daemon.state / "apps" / "dies", "dies", DIES_WHEN_STOPPED, tools=[launch]),)
    _again(world)
    agent = world.agent()
    agent.attached()
    below = agent.invoke("probe.slow", "below", steps=400, step_ms=20, conversation="c1")
    agent.wait("it works", lambda: agent.progress.get(below[1]))

    above = agent.invoke("dies.go", "above", conversation="c1")

    assert agent.final(above)["status"] == "completed"
    wait_until("it is closed", lambda: world.daemon.instance("c1", "dies") is None)
    front = world.daemon.listed("focus")[0]["stack"][-1]
    assert front == world.daemon.worker("c1")["instance_id"]
    agent.cancel(below)
    agent.final(below)
    world.drain()
    [ended] = [row for row in world.daemon.audit("attempt.ended") if row["detail"]["reason"] != "daemon_ended"][:1]
    assert ended["detail"]["unexpected"] is False
    assert world.violations() == []


def _again(world: World) -> None:
    world.daemon.kill()
    world.start()


@pytest.mark.parametrize("kind", ["app", "tool"])
def test_twenty_operators_at_once_leave_things_as_one_of_them_said(world: World, agent: Agent, kind: str) -> None:
    revision = agent.revision
    held = [agent.invoke("probe.hold", f"{number}", conversation=f"c{number}") for number in range(3)]
    for key in held:
        agent.accepted(key)
    name = "probe" if kind == "app" else "probe.hold"
    outcomes: list[str] = []

    def order(number: int) -> None:
        with DoorClient(door_of(world.daemon.state, "control")) as control:
            body = {"kind": kind, "name": name, "enabled": bool(number % 2)}
            outcomes.append(control.request("lineup.v1.control.switch", body)[0])

    threads = [threading.Thread(target=order, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert Counter(outcomes) == {"lineup.v1.control.done": 20}
    world.daemon.control("switch", {"kind": kind, "name": name, "enabled": True})
    assert {agent.final(key)["error_code"] for key in held} == {"app_disabled"}
    agent.wait("the inventory of before", lambda: agent.revision == revision)
    assert agent.final(agent.invoke("probe.echo", "after"))["status"] == "completed"
    world.drain()
    assert world.violations() == []


def test_an_app_is_switched_off_while_five_of_its_processes_crash_in_a_loop(make_world: MakeWorld) -> None:
    world = make_world("--restart-intensity=1000000", "--restart-period=0.5")
    world.daemon.apps += (write_app(world.daemon.state / "apps" / "crashes", "crashes", ENDS_AT_ONCE),)
    _again(world)
    agent = world.agent()
    agent.attached()
    pid, revision = world.daemon.pid, agent.revision
    keys = [agent.invoke("crashes.go", "", conversation=f"c{number}") for number in range(5)]
    wait_until("they crash", lambda: len(world.daemon.audit("attempt.ended")) > 10)

    for enabled in (False, True):
        world.daemon.control("switch", {"kind": "app", "name": "crashes", "enabled": enabled})

    assert {agent.final(key)["error_code"] for key in keys} <= {"app_disabled", "app_crashed"}
    agent.wait("the inventory of before", lambda: agent.revision == revision)
    assert agent.final(agent.invoke("probe.echo", "still there"))["status"] == "completed"
    assert world.daemon.running
    assert world.daemon.pid == pid
    world.drain()
    assert world.violations() == []


def test_a_call_that_needs_too_much_memory_fails_alone_and_at_once(make_world: MakeWorld) -> None:
    world = make_world()
    limits = {"limits": {"memory_mb": 64}}
    folder = write_app(world.daemon.state / "apps" / "needs", "needs", NEEDS_MEMORY, extensions=limits)
    world.daemon.apps += (folder,)
    _again(world)
    agent = world.agent()
    agent.attached()
    begun = time.monotonic()

    ended = agent.final(agent.invoke("needs.go", "much"))

    assert (ended["status"], ended["error_code"]) == ("failed", "app.unhandled_exception")
    assert time.monotonic() - begun < 10
    assert agent.final(agent.invoke("needs.go", "little"))["status"] == "completed"


@pytest.mark.parametrize("size", [15_000, 65_535, 65_536, 65_537, MAX_INPUT - _AROUND_TEXT])
def test_a_large_input_goes_through_and_holds_up_nobody(world: World, agent: Agent, size: int) -> None:
    large = agent.invoke("probe.exact", "x" * size, conversation="c1")
    small = agent.invoke("probe.echo", "small", conversation="c2")

    assert agent.final(small)["status"] == "completed"
    assert agent.final(large)["result"] == {"text": "x" * size}
    world.drain()
    assert world.violations() == []


def test_an_input_of_one_byte_too_many_is_refused(world: World, agent: Agent) -> None:
    key = agent.invoke("probe.exact", "x" * (MAX_INPUT - _AROUND_TEXT + 1))

    assert agent.code_of(key) == "message_too_large"
    assert world.daemon.listed("calls") == []
    assert agent.final(agent.invoke("probe.echo", "next"))["status"] == "completed"
