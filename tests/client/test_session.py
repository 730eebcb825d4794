"""The agent's session against a door that dies at awkward moments."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime_actors.client import (
    AgentSession,
    Answered,
    Attached,
    DaemonNotRunning,
    Delivered,
    Lost,
    NoAnswer,
    Refused,
    SessionEvent,
    door_of,
)
from runtime_actors.contract.envelope import Envelope
from runtime_actors.contract.tools import ToolGet, ToolInvoke
from tests.client.peer import TOKEN, WAIT_S, Memory, Peer, end

INVOKE = "lineup.v1.tool.invoke"


@contextmanager
def a_session(state: Path, token: str = TOKEN) -> Iterator[AgentSession]:
    with AgentSession(door_of(state, "agent"), "local", token) as session:
        yield session


def an_invoke(call_id: str = "c1") -> ToolInvoke:
    return ToolInvoke(call_id=call_id, tool_id="echo.say", inventory_revision="r1", input={"text": "hi"})


def wait_for(session: AgentSession, kind: type[SessionEvent]) -> SessionEvent:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        event = session.next_event(0.5)
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} within {WAIT_S} s")


def test_a_missing_daemon_is_named_as_such_and_says_how_to_start_it(state: Path) -> None:
    with a_session(state) as session, pytest.raises(DaemonNotRunning, match="lineup start"):
        session.attach()


def test_a_wrong_token_ends_the_session_with_attach_denied(state: Path) -> None:
    with Peer(state, Memory()), a_session(state, token="wrong") as session:
        with pytest.raises(Refused) as refused:
            session.attach()

        assert refused.value.code == "attach_denied"
        with pytest.raises(Refused):
            session.next_event(0.1)


def test_a_request_whose_answer_died_with_the_daemon_is_repeated_with_its_id_and_done_once(state: Path) -> None:
    memory = Memory()

    def record_and_die(peer: Peer, message: Envelope) -> bool:
        if message.type == INVOKE:
            memory.calls[message.body["call_id"]] = {}
            peer.die()
        return message.type != INVOKE

    with a_session(state) as session:
        with Peer(state, memory, react=record_and_die) as dying:
            session.attach()
            request_id = session.send(INVOKE, an_invoke(), conversation_id="main")
            wait_for(session, Lost)
            dying.join(WAIT_S)
        memory.calls.clear()
        end(memory, "c1")
        with Peer(state, memory):
            answer = wait_for(session, Answered)

    assert isinstance(answer, Answered)
    assert answer.request_id == request_id
    assert answer.body["repeated"] is True
    assert {message.id for message in memory.heard if message.type == INVOKE} == {request_id}


def test_unanswered_requests_are_repeated_in_their_first_order_after_the_attach(state: Path) -> None:
    memory = Memory()

    def swallow(_peer: Peer, message: Envelope) -> bool:
        return message.type == "lineup.v1.agent.attach"

    with a_session(state) as session:
        with Peer(state, memory, react=swallow) as mute:
            session.attach()
            gets = [ToolGet(call_id=f"c{number}") for number in range(5)]
            asked = [session.send("lineup.v1.tool.get", get, conversation_id="main") for get in gets]
            session.next_event(0.1)
            mute.stop()
        memory.heard.clear()
        with Peer(state, memory):
            answers = [wait_for(session, Answered) for _ in asked]

    assert memory.heard[0].type == "lineup.v1.agent.attach"
    assert [message.id for message in memory.heard if message.type == "lineup.v1.tool.get"] == asked
    assert [answer.request_id for answer in answers if isinstance(answer, Answered)] == asked


def test_a_delivery_is_handed_on_once_however_often_it_is_sent_and_its_ack_is_repeated(state: Path) -> None:
    memory = Memory()
    end(memory, "c1")

    def lose_acks(_peer: Peer, message: Envelope) -> bool:
        return message.type != "lineup.v1.delivery.ack"

    with a_session(state) as session:
        with Peer(state, memory, react=lose_acks):
            first = wait_for(session, Delivered)
            assert isinstance(first, Delivered)
            session.acknowledge(first.delivery.number)
            session.next_event(0.2)
        assert memory.unsettled
        with Peer(state, memory):
            wait_for(session, Attached)
            end(memory, "c2")
            second = wait_for(session, Delivered)
            assert isinstance(second, Delivered)
            session.acknowledge(second.delivery.number)
            session.next_event(0.2)

    assert [first.call_id, second.call_id] == ["c1", "c2"]
    assert not memory.unsettled


def test_a_delivery_that_was_not_acknowledged_comes_again_to_the_next_session_of_the_agent(state: Path) -> None:
    memory = Memory()
    end(memory, "c1")
    with Peer(state, memory):
        with a_session(state) as gone:
            wait_for(gone, Delivered)
        with a_session(state) as next_one:
            again = wait_for(next_one, Delivered)

    assert isinstance(again, Delivered)
    assert again.call_id == "c1"


def test_the_last_acks_leave_when_the_session_is_closed(state: Path) -> None:
    memory = Memory()
    end(memory, "c1")
    with Peer(state, memory) as peer:
        with a_session(state) as session:
            event = wait_for(session, Delivered)
            assert isinstance(event, Delivered)
            session.acknowledge(event.delivery.number)
        deadline = time.monotonic() + WAIT_S
        while not memory.acked and time.monotonic() < deadline:
            peer.join(0.01)

    assert memory.acked == [1]


def test_a_new_stream_makes_small_numbers_new_again(state: Path) -> None:
    memory = Memory()
    for number in range(3):
        end(memory, f"old-{number}")
    with a_session(state) as session:
        with Peer(state, memory):
            for _ in range(3):
                wait_for(session, Delivered)
        restored = Memory()
        restored.stream = "two"
        end(restored, "new")
        with Peer(state, restored):
            event = wait_for(session, Delivered)

    assert isinstance(event, Delivered)
    assert event.call_id == "new"


def test_a_connection_on_which_nothing_is_answered_is_given_up(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime_actors.client.kept.QUIET_S", 0.1)
    memory = Memory()

    def only_attach(_peer: Peer, message: Envelope) -> bool:
        return message.type == "lineup.v1.agent.attach"

    with Peer(state, memory, react=only_attach), a_session(state) as session:
        session.attach()
        wait_for(session, Lost)
        wait_for(session, Attached)

    assert memory.count("lineup.v1.ping") >= 1


def test_a_request_ends_its_wait_at_its_limit(state: Path) -> None:
    def only_attach(_peer: Peer, message: Envelope) -> bool:
        return message.type == "lineup.v1.agent.attach"

    with Peer(state, Memory(), react=only_attach), a_session(state) as session:
        session.attach()
        began = time.monotonic()
        with pytest.raises(NoAnswer):
            session.request("lineup.v1.tool.get", ToolGet(call_id="c1"), conversation_id="main", timeout_s=0.3)

        assert time.monotonic() - began < 2.0


def test_what_no_envelope_can_hold_is_refused_before_it_is_sent(state: Path) -> None:
    with a_session(state) as session:
        for conversation, given, code in (
            ("two words", {}, "message_invalid"),
            ("main", {"text": "x" * 300_000}, "message_too_large"),
            ("main", {"text": "\0"}, "message_invalid"),
        ):
            with pytest.raises(Refused) as refused:
                session.send(INVOKE, {"input": given}, conversation_id=conversation)
            assert refused.value.code == code


def test_closing_does_not_hang_when_the_daemon_is_gone_and_acks_wait(state: Path) -> None:
    memory = Memory()
    end(memory, "c1")
    session = AgentSession(door_of(state, "agent"), "local", TOKEN)
    with Peer(state, memory):
        wait_for(session, Delivered)
    session.acknowledge(1)
    session.send(INVOKE, an_invoke(), conversation_id="main")

    closing = threading.Thread(target=session.close)
    closing.start()
    closing.join(2.0)

    assert not closing.is_alive()


def test_no_result_is_lost_while_the_daemon_dies_every_few_frames(state: Path) -> None:
    memory = Memory()
    total = 60

    def complete_and_die(peer: Peer, message: Envelope) -> bool:
        if message.type == INVOKE and message.body["call_id"] not in memory.calls:
            end(memory, message.body["call_id"])
        if len(memory.heard) % 7 == 0:
            peer.die()
        return True

    stop = threading.Event()

    def keep_alive() -> None:
        while not stop.is_set():
            with Peer(state, memory, react=complete_and_die) as peer:
                while peer.is_alive() and not stop.is_set():
                    peer.join(0.05)

    keeper = threading.Thread(target=keep_alive)
    keeper.start()
    results: list[str] = []
    try:
        with a_session(state) as session:
            for number in range(total):
                session.send(INVOKE, an_invoke(f"c{number}"), conversation_id="main")
            deadline = time.monotonic() + 60
            while len(results) < total and time.monotonic() < deadline:
                event = session.next_event(0.5)
                if isinstance(event, Delivered):
                    results.append(event.call_id)
                    session.acknowledge(event.delivery.number)
    finally:
        stop.set()
        keeper.join(WAIT_S)

    assert sorted(results) == sorted(f"c{number}" for number in range(total))
