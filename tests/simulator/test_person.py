"""Steps of a person, against a real daemon and an app that asks."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from runtime_actors.chaos.strikes import limit_files
from runtime_actors.simulator import Player, StepResult, read_scenario
from runtime_actors.store import files
from tests.e2e.daemon import Daemon, wait_until
from tests.e2e.made_apps import a_tool, write_app

pytestmark = [pytest.mark.xdist_group("simulator-daemon")]

ASKS: Final = """
async def main(sdk):
    @sdk.tools.handler("asker.go")
    async def go(call):
        await sdk.inbox.acknowledge(call.message_id)
        question = {"kind": "confirm", "title": call.input["text"], "prompt": "It cannot be undone"}
        record = await sdk.ui.ask(question, parent_call_id=call.call_id, key="sure")
        return {"text": "yes" if record.result["approved"] else "no"}

    @sdk.tools.handler("asker.tell")
    async def tell(call):
        await sdk.inbox.acknowledge(call.message_id)
        await sdk.ui.ask({"kind": "notice", "title": "By the way", "message": "It is late"}, key="late")
        return {"text": "told"}

    await sdk.run_until_stopped()
"""


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory(prefix="lu-") as folder:
        top = Path(folder)
        top.chmod(0o755)
        tools = [a_tool(name, "asker", timeout_ms=60_000) for name in ("asker.go", "asker.tell")]
        app = write_app(top / "asker", "asker", ASKS, tools=tools)
        for path in (app, *app.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        with Daemon(top / "s", apps=(app,)) as daemon:
            daemon.start()
            yield daemon


def played(daemon: Daemon, *steps: dict[str, Any]) -> list[StepResult]:
    with Player(daemon.state) as player:
        return list(player.play(read_scenario(map(json.dumps, steps))))


def a_call(text: str, call_id: str, tool: str = "asker.go") -> dict[str, Any]:
    return {"do": "call", "tool": tool, "input": {"text": text}, "call_id": call_id}


def test_a_person_answers_and_dismisses_what_is_named_and_the_app_is_told(daemon: Daemon) -> None:
    results = played(
        daemon,
        {"do": "attend"},
        a_call("first", "a"),
        a_call("second", "b"),
        {"do": "answer", "scope": "asker", "kind": "confirm", "title": "second", "give": {"approved": True}},
        {"do": "dismiss", "title": "first"},
        {"do": "wait", "call_id": "a"},
        {"do": "expect", "call_id": "a", "result": {"text": "no"}},
        {"do": "wait", "call_id": "b"},
        {"do": "expect", "call_id": "b", "result": {"text": "yes"}},
        {"do": "finish"},
    )

    assert [done.detail for done in results if not done.ok] == []
    assert len(results) == 10


def test_a_notice_without_a_label_ends_because_it_is_shown(daemon: Daemon) -> None:
    results = played(
        daemon,
        {"do": "attend"},
        a_call("", "a", "asker.tell"),
        {"do": "front", "scope": "asker"},
        {"do": "wait", "call_id": "a", "status": "completed"},
    )

    assert [done.detail for done in results if not done.ok] == []


def test_a_person_closes_what_is_open(daemon: Daemon) -> None:
    results = played(
        daemon,
        {"do": "attend"},
        a_call("first", "a"),
        {"do": "close", "scope": "asker", "force": True},
        {"do": "wait", "call_id": "a"},
        {"do": "expect", "call_id": "a", "status": "failed", "error_code": "app_closed"},
    )

    assert [done.detail for done in results if not done.ok] == []


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit(2) is only there")
def test_an_answer_that_finds_no_space_is_given_again(daemon: Daemon) -> None:
    steps = [{"do": "attend"}, a_call("first", "a"), {"do": "answer", "give": {"approved": True}}]

    with Player(daemon.state) as player:
        playing = player.play(read_scenario(map(json.dumps, steps)))
        begun = [next(playing), next(playing)]
        wait_until("the question is there", lambda: daemon.listed("interactions"))
        limit_files(daemon.pid, (daemon.state / files.WAL).stat().st_size)
        relief = threading.Timer(0.3, limit_files, (daemon.pid, None))
        relief.start()
        answered = next(playing)
        relief.join()

    assert [one.ok for one in (*begun, answered)] == [True, True, True], answered.detail
    assert "there is no space" in daemon.said()


def test_what_a_person_looks_for_and_does_not_find_fails_the_step(daemon: Daemon) -> None:
    *_, missing = played(daemon, {"do": "answer", "give": {"approved": True}, "timeout_s": 0.3})
    *_, refused = played(
        daemon,
        a_call("first", "a"),
        {"do": "answer", "give": {"action_ids": ["x"]}, "answer": "interaction_invalid"},
        {"do": "answer", "give": {"action_ids": ["x"]}},
    )

    assert not missing.ok
    assert "no such question is open" in missing.detail
    assert not refused.ok
    assert refused.detail.startswith("expected accepted, got interaction_invalid")
    assert refused.number == 3
