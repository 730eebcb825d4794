"""Builders for what a person has to permit: a policy from its text, an app that declares capabilities, an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from runtime_actors.commands import capabilities, interactions
from runtime_actors.commands.asker import Asker
from runtime_actors.contract.capabilities import CapabilityReceipt, CapabilityRequest
from runtime_actors.contract.host import HostAnswer
from runtime_actors.contract.interactions import InteractionRecord
from runtime_actors.contract.rejection import Rejection
from runtime_actors.records import grants
from runtime_actors.records import interactions as question_rows
from runtime_actors.rules.grants import GrantRecord
from runtime_actors.rules.inventory import Catalogue
from runtime_actors.rules.policy import Policy
from runtime_actors.rules.policy_text import parse
from tests.fakes import (
    BOARD,
    NOTES,
    Records,
    a_manifest,
    a_tool,
    an_app,
    running,
    some_records,
    some_settings,
)

DRAWING: Final = a_manifest(
    "drawing",
    a_tool("drawing.open"),
    a_tool("drawing.send", permissions=["notify", "print"]),
    requested_capabilities=["notify", "print", "clipboard", "network.http"],
    extensions={"title": "Drawing board"},
)
WITH_DRAWING: Final = Catalogue.of(an_app(one) for one in (BOARD, NOTES, DRAWING))


def a_policy(text: str) -> Policy:
    found = parse(text.encode())
    assert isinstance(found, Policy), found
    return found


def ruled(*rules: str) -> Policy:
    """Each rule is its fields, as `app = "notes", decision = "deny"`."""
    return a_policy("\n".join("[[rule]]\n" + "\n".join(rule.split(", ")) for rule in rules))


def records_with(*rules: str) -> Records:
    """A store in memory with the drawing app and these rules."""
    return some_records(replace(some_settings(WITH_DRAWING), policy=ruled(*rules)))


def use_policy(records: Records, *rules: str) -> None:
    records.settings = replace(records.settings, policy=ruled(*rules))


def an_instance(records: Records, **changes: Any) -> str:  # noqa: ANN401
    """A drawing app with a process; its instance id is returned. The call that made it is `c0`."""
    call = running(records, "drawing.open", changes.pop("call_id", "c0"), **changes)
    assert call.instance_id is not None
    return call.instance_id


def wished(
    records: Records, capability: str = "notify", request_id: str = "q1", instance_id: str = "ins-1"
) -> CapabilityReceipt | Rejection:
    """An app asks for a capability."""
    wish = CapabilityRequest(capability=capability, reason="so that you hear of it")
    by = Asker(instance_id, "att-1", request_id)
    return records.run(capabilities.request_capability, capabilities.CapabilityWish(by, wish))


def granted(outcome: CapabilityReceipt | Rejection) -> CapabilityReceipt:
    """A receipt, or the test is wrong."""
    assert isinstance(outcome, CapabilityReceipt), outcome
    return outcome


def questions(records: Records) -> list[InteractionRecord]:
    """Questions of policy that are open, the oldest first."""
    found = [question_rows.record(row) for row in question_rows.every_open(records.transaction())]
    return [one for one in found if one.owner.source == "runtime_policy"]


def said(records: Records, *, approved: bool, at: int = 0) -> None:
    """A person answers an open question of policy."""
    given = HostAnswer(interaction_id=questions(records)[at].interaction_id, approved=approved)
    outcome = records.run(interactions.answer, interactions.Answer(given.interaction_id, given, "screen"))
    assert not isinstance(outcome, Rejection), outcome


def all_grants(records: Records) -> list[GrantRecord]:
    return [grant for _, grant in grants.page(records.transaction(), 0, 1000, ended_too=True)]


def grant_events(records: Records) -> list[str]:
    """What the audit log says about grants."""
    return [event for event in records.events() if event.startswith("grant.")]
