"""A hostile MiniApp that takes all there is: each limit holds, is its manifest's, and costs nobody else anything."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.e2e.agent import Agent
from tests.e2e.daemon import wait_until
from tests.hostile.arena import GROWTH_BYTES, Arena

pytestmark = pytest.mark.timeout(120)

MEMORY_MIB, FILES, THREADS = 128, 48, 16
"""The manifest's limits."""
ADDRESS_SPACE_MIB: Final = 1024
INBOX: Final = 4096
BATCH: Final = 256
TEXTS, TEXT_CHARACTERS = 40, 60_000


@pytest.mark.parametrize(("tool", "most"), [("heap", MEMORY_MIB), ("shared", ADDRESS_SPACE_MIB)])
def test_memory_ends_where_its_limit_is(arena: Arena, tool: str, most: int) -> None:
    before = arena.rss_bytes()

    ended = arena.attack(f"resources.{tool}")

    assert ended["status"] == "completed"
    if "mib" in ended["result"]:  # an error was raised, which the app survived
        assert ended["result"]["mib"] < most
        assert arena.ends(arena.instance_of(ended)) == []
    else:
        assert arena.ends(arena.instance_of(ended)) == ["app_out_of_memory"]
    assert arena.rss_bytes() - before < GROWTH_BYTES


def test_threads_end_where_their_limit_is(arena: Arena) -> None:
    ended = arena.attack("resources.threads")

    assert ended["status"] == "completed"
    assert 1 <= ended["result"]["threads"] <= THREADS
    assert arena.ends(arena.instance_of(ended)) == []


def test_descriptors_end_where_their_limit_is(arena: Arena) -> None:
    ended = arena.attack("resources.descriptors")

    assert ended["status"] == "completed"
    assert 1 <= ended["result"]["descriptors"] < FILES
    assert arena.ends(arena.instance_of(ended)) == []


def test_processor_time_ends_where_its_limit_is(arena: Arena) -> None:
    ended = arena.attack("resources.processor")

    assert ended["result"] == {"repeated": True}
    assert arena.ends(arena.instance_of(ended)) == ["app_out_of_cpu"]


@pytest.mark.parametrize("tool", ["blocks", "freezes"])
def test_a_process_that_answers_no_more_is_ended(arena: Arena, tool: str) -> None:
    ended = arena.attack(f"resources.{tool}")

    assert ended["result"] == {"repeated": True}
    assert arena.ends(arena.instance_of(ended)) == ["not_responding"]


def test_who_ignores_every_wish_to_end_is_ended(arena: Arena) -> None:
    ended = arena.attack("resources.stays")

    wait_until("its process is gone", lambda: not psutil.pid_exists(ended["result"]["pid"]))
    wait_until("its end is recorded", lambda: arena.ends(arena.instance_of(ended)) == ["stopped"])
    arena.is_unharmed()


def test_a_signal_that_is_ignored_is_followed_by_one_that_cannot_be(arena: Arena) -> None:
    key = arena.begin("resources.unread")
    ended = arena.agent.final(key)
    order = {"instance_id": ended["instance_id"]}
    first = arena.daemon.worker(key[0], "resources")["pid"]

    arena.daemon.control("kill", {**order, "signal": "SIGSTOP"})
    arena.daemon.control("kill", {**order, "signal": "SIGKILL"})

    assert arena.daemon.worker(key[0], "resources", not_pid=first)["pid"] != first
    assert arena.ends(ended["instance_id"]) == ["signal SIGKILL"]
    arena.is_unharmed()


def test_an_inbox_that_nobody_reads_fills_up_and_no_other_does(arena: Arena) -> None:
    before = arena.rss_bytes()

    with flooder(arena) as agent:
        ended = agent.final(agent.invoke_with("resources.unread", {}, conversation="flooded"))
        agent.answers.clear()
        for number in range(INBOX + 1):
            body = {"message_id": f"flood-{number}", "app_scope": "resources", "text": "unread"}
            agent.send("message", body, conversation="flooded")
            if number % BATCH == BATCH - 1:
                agent.wait("answers", lambda number=number: len(agent.answers) > number)  # type: ignore[misc]
        refused = agent.wait("a refusal", lambda: [one for one in agent.history if one["what"] == "info"])

    assert {kind for kind, _ in agent.answers.values()} == {"message.receipt"}
    assert len(agent.answers) == INBOX
    assert refused[0]["code"] == "busy"
    assert arena.rss_bytes() - before < GROWTH_BYTES
    assert arena.ends(arena.instance_of(ended)) == []
    arena.is_unharmed()


def test_answers_that_nobody_reads_cost_the_daemon_little(arena: Arena) -> None:
    arena.agent.final(arena.agent.invoke_with("resources.unread", {}, conversation="asks"))
    for _ in range(TEXTS):
        assert arena.agent.say("x" * TEXT_CHARACTERS, conversation="asks", to="resources")[0] == "message.receipt"
    before = most = arena.rss_bytes()

    key = arena.agent.invoke_with("resources.asks", {}, conversation="asks")
    while key not in arena.agent.finals:
        arena.agent.pump(0.02)
        most = max(most, arena.rss_bytes())

    assert arena.agent.finals[key]["status"] == "completed"
    assert set(arena.ends(arena.instance_of(arena.agent.finals[key]))) <= {"slow_consumer", "not_responding"}
    assert most - before < GROWTH_BYTES
    arena.is_unharmed()


def flooder(arena: Arena) -> Agent:
    """A third agent, so that what it repeats for ever disturbs nobody."""
    token = secrets.token_urlsafe(32)
    Path(arena.daemon.state, "tokens", "flooder").write_text(f"{token}\n")
    hashed = hashlib.sha256(token.encode()).hexdigest()
    arena.daemon.control("add_agent", {"name": "flooder", "token_hash": hashed})
    agent = Agent(arena.daemon.state, "flooder")
    agent.attached()
    return agent
