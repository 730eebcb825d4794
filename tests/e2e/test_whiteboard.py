"""The Whiteboard of a real daemon: a person draws, an agent gets the picture, and whoever dies loses nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from runtime_actors.client import Happened, HostSession, Refused, door_of
from tests.e2e.agent import Agent
from tests.e2e.conftest import MakeWorld
from tests.e2e.daemon import ROOT, TooLong, wait_until
from tests.faults.world import World

LIMIT_S: Final = 20.0
BOARD: Final = {"board_id": "b1", "title": "Plan"}
LINE: Final = {"points": [0, 0, 100, 50], "color": "#1a2b3c", "width": 3}
DOT: Final = {"points": [500, 500]}

Key = tuple[str, str]


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world()


class Desk:
    """A host that can show surfaces, and what it has been told."""

    def __init__(self, world: World) -> None:
        self.host = HostSession(door_of(world.daemon.state, "host"), "desk", surfaces=True)
        self.surfaces: dict[str, dict[str, Any]] = {}
        """The newest record of each, by id."""
        self.questions: dict[str, dict[str, Any]] = {}
        """Open ones, by id."""

    def pump(self, timeout_s: float = 0.0) -> None:
        """Take over what has come."""
        while (news := self.host.next_news(timeout_s)) is not None:
            timeout_s = 0.0
            if not isinstance(news, Happened):
                continue
            self.host.acknowledge(news.number)
            kind, data = news.event.kind, news.event.data
            if kind.startswith("surface."):
                self.surfaces[data["surface"]["surface_id"]] = data["surface"]
            elif kind.startswith("interaction."):
                record = data["interaction"]
                self.questions[record["interaction_id"]] = record
                if record["status"] not in {"pending", "presented"}:
                    del self.questions[record["interaction_id"]]

    def wait(self, what: str, look: Callable[[], Any]) -> Any:  # noqa: ANN401 - what `look` found
        deadline = time.monotonic() + LIMIT_S
        while not (found := look()):
            if time.monotonic() > deadline:
                raise TooLong(f"{what}: not within {LIMIT_S:g} s; {self.surfaces} {self.questions}")
            self.pump(0.1)
        return found

    def board(self, wanted: Callable[[dict[str, Any]], object] = lambda _: True) -> dict[str, Any]:
        """An open surface whose state is as wanted."""

        def look() -> dict[str, Any] | None:
            found = [one for one in self.surfaces.values() if one["status"] == "open" and wanted(one["state"])]
            return found[0] if found else None

        found: dict[str, Any] = self.wait("a board", look)
        return found

    def draw(self, surface_id: str, **strokes: object) -> None:
        self.host.surface(surface_id, "update", patch={"strokes": strokes})

    def question(self) -> dict[str, Any]:
        found: dict[str, Any] = self.wait("a question", lambda: next(iter(self.questions.values()), None))
        return found


@pytest.fixture
def desk(world: World) -> Iterator[Desk]:
    made = Desk(world)
    made.host.attach()
    yield made
    made.host.close()


def opened(agent: Agent, desk: Desk, **asked: object) -> tuple[Key, dict[str, Any]]:
    """The call that opened a board, and its surface when the app has settled."""
    key = agent.invoke_with("whiteboard.open", BOARD | asked)
    agent.accepted(key)
    record = desk.board(lambda state: "notify" in state)
    agent.until_running(key)
    return key, record


def submitted(agent: Agent, **request: object) -> dict[str, Any]:
    return agent.final(agent.invoke_with("whiteboard.submit", {"board_id": "b1"} | request))


def fetched(agent: Agent, artifact_id: str, conversation: str = "c1") -> tuple[dict[str, Any], bytes]:
    kind, body = agent.ask("artifact.get", {"artifact_id": artifact_id}, conversation=conversation)
    assert kind == "artifact", body
    meta, content = body["artifact"], b""
    while len(content) < meta["size"]:
        asked = {"artifact_id": artifact_id, "offset": len(content)}
        content += base64.b64decode(agent.ask("artifact.read", asked, conversation=conversation)[1]["content"])
    return meta, content


def come_back(world: World) -> None:
    for agent in world.agents:
        agent.disconnect()
    world.start()


# --- the way it should be ---


def test_a_person_draws_and_the_agent_gets_the_picture(world: World, agent: Agent, desk: Desk) -> None:
    key, record = opened(agent, desk, initial={"strokes": [LINE]})
    assert (record["app_scope"], record["kind"], record["title"], record["call_id"]) == (
        "whiteboard",
        "whiteboard",
        "Plan",
        key[1],
    )
    assert record["state"]["notify"] == "denied"
    desk.draw(record["surface_id"], s1=DOT)
    assert desk.board(lambda state: state.get("summary", {}).get("strokes") == 2)

    result = submitted(agent)["result"]

    assert result["summary"] == {"strokes": 2, "points": 3, "colors": ["#000000", "#1a2b3c"]}
    final = agent.final(key)
    assert (final["status"], final["result"]) == (
        "completed",
        {"status": "submitted", "artifact_id": result["artifact_id"]},
    )
    meta, content = fetched(agent, result["artifact_id"])
    assert hashlib.sha256(content).hexdigest() == meta["sha256"]
    assert (meta["media_type"], meta["name"]) == ("image/svg+xml", "board.svg")
    assert b'points="0,0 100,50"' in content
    assert b'points="500,500 500,500"' in content
    desk.wait("the surface is closed", lambda: desk.surfaces[record["surface_id"]]["status"] == "closed")
    assert world.daemon.listed("surfaces") == []
    wait_until("the instance is closed", lambda: world.daemon.instance("c1", "whiteboard") is None)
    assert [row["code"] for row in (one["detail"] for one in world.daemon.audit("capability.refused"))] == [
        "capability_denied"
    ]
    assert not [row for row in world.daemon.audit() if row["event"].startswith("interaction.")]


def test_without_a_host_that_can_draw_the_board_is_refused(world: World, agent: Agent) -> None:
    blind = HostSession(door_of(world.daemon.state, "host"), "blind")
    blind.attach()

    key = agent.invoke_with("whiteboard.open", BOARD)

    assert agent.code_of(key) == "host_unsupported"
    assert world.daemon.listed("calls") == []
    blind.close()


@pytest.mark.parametrize(
    "asked",
    [
        {"initial": {"strokes": [{"points": [1, 2, 3]}]}},
        {"initial": {"strokes": [{"points": [1, 2], "color": "red"}]}},
        {"board_id": "a board"},
        {"title": "two\nlines"},
    ],
)
def test_a_drawing_that_cannot_be_drawn_fails_and_leaves_nothing(
    world: World, agent: Agent, desk: Desk, asked: dict[str, Any]
) -> None:
    final = agent.final(agent.invoke_with("whiteboard.open", BOARD | asked))

    assert (final["status"], final["error_code"]) == ("failed", "app.board_invalid")
    desk.pump(0.1)
    assert world.daemon.listed("surfaces") == []
    wait_until("the instance is closed", lambda: world.daemon.instance("c1", "whiteboard") is None)


def test_an_empty_board_is_submitted_only_if_the_person_says_so(agent: Agent, desk: Desk) -> None:
    key, record = opened(agent, desk)
    first = agent.invoke_with("whiteboard.submit", {"board_id": "b1"})
    question = desk.question()
    assert question["request"]["kind"] == "confirm"
    assert question["owner"]["parent_call_id"] == first[1]
    desk.host.answer(question["interaction_id"], {"approved": False})

    assert agent.final(first)["error_code"] == "app.submit_declined"

    desk.pump()
    desk.host.surface(record["surface_id"], "submit")
    desk.host.answer(desk.question()["interaction_id"], {"approved": True})
    final = agent.final(key)
    assert final["result"]["status"] == "submitted"
    assert b"polyline" not in fetched(agent, final["result"]["artifact_id"])[1]


def test_what_no_board_may_hold_is_taken_away_again(agent: Agent, desk: Desk) -> None:
    _, record = opened(agent, desk)

    desk.draw(record["surface_id"], s1=LINE, bad={"points": ["<script>"]})
    desk.host.surface(record["surface_id"], "update", patch={"status": "submitted", "title": "Mine"})

    state = desk.board(lambda state: state.get("summary", {}).get("strokes") == 1 and state["status"] == "open")[
        "state"
    ]
    assert state["strokes"] == {"s1": LINE}
    assert state["title"] == "Plan"


def test_a_person_clears_the_board_and_is_asked_first(agent: Agent, desk: Desk) -> None:
    _, record = opened(agent, desk, initial={"strokes": [LINE]})

    desk.host.surface(record["surface_id"], "ask", data={"question": "clear"})
    desk.host.answer(desk.question()["interaction_id"], {"approved": True})

    assert desk.board(lambda state: state["strokes"] == {})


def test_a_cancelled_board_closes_its_surface(world: World, agent: Agent, desk: Desk) -> None:
    key, record = opened(agent, desk)

    agent.cancel(key)

    assert agent.final(key)["status"] == "cancelled"
    desk.wait("the surface is closed", lambda: desk.surfaces[record["surface_id"]]["status"] == "closed")
    with pytest.raises(Refused) as late:
        desk.draw(record["surface_id"], s1=LINE)
    assert late.value.code == "surface_closed"
    assert world.daemon.listed("artifacts") == []


# --- whoever dies ---


def test_a_worker_that_dies_between_patches_goes_on_with_the_board(world: World, agent: Agent, desk: Desk) -> None:
    key, record = opened(agent, desk, initial={"strokes": [LINE]})
    desk.draw(record["surface_id"], s1=DOT)
    pid = world.daemon.kill_worker("c1", "whiteboard")
    desk.draw(record["surface_id"], s2=DOT)
    world.daemon.worker("c1", "whiteboard", not_pid=pid)
    desk.draw(record["surface_id"], s3=DOT)

    result = submitted(agent)["result"]

    assert result["summary"]["strokes"] == 4
    assert agent.final(key)["result"]["artifact_id"] == result["artifact_id"]
    assert len(world.daemon.listed("artifacts")) == 1
    assert [one["surface_id"] for one in world.daemon.listed("surfaces", all=True)] == [record["surface_id"]]


def test_a_daemon_that_dies_loses_no_revision_that_was_receipted(world: World, agent: Agent, desk: Desk) -> None:
    key, record = opened(agent, desk, initial={"strokes": [LINE]})
    revision = desk.host.surface(record["surface_id"], "update", patch={"strokes": {"s1": DOT}}).data["revision"]
    world.daemon.kill()

    come_back(world)

    kept = world.daemon.listed("surfaces")[0]
    assert (kept["surface_id"], kept["state"]["strokes"]) == (record["surface_id"], {"a1": LINE, "s1": DOT})
    assert kept["revision"] >= revision
    desk.draw(record["surface_id"], s2=DOT)
    result = submitted(agent)["result"]
    assert result["summary"]["strokes"] == 3
    assert agent.final(key)["result"]["artifact_id"] == result["artifact_id"]


POINTS: Final = [
    f"{command}:{point}:{action}"
    for command in ("open_surface", "bridge", "begin_artifact", "add_chunk")
    for point, action in (("before", "kill-daemon"), ("after", "kill-daemon"), ("after", "kill-worker"))
] + ["update_surface:after:kill-worker@3", "update_surface:after:kill-daemon@3", "add_chunk:outcome:drop"]


@pytest.mark.parametrize("point", POINTS)
def test_the_story_comes_to_its_end_whoever_dies_at_which_commit(make_world: MakeWorld, point: str) -> None:
    world = make_world(f"--failpoint={point}")
    agent, desk = world.agent(), Desk(world)
    agent.attached()
    desk.host.attach()
    world.daemon.options = world.daemon.options[:-1]  # the next daemon is not to die

    def living(what: str, look: Callable[[], Any]) -> Any:  # noqa: ANN401 - what `look` found
        def found() -> Any:  # noqa: ANN401
            desk.pump()
            return look()

        return agent.wait(what, found, LIMIT_S)

    key = agent.invoke_with("whiteboard.open", BOARD | {"initial": {"strokes": [LINE]}})
    boards = lambda: [one for one in desk.surfaces.values() if "notify" in (one.get("state") or {})]  # noqa: E731
    record = living("the board", boards)[0]
    request = "draw-1"
    desk.host.send(
        "lineup.v1.host.surface",
        {"surface_id": record["surface_id"], "op": "update", "patch": {"strokes": {"s1": DOT}}},
        request_id=request,
    )
    living("it is drawn", lambda: "s1" in (desk.surfaces[record["surface_id"]].get("state") or {})["strokes"])
    submit = agent.invoke_with("whiteboard.submit", {"board_id": "b1"})
    living("the end", lambda: submit in agent.finals and key in agent.finals)

    command, where, action = point.partition("@")[0].split(":")
    assert world.daemon.passed(command, where, action) == 1
    result = agent.final(submit)["result"]
    assert result["summary"]["strokes"] == 2
    assert agent.final(key)["result"] == {"status": "submitted", "artifact_id": result["artifact_id"]}
    stored = [one for one in world.daemon.listed("artifacts") if one["received"] == one["size"]]
    assert [one["artifact_id"] for one in stored] == [result["artifact_id"]]
    meta, content = fetched(agent, result["artifact_id"])
    assert hashlib.sha256(content).hexdigest() == meta["sha256"]
    assert [one["status"] for one in world.daemon.listed("surfaces", all=True)] == ["closed"]
    world.daemon.control("verify_audit", {})
    desk.host.close()


# --- who may read ---


def test_another_agent_learns_nothing_of_an_artifact(world: World, agent: Agent, desk: Desk) -> None:
    opened(agent, desk, initial={"strokes": [LINE]})
    artifact_id = submitted(agent)["result"]["artifact_id"]
    token = secrets.token_urlsafe(32)
    (world.daemon.state / "tokens" / "other").write_text(f"{token}\n")
    world.daemon.control("add_agent", {"name": "other", "token_hash": hashlib.sha256(token.encode()).hexdigest()})
    other = world.agent("other")
    other.attached()

    for asked in (artifact_id, "art-nothing"):
        for kind, more in (("artifact.get", {}), ("artifact.read", {"offset": 0})):
            said, body = other.ask(kind, {"artifact_id": asked} | more, conversation="c1")
            assert (said, body["code"]) == ("rejected", "conversation_denied")
            assert asked not in body["detail"]
            said, body = other.ask(kind, {"artifact_id": asked} | more, conversation="c9")
            assert (said, body["code"]) == ("rejected", "artifact_not_found")


def test_the_command_writes_the_file_whole_or_not_at_all(
    world: World, agent: Agent, desk: Desk, tmp_path: Path
) -> None:
    opened(agent, desk, initial={"strokes": [LINE]})
    artifact_id = submitted(agent)["result"]["artifact_id"]
    _, content = fetched(agent, artifact_id)
    file = tmp_path / "board.svg"

    def lineup(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "runtime_actors", "agent", "artifact", *words, f"--state={world.daemon.state}"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)

    first = lineup(artifact_id, str(file), "--conversation=c1", "--json")
    assert (first.returncode, file.read_bytes()) == (0, content)
    assert json.loads(first.stdout)["sha256"] == hashlib.sha256(content).hexdigest()

    file.write_bytes(b"mine")
    again = lineup(artifact_id, str(file), "--conversation=c1")
    assert (again.returncode, file.read_bytes()) == (1, b"mine")
    assert lineup(artifact_id, str(file), "--conversation=c1", "--force").returncode == 0
    assert file.read_bytes() == content

    refused = lineup("art-nothing", str(tmp_path / "no.svg"), "--conversation=c1")
    assert refused.returncode == 3
    assert "artifact_not_found" in refused.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["board.svg"]
