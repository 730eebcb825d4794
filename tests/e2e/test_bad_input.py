"""What agents and operators can send that is wrong: a stable code, an audit entry, and nothing else changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import pytest

from tests.e2e.agent import Agent
from tests.e2e.daemon import Daemon, short_folder
from tests.e2e.made_apps import a_tool, write_app
from tests.e2e.stage import AT, Stage, a_frame

pytestmark = pytest.mark.xdist_group("bad-input")

Ask = Callable[[Stage], tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with short_folder() as folder, Stage(folder / "s") as made:
        yield made


# --- calls that are refused ---


def invoking(tool: str, given: dict[str, Any], *, revision: str | None = None, conversation: str = "mine") -> Ask:
    def ask(stage: Stage) -> tuple[str, dict[str, Any]]:
        key = stage.agent.invoke_with(tool, given, revision=revision, conversation=conversation)
        return "rejected", stage.agent.accepted(key)

    return ask


REFUSED = {
    "unknown tool": (invoking("probe.none", {"text": ""}), "tool_not_advertised"),
    "tool of an unknown scope": (invoking("nobody.echo", {"text": ""}), "tool_not_advertised"),
    "stale revision": (invoking("probe.echo", {"text": ""}, revision="r-old"), "inventory_revision_mismatch"),
    "wrong type": (invoking("probe.echo", {"text": 1}), "tool_input_invalid"),
    "missing field": (invoking("probe.echo", {}), "tool_input_invalid"),
    "field too many": (invoking("probe.echo", {"text": "", "more": 1}), "tool_input_invalid"),
    "no instance": (invoking("probe.operate", {"text": ""}, conversation="empty"), "app_instance_not_found"),
    "get unknown": (lambda stage: stage.agent.get(("mine", "never")), "call_not_found"),
    "cancel unknown": (
        lambda stage: stage.agent.ask("tool.cancel", {"call_id": "never"}, conversation="mine"),
        "call_not_found",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_does_not_hold_is_refused(stage: Stage, name: str) -> None:
    ask, code = REFUSED[name]

    with stage.nothing_changes_but(("call.refused", code)):
        kind, body = ask(stage)

    assert (kind, body["code"]) == ("rejected", code)
    if code == "inventory_revision_mismatch":
        assert body["inventory_revision"] == stage.agent.revision


def test_the_call_id_of_a_refused_call_stays_free(stage: Stage) -> None:
    refused = stage.agent.invoke_with("probe.echo", {"text": 1}, call_id="free", conversation="mine")
    assert stage.agent.code_of(refused) == "tool_input_invalid"

    again = stage.agent.invoke("probe.echo", "now", call_id="free", conversation="mine")

    assert stage.agent.final(again)["status"] == "completed"


def test_the_id_of_a_call_with_another_body_is_a_conflict(stage: Stage) -> None:
    first = stage.agent.invoke("probe.exact", "one", call_id="twin", conversation="mine")
    stage.agent.final(first)

    with stage.nothing_changes_but(("call.refused", "call_id_conflict")):
        second = stage.agent.invoke("probe.exact", "two", call_id="twin", conversation="mine")
        assert stage.agent.code_of(second) == "call_id_conflict"

    repeated = stage.agent.invoke("probe.exact", "one", call_id="twin", conversation="mine")
    assert stage.agent.accepted(repeated)["repeated"] is True


def test_a_final_call_cannot_be_cancelled(stage: Stage) -> None:
    key = stage.agent.invoke("probe.echo", "done", conversation="mine")
    stage.agent.final(key)

    with stage.nothing_changes_but(("call.refused", "call_already_final")):
        _, body = stage.agent.ask("tool.cancel", {"call_id": key[1]}, conversation=key[0])

    assert body["code"] == "call_already_final"


# --- what belongs to another agent ---


@pytest.mark.parametrize("kind", ["tool.get", "tool.cancel"])
def test_an_agent_can_neither_read_nor_cancel_the_call_of_another(stage: Stage, kind: str) -> None:
    held = stage.hold("private")

    with stage.nothing_changes_but(("call.refused", "conversation_denied")):
        _, body = stage.other.ask(kind, {"call_id": held[1]}, conversation="private")

    assert body["code"] == "conversation_denied"
    assert "call" not in body
    stage.release(held)


def test_an_agent_can_neither_call_nor_write_in_the_conversation_of_another(stage: Stage) -> None:
    held = stage.hold("private")

    with stage.nothing_changes_but(("call.refused", "conversation_denied"), ("message.refused", "conversation_denied")):
        key = stage.other.invoke("probe.echo", "let me in", conversation="private")
        assert stage.other.code_of(key) == "conversation_denied"
        assert stage.other.say("let me in", conversation="private")[1]["code"] == "conversation_denied"

    stage.release(held)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("tools.complete", "message_invalid"),
        ("control.kill", "role_denied"),
        ("control.query", "role_denied"),
        ("host.attach", "role_denied"),
        ("tool.call", "message_invalid"),
        ("nonsense", "message_invalid"),
    ],
)
def test_an_agent_can_neither_answer_calls_nor_act_as_an_operator(stage: Stage, kind: str, code: str) -> None:
    with stage.nothing_changes_but(("request.refused", code)):
        _, body = stage.other.ask(kind, {"call_id": "any", "result": {}}, conversation="private")

    assert body["code"] == code


def test_a_delivery_cannot_be_settled_by_another_agent(stage: Stage) -> None:
    stage.settle()
    stage.agent.acknowledges = False
    key = stage.agent.invoke("probe.echo", "unread", conversation="mine")
    stage.agent.final(key)
    number = stage.agent.deliveries[-1][0]

    stage.other.acknowledge(number)
    stage.serves()  # so the acknowledgement was handled

    assert [row["number"] for row in stage.daemon.listed("outbox") if row["agent_id"] == "local"] == [number]
    stage.agent.acknowledges = True
    stage.agent.acknowledge(number)


# --- texts ---


@pytest.mark.parametrize(("scope", "code"), [("nobody", "app_scope_mismatch"), ("hostile", "message_not_subscribed")])
def test_a_text_to_a_scope_that_takes_none_is_refused(stage: Stage, scope: str, code: str) -> None:
    with stage.nothing_changes_but(("message.refused", code)):
        _, body = stage.agent.say("hello", to=scope)

    assert body["code"] == code


def test_the_id_of_a_text_with_another_body_is_a_conflict(stage: Stage) -> None:
    stage.agent.say("one", conversation="texts", message_id="m")

    with stage.nothing_changes_but(("message.refused", "message_id_conflict")):
        _, body = stage.agent.say("two", conversation="texts", message_id="m")

    assert body["code"] == "message_id_conflict"


# --- what is switched off ---


@pytest.mark.parametrize(("kind", "name"), [("app", "probe"), ("tool", "probe.echo")])
def test_what_is_switched_off_is_refused_and_works_again_when_it_is_on(stage: Stage, kind: str, name: str) -> None:
    stale = stage.agent.revision
    stage.daemon.control("switch", {"kind": kind, "name": name, "enabled": False})
    stage.agent.wait("the new inventory", lambda: stage.agent.revision != stale)
    try:
        with stage.nothing_changes_but(("call.refused", "app_disabled")):
            key = stage.agent.invoke("probe.echo", "off", conversation="off")
            assert stage.agent.code_of(key) == "app_disabled"
    finally:
        off = stage.agent.revision
        stage.daemon.control("switch", {"kind": kind, "name": name, "enabled": True})
    stage.agent.wait("the old inventory", lambda: stage.agent.revision != off)
    assert stage.agent.revision == stale
    again = stage.agent.invoke("probe.echo", "on", conversation="off")
    assert stage.agent.final(again)["status"] == "completed"


@pytest.mark.parametrize(("kind", "name"), [("app", "probe"), ("tool", "probe.hold")])
def test_a_running_call_of_what_is_switched_off_ends_and_the_app_can_say_nothing_more(
    stage: Stage, kind: str, name: str
) -> None:
    held = stage.hold("switched")
    revision = stage.agent.revision

    stage.daemon.control("switch", {"kind": kind, "name": name, "enabled": False})
    ended = stage.agent.final(held)
    stage.daemon.control("switch", {"kind": kind, "name": name, "enabled": True})

    assert (ended["status"], ended["error_code"]) == ("failed", "app_disabled")
    [entry] = [row for row in stage.daemon.audit("call.ended") if row["subject"]["call_id"] == held[1]]
    assert entry["detail"]["code"] == "app_disabled"
    stage.agent.wait("the old inventory", lambda: stage.agent.revision == revision)
    stage.serves()


# --- frames ---


def an_envelope(**changes: Any) -> bytes:  # noqa: ANN401 - anything that msgpack can hold
    tree = {"v": 1, "id": "q", "type": "lineup.v1.ping", "sent_at": AT, "body": {}}
    packed: bytes = msgpack.packb(tree | changes)
    return packed


def nested(depth: int) -> list[Any]:
    return [] if depth == 0 else [nested(depth - 1)]


MALFORMED = {
    "empty": b"",
    "no msgpack": b"\xc1",
    "two values": an_envelope() + b"\x01",
    "cut off": an_envelope()[:-1],
    "not a map": msgpack.packb([1, 2]),
    "wrong version": an_envelope(v=2),
    "field too many": an_envelope(more=1),
    "body is no map": an_envelope(body=[]),
    "body with a field too many": an_envelope(body={"more": 1}),
    "id too long": an_envelope(id="i" * 129),
    "not a number": an_envelope(body={"n": math.nan}),
    "number too large": an_envelope(body={"n": 2**53}),
    "binary": an_envelope(body={"b": b"bytes"}),
    "extension": an_envelope(body={"e": msgpack.ExtType(1, b"x")}),
    "nul": an_envelope(body={"s": "a\0b"}),
    "too deep": an_envelope(body={"d": nested(40)}),
    "too many nodes": an_envelope(body={"l": [0] * 10_001}),
    "key twice": b"\x82\xa1v\x01\xa1v\x01",
    "key is no string": msgpack.packb({1: 2}),
    "too large": bytes(262_145),
    "not attached": a_frame("tool.get", {"call_id": "c"}, conversation_id="c"),
}
CODES = {"too large": "message_too_large", "not attached": "not_attached"}
"""Of those that are not `message_invalid`."""


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_frame_is_refused_and_the_next_one_is_answered(stage: Stage, name: str) -> None:
    code = CODES.get(name, "message_invalid")
    with stage.connection() as connection, stage.nothing_changes_but(("request.refused", code)):
        connection.send(MALFORMED[name])
        connection.send(a_frame("ping", {}, "after"))

        refused, pong = (msgpack.unpackb(connection.receive(10) or b"\xc0") for _ in range(2))

    assert (refused["type"], refused["body"]["code"]) == ("lineup.v1.rejected", code)
    assert pong["body"] == {"request_id": "after"}


@pytest.mark.parametrize(
    ("agent", "token"), [("local", "wrong"), ("nobody", "wrong"), ("other", None)], ids=["token", "name", "no token"]
)
def test_whoever_cannot_prove_who_it_is_is_not_attached(stage: Stage, agent: str, token: str | None) -> None:
    body = {"agent": agent} | ({"token": token} if token else {})
    event = "agent.refused" if token else "request.refused"
    with stage.connection() as connection, stage.nothing_changes_but((event, "attach_denied")):
        connection.send(a_frame("agent.attach", body))

        refused = msgpack.unpackb(connection.receive(10) or b"\xc0")

    assert refused["body"]["code"] == "attach_denied"


# --- manifests ---


def test_apps_that_cannot_be_registered_are_reported_and_the_rest_start() -> None:
    pattern = {"type": "object", "properties": {"text": {"type": "string", "pattern": "x"}}}
    with short_folder() as folder:
        apps = folder / "apps"
        write_app(apps / "a-first", "first")
        write_app(apps / "b-twin", "first")
        write_app(apps / "c-keyword", "keyword", tools=[a_tool("keyword.go", "keyword", input_schema=pattern)])
        write_app(apps / "d-foreign", "foreign", tools=[a_tool("first.steal", "foreign")])
        write_app(apps / "e-target", "target", tools=[a_tool("target.go", "first")])
        write_app(apps / "f-torn", "torn")
        (apps / "f-torn" / "manifest.json").write_text("{")
        broken = ["b-twin", "c-keyword", "d-foreign", "e-target", "f-torn"]
        with Daemon(folder / "s", apps=(apps,)) as daemon, Agent(daemon.state) as agent:
            daemon.start()
            done = agent.final(agent.invoke("first.go", "still here"))

            scopes = {row["app_scope"] for row in agent.inventory["apps"]}
            noted = [(row["subject"]["who"], row["detail"]["code"]) for row in daemon.audit("app.refused")]
            assert scopes & {"first", "keyword", "foreign", "target", "torn"} == {"first"}
            assert {one["id"] for one in agent.inventory["tools"] if one["app_scope"] == "first"} == {"first.go"}
            assert done["result"] == {"text": "still here"}
            assert sorted(noted) == [(name, "manifest_invalid") for name in broken]
            said = [line for line in daemon.said().splitlines() if "an app was left out" in line]
            assert [name for name in broken if any(name in line for line in said)] == broken
            assert any("/tools/0/input_schema/properties/text/pattern" in line for line in said)
