"""What an app asks for beyond its own process: never by itself, once or always, and taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime_actors.commands import capabilities, inbox, instances, interactions
from runtime_actors.commands.asker import Asker
from runtime_actors.commands.views import View, view_grants
from runtime_actors.config import Bounds
from runtime_actors.contract.capabilities import CapabilityDecision, CapabilityReceipt, CapabilityRequest
from runtime_actors.contract.interactions import UiCancel
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.rules.grants import GrantStatus
from tests.fakes import Records, assert_refused, attached, process_ended, refused
from tests.permission_fakes import (
    all_grants,
    an_instance,
    grant_events,
    granted,
    questions,
    records_with,
    said,
    use_policy,
    wished,
)

ASK = 'capability = "notify", decision = "ask"'
ASK_ALWAYS = 'capability = "notify", decision = "ask", for = "always"'


def decisions(records: Records) -> list[CapabilityDecision]:
    """What the app's inbox holds about capabilities."""
    read = records.run(inbox.read_inbox, inbox.InboxPageOf("ins-1", frozenset(), 0, 100))
    assert isinstance(read, inbox.InboxRead), read
    return [message.capability for message in read.messages if message.capability is not None]


def waiting(*rules: str) -> Records:
    """The app asked for `notify`, and a person is being asked."""
    records = records_with(*(rules or (ASK,)))
    an_instance(records)
    assert granted(wished(records)).decision == "asking"
    return records


@pytest.mark.parametrize("code", list(RejectionCode))
def test_only_what_policy_or_a_person_said_is_a_denial(code: RejectionCode) -> None:
    receipt = capabilities.denied(Asker("ins-1", "att-1", "q1"), Rejection(code=code, detail="why"))

    assert (receipt.accepted, receipt.code, receipt.detail) == (False, code, "why")
    assert receipt.decision == ("denied" if code in {"capability_denied", "permission_declined"} else None)


# --- without a person ---


@pytest.mark.parametrize("capability", ["clipboard", "network.http"])
def test_what_is_on_the_closed_list_is_never_granted_whatever_policy_says(capability: str) -> None:
    records = records_with('decision = "allow"')
    an_instance(records)

    assert refused(wished(records, capability)) == RejectionCode.CAPABILITY_DENIED


def test_what_the_manifest_does_not_declare_is_denied_whatever_policy_says() -> None:
    records = records_with('decision = "allow"')
    an_instance(records)

    assert refused(wished(records, "files.pick")) == RejectionCode.CAPABILITY_DENIED


def test_without_a_rule_a_capability_is_denied_and_nothing_but_the_audit_entry_is_left() -> None:
    records = records_with()
    an_instance(records)
    wish = CapabilityRequest(capability="notify", reason="why not")

    assert_refused(
        records,
        capabilities.request_capability,
        capabilities.CapabilityWish(Asker("ins-1", "att-1", "q1"), wish),
        "capability_denied",
        "capability.refused",
    )


def test_a_rule_that_allows_grants_at_once_and_every_time() -> None:
    records = records_with('app = "drawing", capability = "notify", decision = "allow"')
    an_instance(records)

    receipts = [granted(wished(records, request_id=f"q{number}")) for number in range(3)]

    assert [(receipt.decision, receipt.grant_id) for receipt in receipts] == [("granted", None)] * 3
    assert questions(records) == []
    assert all_grants(records) == []
    assert records.events().count("capability.allowed") == 3


def test_a_rule_of_another_agents_conversation_does_not_count() -> None:
    records = records_with('agent = "other", capability = "notify", decision = "allow"')
    an_instance(records)

    assert refused(wished(records)) == RejectionCode.CAPABILITY_DENIED


def test_an_instance_that_is_closing_is_granted_nothing() -> None:
    records = records_with('decision = "allow"')
    instance = records.instance(an_instance(records))
    records.run(lambda tx, _: instances.close_instance(tx, instance, RejectionCode.APP_CLOSED, "test"), None)

    assert refused(wished(records)) == RejectionCode.APP_INSTANCE_NOT_FOUND


# --- with a person ---


def test_a_question_of_policy_is_a_confirm_of_the_runtime_that_quotes_the_app_in_both_languages() -> None:
    records = waiting()

    (question,) = questions(records)

    assert (question.kind, question.owner.source, question.presentation) == ("confirm", "runtime_policy", "modal")
    assert question.owner.instance_id == "ins-1"
    assert question.request.title == "是否允许“Drawing board”？ / Allow “Drawing board”?"  # noqa: RUF001 - Chinese
    assert question.request.prompt == (  # type: ignore[union-attr]
        "需要能力 notify（仅此一次）。 / The capability notify is needed (for this once).\n"  # noqa: RUF001 - Chinese
        "应用给出的理由 / The app's own words: “so that you hear of it”"
    )
    assert grant_events(records) == ["grant.asked"]


def test_a_yes_for_once_reaches_the_inbox_and_serves_exactly_one_request() -> None:
    records = waiting()
    grant_id = all_grants(records)[0].grant_id

    said(records, approved=True)

    assert decisions(records) == [CapabilityDecision(capability="notify", decision="granted", grant_id=grant_id)]
    used = granted(wished(records, request_id="q2"))
    assert (used.decision, used.grant_id) == ("granted", grant_id)
    assert granted(wished(records, request_id="q3")).decision == "asking"
    assert grant_events(records) == ["grant.asked", "grant.given", "grant.used", "grant.asked"]


def test_a_yes_for_good_serves_every_request_until_it_is_revoked() -> None:
    records = waiting(ASK_ALWAYS)
    said(records, approved=True)
    served = [granted(wished(records, request_id=f"s{number}")).decision for number in range(3)]

    revoked = records.run(capabilities.revoke_grant, all_grants(records)[0].grant_id)

    assert served == ["granted"] * 3
    assert isinstance(revoked, capabilities.Revoked)
    assert (revoked.status, revoked.changed) == ("revoked", True)
    assert granted(wished(records, request_id="q9")).decision == "asking"


def test_a_yes_is_good_for_its_conversation_and_its_app_alone() -> None:
    records = waiting(ASK_ALWAYS)
    said(records, approved=True)
    other = an_instance(records, call_id="c9", conversation_id="elsewhere")

    assert granted(wished(records, instance_id=other, request_id="q9")).decision == "asking"


def test_a_yes_that_has_an_expiry_ends_by_wall_time() -> None:
    records = waiting('capability = "notify", decision = "ask", for = "always", expires_s = 3600')
    said(records, approved=True)
    records.clock.move(3599)
    in_time = granted(wished(records, request_id="q2")).decision
    records.clock.move(1)

    too_late = granted(wished(records, request_id="q3")).decision

    assert (in_time, too_late) == ("granted", "asking")
    assert "grant.expired" in grant_events(records)
    assert all_grants(records)[0].status is GrantStatus.EXPIRED


def test_a_no_is_remembered_for_a_minute_and_no_longer() -> None:
    records = waiting()
    said(records, approved=False)
    assert [one.decision for one in decisions(records)] == ["denied"]
    at_once = wished(records, request_id="q2")
    records.clock.move(59.9)
    late = wished(records, request_id="q3")
    records.clock.move(0.1)

    after = wished(records, request_id="q4")

    assert (refused(at_once), refused(late)) == ("permission_declined", "permission_declined")
    assert granted(after).decision == "asking"


def test_a_question_that_is_dismissed_is_a_no() -> None:
    records = waiting()

    records.run(interactions.dismiss, interactions.Dismiss(questions(records)[0].interaction_id, "screen"))

    assert [one.decision for one in decisions(records)] == ["denied"]
    assert refused(wished(records, request_id="q2")) == "permission_declined"


def test_a_question_that_nobody_answers_is_no_no_that_is_remembered() -> None:
    records = waiting()
    records.clock.move(600)

    records.run(interactions.expire_interactions, None)

    assert [one.decision for one in decisions(records)] == ["denied"]
    assert granted(wished(records, request_id="q2")).decision == "asking"


def test_a_second_request_joins_the_open_question_and_both_hear_the_one_answer() -> None:
    records = waiting()

    second = granted(wished(records, request_id="q2"))

    assert (second.decision, second.grant_id) == ("asking", all_grants(records)[0].grant_id)
    assert len(questions(records)) == 1


def test_a_repeated_request_is_answered_as_before_and_uses_up_nothing() -> None:
    records = waiting()
    said(records, approved=True)
    first = wished(records, request_id="q2")

    again = wished(records, request_id="q2")

    assert again == first
    assert isinstance(again, CapabilityReceipt)
    assert [one.status for one in all_grants(records)] == [GrantStatus.USED]


def test_a_yes_to_what_policy_denies_by_then_gives_nothing() -> None:
    records = waiting()
    use_policy(records, 'capability = "notify", decision = "deny"')

    said(records, approved=True)

    assert [one.decision for one in decisions(records)] == ["denied"]
    use_policy(records, ASK)
    assert granted(wished(records, request_id="q2")).decision == "asking"


def test_a_grant_is_good_only_while_policy_asks() -> None:
    records = waiting(ASK_ALWAYS)
    said(records, approved=True)

    use_policy(records, 'capability = "notify", decision = "deny"')

    assert refused(wished(records, request_id="q2")) == RejectionCode.CAPABILITY_DENIED


def test_the_end_of_the_instance_ends_its_question_and_nothing_is_granted() -> None:
    records = waiting()
    instance = records.instance("ins-1")

    records.run(lambda tx, _: instances.close_instance(tx, instance, RejectionCode.APP_CLOSED, "test"), None)

    assert questions(records) == []
    assert [one.status for one in all_grants(records)] == [GrantStatus.DENIED]
    assert records.inbox("drawing") == []


def test_the_death_of_the_process_ends_no_question_and_the_next_one_is_told() -> None:
    records = waiting()
    process_ended(records, "att-1")
    said(records, approved=True)

    attached(records, "ins-1")

    assert [one.decision for one in decisions(records)] == ["granted"]


def test_the_app_can_neither_read_nor_cancel_a_question_of_policy() -> None:
    records = waiting()
    (question,) = questions(records)
    by = Asker("ins-1", "att-1", "q7")

    read = records.run(interactions.read_own, interactions.OwnOne(by, question.interaction_id))
    cancel = interactions.CancelOwn(by, UiCancel(interaction_id=question.interaction_id))

    assert read.record is None
    assert refused(records.run(interactions.cancel_interaction, cancel)) == RejectionCode.INTERACTION_NOT_FOUND
    assert records.run(interactions.list_own, interactions.OwnList(by, None)).records == ()
    assert len(questions(records)) == 1


def test_when_too_many_questions_are_open_a_request_is_busy() -> None:
    records = records_with(ASK)
    an_instance(records)
    records.settings = replace(records.settings, bounds=Bounds(interactions=0))

    assert refused(wished(records)) == RejectionCode.BUSY
    assert all_grants(records) == []


# --- the operator ---


def test_a_grant_that_is_not_there_or_still_asked_for_cannot_be_revoked() -> None:
    records = waiting()

    unknown = records.run(capabilities.revoke_grant, "gra-9")
    asked = records.run(capabilities.revoke_grant, all_grants(records)[0].grant_id)

    assert (refused(unknown), refused(asked)) == ("not_found", "busy")


def test_revoking_twice_is_told_and_changes_nothing() -> None:
    records = waiting(ASK_ALWAYS)
    said(records, approved=True)
    grant_id = all_grants(records)[0].grant_id
    records.run(capabilities.revoke_grant, grant_id)
    before = records.everything()

    again = records.run(capabilities.revoke_grant, grant_id)

    assert again == capabilities.Revoked(grant_id, "revoked", changed=False)
    assert records.everything() == before


def test_the_listing_shows_what_is_in_force_and_with_all_what_is_over() -> None:
    records = waiting('capability = "notify", decision = "ask", for = "always", expires_s = 60')
    said(records, approved=True)
    in_force = view_grants(records.transaction(), View({}, None, 10)).rows
    records.clock.move(60)

    over = view_grants(records.transaction(), View({"all": True}, None, 10)).rows

    assert [(row["capability"], row["status"], row["reason"]) for row in in_force] == [
        ("notify", "granted", "so that you hear of it")
    ]
    assert [row["status"] for row in over] == ["expired"]
