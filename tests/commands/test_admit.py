"""An invocation becomes a call, or leaves an audit entry and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from runtime_actors.commands import apps, calls
from runtime_actors.commands.follow_ups import Deliver, InstanceWanted
from runtime_actors.config import Bounds
from runtime_actors.contract import codec
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.tools import CallStatus
from runtime_actors.rules.instances import InstanceState
from runtime_actors.rules.inventory import Catalogue
from tests.fakes import (
    AGENT,
    NOTES,
    TALK,
    a_key,
    a_manifest,
    a_result,
    a_tool,
    acknowledged,
    admitted,
    an_app,
    an_invoke,
    assert_refused,
    attached,
    by,
    running,
    some_records,
    some_settings,
)

if TYPE_CHECKING:
    from tests.fakes import Records

STALE: Final = Rejection(code=RejectionCode.INVENTORY_REVISION_MISMATCH, detail="the inventory is at r7")


def test_an_admitted_call_waits_for_its_app_with_one_message_and_an_instance(records: Records) -> None:
    outcome = records.run(calls.admit, an_invoke(given={"text": "hello"}))

    call = records.call()
    assert isinstance(outcome, calls.CallAnswer)
    assert (outcome.repeated, outcome.call.status) == (False, CallStatus.WAITING_FOR_APP)
    assert (call.status, call.input, call.deadline_boot_s) == (
        CallStatus.WAITING_FOR_APP, codec.encode({"text": "hello"}), 1060.0,
    )  # fmt: skip
    assert records.instance(call.instance_id).state is InstanceState.STARTING
    assert [(row.kind, row.call_id, row.repeated) for row in records.inbox()] == [("tool.call", "c1", False)]
    assert [one.instance_id for one in records.told(InstanceWanted)] == [call.instance_id]
    assert [one.message.call and one.message.call.call_id for one in records.told(Deliver)] == ["c1"]


def test_the_audit_log_names_the_statuses_passed_and_the_digest_but_not_the_input(records: Records) -> None:
    invoke = an_invoke(given={"text": "a secret"})

    outcome = records.run(calls.admit, invoke)

    entry = records.audit()[-1]
    assert (entry.event, entry.digest) == ("call.admitted", invoke.digest)
    assert entry.detail == {"path": ["received", "routing", "waiting_for_app"], "tool_id": "notes.write"}
    assert b"a secret" not in b"".join(one.canonical() for one in records.audit())
    assert isinstance(outcome, calls.CallAnswer)
    assert outcome.audit is not None
    assert (outcome.audit.audit_seq, outcome.audit.head_hash) == (records.chain.seq, records.chain.head.hex())


def test_the_first_call_opens_the_conversation_and_the_next_one_uses_its_instance(records: Records) -> None:
    first, second = admitted(records, call_id="c1"), admitted(records, call_id="c2")

    assert records.events().count("conversation.opened") == 1
    assert first.instance_id == second.instance_id
    assert records.told(InstanceWanted) == []
    assert [row.call_id for row in records.inbox()] == ["c1", "c2"]


def test_the_same_call_id_in_another_conversation_or_of_another_agent_is_another_call(records: Records) -> None:
    one = admitted(records)
    other = admitted(records, conversation_id="talk-2")
    third = admitted(records, conversation_id="talk-3", agent_id="other")

    assert len({one.instance_id, other.instance_id, third.instance_id}) == 3


# --- repeated ---


@pytest.mark.parametrize("verdict", [None, STALE], ids=["current", "stale by now"])
def test_a_repeated_invocation_is_answered_with_the_present_state_and_changes_nothing(
    records: Records, verdict: Rejection | None
) -> None:
    running(records)
    before, entries = records.everything(), records.events()

    outcome = records.run(calls.admit, an_invoke(verdict=verdict))

    assert isinstance(outcome, calls.CallAnswer)
    assert (outcome.repeated, outcome.call.status) == (True, CallStatus.RUNNING)
    assert (records.everything(), records.events(), records.follow_ups) == (before, entries, [])


def test_a_repeated_invocation_of_an_ended_call_is_answered_with_its_result(records: Records) -> None:
    records.run(calls.finish, a_result(by(running(records))))

    outcome = records.run(calls.admit, an_invoke())

    assert isinstance(outcome, calls.CallAnswer)
    assert (outcome.call.status, outcome.call.result) == (CallStatus.COMPLETED, {"ok": True})


@pytest.mark.parametrize(
    "other",
    [
        {"given": {"text": "other"}},
        {"inventory_revision": "r7"},
        {"tool_id": "notes.once"},
    ],
    ids=["input", "revision", "tool"],
)
def test_a_known_call_id_with_another_body_is_a_conflict(records: Records, other: dict[str, Any]) -> None:
    admitted(records)

    assert_refused(records, calls.admit, an_invoke(**other), "call_id_conflict", "call.refused")


def test_a_switched_off_tool_does_not_hide_a_known_call(records: Records) -> None:
    admitted(records)
    records.run(apps.switch, apps.SwitchTo("tool", "notes.write", enabled=False))

    outcome = records.run(calls.admit, an_invoke())

    assert isinstance(outcome, calls.CallAnswer)
    assert outcome.call.error_code == "app_disabled"


# --- refused ---


def test_a_verdict_is_passed_on(records: Records) -> None:
    assert_refused(records, calls.admit, an_invoke(verdict=STALE), "inventory_revision_mismatch", "call.refused")


def test_a_refused_call_id_stays_free(records: Records) -> None:
    records.run(calls.admit, an_invoke(verdict=STALE))

    assert admitted(records, given={"text": "other"}).status is CallStatus.WAITING_FOR_APP


@pytest.mark.parametrize(("kind", "name"), [("app", "notes"), ("tool", "notes.write")])
def test_what_was_switched_off_after_the_verdict_is_refused(records: Records, kind: Any, name: str) -> None:  # noqa: ANN401
    records.run(apps.switch, apps.SwitchTo(kind, name, enabled=False))

    assert_refused(records, calls.admit, an_invoke(), "app_disabled", "call.refused")


def test_another_agents_conversation_is_denied(records: Records) -> None:
    admitted(records)

    assert_refused(records, calls.admit, an_invoke(agent_id="other"), "conversation_denied", "call.refused")


def test_a_tool_whose_permission_is_not_granted_is_denied(records: Records) -> None:
    assert_refused(records, calls.admit, an_invoke("guarded.read"), "capability_denied", "call.refused")


def test_an_app_that_needs_a_surface_has_no_host_here(records: Records) -> None:
    assert_refused(records, calls.admit, an_invoke("screen.draw"), "host_unsupported", "call.refused")


def test_an_operation_needs_an_open_instance_of_this_conversation(records: Records) -> None:
    admitted(records, "board.open", conversation_id="talk-2")

    assert_refused(records, calls.admit, an_invoke("board.update"), "app_instance_not_found", "call.refused")


def test_an_operation_uses_the_open_instance_and_leaves_the_focus(records: Records) -> None:
    opened = admitted(records, "board.open", "c1")
    shown = admitted(records, "notes.write", "c2")
    stack = records.stack()

    call = admitted(records, "board.update", "c3")

    assert (call.instance_id, records.stack()) == (opened.instance_id, stack)
    assert shown.instance_id != opened.instance_id


@pytest.mark.parametrize(
    ("bounds", "refused_call"),
    [
        (Bounds(open_calls_per_instance=1), {}),
        (Bounds(open_calls=1), {"tool_id": "board.open"}),
        (Bounds(open_calls=1), {"conversation_id": "talk-2"}),
    ],
    ids=["of the instance", "of another app", "of another conversation"],
)
def test_too_many_open_calls_are_refused_until_one_ends(bounds: Bounds, refused_call: dict[str, Any]) -> None:
    records = some_records(some_settings(bounds=bounds))
    first = running(records)
    invoke = an_invoke(**({"call_id": "c2"} | refused_call))

    assert_refused(records, calls.admit, invoke, "busy", "call.refused")

    records.run(calls.finish, a_result(by(first)))
    assert isinstance(records.run(calls.admit, invoke), calls.CallAnswer)


def test_too_many_unacknowledged_deliveries_of_the_agent_are_refused(records: Records) -> None:
    records.settings = some_settings(bounds=Bounds(outbox_deliveries=1))
    records.run(calls.finish, a_result(by(running(records))))

    assert_refused(records, calls.admit, an_invoke(call_id="c2"), "busy", "call.refused")
    assert admitted(records, call_id="c2", agent_id="other", conversation_id="talk-2").status == "waiting_for_app"


# Each is refused for its own reason and for that of every later one.
LADDER: Final = (
    "call_id_conflict", "inventory_revision_mismatch", "app_disabled", "conversation_denied", "capability_denied",
    "host_unsupported", "app_instance_not_found", "busy",
)  # fmt: skip


@pytest.mark.parametrize("first", range(len(LADDER)), ids=LADDER)
def test_the_first_rung_that_fails_answers(first: int) -> None:
    failing = set(LADDER[first:])
    manifest_changes: dict[str, Any] = {
        "requested_capabilities": ["files.read"],
        "host": {"min_version": "0.1.0", "surface_required": "host_unsupported" in failing},
    }
    records = some_records(some_settings(ladder_catalogue(manifest_changes, denied="capability_denied" in failing)))
    if "conversation_denied" in failing:
        admitted(records, "notes.write", "c0", agent_id="other")
    if "call_id_conflict" in failing:
        admitted(records, "notes.write", conversation_id="mine")
    if "app_disabled" in failing:
        records.run(apps.switch, apps.SwitchTo("app", "ladder", enabled=False))
    if "app_instance_not_found" not in failing:
        admitted(records, "ladder.launch", "c9")
    records.settings = replace(records.settings, bounds=Bounds(open_calls=0, open_calls_per_instance=0))
    conversation = "mine" if "call_id_conflict" in failing else TALK
    verdict = STALE if "inventory_revision_mismatch" in failing else None
    invoke = an_invoke("ladder.operate", conversation_id=conversation, verdict=verdict)

    assert_refused(records, calls.admit, invoke, LADDER[first], "call.refused")


def ladder_catalogue(changes: dict[str, Any], *, denied: bool) -> Catalogue:
    operate = a_tool("ladder.operate", handling="operation", permissions=["files.read"] if denied else [])
    launch = a_tool("ladder.launch", handling="launch")
    return Catalogue.of([an_app(NOTES), an_app(a_manifest("ladder", operate, launch, **changes))])


def test_a_flood_of_refusals_is_counted_and_not_written_one_by_one(records: Records) -> None:
    for _ in range(50):
        records.run(calls.admit, an_invoke(verdict=STALE))

    assert records.events().count("call.refused") == 20


# --- what an agent may read ---


def test_reading_a_call_answers_its_state_and_changes_nothing(records: Records) -> None:
    admitted(records)
    before, entries = records.everything(), records.events()

    outcome = records.run(calls.read_call, a_key())

    assert isinstance(outcome, calls.CallAnswer)
    assert (outcome.call.status, outcome.audit) == (CallStatus.WAITING_FOR_APP, None)
    assert (records.everything(), records.events()) == (before, entries)


@pytest.mark.parametrize("rule", ["read", "cancel"])
def test_an_unknown_call_is_not_found_and_another_agents_conversation_is_denied(records: Records, rule: str) -> None:
    admitted(records)
    for key, code in (
        (a_key("c9"), "call_not_found"),
        (a_key("c1", conversation_id="talk-9"), "call_not_found"),
        (a_key("c1", agent_id="other"), "conversation_denied"),
    ):
        if rule == "read":
            assert_refused(records, calls.read_call, key, code, "call.refused")
        else:
            assert_refused(records, calls.request_cancel, calls.CancelWish(key, None), code, "call.refused")


def test_a_message_that_was_acknowledged_is_not_put_back_by_a_repeated_invocation(records: Records) -> None:
    call = admitted(records)
    attached(records, call.instance_id)
    acknowledged(records, call)

    records.run(calls.admit, an_invoke())

    assert records.inbox() == []
    assert records.call().agent_id == AGENT
