"""What an app shows: opened, patched, drawn into by a person, and closed with what it belongs to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime_actors.commands import agents, calls, hosts, instances, interactions, recovery, screens, surfaces, views
from runtime_actors.commands.asker import Asker
from runtime_actors.commands.follow_ups import Deliver, Settled, Shown
from runtime_actors.contract import codec
from runtime_actors.contract.host import HostSurface
from runtime_actors.contract.interactions import UiRequest
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.contract.surfaces import (
    MAX_SURFACE_STATE_BYTES,
    SurfaceClose,
    SurfaceOpen,
    SurfaceReceipt,
    SurfaceRequest,
    SurfaceUpdate,
)
from runtime_actors.records import surfaces as rows
from runtime_actors.rules.merge_patch import merged
from tests.fakes import Records, a_result, admitted, an_invoke, assert_refused, by, process_ended, running, some_records
from tests.rules.test_merge_patch import OBJECTS, without_nulls

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.calls import CallRecord

STATE: Final = {"strokes": {"s1": {"width": 2}}, "title": "Plan"}
TOO_LARGE: Final = {"text": "x" * MAX_SURFACE_STATE_BYTES}


def a_host(records: Records, *, draws: bool = True, peer: int = 7) -> None:
    """Somebody who shows things is there."""
    records.run(hosts.attach_host, hosts.Attaching(peer, f"host-{peer}", "n" * 16, draws, None, None, None))


def an_asker(instance_id: str | None, request_id: str = "att-1/1", attempt_id: str = "att-1") -> Asker:
    assert instance_id is not None
    return Asker(instance_id, attempt_id, request_id)


def an_opening(
    who: Asker, *, call_id: str | None = None, key: str | None = None, state: dict[str, Any] | None = None
) -> surfaces.Opening:
    request = SurfaceRequest(kind="board", title="A board", state=STATE if state is None else state)
    return surfaces.Opening(who, SurfaceOpen(surface=request, call_id=call_id, key=key))


def an_update(who: Asker, patch: dict[str, Any], *, revision: int | None = None) -> surfaces.Updating:
    return surfaces.Updating(who, SurfaceUpdate(surface_id="srf-1", patch=patch, revision=revision))


def a_closing(who: Asker, surface_id: str = "srf-1") -> surfaces.Closing:
    return surfaces.Closing(who, SurfaceClose(surface_id=surface_id))


def opened(records: Records, tool_id: str = "board.open", **asked: Any) -> CallRecord:  # noqa: ANN401
    """A running call whose app has opened `srf-1`."""
    a_host(records)
    call = running(records, tool_id)
    outcome = records.run(surfaces.open_surface, an_opening(an_asker(call.instance_id), **asked))
    assert isinstance(outcome, SurfaceReceipt), outcome
    return call


def shown(records: Records) -> list[tuple[str, dict[str, Any]]]:
    """What hosts are told of surfaces, in order."""
    found = records.sql.execute("select kind, data from host_events where kind like 'surface.%' order by number")
    return [(kind, msgpack.unpackb(data)["surface"]) for kind, data in found]


def actions(records: Records) -> list[dict[str, Any]]:
    """What a person did, as the app will be told."""
    return [msgpack.unpackb(row.body) for row in records.inbox("board") if row.kind == "action"]


def state_of(records: Records, surface_id: str = "srf-1") -> Any:  # noqa: ANN401 - JSON
    surface = rows.get(records.transaction(), surface_id)
    assert surface is not None
    return msgpack.unpackb(surface.state)


# --- opening ---


def test_a_surface_is_opened_and_hosts_are_told(records: Records) -> None:
    call = opened(records)

    record = surfaces.read_surface(records.transaction(), (str(call.instance_id), "srf-1"))
    assert record is not None
    assert (record.revision, record.status, record.state, record.app_scope) == (1, "open", STATE, "board")
    assert shown(records) == [("surface.opened", record.to_wire())]
    assert len(records.told(Shown)) == 1
    assert records.audit()[-1].event == "surface.opened"


def test_without_a_host_that_can_draw_no_surface_is_opened(records: Records) -> None:
    a_host(records, draws=False)
    call = running(records, "board.open")

    asked = an_opening(an_asker(call.instance_id))

    assert_refused(records, surfaces.open_surface, asked, RejectionCode.HOST_UNSUPPORTED, "surface.refused")


def test_a_host_that_left_counts_for_a_while(records: Records) -> None:
    a_host(records)
    call = running(records, "board.open")
    records.run(hosts.detach_host, 7)
    records.clock.move(hosts.LINGER_S - 1)
    first = records.run(surfaces.open_surface, an_opening(an_asker(call.instance_id, "att-1/1")))
    records.clock.move(2)

    late = an_opening(an_asker(call.instance_id, "att-1/2"))

    assert isinstance(first, SurfaceReceipt)
    assert_refused(records, surfaces.open_surface, late, RejectionCode.HOST_UNSUPPORTED, "surface.refused")


def test_a_request_that_is_repeated_opens_nothing_more(records: Records) -> None:
    call = opened(records)
    before = records.everything()

    again = records.run(surfaces.open_surface, an_opening(an_asker(call.instance_id)))

    assert again == SurfaceReceipt(request_id="att-1/1", accepted=True, surface_id="srf-1", revision=1)
    assert records.everything() == before


def test_a_key_names_the_surface_to_later_processes_with_the_revision_it_has_now(records: Records) -> None:
    call = opened(records, key="b1", call_id="c1")
    records.run(surfaces.update_surface, an_update(an_asker(call.instance_id, "att-1/2"), {"title": "New"}))
    process_ended(records, "att-1")

    later = an_asker(call.instance_id, "att-2/1", "att-2")
    again = records.run(surfaces.open_surface, an_opening(later, key="b1", call_id="c1"))

    assert again == SurfaceReceipt(request_id="att-2/1", accepted=True, surface_id="srf-1", revision=2)
    assert state_of(records) == STATE | {"title": "New"}


def test_a_key_with_another_request_is_a_conflict(records: Records) -> None:
    call = opened(records, key="b1")
    other = an_opening(an_asker(call.instance_id, "att-1/2"), key="b1", state={})

    assert_refused(records, surfaces.open_surface, other, RejectionCode.KEY_CONFLICT, "surface.refused")


def test_a_key_is_another_one_for_another_call(records: Records) -> None:
    call = opened(records, key="b1", call_id="c1")
    running(records, "board.update", "c2")

    outcome = records.run(
        surfaces.open_surface, an_opening(an_asker(call.instance_id, "att-1/2"), key="b1", call_id="c2")
    )

    assert isinstance(outcome, SurfaceReceipt)
    assert outcome.surface_id == "srf-2"


def test_a_key_of_a_surface_that_was_closed_opens_no_other(records: Records) -> None:
    call = opened(records, key="b1")
    records.run(surfaces.close_surface, a_closing(an_asker(call.instance_id, "att-1/2")))
    again = an_opening(an_asker(call.instance_id, "att-1/3"), key="b1")

    assert_refused(records, surfaces.open_surface, again, RejectionCode.SURFACE_CLOSED, "surface.refused")


@pytest.mark.parametrize(
    ("call_id", "code"), [("c9", "call_not_found"), ("n1", "call_not_found"), ("c2", "call_already_final")]
)
def test_a_surface_belongs_only_to_an_open_call_of_its_instance(records: Records, call_id: str, code: str) -> None:
    call = opened(records)
    running(records, "notes.write", "n1")
    records.run(calls.finish, a_result(by(running(records, "board.update", "c2"))))
    asked = an_opening(an_asker(call.instance_id, "att-1/2"), call_id=call_id)

    assert_refused(records, surfaces.open_surface, asked, code, "surface.refused")


def test_an_instance_has_four_open_surfaces_and_no_fifth(records: Records) -> None:
    call = opened(records)
    for number in range(2, 5):
        records.run(surfaces.open_surface, an_opening(an_asker(call.instance_id, f"att-1/{number}")))
    fifth = an_opening(an_asker(call.instance_id, "att-1/5"))

    assert_refused(records, surfaces.open_surface, fifth, RejectionCode.BUSY, "surface.refused")

    records.run(surfaces.close_surface, a_closing(an_asker(call.instance_id, "att-1/6")))
    assert isinstance(records.run(surfaces.open_surface, fifth), SurfaceReceipt)
    listed = surfaces.list_surfaces(records.transaction(), str(call.instance_id))
    assert [one.surface_id for one in listed] == ["srf-2", "srf-3", "srf-4", "srf-5"]
    assert {one.state is None for one in listed} == {True}


@pytest.mark.parametrize("state", [TOO_LARGE, {"deep": [[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]}])
def test_a_state_that_is_too_much_is_refused(records: Records, state: dict[str, Any]) -> None:
    a_host(records)
    call = running(records, "board.open")
    asked = an_opening(an_asker(call.instance_id), state=state)

    assert_refused(records, surfaces.open_surface, asked, RejectionCode.SURFACE_INVALID, "surface.refused")


def test_an_instance_that_was_closed_opens_nothing(records: Records) -> None:
    call = opened(records)
    records.run(calls.finish, a_result(by(call)))
    asked = an_opening(an_asker(call.instance_id, "att-1/2"))

    assert_refused(records, surfaces.open_surface, asked, RejectionCode.APP_INSTANCE_NOT_FOUND, "surface.refused")


def test_an_app_that_needs_a_surface_is_called_only_while_a_host_can_draw(records: Records) -> None:
    invoke = an_invoke("screen.draw", "c1")
    assert_refused(records, calls.admit, invoke, RejectionCode.HOST_UNSUPPORTED, "call.refused")

    a_host(records)

    assert admitted(records, "screen.draw", "c1").app_scope == "screen"


# --- updating ---


def test_a_patch_changes_the_state_and_hosts_get_the_whole_record_of_the_newest(records: Records) -> None:
    call = opened(records)
    who = str(call.instance_id)

    for number, width in enumerate((3, 4), start=2):
        patch = {"strokes": {"s1": None, f"s{number}": {"width": width}}}
        receipt = records.run(surfaces.update_surface, an_update(an_asker(who, f"att-1/{number}"), patch))
        assert isinstance(receipt, SurfaceReceipt)
        assert receipt.revision == number

    assert state_of(records) == {"strokes": {"s2": {"width": 3}, "s3": {"width": 4}}, "title": "Plan"}
    assert [(kind, one["revision"]) for kind, one in shown(records)] == [("surface.opened", 1), ("surface.changed", 3)]
    assert shown(records)[-1][1]["state"] == state_of(records)


def test_a_patch_that_changes_nothing_keeps_the_revision_and_tells_nobody(records: Records) -> None:
    call = opened(records)
    events = shown(records)

    receipt = records.run(
        surfaces.update_surface, an_update(an_asker(call.instance_id, "att-1/2"), {"title": "Plan", "gone": None})
    )

    assert isinstance(receipt, SurfaceReceipt)
    assert (receipt.accepted, receipt.revision) == (True, 1)
    assert shown(records) == events


def test_true_is_not_one(records: Records) -> None:
    call = opened(records, state={"on": 1})

    receipt = records.run(surfaces.update_surface, an_update(an_asker(call.instance_id, "att-1/2"), {"on": True}))

    assert isinstance(receipt, SurfaceReceipt)
    assert receipt.revision == 2
    assert state_of(records) == {"on": True}


def test_a_patch_for_another_revision_is_stale_and_says_which_is_the_present_one(records: Records) -> None:
    call = opened(records)
    who = str(call.instance_id)
    records.run(surfaces.update_surface, an_update(an_asker(who, "att-1/2"), {"title": "New"}))
    before = records.everything()

    late = records.run(surfaces.update_surface, an_update(an_asker(who, "att-1/3"), {"title": "Old"}, revision=1))

    assert isinstance(late, SurfaceReceipt)
    assert (late.accepted, late.code, late.revision) == (False, "surface_stale", 2)
    assert records.everything() == before
    fresh = records.run(surfaces.update_surface, an_update(an_asker(who, "att-1/4"), {"title": "Old"}, revision=2))
    assert isinstance(fresh, SurfaceReceipt)
    assert fresh.revision == 3


def test_an_update_that_is_repeated_is_answered_as_before_though_others_came_between(records: Records) -> None:
    call = opened(records)
    who = str(call.instance_id)
    first = an_update(an_asker(who, "att-1/2"), {"title": "A"}, revision=1)
    answered = records.run(surfaces.update_surface, first)
    records.run(surfaces.update_surface, an_update(an_asker(who, "att-1/3"), {"title": "B"}))
    before = records.everything()

    again = records.run(surfaces.update_surface, first)

    assert again == answered
    assert records.everything() == before


def test_a_state_that_would_become_too_large_is_refused(records: Records) -> None:
    call = opened(records)
    half = {"a": "x" * (MAX_SURFACE_STATE_BYTES // 2 + 100)}
    records.run(surfaces.update_surface, an_update(an_asker(call.instance_id, "att-1/2"), half))
    more = an_update(an_asker(call.instance_id, "att-1/3"), {"b": half["a"]})

    assert_refused(records, surfaces.update_surface, more, RejectionCode.SURFACE_INVALID, "surface.refused")


def test_another_instances_surface_is_not_found(records: Records) -> None:
    opened(records)
    other = an_asker(running(records, "notes.write", "n1").instance_id, "att-2/1", "att-2")

    assert surfaces.read_surface(records.transaction(), (other.instance_id, "srf-1")) is None
    not_found = RejectionCode.SURFACE_NOT_FOUND
    assert_refused(records, surfaces.update_surface, an_update(other, {"title": "M"}), not_found, "surface.refused")
    assert_refused(records, surfaces.close_surface, a_closing(other), not_found, "surface.refused")


def test_a_flood_of_changes_is_counted_and_not_written_one_by_one(records: Records) -> None:
    call = opened(records)
    for number in range(60):
        patch = an_update(an_asker(call.instance_id, f"att-1/{number + 2}"), {"n": number})
        records.run(surfaces.update_surface, patch)
    records.clock.move(20)

    records.run(agents.count_floods, None)

    changes = [entry for entry in records.audit() if entry.event == "surface.changed"]
    assert len(changes) < 60
    assert [(one.event, one.detail) for one in records.audit()[-1:]] == [
        ("surface.counted", {"count": 60 - len(changes)})
    ]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OBJECTS, st.lists(OBJECTS, max_size=6))
def test_a_state_is_the_fold_of_its_patches_in_order_of_revision(
    first: dict[str, Any], patches: list[dict[str, Any]]
) -> None:
    records = some_records()
    call = opened(records, state=first)
    wanted, revision = first, 1
    for number, patch in enumerate(patches, start=2):
        before, wanted = wanted, merged(wanted, patch)
        receipt = records.run(surfaces.update_surface, an_update(an_asker(call.instance_id, f"att-1/{number}"), patch))
        assert isinstance(receipt, SurfaceReceipt)
        revision += repr(before) != repr(wanted) and spelled(before) != spelled(wanted)
        assert receipt.revision == revision

    assert state_of(records) == wanted
    assert without_nulls(wanted).keys() <= wanted.keys()
    records.sql.close()


def spelled(state: dict[str, Any]) -> bytes:
    return codec.encode(state)


# --- what a person does in one ---


def drawn(patch: dict[str, Any], *, revision: int | None = None) -> tuple[HostSurface, str]:
    return HostSurface(surface_id="srf-1", op="update", patch=patch, revision=revision), "shell"


def test_what_a_person_draws_changes_the_state_and_the_app_is_told_to_read_it(records: Records) -> None:
    call = opened(records)

    answer = records.run(surfaces.bridge, drawn({"strokes": {"s2": {"width": 1}}}, revision=1))

    assert answer == {"revision": 2, "action_id": "act-1"}
    assert state_of(records)["strokes"] == {"s1": {"width": 2}, "s2": {"width": 1}}
    assert actions(records) == [{"action_id": "act-1", "kind": "surface.update", "surface_id": "srf-1", "revision": 2}]
    assert [one.instance_id for one in records.told(Deliver)] == [call.instance_id]
    assert shown(records)[-1][1]["revision"] == 2


def test_only_the_newest_update_of_a_surface_waits_for_the_app(records: Records) -> None:
    opened(records)
    for number in range(5):
        records.run(surfaces.bridge, drawn({"n": number}))

    assert [(one["revision"], one["action_id"]) for one in actions(records)] == [(6, "act-5")]
    assert len(records.told(Settled)) == 1


def test_a_drawing_that_changes_nothing_tells_nobody(records: Records) -> None:
    opened(records)

    answer = records.run(surfaces.bridge, drawn({"title": "Plan"}))

    assert answer == {"revision": 1}
    assert actions(records) == []


@pytest.mark.parametrize("op", ["submit", "ask"])
def test_a_submit_and_a_question_reach_the_owner_and_leave_the_state(records: Records, op: Any) -> None:  # noqa: ANN401
    opened(records)
    asked = HostSurface(surface_id="srf-1", op=op, data={"what": "clear"})

    answer = records.run(surfaces.bridge, (asked, "shell"))

    assert answer == {"revision": 1, "action_id": "act-1"}
    assert actions(records) == [
        {
            "action_id": "act-1",
            "kind": f"surface.{op}",
            "surface_id": "srf-1",
            "revision": 1,
            "data": {"what": "clear"},
        }
    ]
    assert state_of(records) == STATE


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (HostSurface(surface_id="srf-9", op="submit"), "surface_not_found"),
        (HostSurface(surface_id="srf-1", op="update"), "message_invalid"),
        (HostSurface(surface_id="srf-1", op="submit", patch={"a": 1}), "message_invalid"),
        (HostSurface(surface_id="srf-1", op="update", patch={"a": 1}, revision=7), "surface_stale"),
        (HostSurface(surface_id="srf-1", op="update", patch=TOO_LARGE), "surface_invalid"),
    ],
)
def test_what_a_bridge_may_not_ask_is_refused(records: Records, asked: HostSurface, code: str) -> None:
    opened(records)

    assert_refused(records, surfaces.bridge, (asked, "shell"), code, "surface.refused")


def test_a_bridge_reaches_no_surface_that_is_closed(records: Records) -> None:
    call = opened(records)
    records.run(surfaces.close_surface, a_closing(an_asker(call.instance_id, "att-1/2")))

    for asked in (drawn({"a": 1}), (HostSurface(surface_id="srf-1", op="submit"), "shell")):
        assert_refused(records, surfaces.bridge, asked, RejectionCode.SURFACE_CLOSED, "surface.refused")


# --- the end of a surface ---


def test_a_surface_that_is_closed_keeps_no_state_and_takes_no_patch(records: Records) -> None:
    call = opened(records)
    who = str(call.instance_id)

    receipt = records.run(surfaces.close_surface, a_closing(an_asker(who, "att-1/2")))

    assert isinstance(receipt, SurfaceReceipt)
    assert receipt.accepted
    record = surfaces.read_surface(records.transaction(), (who, "srf-1"))
    assert record is not None
    assert (record.status, record.state) == ("closed", None)
    assert shown(records)[-1] == ("surface.closed", record.to_wire())
    assert {"state" in one for _, one in shown(records)} == {False}  # nobody needs it, and it may be large
    late = an_update(an_asker(who, "att-1/3"), {"a": 1})
    assert_refused(records, surfaces.update_surface, late, RejectionCode.SURFACE_CLOSED, "surface.refused")


@pytest.mark.parametrize("tool_id", ["board.open", "board.show", "board.update", "notes.write"])
def test_the_end_of_a_call_closes_what_was_opened_for_it_and_nothing_else(records: Records, tool_id: str) -> None:
    scope = tool_id.partition(".")[0]
    a_host(records)
    other = running(records, "board.open" if scope == "board" else "notes.write", "c0")
    call = running(records, tool_id, "c1")
    for request_id, call_id in (("q1", "c1"), ("q2", None), ("q3", "c0")):
        asked = an_opening(an_asker(other.instance_id, request_id), call_id=call_id)
        assert isinstance(records.run(surfaces.open_surface, asked), SurfaceReceipt)

    records.run(calls.finish, a_result(by(records.call("c1"), "q4")))

    left = surfaces.list_surfaces(records.transaction(), str(other.instance_id))
    assert [(one.surface_id, one.call_id) for one in left] == [("srf-2", None), ("srf-3", "c0")]
    assert [entry.subject["surface_id"] for entry in records.audit() if entry.event == "surface.closed"] == ["srf-1"]
    assert call.instance_id == other.instance_id


def test_the_end_of_an_ordinary_call_asks_nothing_about_surfaces(records: Records) -> None:
    call = running(records)
    statements: list[str] = []
    records.sql.set_trace_callback(statements.append)

    records.run(calls.finish, a_result(by(call)))

    assert not [sql for sql in statements if "surfaces where" in sql]


def test_a_launch_that_ends_closes_every_surface_of_its_instance(records: Records) -> None:
    call = opened(records)  # named no call

    records.run(calls.finish, a_result(by(call)))

    assert surfaces.list_surfaces(records.transaction(), str(call.instance_id)) == ()
    assert shown(records)[-1][0] == "surface.closed"


def test_an_instance_that_is_given_up_closes_its_surfaces(records: Records) -> None:
    call = opened(records, call_id="c1")
    process_ended(records, "att-1", reason="start_timeout")

    assert surfaces.list_surfaces(records.transaction(), str(call.instance_id)) == ()
    assert [kind for kind, _ in shown(records)] == ["surface.opened", "surface.closed"]


def test_death_of_the_process_and_of_the_daemon_leave_a_surface_as_it_is(records: Records) -> None:
    call = opened(records, call_id="c1")
    records.run(surfaces.update_surface, an_update(an_asker(call.instance_id, "att-1/2"), {"title": "New"}))
    before = rows.get(records.transaction(), "srf-1")

    process_ended(records, "att-1")
    records.run(recovery.recover, None)
    begun = records.run(instances.begin_attempt, call.instance_id or "")

    assert isinstance(begun, instances.AttemptBegun)
    assert rows.get(records.transaction(), "srf-1") == before
    record = surfaces.read_surface(records.transaction(), (str(call.instance_id), "srf-1"))
    assert record is not None
    assert (record.revision, record.state) == (2, STATE | {"title": "New"})


# --- what hosts and operators read ---


def test_the_listing_holds_all_that_is_open_with_its_state_page_by_page(records: Records) -> None:
    call = opened(records)
    for number in range(2, 4):
        records.run(
            surfaces.open_surface, an_opening(an_asker(call.instance_id, f"att-1/{number}"), state={"n": number})
        )
    records.run(surfaces.close_surface, a_closing(an_asker(call.instance_id, "att-1/4"), "srf-2"))

    first = listing(records, views.View({}, None, 1))
    second = listing(records, views.View({}, first.next, 1))

    assert [(row["surface_id"], row["state"]) for row in (*first.rows, *second.rows)] == [
        ("srf-1", STATE),
        ("srf-3", {"n": 3}),
    ]
    assert second.next is None
    everything = listing(records, views.View({"all": True}, None, 10))
    assert [row["status"] for row in everything.rows] == ["open", "closed", "open"]
    assert listing(records, views.View({"conversation_id": "elsewhere"}, None, 10)).rows == ()


def listing(records: Records, view: views.View) -> views.Page:
    tx: Transaction = records.transaction()
    return views.view_surfaces(tx, view)


def test_many_changes_of_one_surface_push_no_other_event_out(records: Records) -> None:
    call = opened(records)
    for number in range(50):
        records.run(
            surfaces.update_surface, an_update(an_asker(call.instance_id, f"att-1/{number + 2}"), {"n": number})
        )

    assert [kind for kind, _ in shown(records)] == ["surface.opened", "surface.changed"]
    assert screens.KEPT > 50


# --- questions of an app that shows something ---


def surface_of_question(records: Records, call_id: str | None, request_id: str) -> str | None:
    """Which one the runtime wrote into the owner of a question."""
    wish = UiRequest.model_validate({"request": {"kind": "notice", "title": "Done", "message": ""}})
    asker = an_asker(records.call().instance_id, request_id)
    told = records.run(
        interactions.request_interaction,
        interactions.AskPerson(asker, wish.model_copy(update={"parent_call_id": call_id})),
    )
    assert isinstance(told, interactions.InteractionState), told
    owner = told.record.owner
    assert (
        owner.surface_id
        == records.sql.execute(
            "select surface_id from interactions where interaction_id = ?", (told.record.interaction_id,)
        ).fetchone()[0]
    )
    return owner.surface_id


def test_a_question_belongs_to_the_surface_of_its_call_or_to_the_only_one(records: Records) -> None:
    call = opened(records)
    who = an_asker(call.instance_id, "att-1/2")

    assert surface_of_question(records, None, "q1") == "srf-1"
    assert surface_of_question(records, call.call_id, "q2") == "srf-1"
    records.run(surfaces.open_surface, an_opening(who, call_id=call.call_id))
    assert surface_of_question(records, None, "q3") is None
    assert surface_of_question(records, call.call_id, "q4") == "srf-2"
    records.run(surfaces.open_surface, an_opening(replace(who, request_id="att-1/3"), call_id=call.call_id))
    assert surface_of_question(records, call.call_id, "q5") is None


def test_a_question_belongs_to_no_surface_that_is_closed(records: Records) -> None:
    call = opened(records)
    records.run(surfaces.close_surface, a_closing(an_asker(call.instance_id, "att-1/2")))

    assert surface_of_question(records, call.call_id, "q1") is None
