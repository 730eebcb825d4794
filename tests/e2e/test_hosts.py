"""Hosts of a real daemon: one question on several screens, and what survives whoever dies."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from runtime_actors.client import Answered, Happened, HostReady, HostSession, Refused, door_of
from runtime_actors.contract import host as h
from tests.e2e.agent import Agent
from tests.e2e.conftest import MakeWorld
from tests.e2e.daemon import QUICK, ROOT, TooLong, wait_until
from tests.e2e.people import asker, deaf
from tests.faults.world import World

LIMIT_S: Final = 20.0
WATCHES: Final = """
import sys
from runtime_actors.client import Happened, HostReady, HostSession

session = HostSession(sys.argv[1], "watcher", nonce=sys.argv[2])
while True:
    news = session.next_news(60)
    if isinstance(news, HostReady):
        print("ready", news.attached.stream, news.attached.last_number, flush=True)
    elif isinstance(news, Happened):
        session.acknowledge(news.number)
        print("event", news.number, flush=True)
"""
"""A host that takes over each event and writes down its number."""


@pytest.fixture
def world(make_world: MakeWorld, tmp_path: Path) -> World:
    """With an app that asks and one that hangs."""
    return make_world(apps=(asker(tmp_path), deaf(tmp_path)))


@pytest.fixture
def hosts(world: World) -> Iterator[Callable[..., HostSession]]:
    """Makes attached hosts."""
    made: list[HostSession] = []

    def make(name: str = "desk", **options: Any) -> HostSession:  # noqa: ANN401 - those of `HostSession`
        one = HostSession(door_of(world.daemon.state, "host"), name, **options)
        made.append(one)
        one.attach()
        return one

    yield make
    for one in made:
        one.close()


def event(
    host: HostSession, kind: str, wanted: Callable[[dict[str, Any]], bool] = lambda _: True, within_s: float = LIMIT_S
) -> h.HostEvent:
    """The next event of a kind that is as wanted; all before it are taken over, too."""
    deadline = time.monotonic() + within_s
    while (left_s := deadline - time.monotonic()) > 0:
        news = host.next_news(left_s)
        if isinstance(news, Happened):
            host.acknowledge(news.number)
            if news.event.kind == kind and wanted(news.event.data):
                return news.event
    raise TooLong(f"{kind}: not within {within_s:g} s")


def question_id(host: HostSession) -> str:
    """Of the question that is opened next."""
    return str(event(host, "interaction.opened").data["interaction"]["interaction_id"])


def ended(host: HostSession, interaction_id: str) -> dict[str, Any]:
    """A question as it was when it had ended."""

    def is_end(data: dict[str, Any]) -> bool:
        one = data["interaction"]
        return one["interaction_id"] == interaction_id and one["status"] in {"completed", "cancelled"}

    return dict(event(host, "interaction.changed", is_end).data["interaction"])


def come_back(world: World) -> None:
    for agent in world.agents:
        agent.disconnect()
    world.start()


def test_two_hosts_see_one_question_and_the_first_answer_wins(agent: Agent, hosts: Callable[..., HostSession]) -> None:
    first, second = hosts("desk"), hosts("phone")
    key = agent.invoke("asker.go", "now?")
    interaction_id = question_id(first)
    assert question_id(second) == interaction_id
    first.presented(interaction_id)

    done = first.answer(interaction_id, {"approved": True})
    with pytest.raises(Refused) as late:
        second.answer(interaction_id, {"approved": False})

    assert done.data["status"] == "completed"
    assert late.value.code == "interaction_already_final"
    assert ended(second, interaction_id)["result"] == {"approved": True}
    assert agent.final(key)["result"] == {"text": "completed: True"}
    assert first.rows("interactions") == []


def test_a_host_that_comes_later_finds_the_open_question_and_its_draft_in_the_listing(
    agent: Agent, hosts: Callable[..., HostSession]
) -> None:
    early = hosts()
    key = agent.invoke("asker.go", "now?")
    interaction_id = question_id(early)
    early.close()

    late = hosts("other")
    (row,) = late.rows("interactions")

    assert row["interaction"]["interaction_id"] == interaction_id
    assert row["interaction"]["status"] == "pending"
    assert row["app_title"] == "asker"
    late.dismiss(interaction_id)
    assert agent.final(key)["result"] == {"text": "completed: False"}


def test_a_host_that_was_killed_goes_on_behind_the_last_event_it_took_over(
    world: World, agent: Agent, hosts: Callable[..., HostSession]
) -> None:
    nonce = uuid.uuid4().hex
    command = [sys.executable, "-c", WATCHES, door_of(world.daemon.state, "host"), nonce]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        stream = watcher.stdout.readline().split()[1]
        agent.invoke("asker.go", "one")
        last = int(watcher.stdout.readline().split()[1])
        watcher.kill()
        last = max([last, *(int(line.split()[1]) for line in watcher.stdout)])
    agent.invoke("asker.go", "two", conversation="c2")
    observer = hosts("observer")
    wait_until("both questions", lambda: len(observer.rows("interactions")) == 2)

    resumed = hosts("watcher", nonce=nonce, stream=stream, after_number=last)

    ready = resumed.next_news(LIMIT_S)
    assert isinstance(ready, HostReady)
    assert ready.attached.complete
    seen = [one.number for one in resumed.events(1.0)]
    assert seen == list(range(last + 1, ready.attached.last_number + 1))


def test_a_question_outlives_the_daemon_and_hosts_go_on_where_they_were(
    world: World, agent: Agent, hosts: Callable[..., HostSession]
) -> None:
    host = hosts()
    key = agent.invoke("asker.go", "now?")
    interaction_id = question_id(host)

    world.daemon.kill()
    come_back(world)

    def ready() -> HostReady | None:
        news = host.next_news(0.1)
        return news if isinstance(news, HostReady) else None

    assert wait_until("the host is attached again", ready, LIMIT_S).attached.complete
    (row,) = host.rows("interactions")
    assert row["interaction"]["interaction_id"] == interaction_id
    assert host.answer(interaction_id, {"approved": True}).data["status"] == "completed"
    assert ended(host, interaction_id)["result"] == {"approved": True}
    assert agent.final(key)["result"] == {"text": "completed: True"}


def test_an_answer_whose_receipt_died_with_the_daemon_is_known_when_it_is_repeated(
    make_world: MakeWorld, tmp_path: Path
) -> None:
    world = make_world("--failpoint=answer:after:kill-daemon", apps=(asker(tmp_path),))
    world.daemon.options = QUICK  # of the daemons that follow
    agent = world.agent()
    agent.attached()
    with HostSession(door_of(world.daemon.state, "host"), "desk") as host:
        host.attach()
        key = agent.invoke("asker.go", "now?")
        agent.until_running(key)
        interaction_id = question_id(host)
        request_id = host.send("lineup.v1.host.answer", {"interaction_id": interaction_id, "approved": True})

        def answer() -> Answered | None:
            world.tend()
            news = host.next_news(0.05)
            return news if isinstance(news, Answered) else None

        said = wait_until("an answer", answer, LIMIT_S)

    assert world.deaths == 1
    assert (said.request_id, said.kind, said.body["repeated"]) == (request_id, "lineup.v1.host.done", True)
    assert agent.final(key)["result"] == {"text": "completed: True"}


def test_an_app_that_hangs_is_shown_so_and_can_be_closed_by_force(
    world: World, agent: Agent, hosts: Callable[..., HostSession]
) -> None:
    host = hosts()
    key = agent.invoke("deaf.go", "")
    agent.until_running(key)
    instance_id = str(world.daemon.worker("c1", "deaf")["instance_id"])

    host.act(instance_id, "close")
    told = event(host, "instance.changed", lambda data: bool(data.get("hanging")))
    host.act(instance_id, "force_close")

    assert (told.data["instance_id"], told.data["app_title"]) == (instance_id, "deaf")
    final = agent.final(key)
    assert (final["status"], final["error_code"]) == ("failed", "app_closed")
    event(host, "instance.changed", lambda data: data["instance_id"] == instance_id and data["state"] == "closed")
    assert [row["detail"]["kind"] for row in world.daemon.audit("action.taken")] == ["close", "force_close"]


def test_what_a_person_writes_reaches_the_agent(agent: Agent, hosts: Callable[..., HostSession]) -> None:
    host = hosts("desk", on_screen="c1")
    agent.final(agent.invoke("probe.echo", "hello"))

    host.text("c1", "good morning")

    agent.wait("the text", lambda: agent.texts)
    assert agent.texts == [("c1", "good morning")]
    assert event(host, "text.person").data["text"] == "good morning"
    with pytest.raises(Refused) as refused:
        host.text("nowhere", "hello?")
    assert refused.value.code == "not_found"


def test_an_ordinary_call_shows_hosts_nothing(agent: Agent, hosts: Callable[..., HostSession]) -> None:
    agent.final(agent.invoke("probe.echo", "warm"))
    host = hosts()

    for _ in range(5):
        agent.final(agent.invoke("probe.echo", "hello"))

    assert list(host.events(0.5)) == []


def test_a_host_cannot_act_for_an_agent_nor_an_agent_for_a_person(
    agent: Agent, hosts: Callable[..., HostSession]
) -> None:
    with pytest.raises(Refused) as refused:
        hosts().request("lineup.v1.tool.invoke", {"call_id": "c1"}, conversation_id="c1")

    assert refused.value.code == "role_denied"
    assert agent.ask("host.answer", {"interaction_id": "int-1", "approved": True})[1]["code"] == "role_denied"
