"""`lineup agent call` and its siblings against a door of the test's own."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime_actors.cli import main
from runtime_actors.contract.envelope import Envelope
from tests.client.peer import TOKEN, Memory, Peer, a_call, end


@pytest.fixture(autouse=True)
def _known_agent(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (state / "tokens").mkdir()
    (state / "tokens" / "local").write_text(f"{TOKEN}\n")
    monkeypatch.setenv("LINEUP_STATE", str(state))


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def ending(status: str, **more: object) -> Callable[[Peer, Envelope], bool]:
    """A reaction that ends each new call at once, as an app does."""

    def react(peer: Peer, message: Envelope) -> bool:
        if message.type == "lineup.v1.tool.invoke":
            memory = peer.memory
            memory.calls[message.body["call_id"]] = a_call(message.body["call_id"], "running")
            peer.answer(
                "lineup.v1.tool.state",
                {"request_id": message.id, "repeated": False, "call": memory.calls[message.body["call_id"]]},
            )
            memory.deliver(
                "lineup.v1.tool.progress",
                {"call_id": message.body["call_id"], "progress": {"percent": 50, "note": "half"}},
            )
            end(memory, message.body["call_id"], status, **more)
            return False
        return True

    return react


def test_a_completed_call_prints_its_deliveries_and_then_its_final_state_and_exits_0(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = Memory()
    with Peer(state, memory, react=ending("completed", result={"text": "hi"})):
        code = main(["agent", "call", "echo.say", '{"text": "hi"}', "--call-id", "c1", "--json"])

    progress, delivery, last = lines(capsys)
    assert code == 0
    assert progress["progress"] == {"percent": 50, "note": "half"}
    assert delivery["call"] == last
    assert (last["call_id"], last["status"], last["result"]) == ("c1", "completed", {"text": "hi"})
    assert memory.acked == [1, 2]


@pytest.mark.parametrize("status", ["failed", "cancelled", "expired"])
def test_a_call_that_ends_otherwise_exits_1(state: Path, status: str, capsys: pytest.CaptureFixture[str]) -> None:
    failure = {"code": "app.x", "message": "no \x1b[31mway", "retryable": False}
    with Peer(state, Memory(), react=ending(status, error_code="app.x", failure=failure)):
        code = main(["agent", "call", "echo.say"])

    shown = capsys.readouterr()
    assert code == 1
    assert f"{status} (app.x): no \\x1b[31mway" in shown.err


def test_a_rejected_call_exits_3(state: Path) -> None:
    with Peer(state, Memory(), react=ending("rejected", error_code="capability_denied")):
        assert main(["agent", "call", "echo.say"]) == 3


def test_a_refused_call_exits_3_and_says_what_to_do_next(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Peer(state, Memory()):
        code = main(["agent", "call", "echo.say", "--revision", "old", "--json"])

    shown = capsys.readouterr()
    assert code == 3
    assert json.loads(shown.out)["code"] == "inventory_revision_mismatch"
    assert "leave --revision out" in shown.err


def test_an_inventory_that_changed_while_we_asked_is_not_the_persons_trouble(state: Path) -> None:
    memory = Memory()
    usual = ending("completed", result={})

    def change_first(peer: Peer, message: Envelope) -> bool:
        if message.type == "lineup.v1.tool.invoke" and memory.revision == "r1":
            memory.revision = "r2"
            return True
        return usual(peer, message)

    with Peer(state, memory, react=change_first):
        code = main(["agent", "call", "echo.say"])

    assert code == 0
    assert [m.body["inventory_revision"] for m in memory.heard if m.type == "lineup.v1.tool.invoke"] == ["r1", "r2"]


def test_a_busy_runtime_is_asked_again_with_the_same_call_id(state: Path) -> None:
    memory = Memory()
    usual = ending("completed", result={})
    refused: list[Any] = []

    def busy_twice(peer: Peer, message: Envelope) -> bool:
        if message.type == "lineup.v1.tool.invoke" and len(refused) < 2:
            refused.append(message.body["call_id"])
            peer.refuse(message, "busy")
            return False
        return usual(peer, message)

    with Peer(state, memory, react=busy_twice):
        code = main(["agent", "call", "echo.say"])

    assert code == 0
    assert {*refused} == {*memory.calls}


def test_a_wait_that_ends_exits_4_leaves_the_call_and_says_how_to_read_it_later(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = Memory()
    with Peer(state, memory):
        code = main(["agent", "call", "echo.say", "--call-id", "c1", "--timeout", "0.2", "--json"])

    shown = capsys.readouterr()
    assert code == 4
    assert json.loads(shown.out.splitlines()[-1])["status"] == "running"
    assert "lineup call c1" in shown.err
    assert not memory.acked


def test_the_results_of_other_calls_are_neither_shown_nor_settled(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = Memory()
    end(memory, "of-somebody-else")
    with Peer(state, memory, react=ending("completed", result={})):
        main(["agent", "call", "echo.say", "--call-id", "c1", "--json"])

    assert "of-somebody-else" not in capsys.readouterr().out
    assert 1 not in memory.acked


def test_a_result_that_another_attachment_has_settled_is_read_from_the_state(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime_actors.simulator.agent._LOOK_S", 0.1)
    memory = Memory()

    def end_in_silence(_peer: Peer, message: Envelope) -> bool:
        if message.type == "lineup.v1.tool.get":
            memory.calls[message.body["call_id"]] = a_call(message.body["call_id"], "completed", result={})
        return True

    with Peer(state, memory, react=end_in_silence):
        assert main(["agent", "call", "echo.say"]) == 0


def test_the_daemon_may_die_while_a_call_is_waited_for(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory()

    def die_after_the_answer(peer: Peer, message: Envelope) -> bool:
        if message.type == "lineup.v1.tool.get":
            peer.die()
        return message.type != "lineup.v1.tool.get"

    codes: list[int] = []
    with Peer(state, memory, react=die_after_the_answer) as first:
        caller = threading.Thread(target=lambda: codes.append(main(["agent", "call", "echo.say", "--call-id", "c1"])))
        caller.start()
        first.join(10)
    end(memory, "c1", result={"kept": True})
    with Peer(state, memory):
        caller.join(10)

    assert codes == [0]
    assert '{"kept": true}' in capsys.readouterr().out


def test_without_a_daemon_the_exit_code_is_7_and_the_way_to_start_one_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["agent", "call", "echo.say"]) == 7
    assert main(["ps"]) == 7
    assert capsys.readouterr().err.count("lineup start") == 2


def test_an_agent_without_a_token_is_told_how_to_get_one(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Peer(state, Memory()):
        assert main(["agent", "call", "echo.say", "--as", "someone"]) == 3

    assert "lineup agent add someone" in capsys.readouterr().err


def test_a_text_reaches_the_inbox_that_is_named(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    with Peer(state, memory):
        code = main(["agent", "say", "hello", "--to", "echo", "--message-id", "m1", "--json"])

    assert code == 0
    assert lines(capsys)[0]["message_id"] == "m1"
    assert memory.heard[-1].body == {"message_id": "m1", "app_scope": "echo", "text": "hello"}


def test_the_input_may_come_from_stdin(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    monkeypatch.setattr("sys.stdin", io.StringIO('{"text": "from stdin"}'))
    with Peer(state, memory, react=ending("completed", result={})):
        code = main(["agent", "call", "echo.say", "-"])

    assert code == 0
    asked = next(m for m in memory.heard if m.type == "lineup.v1.tool.invoke")
    assert asked.body["input"] == {"text": "from stdin"}
