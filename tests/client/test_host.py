"""A host's session against a door that dies at awkward moments."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from runtime_actors.client import DaemonNotRunning, Happened, HostNews, HostReady, HostSession, Lost, Refused, door_of
from tests.client.peer import MARK, WAIT_S, Memory, Peer

if TYPE_CHECKING:
    from runtime_actors.contract.envelope import Envelope

N = TypeVar("N", bound=HostNews)


@dataclass
class Events:
    """What the door has shown, over all its runs; it goes on behind `after_number`."""

    stream: str = "one"
    numbers: list[int] = field(default_factory=list)
    kept_from: int = 0
    heard: list[Envelope] = field(default_factory=list)
    to_show: int | None = None
    """An event that is shown when the host says what is on its screen."""
    dies_of: str = ""
    """A type on which the door dies once."""

    def react(self, peer: Peer, message: Envelope) -> bool:
        self.heard.append(message)
        if message.type == self.dies_of:
            self.dies_of = ""
            peer.die()
        elif message.type == "lineup.v1.host.attach":
            self._attach(peer, message)
        elif message.type == "lineup.v1.host.show":
            if self.to_show is not None:
                self.show(peer, self.to_show)
        elif message.type.startswith("lineup.v1.host.") and message.type != "lineup.v1.host.ack":
            done = {"request_id": message.id, "repeated": False, "data": {"status": "completed"}, "audit": MARK}
            peer.answer("lineup.v1.host.done", done)
        return message.type == "lineup.v1.ping"

    def of(self, word: str) -> list[dict[str, Any]]:
        """Bodies of one type, in order."""
        return [one.body for one in self.heard if one.type == f"lineup.v1.host.{word}"]

    def _attach(self, peer: Peer, message: Envelope) -> None:
        after, last = message.body.get("after_number"), max(self.numbers, default=0)
        complete = after is None or (message.body.get("stream") == self.stream and after >= self.kept_from)
        body = {"request_id": message.id, "stream": self.stream, "last_number": last, "complete": complete}
        peer.answer("lineup.v1.host.attached", body | {"window": 64, "a_field_of_a_newer_version": 1})
        begin = last if after is None or not complete else after
        for number in [one for one in self.numbers if one > begin]:
            self.show(peer, number)

    def show(self, peer: Peer, number: int) -> None:
        event = {"number": number, "at": "2026-01-01T12:00:00.000Z", "conversation_id": "main", "kind": "text.agent"}
        peer.answer("lineup.v1.host.event", event | {"data": {"n": number}})


@contextmanager
def a_session(state: Path, **options: Any) -> Iterator[HostSession]:  # noqa: ANN401 - those of `HostSession`
    with HostSession(door_of(state, "agent"), "desk", **options) as session:
        yield session


def wait_for(session: HostSession, kind: type[N]) -> N:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        news = session.next_news(0.5)
        if isinstance(news, kind):
            return news
    raise AssertionError(f"no {kind.__name__} within {WAIT_S} s")


def test_without_a_daemon_the_attach_says_so(state: Path) -> None:
    with a_session(state) as session, pytest.raises(DaemonNotRunning):
        session.attach()


def test_a_session_goes_on_behind_what_was_acknowledged_and_shows_nothing_twice(state: Path) -> None:
    events = Events(numbers=[5])
    with a_session(state) as session:
        with Peer(state, Memory(), react=events.react):
            session.attach()
            session.acknowledge(5)
        events.numbers += [6, 7]
        with Peer(state, Memory(), react=events.react):
            wait_for(session, Lost)
            first = wait_for(session, Happened)
            session.acknowledge(first.number)
            second = wait_for(session, Happened)
        with Peer(state, Memory(), react=events.react):
            wait_for(session, HostReady)
            again = [one.number for one in session.events(0.3)]

    assert (first.number, second.number, again) == (6, 7, [])
    assert [one.get("after_number") for one in events.of("attach")] == [None, 5, 6]
    assert len({one["nonce"] for one in events.of("attach")}) == 1


def test_a_session_that_missed_too_much_says_so_and_follows_what_comes(state: Path) -> None:
    events = Events(numbers=[5])
    with a_session(state, nonce="0" * 32, stream="one", after_number=1) as session:
        events.kept_from, events.to_show = 4, 6
        with Peer(state, Memory(), react=events.react):
            ready = wait_for(session, HostReady)
            session.show("main")
            happened = wait_for(session, Happened)

    assert not ready.attached.complete
    assert (happened.number, session.acknowledged) == (6, 5)


def test_a_new_stream_begins_with_its_own_numbers(state: Path) -> None:
    events = Events(numbers=[900])
    with a_session(state) as session:
        with Peer(state, Memory(), react=events.react):
            session.attach()
        events.stream, events.numbers, events.to_show = "two", [3], 4
        with Peer(state, Memory(), react=events.react):
            wait_for(session, Lost)
            ready = wait_for(session, HostReady)
            session.show("main")
            happened = wait_for(session, Happened)

    assert (ready.attached.complete, happened.number, session.stream) == (False, 4, "two")


def test_what_has_no_answer_is_repeated_with_its_id(state: Path) -> None:
    events = Events(dies_of="lineup.v1.host.answer")
    with a_session(state) as session, Peer(state, Memory(), react=events.react):
        session.attach()
        request_id = session.send("lineup.v1.host.answer", {"interaction_id": "int-1", "approved": True})
        wait_for(session, Lost)
        with Peer(state, Memory(), react=events.react):
            done = session.answer("int-1", {"approved": True}, request_id=request_id)

    assert done.data == {"status": "completed"}
    assert {one.id for one in events.heard if one.type == "lineup.v1.host.answer"} == {request_id}
    assert len(events.of("answer")) >= 2


def test_what_is_on_the_screen_is_said_again_at_each_attach(state: Path) -> None:
    events = Events()
    with a_session(state, on_screen="a") as session:
        with Peer(state, Memory(), react=events.react):
            session.attach()
            session.show("b")
            session.presented("int-1")
        with Peer(state, Memory(), react=events.react):
            wait_for(session, Lost)
            wait_for(session, HostReady)

    assert [one.get("on_screen") for one in events.of("attach")] == ["a", "b"]
    assert events.of("show") == [{"on_screen": "b"}]


@pytest.mark.parametrize("given", [{"approved": "yes"}, {"values": 1}, {"colour": "red"}])
def test_what_is_no_answer_is_refused_here(state: Path, given: dict[str, Any]) -> None:
    events = Events()
    with a_session(state) as session, Peer(state, Memory(), react=events.react):
        session.attach()

        with pytest.raises(Refused) as refused:
            session.answer("int-1", given)

    assert (refused.value.code, events.of("answer")) == ("message_invalid", [])
