"""Calls: which are let in, what MiniApps report about them, and their time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from runtime_actors.channel import messages as channel
from runtime_actors.channel.messages import Decided, Report, SessionOver
from runtime_actors.commands import apps, calls
from runtime_actors.commands.apps import current_inventory
from runtime_actors.commands.calls import CallAnswer, Reporter
from runtime_actors.commands.follow_ups import DueAt, InventoryChanged
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.tools import (
    Cancel,
    Complete,
    Fail,
    ReportProgress,
    ToolFailure,
    ToolInvoke,
    ToolProgressReport,
)
from runtime_actors.router import messages as m
from runtime_actors.router.actor import RouterActor
from runtime_actors.rules.inventory import Inventory
from runtime_actors.store.messages import Run
from tests.actor_fakes import SWEEP_S, Rig, a_router
from tests.fakes import a_key

Answer = CallAnswer | Rejection


@pytest.fixture
def router(rig: Rig) -> RouterActor:
    return a_router(rig)


def revision(rig: Rig) -> str:
    return rig.run(current_inventory, None).revision


def invoke(rig: Rig, tool_id: str = "notes.write", call_id: str = "c1", **changes: Any) -> Answer:  # noqa: ANN401
    """What an agent is answered."""
    answers: list[Answer] = []
    fields = {"inventory_revision": revision(rig), "input": {}} | changes
    request = ToolInvoke(call_id=call_id, tool_id=tool_id, **fields)
    rig.tell("router", m.Invoke(a_key(call_id), request, answers.append))
    return answers[0]


def code(answer: object) -> str:
    assert isinstance(answer, Rejection), answer
    return str(answer.code)


def instance_of(rig: Rig, call_id: str = "c1") -> str:
    [(instance_id,)] = rig.rows("select instance_id from calls where call_id = ?", call_id)
    return str(instance_id)


def report(rig: Rig, word: ReportProgress | Complete | Fail | Cancel, request_id: str = "q1") -> Decided:
    """What the channel is to answer."""
    by = Reporter(instance_of(rig), "att-1", request_id, word.call_id)
    rig.boxes["channel"].forget()
    rig.tell("router", Report(by, word))
    [decided] = rig.boxes["channel"].of(Decided)
    assert (decided.attempt_id, decided.request_id) == ("att-1", request_id)
    return decided


def told(decided: Decided) -> tuple[str | None, str | None]:
    """Its code, and how the call stands."""
    return (str(decided.refused.code) if decided.refused else None), decided.call_status


def deep(levels: int) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for _ in range(levels):
        tree = {"in": tree}
    return tree


# --- what agents ask ---


def test_a_call_that_passes_every_rung_is_recorded(rig: Rig, router: RouterActor) -> None:
    answer = invoke(rig)

    assert isinstance(answer, CallAnswer)
    assert (answer.call.status, answer.repeated) == ("waiting_for_app", False)
    assert router.name == "router"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"inventory_revision": "r-old"}, "inventory_revision_mismatch"),
        ({"tool_id": "notes.gone"}, "tool_not_advertised"),
        ({"input": {"text": 5}}, "tool_input_invalid"),
        ({"input": {"text": "x" * 101}}, "tool_input_invalid"),
        ({"input": {"text": "x" * 200_000}}, "message_too_large"),
        ({"input": deep(30)}, "message_invalid"),
        ({"tool_id": "guarded.read"}, "capability_denied"),
        ({"tool_id": "board.update"}, "app_instance_not_found"),
        ({"tool_id": "screen.draw"}, "host_unsupported"),
    ],
)
@pytest.mark.usefixtures("router")
def test_a_call_that_fails_a_rung_is_refused_audited_and_leaves_its_id_free(
    rig: Rig, changes: Mapping[str, Any], expected: str
) -> None:
    refused = invoke(rig, **changes)

    assert code(refused) == expected
    assert rig.events()[-1] == "call.refused"
    assert isinstance(invoke(rig), CallAnswer)


@pytest.mark.usefixtures("router")
def test_a_known_call_is_answered_before_any_other_rung(rig: Rig) -> None:
    old = revision(rig)
    invoke(rig)
    rig.run(apps.switch, apps.SwitchTo("app", "board", enabled=False))

    repeated = invoke(rig, inventory_revision=old)
    conflict = invoke(rig, inventory_revision=old, input={"text": "other"})

    assert isinstance(repeated, CallAnswer)
    assert repeated.repeated
    assert code(conflict) == "call_id_conflict"


@pytest.mark.usefixtures("router")
def test_a_cancelled_call_is_looked_at_when_its_grace_is_over(rig: Rig) -> None:
    invoke(rig)
    answers: list[Answer] = []

    rig.tell("router", m.CancelCall(a_key(), "no need", answers.append))
    rig.clock.move(10.0)
    while rig.timers.of(m.TimeUp):
        rig.due(m.TimeUp)

    assert isinstance(answers[0], CallAnswer)
    assert answers[0].call.cancel_requested
    assert rig.rows("select status, error_code from calls") == [("cancelled", "cancel_grace_passed")]


@pytest.mark.usefixtures("router")
def test_calls_can_be_asked_for_and_unknown_ones_are_not_found(rig: Rig) -> None:
    invoke(rig)
    answers: list[Answer] = []

    rig.tell("router", m.GetCall(a_key(), answers.append), m.GetCall(a_key("c9"), answers.append))
    rig.tell("router", m.CancelCall(a_key("c9"), None, answers.append))

    assert isinstance(answers[0], CallAnswer)
    assert [code(one) for one in answers[1:]] == ["call_not_found", "call_not_found"]


@pytest.mark.usefixtures("router")
def test_a_request_whose_command_fails_ends_its_call_and_is_answered(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("the planted fault")

    invoke(rig)
    monkeypatch.setattr("runtime_actors.records.calls.state", fail)
    answers: list[Answer] = []
    rig.tell("router", m.GetCall(a_key(), answers.append))
    rig.tell("router", m.CancelCall(a_key(), None, answers.append))
    monkeypatch.undo()

    assert [code(one) for one in answers][-1] == "internal_error"


# --- what MiniApps report ---


@pytest.mark.usefixtures("router")
def test_progress_is_recorded_and_the_call_runs(rig: Rig) -> None:
    invoke(rig)

    decided = report(rig, ReportProgress(call_id="c1", progress=ToolProgressReport(percent=40.0, note="on it")))

    assert told(decided) == (None, "running")
    assert rig.boxes["outbox"].seen != []


@pytest.mark.usefixtures("router")
@pytest.mark.parametrize(
    ("word", "status", "error_code"),
    [
        (Complete(call_id="c1", result={"ok": True}), "completed", None),
        (Fail(call_id="c1", failure=ToolFailure(code="app.broken", message="it broke")), "failed", "app.broken"),
        (Cancel(call_id="c1", reason="as wished"), "cancelled", "app.cancelled"),
        (Cancel(call_id="c1"), "cancelled", "app.cancelled"),
    ],
)
def test_a_last_word_ends_the_call_and_is_posted_once(
    rig: Rig, word: Complete | Fail | Cancel, status: str, error_code: str | None
) -> None:
    invoke(rig)

    first, again = report(rig, word), report(rig, word, "q2")

    assert (told(first), told(again)) == ((None, status), (None, status))
    assert rig.rows("select status, error_code from calls") == [(status, error_code)]
    assert len(rig.rows("select 1 from outbox")) == 1


@pytest.mark.usefixtures("router")
def test_another_word_after_the_last_one_is_refused(rig: Rig) -> None:
    invoke(rig)
    report(rig, Complete(call_id="c1", result={"ok": True}))

    decided = report(rig, Fail(call_id="c1", failure=ToolFailure(code="app.no", message="")), "q2")

    assert told(decided) == ("call_already_final", None)
    assert rig.status() == "completed"


@pytest.mark.usefixtures("router")
@pytest.mark.parametrize(
    "result",
    [{"ok": "yes"}, {}, {"ok": True, "more": 1}, {"ok": True, "text": "x" * 200_000}, {"ok": deep(30)}],
    ids=["type", "missing", "additional", "too large", "too deep"],
)
def test_the_third_invalid_result_ends_the_call(rig: Rig, result: dict[str, Any]) -> None:
    invoke(rig)
    word = Complete(call_id="c1", result=result)

    first, second = report(rig, word, "q1"), report(rig, word, "q2")
    between = rig.status()
    third = report(rig, word, "q3")

    assert [told(one)[0] for one in (first, second, third)] == ["tool_output_invalid"] * 3
    assert between == "running"
    assert rig.rows("select status, error_code from calls") == [("failed", "tool_output_invalid")]


@pytest.mark.usefixtures("router")
def test_an_invalid_result_counts_once_for_each_request_id_and_a_valid_one_may_follow(rig: Rig) -> None:
    invoke(rig)
    word = Complete(call_id="c1", result={})

    for request_id in ("q1", "q1", "q1", "q2"):
        report(rig, word, request_id)
    decided = report(rig, Complete(call_id="c1", result={"ok": False}), "q3")

    assert told(decided) == (None, "completed")


@pytest.mark.usefixtures("router")
def test_a_report_about_another_instances_call_is_refused(rig: Rig) -> None:
    invoke(rig)
    invoke(rig, "board.open", "c2")
    rig.boxes["channel"].forget()

    by = Reporter(instance_of(rig, "c1"), "att-1", "q1", "c2")
    rig.tell("router", Report(by, Complete(call_id="c2", result={"ok": True})))

    [decided] = rig.boxes["channel"].of(Decided)
    assert told(decided) == ("call_not_found", None)
    assert rig.status("c2") == "waiting_for_app"


@pytest.mark.usefixtures("router")
def test_the_end_of_a_session_goes_to_the_supervisor_behind_every_report_of_it(rig: Rig) -> None:
    invoke(rig)
    over = SessionOver("att-1", ("c1",))
    by = Reporter(instance_of(rig), "att-1", "q1", "c1")
    rig.hold("store")

    rig.tell("router", Report(by, Complete(call_id="c1", result={"ok": True})), over)

    assert rig.boxes["supervisor"].of(channel.SessionOver) == [over]
    assert [run.rule for run in rig.boxes["store"].waiting if isinstance(run, Run)] == [calls.finish]
    rig.let_go("store")


# --- time ---


@pytest.mark.usefixtures("router")
def test_a_call_is_looked_at_when_its_time_is_up_and_expires(rig: Rig) -> None:
    invoke(rig)
    assert [timer.after_s for timer in rig.timers.of(m.TimeUp)] == [60.0]
    rig.clock.move(60.0)

    rig.due(m.TimeUp)

    assert rig.rows("select status, error_code from calls") == [("expired", "deadline_passed")]


@pytest.mark.usefixtures("router")
def test_a_look_that_comes_too_early_plans_the_next_one(rig: Rig) -> None:
    invoke(rig)
    rig.clock.move(20.0)

    rig.due(m.TimeUp)

    assert rig.status() == "waiting_for_app"
    assert [timer.after_s for timer in rig.timers.of(m.TimeUp)] == [40.0]


@pytest.mark.usefixtures("router")
def test_only_an_earlier_deadline_is_a_reason_for_another_timer(rig: Rig) -> None:
    now = rig.clock.now().boot_s

    rig.tell("router", DueAt(now + 50), DueAt(now + 70), DueAt(now + 30), DueAt(now + 30))

    assert [timer.after_s for timer in rig.timers.of(m.TimeUp)] == [50.0, 30.0]


@pytest.mark.usefixtures("router")
def test_a_deadline_far_away_is_looked_at_in_between(rig: Rig) -> None:
    rig.tell("router", DueAt(rig.clock.now().boot_s + 1_000_000))

    assert [timer.after_s for timer in rig.timers.of(m.TimeUp)] == [3600.0]


@pytest.mark.usefixtures("router")
def test_more_overdue_calls_than_one_look_takes_are_looked_at_again_at_once(rig: Rig) -> None:
    for number in range(130):
        assert isinstance(invoke(rig, call_id=f"c{number}"), CallAnswer)
    rig.clock.move(61.0)

    looks = 0
    while rig.timers.of(m.TimeUp):
        rig.due(m.TimeUp)
        looks += 1

    assert rig.rows("select count(*) from calls where status = 'expired'") == [(130,)]
    assert looks <= 3


@pytest.mark.usefixtures("router")
def test_an_expiry_that_the_store_could_not_do_is_done_by_the_sweep(rig: Rig) -> None:
    invoke(rig)
    rig.clock.move(61.0)
    rig.hold("store")
    rig.due(m.TimeUp)
    rig.boxes["store"].waiting.clear()
    rig.let_go("store")
    assert rig.status() == "waiting_for_app"

    rig.due(m.SweepDue)

    assert rig.status() == "expired"


# --- switches ---


@pytest.mark.usefixtures("router")
def test_a_switch_changes_what_is_let_in_and_is_told_to_the_gateway(rig: Rig) -> None:
    before = revision(rig)

    rig.run(apps.switch, apps.SwitchTo("tool", "notes.write", enabled=False))

    [changed] = rig.boxes["gateway"].of(InventoryChanged)
    assert changed.inventory.revision != before
    assert code(invoke(rig, inventory_revision=before)) == "inventory_revision_mismatch"
    assert code(invoke(rig)) == "app_disabled"
    assert isinstance(invoke(rig, "notes.once"), CallAnswer)


@pytest.mark.usefixtures("router")
def test_a_switch_whose_news_got_lost_is_found_by_the_sweep_and_told_once(rig: Rig) -> None:
    rig.lost = lambda one: isinstance(one, InventoryChanged)
    rig.run(apps.switch, apps.SwitchTo("app", "notes", enabled=False))
    assert rig.boxes["gateway"].seen == []

    rig.due(m.SweepDue)
    rig.due(m.SweepDue)

    assert len(rig.boxes["gateway"].of(InventoryChanged)) == 1
    assert code(invoke(rig)) == "app_disabled"


def test_a_rebuild_reads_switches_and_deadlines_again(rig: Rig, router: RouterActor) -> None:
    invoke(rig)
    rig.lost = lambda one: isinstance(one, InventoryChanged)
    rig.run(apps.switch, apps.SwitchTo("app", "board", enabled=False))
    rig.timers.asked.clear()

    router.rebuild()
    rig.settle()

    assert len(rig.boxes["gateway"].of(InventoryChanged)) == 1
    assert [timer.after_s for timer in rig.timers.of(m.TimeUp)] == [60.0]


@pytest.mark.usefixtures("router")
def test_the_sweep_comes_again_and_again(rig: Rig) -> None:
    for _ in range(3):
        assert [timer.after_s for timer in rig.timers.of(m.SweepDue)] == [SWEEP_S]
        rig.due(m.SweepDue)


@pytest.mark.usefixtures("router")
def test_an_inventory_that_is_as_it_was_is_told_to_nobody(rig: Rig) -> None:
    rig.due(m.SweepDue)

    assert rig.boxes["gateway"].seen == []
    assert [type(one) for one in rig.boxes["router"].seen if isinstance(one, Inventory)] == [Inventory]
