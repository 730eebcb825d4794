"""A follow-up that is lost loses no work: what it said can be read from the rows at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_actors.commands import agents, apps, calls, follow_ups, inbox, instances
from runtime_actors.records import calls as call_rows
from tests.fakes import AGENT, a_key, a_result, acknowledged, admitted, attached, by, process_ended, running

if TYPE_CHECKING:
    from tests.fakes import Records


def inbox_page(records: Records, instance_id: str, in_flight: frozenset[int] = frozenset()) -> inbox.InboxRead:
    page = inbox.read_inbox(records.transaction(), inbox.InboxPageOf(instance_id, in_flight, 0, 64))
    assert isinstance(page, inbox.InboxRead)
    return page


def test_a_lost_wish_for_a_process_is_found_among_instances_without_one(records: Records) -> None:
    admitted(records)
    (told,) = records.told(follow_ups.InstanceWanted)

    assert instances.read_wanted(records.transaction(), None).wanted == (told.instance_id,)

    attached(records, "ins-1")
    assert instances.read_wanted(records.transaction(), None) == instances.Wanted((), (), frozenset({"ins-1"}))
    process_ended(records, "att-1")
    assert instances.read_wanted(records.transaction(), None).wanted == ("ins-1",)


def test_a_lost_order_to_end_is_found_among_closing_instances_with_a_process(records: Records) -> None:
    call = running(records, "board.open")
    records.run(calls.finish, a_result(by(call)))
    (told,) = records.told(follow_ups.InstanceDone)

    assert instances.read_wanted(records.transaction(), None).unwanted == ((told.attempt_id, told.reason),)
    assert instances.read_running(records.transaction(), None) == (("att-1", "ins-1"),)

    process_ended(records, "att-1")
    assert instances.read_wanted(records.transaction(), None) == instances.Wanted((), (), frozenset())
    assert instances.read_running(records.transaction(), None) == ()


def test_a_lost_message_is_on_the_next_page_of_the_inbox(records: Records) -> None:
    running(records, call_id="c1")
    admitted(records, call_id="c2")
    (told,) = records.told(follow_ups.Deliver)

    page = inbox_page(records, told.instance_id)

    assert page.messages == (told.message,)


def test_a_lost_settlement_shows_when_the_next_page_no_longer_names_the_message(records: Records) -> None:
    call = admitted(records)
    attached(records, call.instance_id)
    acknowledged(records, call)
    (told,) = records.told(follow_ups.Settled)

    assert told.number not in inbox_page(records, told.instance_id, frozenset({told.number})).still


def test_a_lost_delivery_is_on_the_next_page_of_the_outbox(records: Records) -> None:
    records.run(calls.finish, a_result(by(running(records))))
    (told,) = records.told(follow_ups.Post)

    page = agents.read_deliveries(records.transaction(), agents.PageOf(AGENT, frozenset(), None, 256, 1_000_000))

    assert page.deliveries == (told.delivery,)


def test_a_lost_deadline_is_found_by_the_next_look(records: Records) -> None:
    running(records)
    records.run(calls.request_cancel, calls.CancelWish(a_key(), None))
    (told,) = records.told(follow_ups.DueAt)

    assert call_rows.next_due(records.transaction()) == told.boot_s
    assert records.run(calls.expire_due, None) == calls.Expiry(0, told.boot_s)


def test_a_lost_inventory_is_the_one_that_is_built_now(records: Records) -> None:
    records.run(apps.switch, apps.SwitchTo("app", "notes", enabled=False))
    (told,) = records.told(follow_ups.InventoryChanged)

    assert apps.current_inventory(records.transaction()) == told.inventory


def test_a_lost_word_about_a_call_is_what_the_app_reads_when_it_asks(records: Records) -> None:
    running(records)
    records.run(calls.request_cancel, calls.CancelWish(a_key(), None))
    (told,) = records.told(follow_ups.TellCallChanged)

    asked = inbox.read_for_app(records.transaction(), (told.instance_id, told.change.call_id))

    assert asked is not None
    assert (asked.status, asked.cancel_requested) == (told.change.status, told.change.cancel_requested)


def test_a_lost_change_of_context_is_the_state_of_the_instance(records: Records) -> None:
    running(records, "board.show", "c1")
    running(records, "board.open", "c2", conversation_id="talk-2")
    records.run(calls.finish, a_result(by(records.call())))
    running(records, "board.show", "c3")
    for told in records.told(follow_ups.TellContext):
        assert records.instance(told.instance_id).state == told.state
