"""Texts of agents for an app's inbox."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from runtime_actors.commands import apps, calls, inbox
from runtime_actors.commands.follow_ups import Deliver
from runtime_actors.config import Bounds
from runtime_actors.contract.inbox import AgentText
from tests.fakes import admitted, assert_refused, attached, running, some_settings

if TYPE_CHECKING:
    from runtime_actors.contract.inbox import MiniAppMessage
    from tests.fakes import Records

HELLO: Final = inbox.PutText("local", "talk", "t1", "notes", "hello", {"n": 1}, b"one")


def page_of(
    records: Records, *, in_flight: frozenset[int] = frozenset(), after: int = 0, most: int = 10
) -> inbox.InboxRead:
    page = records.run(inbox.read_inbox, inbox.InboxPageOf("ins-1", in_flight, after, most))
    assert isinstance(page, inbox.InboxRead)
    return page


def numbers(messages: tuple[MiniAppMessage, ...]) -> list[int]:
    return [one.number for one in messages]


def test_a_text_waits_for_the_scopes_next_instance(records: Records) -> None:
    outcome = records.run(inbox.put_text, HELLO)

    assert isinstance(outcome, inbox.TextReceived)
    assert (outcome.repeated, outcome.audit.audit_seq) == (False, records.chain.seq)
    assert records.follow_ups == []
    call = admitted(records)
    attached(records, call.instance_id)
    messages = page_of(records).messages
    assert [(one.message_id, one.kind, one.repeated) for one in messages] == [
        ("m1", "message", False), ("m2", "tool.call", False),
    ]  # fmt: skip
    assert messages[0].message == AgentText(text="hello", data={"n": 1})


def test_a_text_for_a_live_instance_is_delivered(records: Records) -> None:
    running(records)

    records.run(inbox.put_text, HELLO)

    (told,) = records.told(Deliver)
    assert (told.instance_id, told.message.number, told.message.message) == (
        "ins-1", 2, AgentText(text="hello", data={"n": 1}),
    )  # fmt: skip


def test_the_log_holds_the_digest_of_a_text_and_not_its_words(records: Records) -> None:
    records.run(inbox.put_text, replace(HELLO, text="a secret"))

    assert records.audit()[-1].digest == b"one"
    assert b"a secret" not in b"".join(one.canonical() for one in records.audit())


def test_a_repeated_text_is_taken_once(records: Records) -> None:
    records.run(inbox.put_text, HELLO)
    before, entries = records.everything(), records.events()

    again = records.run(inbox.put_text, HELLO)

    assert isinstance(again, inbox.TextReceived)
    assert again.repeated
    assert (records.everything(), records.events(), records.follow_ups) == (before, entries, [])


def test_a_repeated_text_is_known_after_it_was_acknowledged(records: Records) -> None:
    records.run(inbox.put_text, HELLO)
    admitted(records)
    attached(records, "ins-1")
    records.run(calls.acknowledge, calls.Acknowledge("ins-1", "att-1", 1))

    records.run(inbox.put_text, HELLO)

    assert [row.kind for row in records.inbox()] == ["tool.call"]


def test_the_same_id_of_another_conversation_is_another_text(records: Records) -> None:
    records.run(inbox.put_text, HELLO)

    other = records.run(inbox.put_text, replace(HELLO, conversation_id="talk-2", digest=b"two"))

    assert isinstance(other, inbox.TextReceived)
    assert not other.repeated


def test_a_text_opens_its_conversation(records: Records) -> None:
    records.run(inbox.put_text, HELLO)

    assert_refused(records, inbox.put_text, replace(HELLO, agent_id="other"), "conversation_denied", "message.refused")


@pytest.mark.parametrize(
    ("put", "code"),
    [
        (replace(HELLO, app_scope="unknown"), "app_scope_mismatch"),
        (replace(HELLO, app_scope="board"), "message_not_subscribed"),
    ],
    ids=["no such app", "not subscribed"],
)
def test_a_text_that_nobody_takes_is_refused(records: Records, put: inbox.PutText, code: str) -> None:
    assert_refused(records, inbox.put_text, put, code, "message.refused")


def test_another_text_under_a_known_id_is_a_conflict(records: Records) -> None:
    records.run(inbox.put_text, HELLO)

    assert_refused(records, inbox.put_text, replace(HELLO, digest=b"two"), "message_id_conflict", "message.refused")


def test_a_text_for_an_app_that_is_off_is_refused(records: Records) -> None:
    records.run(apps.switch, apps.SwitchTo("app", "notes", enabled=False))

    assert_refused(records, inbox.put_text, HELLO, "app_disabled", "message.refused")


def test_a_full_inbox_is_busy_until_a_message_is_acknowledged(records: Records) -> None:
    records.settings = some_settings(bounds=Bounds(inbox_messages=2))
    running(records)
    for number in (1, 2):
        records.run(inbox.put_text, replace(HELLO, message_id=f"t{number}"))
    third = replace(HELLO, message_id="t3")

    assert_refused(records, inbox.put_text, third, "busy", "message.refused")

    records.run(calls.acknowledge, calls.Acknowledge("ins-1", "att-1", 2))
    assert isinstance(records.run(inbox.put_text, third), inbox.TextReceived)


# --- reading an inbox ---


def test_a_page_leaves_out_what_is_in_flight_and_says_what_is_settled(records: Records) -> None:
    running(records)
    for number in (1, 2, 3):
        records.run(inbox.put_text, replace(HELLO, message_id=f"t{number}"))

    page = page_of(records, in_flight=frozenset({1, 2}))

    assert (numbers(page.messages), page.still, page.through, page.complete) == ([3, 4], frozenset({2}), 4, True)


def test_a_page_that_is_not_all_takes_nothing_in_flight_for_settled(records: Records) -> None:
    running(records)
    for number in range(1, 6):
        records.run(inbox.put_text, replace(HELLO, message_id=f"t{number}"))

    page = page_of(records, in_flight=frozenset({6}), most=2)

    assert (numbers(page.messages), page.still, page.complete) == ([2, 3, 4], frozenset({6}), False)
    assert numbers(page_of(records, after=4, most=2).messages) == [5, 6]


def test_a_record_that_cannot_be_read_does_not_hold_up_those_behind_it(records: Records) -> None:
    running(records)
    for number in (1, 2):
        records.run(inbox.put_text, replace(HELLO, message_id=f"t{number}"))
    records.sql.execute("update inbox set body = x'c1' where number = 2")

    page = page_of(records)

    assert numbers(page.messages) == [3]
    assert records.events()[-1] == "record.unreadable"
