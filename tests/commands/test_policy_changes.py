"""A new policy is audited with its digest, and agents are told only if they see something else."""

from __future__ import annotations

from dataclasses import replace

from runtime_actors.commands.follow_ups import InventoryChanged
from runtime_actors.commands.policy_changes import PolicyInForce, note_policy
from runtime_actors.rules.policy import NO_RULES, Policy
from tests.fakes import Records, some_records, some_settings
from tests.permission_fakes import WITH_DRAWING, records_with, ruled


def reloaded(records: Records, policy: Policy) -> PolicyInForce:
    """As the store does it: the settings first."""
    before = records.settings.policy
    records.settings = replace(records.settings, policy=policy)
    return records.run(note_policy, before)


def test_a_policy_that_hides_something_changes_the_inventory_and_agents_are_told() -> None:
    records = some_records(some_settings(WITH_DRAWING))
    revision = records.revision()

    outcome = reloaded(records, ruled('app = "drawing", decision = "deny"'))

    (told,) = records.told(InventoryChanged)
    assert outcome.revision == told.inventory.revision == records.revision() != revision
    assert {app.app_scope for app in told.inventory.wire.apps} == {"board", "notes"}


def test_a_policy_that_hides_nothing_changes_no_inventory() -> None:
    records = some_records(some_settings(WITH_DRAWING))
    revision = records.revision()

    outcome = reloaded(records, ruled('agent = "guest", decision = "deny"', 'capability = "notify", decision = "ask"'))

    assert outcome.revision == revision
    assert records.told(InventoryChanged) == []


def test_each_reload_is_audited_with_the_digest_of_the_file() -> None:
    records = some_records()
    policy = ruled('decision = "ask"')

    reloaded(records, policy)
    reloaded(records, policy)

    entries = [entry for entry in records.audit() if entry.event == "policy.loaded"]
    assert [(entry.digest.hex(), entry.detail) for entry in entries] == [(policy.digest, {"rules": 1})] * 2


def test_a_start_audits_a_policy_that_is_another_than_the_last_one_and_no_other() -> None:
    records = records_with('decision = "ask"')

    for _ in range(2):
        records.run(note_policy, None)
    records.settings = replace(records.settings, policy=NO_RULES)
    for _ in range(2):
        records.run(note_policy, None)

    assert [entry.detail["rules"] for entry in records.audit() if entry.event == "policy.loaded"] == [1, 0]


def test_a_start_without_a_policy_leaves_no_word() -> None:
    records = some_records()

    records.run(note_policy, None)

    assert "policy.loaded" not in records.events()
