"""Who is in front while calls come and go, and when an instance closes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime_actors.commands import calls, inbox, instances
from runtime_actors.commands.follow_ups import Deliver, InstanceDone, TellContext
from runtime_actors.rules.instances import AttemptState, InstanceState
from runtime_actors.rules.inventory import Catalogue
from tests.fakes import (
    a_failure,
    a_manifest,
    a_result,
    a_tool,
    admitted,
    an_app,
    attached,
    by,
    process_ended,
    running,
    some_records,
    some_settings,
)

if TYPE_CHECKING:
    from tests.fakes import Records

LAUNCHERS = Catalogue.of(
    an_app(
        a_manifest(
            name,
            a_tool(f"{name}.open", handling="launch"),
            a_tool(f"{name}.show", handling="foreground"),
            a_tool(
                f"{name}.stay",
                handling="foreground",
                target={"app_scope": name, "requires_foreground": True, "restore_previous_focus": False},
            ),
            a_tool(f"{name}.work"),
            subscriptions=[{"type": "lineup.v1.message"}],
        )
    )
    for name in ("one", "two")
)


def launchers() -> Records:
    return some_records(some_settings(LAUNCHERS))


def end(records: Records, call_id: str) -> None:
    records.run(calls.finish, a_result(by(records.call(call_id))))


def text(message_id: str = "t1", app_scope: str = "one") -> inbox.PutText:
    return inbox.PutText("local", "talk", message_id, app_scope, "hello", None, message_id.encode())


def test_a_direct_call_leaves_the_focus_alone() -> None:
    records = launchers()

    running(records, "one.work")

    assert (records.stack(), records.instance("ins-1").state) == ((), InstanceState.BACKGROUND)


def test_a_launch_is_in_front_and_covers_who_was_there() -> None:
    records = launchers()
    running(records, "one.open", "c1")

    running(records, "two.open", "c2")

    assert records.stack() == ("ins-1", "ins-2")
    assert (records.instance("ins-1").state, records.instance("ins-2").state) == ("background", "foreground")


def test_who_is_covered_is_told(records: Records) -> None:
    records.settings = some_settings(LAUNCHERS)
    running(records, "one.open", "c1")

    admitted(records, "two.open", "c2")

    assert records.told(TellContext) == [TellContext("ins-1", "background")]


def test_the_end_of_a_launch_closes_its_instance_and_gives_the_front_back() -> None:
    records = launchers()
    running(records, "one.open", "c1")
    running(records, "two.open", "c2")

    end(records, "c2")

    assert records.stack() == ("ins-1",)
    assert (records.instance("ins-1").state, records.instance("ins-2").state) == ("foreground", "closing")
    assert records.instance("ins-2").end_reason == "launch_ended"
    assert records.attempt("att-2").state is AttemptState.STOPPING
    assert records.told(InstanceDone) == [InstanceDone("ins-2", "att-2", "launch_ended")]
    assert records.told(TellContext) == [TellContext("ins-1", "foreground")]


def test_a_launch_whose_process_was_never_there_is_closed_at_once() -> None:
    records = launchers()
    admitted(records, "one.open")
    records.clock.move(60)

    records.run(calls.expire_due, None)

    assert records.instance("ins-1").state is InstanceState.CLOSED
    assert records.told(InstanceDone) == [InstanceDone("ins-1", None, "launch_ended")]


def test_the_end_of_a_failed_launch_closes_its_instance_too() -> None:
    records = launchers()
    call = running(records, "one.open")

    records.run(calls.finish, a_failure(by(call)))

    assert records.instance("ins-1").state is InstanceState.CLOSING


def test_a_launch_that_ends_while_other_calls_are_open_leaves_the_instance_and_gives_the_front_back() -> None:
    records = launchers()
    running(records, "one.open", "c1")
    running(records, "two.open", "c2")
    running(records, "two.work", "c3")

    end(records, "c2")

    assert records.stack() == ("ins-2", "ins-1")
    assert (records.instance("ins-1").state, records.instance("ins-2").state) == ("foreground", "background")
    end(records, "c3")
    assert records.instance("ins-2").state is InstanceState.BACKGROUND


def test_of_two_launches_of_one_app_the_last_to_end_closes_it() -> None:
    records = launchers()
    running(records, "one.open", "c1")
    running(records, "one.open", "c2")

    end(records, "c1")
    assert records.instance("ins-1").state is InstanceState.FOREGROUND
    end(records, "c2")
    assert (records.instance("ins-1").state, records.stack()) == ("closing", ())


def test_a_foreground_call_brings_the_instance_to_the_front_and_restores_who_was_there() -> None:
    records = launchers()
    running(records, "one.work", "c0")
    running(records, "two.open", "c1")

    shown = running(records, "one.show", "c2")
    assert (shown.instance_id, records.stack()) == ("ins-1", ("ins-2", "ins-1"))

    end(records, "c2")
    assert records.stack() == ("ins-1", "ins-2")
    assert (records.instance("ins-1").state, records.instance("ins-2").state) == ("background", "foreground")


def test_a_foreground_call_launches_an_instance_if_there_is_none_and_leaves_it_open() -> None:
    records = launchers()
    running(records, "one.show")

    end(records, "c1")

    assert (records.stack(), records.instance("ins-1").state) == (("ins-1",), "foreground")


def test_a_tool_that_does_not_restore_keeps_the_front() -> None:
    records = launchers()
    running(records, "one.open", "c1")
    running(records, "two.stay", "c2")

    end(records, "c2")

    assert records.stack() == ("ins-1", "ins-2")


def test_the_front_that_somebody_else_took_meanwhile_is_not_given_back() -> None:
    records = launchers()
    running(records, "one.show", "c1")
    running(records, "two.show", "c2")
    running(records, "one.stay", "c3")

    end(records, "c2")

    assert records.stack() == ("ins-2", "ins-1")


def test_the_front_is_not_given_back_to_who_is_gone() -> None:
    records = launchers()
    running(records, "one.open", "c1")
    running(records, "two.show", "c2")
    end(records, "c1")

    end(records, "c2")

    assert records.stack() == ("ins-2",)


def test_conversations_have_a_stack_each() -> None:
    records = launchers()

    running(records, "one.open", "c1")
    running(records, "one.open", "c1", conversation_id="talk-2")

    assert (records.stack("talk"), records.stack("talk-2")) == (("ins-1",), ("ins-2",))


def test_a_launch_while_the_old_instance_is_closing_makes_a_new_one() -> None:
    records = launchers()
    running(records, "one.open", "c1")
    end(records, "c1")

    call = admitted(records, "one.open", "c2")

    assert (call.instance_id, records.instance("ins-1").state) == ("ins-2", "closing")
    process_ended(records, "att-1")
    assert (records.instance("ins-1").state, records.call("c2").status) == ("closed", "waiting_for_app")


def test_a_text_that_was_not_acknowledged_moves_to_the_next_instance_and_is_marked() -> None:
    records = launchers()
    running(records, "one.open", "c1")
    records.run(inbox.put_text, text())
    end(records, "c1")
    process_ended(records, "att-1")

    call = admitted(records, "one.open", "c2")
    attached(records, call.instance_id)

    page = inbox.read_inbox(records.transaction(), inbox.InboxPageOf("ins-2", frozenset(), 0, 10))
    assert isinstance(page, inbox.InboxRead)
    assert [(one.kind, one.repeated) for one in page.messages] == [("message", True), ("tool.call", False)]


def test_the_message_of_a_call_does_not_outlive_it() -> None:
    records = launchers()
    admitted(records, "one.open")
    records.run(inbox.put_text, text())
    records.clock.move(60)

    records.run(calls.expire_due, None)

    assert [row.kind for row in records.inbox("one")] == ["message"]


def test_an_instance_that_is_gone_is_served_nothing() -> None:
    records = launchers()
    running(records, "one.open", "c1")
    end(records, "c1")

    records.run(inbox.put_text, text())

    assert records.told(Deliver) == []
    page = inbox.read_inbox(records.transaction(), inbox.InboxPageOf("ins-1", frozenset(), 0, 10))
    assert not isinstance(page, inbox.InboxRead)
    assert page.code == "app_instance_not_found"


@pytest.mark.parametrize("process", [True, False])
def test_an_instance_given_up_leaves_the_stack(*, process: bool) -> None:
    records = launchers()
    running(records, "one.show", "c1")
    admitted(records, "two.show", "c2")
    begun = records.run(instances.begin_attempt, "ins-2")
    assert isinstance(begun, instances.AttemptBegun)
    if process:
        records.run(instances.note_spawned, instances.Spawned(begun.attempt_id, 4711))

    process_ended(records, begun.attempt_id, reason="import_failed")

    assert records.stack() == ("ins-1",)
    assert (records.instance("ins-1").state, records.instance("ins-2").state) == ("foreground", "failed")
