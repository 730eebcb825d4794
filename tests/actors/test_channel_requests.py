"""What a MiniApp asks over its channel, the credit it has for that, and what it is delivered."""

from __future__ import annotations

import pytest

from runtime_actors.channel import messages as m
from runtime_actors.channel.actor import ChannelActor
from runtime_actors.channel.session import MAX_INVALID, RESET_AFTER_BEATS
from runtime_actors.commands import calls, inbox
from runtime_actors.commands.follow_ups import Deliver, Settled
from runtime_actors.commands.inbox import read_inbox
from runtime_actors.contract import tools as wire_tools
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.rules.delivery import WINDOW
from runtime_actors.rules.rates import Rate, Rates
from runtime_actors.store.messages import Run
from tests.actor_fakes import SWEEP_S, Heard, Rig, Worker, a_channel, an_instance, an_open_worker
from tests.fakes import a_key

NO_SPACE = Rejection(code=RejectionCode.STORE_UNAVAILABLE, detail="no space")


def condemned(rig: Rig) -> list[str]:
    return [one.reason for one in rig.boxes["supervisor"].of(m.Condemn)]


def sweep(rig: Rig) -> None:
    rig.monotonic.now_s += SWEEP_S + 1
    rig.due(m.SweepDue)


def numbers(heard: list[Heard]) -> list[int]:
    """Of the messages that were delivered, in order."""
    return [one.body["number"] for one in heard if one.type == "inbox.message"]


def reports(rig: Rig) -> list[m.Report]:
    return rig.boxes["router"].of(m.Report)


def complete(worker: Worker, call_id: str = "c1", *, id: str | None = None) -> str:  # noqa: A002
    return worker.say("tools.complete", {"call_id": call_id, "result": {"ok": True}}, id=id)


def admit(rig: Rig, count: int) -> None:
    """So many more calls for the same instance, `n1`, `n2`, ..."""
    for number in range(count):
        an_instance(rig, call_id=f"n{number}")


@pytest.fixture
def channel(rig: Rig) -> ChannelActor:
    return a_channel(rig)


@pytest.fixture
def worker(rig: Rig, channel: ChannelActor) -> Worker:
    """Open, with one call, `m1`, that was sent and is not acknowledged."""
    assert channel.name == "channel"
    return an_open_worker(rig, an_instance(rig))


# --- requests ---


def test_a_report_goes_to_the_router_with_who_speaks_written_by_the_channel(rig: Rig, worker: Worker) -> None:
    request_id = complete(worker)

    [report] = reports(rig)
    assert report.by == calls.Reporter(worker.instance_id, worker.attempt_id, request_id, "c1")
    assert worker.hear() == []

    rig.tell("channel", m.Decided(worker.attempt_id, request_id, None, "completed"))

    receipt = {"request_id": request_id, "accepted": True, "call_status": "completed"}
    assert worker.hear() == [Heard("receipt", receipt)]


def test_a_refusal_is_a_receipt_with_its_code(rig: Rig, worker: Worker) -> None:
    request_id = complete(worker)

    rig.tell("channel", m.Decided(worker.attempt_id, request_id, NO_SPACE))

    [receipt] = worker.hear()
    assert (receipt.body["accepted"], receipt.body["code"]) == (False, "store_unavailable")


def test_an_acknowledgement_is_answered_after_its_commit(rig: Rig, worker: Worker) -> None:
    rig.hold("store")
    request_id = worker.say("inbox.acknowledge", {"message_id": "m1"})
    before = worker.hear()

    rig.let_go("store")

    assert before == []
    assert worker.hear() == [Heard("receipt", {"request_id": request_id, "accepted": True})]
    assert rig.status() == "running"


@pytest.mark.parametrize("message_id", ["m2", "m0", "x1", "m99999"])
def test_a_message_that_is_not_there_cannot_be_acknowledged(worker: Worker, message_id: str) -> None:
    worker.say("inbox.acknowledge", {"message_id": message_id})

    assert [one.body["code"] for one in worker.hear()] == ["message_not_found"]


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        ("surfaces.close", {"surface_id": "srf-9"}, "surface_not_found"),
        ("lifecycle.request_close", {}, "lifecycle_denied"),
        ("artifacts.chunk", {"artifact_id": "art-9", "offset": 0, "content": ""}, "artifact_not_found"),
        ("ui.cancel", {"interaction_id": "int-9"}, "interaction_not_found"),
        ("capabilities.request", {"capability": "notify", "reason": "to be heard"}, "capability_denied"),
    ],
)
def test_whatever_is_refused_is_answered_with_its_code(
    worker: Worker, kind: str, body: dict[str, object], code: str
) -> None:
    request_id = worker.say(kind, body)

    [answer] = worker.hear()
    assert (answer.body["request_id"], answer.body["accepted"], answer.body["code"]) == (request_id, False, code)


def test_the_inbox_can_be_listed_and_gone_on_with(rig: Rig, worker: Worker) -> None:
    admit(rig, 2)
    worker.hear()

    first = worker.say("inbox.list")
    second = worker.say("inbox.list", {"after_message_id": "m1"})

    pages = worker.hear()
    assert [one.type for one in pages] == ["inbox.page", "inbox.page"]
    assert [one.body["request_id"] for one in pages] == [first, second]
    assert [[message["message_id"] for message in one.body["messages"]] for one in pages] == [
        ["m1", "m2", "m3"],
        ["m2", "m3"],
    ]
    assert [one.body["more"] for one in pages] == [False, False]


def test_a_listing_holds_what_fits_one_frame_and_says_that_there_is_more(rig: Rig, worker: Worker) -> None:
    for number in range(3):
        big = inbox.PutText(
            "local", "talk", f"t{number}", "notes", "x" * 60_000, {"fill": "y" * 16_000}, bytes([number])
        )
        assert isinstance(rig.run(inbox.put_text, big), inbox.TextReceived)
        assert isinstance(rig.run(inbox.put_text, inbox_text(number)), inbox.TextReceived)
    worker.hear()

    worker.say("inbox.list")

    [page] = worker.hear()
    assert page.body["more"] is True
    assert 0 < len(page.body["messages"]) < 7


def inbox_text(number: int) -> inbox.PutText:
    return inbox.PutText("local", "talk", f"s{number}", "notes", "x" * 60_000, None, bytes([99, number]))


def test_a_call_can_be_looked_at_and_an_unknown_one_is_nothing(worker: Worker) -> None:
    worker.say("tools.get", {"call_id": "c1"})
    worker.say("tools.get", {"call_id": "c9"})

    [known, unknown] = worker.hear()
    assert (known.type, known.body["call"]["status"]) == ("tools.call", "waiting_for_app")
    assert (unknown.type, unknown.body.get("call")) == ("tools.call", None)


@pytest.mark.parametrize("kind", ["inbox.list", "tools.get"])
def test_a_question_that_the_store_cannot_answer_gets_a_receipt(rig: Rig, worker: Worker, kind: str) -> None:
    rig.hold("store")
    request_id = worker.say(kind, {"call_id": "c1"} if kind == "tools.get" else None)
    [asked] = [one for one in rig.boxes["store"].waiting if isinstance(one, Run)]
    rig.boxes["store"].waiting.clear()

    assert asked.then is not None
    asked.then(NO_SPACE)
    rig.settle()

    [receipt] = worker.hear()
    assert (receipt.type, receipt.body["request_id"], receipt.body["code"]) == (
        "receipt",
        request_id,
        "store_unavailable",
    )
    rig.let_go("store")


def test_a_request_with_a_wrong_body_is_refused_in_its_receipt(rig: Rig, worker: Worker) -> None:
    request_id = worker.say("tools.complete", {"call_id": "c1"})

    [receipt] = worker.hear()
    assert (receipt.type, receipt.body["request_id"], receipt.body["code"]) == (
        "receipt",
        request_id,
        "message_invalid",
    )
    assert "report.refused" in rig.events()
    assert reports(rig) == []


def test_a_request_that_follows_ready_at_once_is_decided_behind_the_attach(rig: Rig, worker: Worker) -> None:
    worker.disconnect()
    worker.connect(2)
    rig.hold("store")
    worker.hello(ready=True)
    worker.hear()

    request_id = worker.say("inbox.acknowledge", {"message_id": "m1"})
    rig.let_go("store")

    heard = worker.hear()
    assert Heard("receipt", {"request_id": request_id, "accepted": True}) in heard


# --- rate ---


def test_an_app_that_asks_too_often_is_refused_and_what_ends_a_call_or_a_message_is_not(
    rig: Rig, channel: ChannelActor, worker: Worker
) -> None:
    channel._requests._rates = Rates(Rate(burst=2, per_s=0))

    said = [worker.say("capabilities.request", {"capability": "print", "reason": "x"}) for _ in range(4)]
    ended = complete(worker)

    answers = {one.body["request_id"]: one.body["code"] for one in worker.hear()}
    assert [answers[request_id] for request_id in said] == ["capability_denied"] * 2 + ["rate_exceeded"] * 2
    assert [report.by.request_id for report in reports(rig)] == [ended]
    assert condemned(rig) == []
    assert rig.events().count("report.refused") == 1


# --- credit ---


def test_exactly_the_window_may_be_undecided_and_one_more_ends_the_attempt(rig: Rig, worker: Worker) -> None:
    for number in range(WINDOW):
        complete(worker, f"c{number}")
    assert len(reports(rig)) == WINDOW
    assert condemned(rig) == []

    complete(worker, "one-more")

    assert condemned(rig) == ["credit_exceeded"]
    assert len(reports(rig)) == WINDOW


def test_an_answer_gives_credit_back(rig: Rig, worker: Worker) -> None:
    said = [complete(worker, f"c{number}") for number in range(WINDOW)]
    rig.tell("channel", m.Decided(worker.attempt_id, said[10], None, "completed"))

    complete(worker, "one-more")

    assert condemned(rig) == []
    assert len(reports(rig)) == WINDOW + 1


def test_questions_use_the_same_credit(rig: Rig, worker: Worker) -> None:
    rig.hold("store")
    for number in range(WINDOW):
        worker.say(("inbox.list", "tools.get")[number % 2], {"call_id": "c1"} if number % 2 else None)
    assert condemned(rig) == []

    worker.say("inbox.list")

    assert condemned(rig) == ["credit_exceeded"]
    rig.let_go("store")


def test_a_repeated_undecided_request_joins_the_first_and_uses_no_credit(rig: Rig, worker: Worker) -> None:
    for number in range(WINDOW):
        complete(worker, f"c{number}", id=f"q{number}")

    complete(worker, "c0", id="q0")
    rig.tell("channel", m.Decided(worker.attempt_id, "q0", None, "completed"))

    assert len(reports(rig)) == WINDOW
    assert condemned(rig) == []
    assert [one.body["request_id"] for one in worker.hear()] == ["q0"]


def test_a_decided_request_that_is_repeated_is_decided_again(rig: Rig, worker: Worker) -> None:
    complete(worker, id="q1")
    rig.tell("channel", m.Decided(worker.attempt_id, "q1", None, "completed"))

    complete(worker, id="q1")

    assert len(reports(rig)) == 2


# --- an answer gets lost ---


def test_a_request_that_stays_undecided_is_found_by_the_sweep_which_resets(rig: Rig, worker: Worker) -> None:
    complete(worker, id="q1")
    rig.due(m.SweepDue)
    assert worker.hear() == []

    sweep(rig)
    [reset] = worker.hear()
    worker.resume(reset.body["session"])
    complete(worker, id="q1")

    assert reset.type == "session.reset"
    assert "session.welcome" in worker.hear_types()
    assert [report.by.request_id for report in reports(rig)] == ["q1", "q1"]


def test_a_repeat_may_arrive_before_the_attach_is_decided(rig: Rig, worker: Worker) -> None:
    complete(worker, id="q1")
    sweep(rig)
    rig.hold("store")

    worker.resume(1)
    complete(worker, id="q1")
    rig.let_go("store")

    assert len(reports(rig)) == 2


def test_a_rebuild_resets_open_sessions_and_forgets_what_was_undecided(
    rig: Rig, channel: ChannelActor, worker: Worker
) -> None:
    for number in range(WINDOW):
        complete(worker, f"c{number}")

    channel.rebuild()
    [reset] = worker.hear()
    worker.resume(reset.body["session"])
    complete(worker, "c0")

    assert reset.type == "session.reset"
    heard = worker.hear()
    assert (numbers(heard), [one.body["repeated"] for one in heard if one.type == "inbox.message"]) == ([1], [True])
    assert condemned(rig) == []


def test_a_failing_message_rebuilds_the_channel_and_nobody_loses_a_message(
    rig: Rig, channel: ChannelActor, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise ValueError("the planted fault")

    monkeypatch.setattr(channel._requests, "answer_decided", fail)
    complete(worker, id="q1")
    rig.tell("channel", m.Decided(worker.attempt_id, "q1", None, "completed"))
    monkeypatch.undo()
    for module in ("actor", "requests"):
        monkeypatch.setattr(f"runtime_actors.channel.{module}.time", rig.monotonic)

    worker.resume(1)
    complete(worker, id="q1")

    assert [aside.message for aside in rig.aside] == ["Decided"]
    assert channel.rebuilt == 1
    assert len(reports(rig)) == 2
    rig.tell("channel", m.Decided(worker.attempt_id, "q1", None, "completed"))
    assert worker.hear()[-1].type == "receipt"


def test_a_session_that_ends_with_undecided_requests_leaves_their_answers_to_nobody(rig: Rig, worker: Worker) -> None:
    request_id = complete(worker)
    rig.tell("channel", m.ProcessGone(worker.attempt_id))
    worker.disconnect()

    rig.tell("channel", m.Decided(worker.attempt_id, request_id, None, "completed"))

    assert worker.hear() == []
    assert rig.boxes["router"].of(m.SessionOver) != []


# --- deliveries ---


def test_a_new_message_is_sent_at_once_while_there_is_room(rig: Rig, worker: Worker) -> None:
    reads = len([run for run in rig.boxes["store"].of(Run) if run.rule is read_inbox])

    admit(rig, WINDOW - 1)

    assert numbers(worker.hear()) == list(range(2, WINDOW + 1))
    assert len([run for run in rig.boxes["store"].of(Run) if run.rule is read_inbox]) == reads


def test_at_most_the_window_is_unacknowledged_and_the_rest_follows_in_pages(rig: Rig, worker: Worker) -> None:
    admit(rig, WINDOW * 2)
    got = [1, *numbers(worker.hear())]
    assert got == list(range(1, WINDOW + 1))

    for number in range(1, WINDOW * 2 + 2):
        worker.say("inbox.acknowledge", {"message_id": f"m{number}"})
        got += numbers(worker.hear())
        assert len(got) - number <= WINDOW

    assert got == list(range(1, WINDOW * 2 + 2))


def test_an_acknowledgement_reads_the_inbox_only_if_something_waits_there(rig: Rig, worker: Worker) -> None:
    admit(rig, 3)
    got = numbers(worker.hear())
    rig.boxes["store"].forget()

    for number in got:
        worker.say("inbox.acknowledge", {"message_id": f"m{number}"})
        worker.hear()

    assert got
    assert [run for run in rig.boxes["store"].of(Run) if run.rule is read_inbox] == []


def test_a_slow_worker_costs_no_sending_however_much_waits_for_it(rig: Rig, worker: Worker) -> None:
    admit(rig, WINDOW * 3)
    worker.hear()
    rig.boxes["store"].forget()

    admit(rig, 3)
    sweep(rig)
    sweep(rig)

    assert numbers(worker.hear()) == []
    assert len([run for run in rig.boxes["store"].of(Run) if run.rule is read_inbox]) == 2


def test_a_dropped_delivery_is_found_by_the_next_message(rig: Rig, worker: Worker) -> None:
    rig.lost = lambda told: isinstance(told, Deliver)
    an_instance(rig, call_id="c2")
    rig.lost = lambda _: False
    assert numbers(worker.hear()) == []

    an_instance(rig, call_id="c3")

    assert numbers(worker.hear()) == [2, 3]


def test_a_dropped_delivery_is_found_by_the_sweep(rig: Rig, worker: Worker) -> None:
    rig.lost = lambda told: isinstance(told, Deliver)
    an_instance(rig, call_id="c2")

    sweep(rig)

    assert numbers(worker.hear()) == [2]


def test_a_dropped_settlement_is_found_by_the_sweep_and_gives_its_room_back(rig: Rig, worker: Worker) -> None:
    admit(rig, WINDOW + 5)
    worker.hear()
    rig.lost = lambda told: isinstance(told, Settled)
    for number in range(1, WINDOW + 1):
        worker.say("inbox.acknowledge", {"message_id": f"m{number}"})
    assert numbers(worker.hear()) == []

    sweep(rig)

    assert numbers(worker.hear()) == list(range(WINDOW + 1, WINDOW + 7))


def test_a_page_that_could_not_be_read_is_asked_for_again_by_the_sweep(rig: Rig, worker: Worker) -> None:
    rig.lost = lambda told: isinstance(told, Deliver)
    an_instance(rig, call_id="c2")
    rig.tell("channel", m.PageRead(worker.attempt_id, 1, frozenset(), NO_SPACE))

    sweep(rig)

    assert numbers(worker.hear()) == [2]


def test_a_page_of_an_earlier_session_is_not_sent_in_a_later_one(rig: Rig, worker: Worker) -> None:
    rig.hold("store")
    sweep(rig)  # asks for a page
    [old] = [run for run in rig.boxes["store"].waiting if isinstance(run, Run) and run.rule is read_inbox]
    rig.boxes["store"].waiting.clear()
    rig.let_go("store")
    page = rig.run(read_inbox, inbox.InboxPageOf(worker.instance_id, frozenset(), 0, WINDOW))
    worker.disconnect()
    worker.connect(2)
    worker.hello(ready=True)
    worker.hear()

    assert old.then is not None
    old.then(page)
    rig.settle()

    assert worker.hear() == []


def test_the_wish_to_cancel_is_told_to_the_worker(rig: Rig, worker: Worker) -> None:
    rig.run(calls.request_cancel, calls.CancelWish(a_key(), "no need"))

    [changed] = worker.hear()
    assert changed == Heard(
        "call.changed", {"call_id": "c1", "status": "waiting_for_app", "cancel_requested": True, "reason": "no need"}
    )


def test_a_text_waits_for_a_session_and_is_the_first_page_of_it(rig: Rig, worker: Worker) -> None:
    for _ in range(RESET_AFTER_BEATS + 1):
        rig.due(m.BeatDue)
    worker.hear()
    rig.run(inbox.put_text, inbox_text(1))
    before = worker.hear()

    worker.resume(1)

    assert numbers(before) == []
    heard = worker.hear()
    assert [(one.body["number"], one.body["repeated"]) for one in heard if one.type == "inbox.message"] == [
        (1, True),
        (2, False),
    ]


def large_progress(call_id: str, step: int) -> wire_tools.ReportProgress:
    return wire_tools.ReportProgress.model_validate(
        {"call_id": call_id, "progress": {"data": {"step": step, "text": "x" * 15_000}}}
    )


def steps(rig: Rig) -> list[int]:
    words = [one.word for one in rig.boxes["router"].of(m.Report)]
    return [int((one.progress.data or {})["step"]) for one in words if isinstance(one, wire_tools.ReportProgress)]


def test_of_large_requests_no_more_are_decided_at_a_time_than_leave_room_for_others(rig: Rig, worker: Worker) -> None:
    ids = [worker.say("tools.report_progress", large_progress("c1", step)) for step in range(10)]

    assert steps(rig) == [0]

    rig.tell("channel", m.Decided(worker.attempt_id, ids[0], None), m.Decided(worker.attempt_id, ids[1], None))
    assert steps(rig) == [0, 1, 2]


def test_requests_that_wait_are_handed_on_when_their_worker_has_died(rig: Rig, worker: Worker) -> None:
    for step in range(10):
        worker.say("tools.report_progress", large_progress("c1", step))

    rig.tell("channel", m.ProcessGone(worker.attempt_id))
    worker.disconnect()

    assert steps(rig) == list(range(10))
    assert isinstance(rig.boxes["router"].seen[-1], m.SessionOver)


def test_of_a_worker_that_broke_the_protocol_nothing_more_is_handed_on(rig: Rig, worker: Worker) -> None:
    for step in range(10):
        worker.say("tools.report_progress", large_progress("c1", step))

    for _ in range(MAX_INVALID):
        worker.raw(b"\xc1")
    rig.tell("channel", m.ProcessGone(worker.attempt_id))
    worker.disconnect()

    assert steps(rig) == [0]
