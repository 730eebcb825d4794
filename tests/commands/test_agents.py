"""Agent identities, their deliveries, and what the log keeps of refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from runtime_actors.actor import SetAside
from runtime_actors.commands import agents, calls, upkeep
from runtime_actors.commands.follow_ups import Post
from runtime_actors.contract import codec
from tests.fakes import AGENT, a_key, a_result, admitted, an_invoke, assert_refused, by, running

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction
    from tests.fakes import Records

EVERYTHING: Final = 1000


def ended(records: Records, call_id: str = "c1", **changes: str) -> None:
    records.run(calls.finish, a_result(by(running(records, call_id=call_id, **changes))))


def page(
    records: Records,
    *,
    in_flight: frozenset[int] = frozenset(),
    conversations: frozenset[str] | None = None,
    most: int = EVERYTHING,
    most_bytes: int = 1_000_000,
) -> agents.DeliveryPage:
    of = agents.PageOf(AGENT, in_flight, conversations, most, most_bytes)
    return agents.read_deliveries(records.transaction(), of)


def numbers(found: agents.DeliveryPage) -> list[int]:
    return [one.number for one in found.deliveries]


# --- identities ---


def test_an_agent_is_known_by_its_token(records: Records) -> None:
    records.run(agents.add_agent, agents.NewAgent("writer", b"hash", "k" * 40))

    found = records.run(agents.identify, agents.Credentials("writer", b"hash"))

    assert isinstance(found, agents.Identified)
    assert (found.name, found.last_number) == ("writer", 0)
    assert agents.public_keys(records.transaction()) == {"k" * 40: "writer"}
    assert "agent.added" in records.events()


def test_adding_the_same_agent_again_is_harmless(records: Records) -> None:
    records.run(agents.add_agent, agents.NewAgent("writer", b"hash", None))
    before, entries = records.everything(), records.events()

    assert records.run(agents.add_agent, agents.NewAgent("writer", b"hash", None)) == agents.AgentAdded("writer")
    assert (records.everything(), records.events()) == (before, entries)


def test_an_agent_cannot_be_added_with_another_token(records: Records) -> None:
    records.run(agents.add_agent, agents.NewAgent("writer", b"hash", None))

    assert_refused(
        records, agents.add_agent, agents.NewAgent("writer", b"other", None), "agent_exists", "agent.refused"
    )


def test_an_agent_cannot_be_added_with_another_key_nor_with_the_key_of_another(records: Records) -> None:
    records.run(agents.add_agent, agents.NewAgent("writer", b"hash", "k" * 40))

    for again in (agents.NewAgent("writer", b"hash", "l" * 40), agents.NewAgent("reader", b"hash", "k" * 40)):
        assert_refused(records, agents.add_agent, again, "agent_exists", "agent.refused")


@pytest.mark.parametrize(("name", "token_hash"), [("writer", b"wrong"), ("nobody", b"hash"), ("nobody", None)])
def test_a_wrong_name_or_token_is_denied(records: Records, name: str, token_hash: bytes | None) -> None:
    records.run(agents.add_agent, agents.NewAgent("writer", b"hash", None))

    assert_refused(records, agents.identify, agents.Credentials(name, token_hash), "attach_denied", "agent.refused")


def test_where_the_connection_proves_the_agent_no_token_is_needed(records: Records) -> None:
    assert isinstance(records.run(agents.identify, agents.Credentials(AGENT, None)), agents.Identified)


def test_a_flood_of_made_up_names_is_counted_as_one(records: Records) -> None:
    for number in range(100):
        records.run(agents.identify, agents.Credentials(f"a{number}", b""))

    assert records.events().count("agent.refused") == 20


# --- deliveries ---


def test_numbers_grow_by_one_within_an_agent(records: Records) -> None:
    ended(records, "c1")
    ended(records, "c2", conversation_id="talk-2")
    ended(records, "c1", agent_id="other", conversation_id="talk-3")

    assert [one.number for one in records.outbox()] == [1, 2]
    assert [one.number for one in records.outbox("other")] == [1]


def test_an_acknowledged_delivery_is_gone_and_its_number_is_not_used_again(records: Records) -> None:
    ended(records, "c1")

    records.run(agents.settle_deliveries, agents.Settle(AGENT, (1,)))
    assert records.outbox() == []
    assert records.audit()[-1].detail == {"numbers": [1]}

    ended(records, "c2")
    assert [one.number for one in records.outbox()] == [2]


def test_unknown_numbers_and_those_of_others_are_ignored(records: Records) -> None:
    ended(records, "c1")
    ended(records, "c1", agent_id="other", conversation_id="talk-2")
    before, entries = records.everything(), records.events()

    records.run(agents.settle_deliveries, agents.Settle(AGENT, (2, 99, -1)))
    assert (records.everything(), records.events()) == (before, entries)

    records.run(agents.settle_deliveries, agents.Settle("other", (1,)))
    assert [one.number for one in records.outbox()] == [1]


def test_settling_again_changes_nothing(records: Records) -> None:
    ended(records, "c1")
    records.run(agents.settle_deliveries, agents.Settle(AGENT, (1,)))
    before, entries = records.everything(), records.events()

    records.run(agents.settle_deliveries, agents.Settle(AGENT, (1, 1)))

    assert (records.everything(), records.events()) == (before, entries)


def test_a_page_holds_what_is_not_in_flight_and_names_what_is_still_open(records: Records) -> None:
    for name in ("c1", "c2", "c3"):
        ended(records, name)
    records.run(agents.settle_deliveries, agents.Settle(AGENT, (1,)))

    found = page(records, in_flight=frozenset({1, 2}))

    assert (numbers(found), found.still, found.through, found.complete) == ([3], frozenset({2}), 3, True)


def test_a_page_ends_at_its_bounds_but_holds_at_least_one(records: Records) -> None:
    for name in ("c1", "c2", "c3"):
        ended(records, name)

    by_count, by_bytes = page(records, most=2), page(records, most_bytes=1)

    assert (numbers(by_count), by_count.complete) == ([1, 2], False)
    assert (numbers(by_bytes), by_bytes.complete) == ([1], False)
    assert page(records, most=2, in_flight=frozenset({3})).still == frozenset({3})


def test_a_page_can_be_limited_to_conversations(records: Records) -> None:
    ended(records, "c1")
    ended(records, "c2", conversation_id="talk-2")

    found = page(records, conversations=frozenset({"talk-2"}))

    assert (numbers(found), found.through, found.complete) == ([2], 2, True)


def test_all_copies_of_a_delivery_are_the_same_bytes(records: Records) -> None:
    ended(records)
    (told,) = records.told(Post)
    records.clock.move(60)

    assert page(records).deliveries == (told.delivery,)
    assert page(records).deliveries == (told.delivery,)


def test_deliveries_that_nobody_read_for_thirty_days_are_dropped_and_their_call_stays_readable(
    records: Records,
) -> None:
    ended(records, "c1")
    records.clock.move(30 * 86_400)
    assert records.run(agents.drop_unread, None) == 0
    ended(records, "c2")

    records.clock.move(1)
    assert records.run(agents.drop_unread, None) == 1

    assert [one.call_id for one in records.outbox()] == ["c2"]
    assert (records.audit()[-1].event, records.audit()[-1].detail) == ("delivery.dropped", {"number": 1})
    answer = records.run(calls.read_call, a_key("c1"))
    assert isinstance(answer, calls.CallAnswer)
    assert answer.call.result == {"ok": True}
    assert records.run(agents.drop_unread, None) == 0


def test_the_count_of_unsettled_deliveries_follows_the_rows(records: Records) -> None:
    def counted() -> int:
        row = records.transaction().row("select unsettled from agents where agent_id = ?", AGENT)
        return int(row[0]) if row else -1

    call = running(records, call_id="c0")
    for percent in (1, 2):
        records.run(calls.report_progress, calls.ProgressReport(by(call), codec.encode({"percent": percent})))
    assert counted() == 1
    records.run(calls.finish, a_result(by(call)))
    assert counted() == 1
    ended(records, "c1")
    assert counted() == 2
    records.run(agents.settle_deliveries, agents.Settle(AGENT, (3, 4)))
    assert counted() == len(records.outbox()) == 0


# --- the log ---


def test_an_event_without_a_code_is_kept_with_its_ids(records: Records) -> None:
    records.run(agents.note_event, agents.Event("worker.killed", {"instance_id": "ins-1", "signal": "SIGKILL"}))

    entry = records.audit()[-1]
    assert (entry.event, entry.subject) == ("worker.killed", {"instance_id": "ins-1", "signal": "SIGKILL"})


def test_an_event_with_a_code_is_a_refusal_that_keeps_its_ids_and_can_be_a_flood(records: Records) -> None:
    event = agents.Event("call.refused", {"who": AGENT, "call_id": "c1"}, "message_invalid")

    for _ in range(30):
        records.run(agents.note_event, event)

    entry = records.audit()[-1]
    assert (entry.subject, entry.detail) == ({"who": AGENT, "call_id": "c1"}, {"code": "message_invalid"})
    assert records.events().count("call.refused") == 20


def test_what_is_no_refusal_is_not_counted_as_one(records: Records) -> None:
    def allow(tx: Transaction, _nothing: object) -> None:
        tx.note_often("capability.allowed", who="ins-1", digest=b"", detail={})

    for _ in range(30):
        records.run(allow, None)
    records.clock.move(10)
    records.run(agents.count_floods, None)

    entry = records.audit()[-1]
    assert (entry.event, entry.subject) == ("events.counted", {"who": "ins-1"})
    assert entry.detail == {"event": "capability.allowed", "count": 10}


def test_a_flood_becomes_one_entry_that_says_how_many(records: Records) -> None:
    for _ in range(30):
        records.run(agents.note_event, agents.Event("call.refused", {"who": AGENT}, "message_invalid"))
    assert records.run(agents.count_floods, None) == 0

    records.clock.move(10)
    assert records.run(agents.count_floods, None) == 1

    entry = records.audit()[-1]
    assert (entry.event, entry.subject) == ("refusals.counted", {"who": AGENT})
    assert entry.detail == {"code": "message_invalid", "count": 10}
    assert records.run(agents.count_floods, None) == 0


# --- what the runtime sets aside ---


def test_a_message_that_failed_twice_is_kept_and_ends_its_call(records: Records) -> None:
    running(records)

    records.run(upkeep.set_aside, SetAside("router", "Invoke", "ValueError", a_key()))

    kept = records.transaction().rows("select actor, message, error from set_aside")
    assert kept == [("router", "Invoke", "ValueError")]
    assert (records.call().status, records.call().error_code) == ("failed", "internal_error")


def test_a_message_that_was_about_no_call_or_an_unknown_one_ends_none(records: Records) -> None:
    running(records)

    records.run(upkeep.set_aside, SetAside("outbox", "Post", "KeyError", None))
    records.run(upkeep.set_aside, SetAside("router", "Invoke", "KeyError", a_key("c9")))

    assert records.call().status == "running"
    assert records.events().count("message.set_aside") == 2


def test_an_ended_call_is_not_ended_by_a_message_set_aside(records: Records) -> None:
    ended(records)
    before = records.call()

    records.run(calls.give_up_call, a_key())

    assert records.call() == before
    assert isinstance(records.run(calls.admit, an_invoke()), calls.CallAnswer)


def test_progress_in_a_flood_is_counted_and_the_first_word_of_it_never_left_out(records: Records) -> None:
    call = admitted(records)

    for percent in range(30):
        records.run(calls.report_progress, calls.ProgressReport(by(call), codec.encode({"percent": percent})))
    records.clock.move(10)
    records.run(agents.count_floods, None)

    noted = [entry for entry in records.audit() if entry.event == "call.progressed"]
    assert noted[0].detail == {"from": "waiting_for_app", "to": "running"}
    assert len(noted) == 21  # the change of state, and then as many as of refusals
    entry = records.audit()[-1]
    assert (entry.event, entry.subject, entry.detail) == ("progress.counted", {"call_id": call.call_id}, {"count": 9})
