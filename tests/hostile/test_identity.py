"""A hostile MiniApp that pretends to be others, on a channel that says who it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hostile.arena import Arena

pytestmark = pytest.mark.timeout(120)

CLAIMS: dict[str, Any] = {"namespaces": ["mnt", "net"], "landlock_abi": 99, "canaries": {"landlock": True}}
TOKEN = "0" * 64
DIGEST = "f" * 64
HELLO = {"sdk_version": "1", "ready": True}
RESUME = {"session": 1, "snapshot_digest": DIGEST, "last_number": 0, "ready": True}
ENDS = {
    "a second hello": ("hello", HELLO, "session_stale"),
    "a hello of another": ("hello", HELLO | {"attempt_id": "att-other"}, "attach_denied"),
    "a hello with a secret that it made up": ("hello", HELLO | {"token": TOKEN}, "attach_denied"),
    "a resume that nobody awaits": ("resume", RESUME, "session_stale"),
    "a resume with wrong numbers": ("resume", RESUME | {"session": 99, "last_number": 2**40}, "session_stale"),
    "a resume of another": ("resume", RESUME | {"attempt_id": "att-other"}, "session_stale"),
}
FILLED_IN = {"hello": ("attempt_id", "token", "sdkCapabilities"), "resume": ("attempt_id", "sdkCapabilities")}
REFUSED = {
    "that it is confined better": ("confined", CLAIMS),
    "that it is ready again": ("ready", {}),
    "that it may go": ("go", {}),
    "a welcome": ("welcome", {"session": 1}),
    "a reset": ("reset", {"attempt_id": "att-other", "session": 1, "snapshot_digest": DIGEST}),
    "a stop": ("stop", {"reason": "hostile", "grace_ms": 0}),
    "a hello without a secret": ("hello", HELLO | {"attempt_id": "att-other"}),
    "a beat of no number": ("pong", {"beat": -1}),
}


def test_it_answers_and_acknowledges_for_nobody_else(arena: Arena) -> None:
    held = arena.hold("victim")
    arena.agent.say("keep", conversation="victim")
    task = arena.open_task()
    before, texts = arena.agent.get(held)[1]["call"], texts_of_victim(arena)
    given = {"calls": [held[1], task[1], "never-was"], "messages": ["m99", "m1000000"]}

    ended = arena.attack("identity.meddle", given)

    found = arena.reached(ended)
    assert {found.pop(f"get {call_id}") for call_id in given["calls"]} == {"nothing"}
    assert {found.pop(f"acknowledge {message}") for message in given["messages"]} == {"message_not_found"}
    assert set(found.values()) == {"call_not_found"}
    assert arena.agent.get(held)[1]["call"] == before
    assert texts_of_victim(arena) == texts != []
    assert task not in arena.other.finals
    arena.release(held)


def test_it_can_name_nobody_else_in_a_frame(arena: Arena) -> None:
    held = arena.hold("named")
    other = arena.agent.get(held)[1]["call"]
    others = {name: other[name] for name in ("instance_id", "conversation_id", "app_scope")}
    others |= {"attempt_id": "att-other", "agent_id": "local"}

    ended = arena.attack("identity.forge", {"call_id": held[1], "others": others})

    assert set(arena.reached(ended).values()) <= {"message_invalid", "call_not_found"}
    assert arena.agent.get(held)[1]["call"] == other
    arena.release(held)


def test_the_first_of_two_answers_is_the_answer(arena: Arena) -> None:
    ended = arena.attack("identity.twice")

    assert ended["result"] == {"text": "first"}
    refused = [row for row in arena.daemon.audit("report.refused") if row["subject"].get("call_id") == ended["call_id"]]
    assert {row["detail"]["code"] for row in refused} == {"call_already_final"}


@pytest.mark.parametrize("what", ENDS)
def test_a_word_that_claims_a_session_ends_the_process(arena: Arena, what: str) -> None:
    word, body, reason = ENDS[what]
    given = {"word": word, "body": body, "filled_in": FILLED_IN[word], "goes_on": False}

    ended = arena.attack("identity.says", given)

    assert arena.reached(ended) == {"repeated": True}
    assert arena.ends(arena.instance_of(ended)) == [reason]
    assert {"session.refused"} <= events_about(arena, ended)


@pytest.mark.parametrize("what", REFUSED)
def test_a_word_that_is_not_its_to_say_changes_nothing(arena: Arena, what: str) -> None:
    word, body = REFUSED[what]

    ended = arena.attack("identity.says", {"word": word, "body": body, "filled_in": [], "goes_on": True})

    assert arena.reached(ended) == {"repeated": False}
    assert arena.ends(arena.instance_of(ended)) == []
    assert {"frame.refused"} <= events_about(arena, ended)


def test_a_claim_changes_no_level(arena: Arena) -> None:
    before = arena.levels()

    arena.attack("identity.says", {"word": "confined", "body": CLAIMS, "filled_in": [], "goes_on": True})

    assert arena.levels() <= before


def events_about(arena: Arena, ended: dict[str, Any]) -> set[str]:
    who = arena.instance_of(ended)
    return {row["event"] for row in arena.daemon.audit() if row["subject"].get("who") == who}


def texts_of_victim(arena: Arena) -> list[dict[str, Any]]:
    return [row for row in arena.daemon.listed("inbox") if row["conversation_id"] == "victim"]
