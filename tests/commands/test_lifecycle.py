"""What an app asks for about its own place; and the focus of conversations that have `chat`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from runtime_actors.commands import calls, focus, hosts, instances, lifecycle, questions, surfaces
from runtime_actors.commands.asker import Asker
from runtime_actors.commands.follow_ups import InstanceDone, TellContext
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.surfaces import SurfaceOpen, SurfaceReceipt, SurfaceRequest
from runtime_actors.contract.tools import CommandReceipt
from runtime_actors.rules.inventory import Catalogue
from runtime_actors.rules.lifecycle import KEPT_BACK_S
from runtime_actors.rules.policy import Policy, Rule, Verdict
from runtime_actors.rules.registration import RegisteredApp, register
from tests.fakes import (
    TALK,
    Records,
    a_manifest,
    a_result,
    a_tool,
    an_app,
    an_invoke,
    assert_refused,
    attached,
    by,
    process_ended,
    running,
    some_records,
    some_settings,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.calls import CallRecord


def a_packaged_app(manifest: dict[str, Any]) -> RegisteredApp:
    app = register(manifest, f"/apps/{manifest['app_scope']}", packaged=True)
    assert isinstance(app, RegisteredApp), app
    return app


def apps() -> Catalogue:
    chat = a_packaged_app(a_manifest("chat", a_tool("chat.say"), kind="system"))
    others = (
        an_app(a_manifest(scope, a_tool(f"{scope}.do"), a_tool(f"{scope}.open", handling="launch"),
                          a_tool(f"{scope}.show", handling="foreground")))
        for scope in ("one", "two")
    )  # fmt: skip
    return Catalogue.of([chat, *others])


def a_world() -> Records:
    return some_records(some_settings(apps()))


def asker(call: CallRecord, request_id: str = "q1") -> Asker:
    assert call.instance_id is not None
    return Asker(call.instance_id, call.instance_id.replace("ins", "att"), request_id)


def done(records: Records, call: CallRecord) -> None:
    assert isinstance(records.run(calls.finish, a_result(by(call))), calls.Reported)


def idle(records: Records, scope: str, call_id: str) -> CallRecord:
    """An instance that is behind, ready, and without open calls."""
    call = running(records, f"{scope}.do" if scope != "chat" else "chat.say", call_id)
    done(records, call)
    return call


def granted(outcome: object) -> bool:
    return isinstance(outcome, CommandReceipt) and outcome.accepted


def test_chat_is_the_floor_of_the_stack_whenever_it_comes() -> None:
    records = a_world()
    one = running(records, "one.show", "c1")
    assert records.stack() == (one.instance_id,)

    chat = running(records, "chat.say", "c2")

    assert records.stack() == (chat.instance_id, one.instance_id)
    assert (records.instance(chat.instance_id).state, records.instance(one.instance_id).state) == (
        "background",
        "foreground",
    )


def test_chat_is_in_front_of_an_empty_stack() -> None:
    records = a_world()

    chat = running(records, "chat.say", "c1")

    assert records.stack() == (chat.instance_id,)
    assert records.instance(chat.instance_id).state == "foreground"


def test_the_end_of_a_launch_gives_the_front_back_to_chat_and_the_others_stay_behind() -> None:
    records = a_world()
    chat = running(records, "chat.say", "c1")
    one = running(records, "one.open", "c2")
    assert records.instance(chat.instance_id).state == "background"

    done(records, one)

    assert records.stack() == (chat.instance_id,)
    assert records.instance(chat.instance_id).state == "foreground"
    assert records.instance(one.instance_id).state == "closing"
    assert records.told(TellContext) == [TellContext(chat.instance_id or "", "foreground")]


def test_a_shown_app_whose_call_ends_leaves_the_stack_when_chat_gets_the_front_back() -> None:
    records = a_world()
    chat = running(records, "chat.say", "c1")
    one = running(records, "one.show", "c2")

    done(records, one)

    assert records.stack() == (chat.instance_id,)
    assert records.instance(one.instance_id).state == "background"


def test_when_chat_comes_to_the_front_the_others_leave_the_stack_and_live_on() -> None:
    records = a_world()
    chat = running(records, "chat.say", "c1")
    one, two = running(records, "one.show", "c2"), running(records, "two.show", "c3")

    records.run(lambda tx, given: focus.bring_to_front(tx, TALK, given), chat.instance_id or "")

    assert records.stack() == (chat.instance_id,)
    assert {records.instance(call.instance_id).state for call in (one, two)} == {"background"}


def test_an_app_comes_to_the_front_of_chat_but_not_of_another_app() -> None:
    records = a_world()
    chat, one, two = idle(records, "chat", "c1"), idle(records, "one", "c2"), idle(records, "two", "c3")

    assert granted(records.run(lifecycle.request_foreground, asker(one)))
    assert records.stack() == (chat.instance_id, one.instance_id)
    assert records.instance(one.instance_id).state == "foreground"

    assert_refused(records, lifecycle.request_foreground, asker(two), "lifecycle_denied", "lifecycle.refused")
    assert_refused(records, lifecycle.request_foreground, asker(chat), "lifecycle_denied", "lifecycle.refused")


def test_an_app_that_a_person_sent_away_stays_behind_for_a_minute() -> None:
    records = a_world()
    one = idle(records, "one", "c1")
    records.run(questions.put_off, one.instance_id or "")
    assert isinstance(records.run(lifecycle.request_foreground, asker(one)), Rejection)

    records.clock.move(KEPT_BACK_S + 1)

    assert granted(records.run(lifecycle.request_foreground, asker(one, "q2")))


def test_an_app_goes_behind_and_who_was_below_comes_to_the_front() -> None:
    records = a_world()
    chat, one = idle(records, "chat", "c1"), idle(records, "one", "c2")
    records.run(lifecycle.request_foreground, asker(one))

    assert granted(records.run(lifecycle.request_background, asker(one, "q2")))

    assert records.stack() == (chat.instance_id,)
    assert (records.instance(one.instance_id).state, records.instance(chat.instance_id).state) == (
        "background",
        "foreground",
    )
    assert records.told(TellContext) == [
        TellContext(one.instance_id or "", "background"),
        TellContext(chat.instance_id or "", "foreground"),
    ]


def test_the_front_is_empty_when_the_only_app_goes_behind() -> None:
    records = a_world()
    one = idle(records, "one", "c1")
    records.run(lifecycle.request_foreground, asker(one))

    assert granted(records.run(lifecycle.request_background, asker(one, "q2")))

    assert (records.stack(), records.instance(one.instance_id).state) == ((), "background")


def test_an_app_does_not_go_behind_while_it_serves_a_tool_that_requires_the_foreground() -> None:
    records = a_world()
    chat, one = idle(records, "chat", "c1"), running(records, "one.open", "c2")

    assert_refused(records, lifecycle.request_background, asker(one), "lifecycle_denied", "lifecycle.refused")
    assert_refused(records, lifecycle.request_background, asker(chat), "lifecycle_denied", "lifecycle.refused")


def test_an_app_closes_itself_and_its_end_is_no_crash() -> None:
    records = a_world()
    chat, one = idle(records, "chat", "c1"), idle(records, "one", "c2")
    records.run(lifecycle.request_foreground, asker(one))
    wish = lifecycle.CloseWish(asker(one, "q2"), "the board is finished")

    assert granted(records.run(lifecycle.request_close, wish))

    ended = records.instance(one.instance_id)
    assert (ended.state, ended.end_reason, records.stack()) == ("closing", "closed_by_app", (chat.instance_id,))
    assert records.told(InstanceDone) == [InstanceDone(one.instance_id or "", "att-2", "closed_by_app")]
    process_ended(records, "att-2")
    assert (records.instance(one.instance_id).state, records.attempt("att-2").unexpected) == ("closed", False)


def test_an_app_with_an_open_call_does_not_close() -> None:
    records = a_world()
    one = running(records, "one.open", "c1")

    wish = lifecycle.CloseWish(asker(one), None)

    assert_refused(records, lifecycle.request_close, wish, "lifecycle_denied", "lifecycle.refused")


def test_an_app_with_an_open_surface_does_not_close() -> None:
    records = a_world()
    one = idle(records, "one", "c1")
    records.run(
        hosts.attach_host,
        hosts.Attaching(1, "h", "n" * 16, surfaces=True, on_screen=None, stream=None, after_number=None),
    )
    opening = SurfaceOpen(surface=SurfaceRequest(kind="board", title="A board"))
    opened = records.run(surfaces.open_surface, surfaces.Opening(asker(one, "q0"), opening))
    assert isinstance(opened, SurfaceReceipt)
    assert opened.accepted

    wish = lifecycle.CloseWish(asker(one), None)

    assert_refused(records, lifecycle.request_close, wish, "lifecycle_denied", "lifecycle.refused")


@pytest.mark.parametrize("move", ["foreground", "background", "close"])
def test_a_granted_request_that_is_repeated_is_answered_as_before_whatever_has_changed(move: str) -> None:
    records = a_world()
    one = idle(records, "one", "c1")
    moves: dict[str, tuple[Callable[[Transaction, Any], object], Any]] = {
        "foreground": (lifecycle.request_foreground, asker(one)),
        "background": (lifecycle.request_background, asker(one)),
        "close": (lifecycle.request_close, lifecycle.CloseWish(asker(one), None)),
    }
    rule, argument = moves[move]
    first = records.run(rule, argument)
    if move == "foreground":
        running(records, "two.show", "c2")
    before = records.everything()

    second = records.run(rule, argument)

    assert granted(first)
    assert second == first
    assert records.everything() == before


def test_nothing_is_granted_to_an_instance_that_closes() -> None:
    records = a_world()
    one = running(records, "one.open", "c1")
    done(records, one)

    assert_refused(records, lifecycle.request_foreground, asker(one), "app_instance_not_found", "lifecycle.refused")


def test_an_attempts_receipts_go_with_it() -> None:
    records = a_world()
    one = idle(records, "one", "c1")
    records.run(lifecycle.request_background, asker(one))
    assert records.everything()["receipts"] != []

    process_ended(records, "att-1")

    assert records.everything()["receipts"] == []


def test_a_process_that_comes_up_while_chat_was_put_below_it_is_in_front() -> None:
    records = a_world()
    call = running(records, "one.show", "c1")
    process_ended(records, "att-1")
    running(records, "chat.say", "c2")

    attached(records, call.instance_id)

    assert records.instance(call.instance_id).state == "foreground"
    assert isinstance(records.run(instances.begin_attempt, call.instance_id or ""), instances.NotWanted)


def kept_behind(wish: str) -> Records:
    rule = Rule(number=1, verdict=Verdict.DENY, app="one", kind="lifecycle", name=wish)
    return some_records(replace(some_settings(apps()), policy=Policy((rule,))))


@pytest.mark.parametrize("wish", ["foreground", "background", "close"])
def test_policy_refuses_what_it_does_not_allow(wish: str) -> None:
    records = kept_behind(wish)
    one, two = idle(records, "one", "c1"), idle(records, "two", "c2")
    close = lifecycle.CloseWish(asker(one), None)
    rule: Callable[[Transaction, Any], object] = getattr(lifecycle, f"request_{wish}")

    assert_refused(records, rule, close if wish == "close" else asker(one), "lifecycle_denied", "lifecycle.refused")

    assert granted(records.run(lifecycle.request_foreground, asker(two)))


def test_a_tool_that_needs_the_front_is_refused_where_policy_keeps_its_app_behind() -> None:
    records = kept_behind("foreground")

    assert_refused(records, calls.admit, an_invoke("one.open"), "lifecycle_denied", "call.refused")

    running(records, "one.do", "c2")
    running(records, "two.open", "c3")


def test_hosts_are_told_the_whole_stack_and_the_states_that_it_makes() -> None:
    records = a_world()
    idle(records, "chat", "c1")
    one = idle(records, "one", "c2")
    [last] = records.sql.execute("select max(number) from host_events").fetchone()

    records.run(lifecycle.request_foreground, asker(one))

    found = records.sql.execute("select kind, data from host_events where number > ? order by number", (last,))
    told = [(kind, msgpack.unpackb(data)) for kind, data in found]
    shown = [
        {"instance_id": f"ins-{n}", "app_scope": scope, "app_title": scope} for n, scope in ((1, "chat"), (2, "one"))
    ]
    assert told == [
        ("focus.changed", {"front": "ins-2", "stack": shown}),
        ("instance.changed", shown[0] | {"state": "background"}),
        ("instance.changed", shown[1] | {"state": "foreground"}),
    ]
