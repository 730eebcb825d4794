"""The life of a worker's session, from its socket to its last word."""

from __future__ import annotations

import pytest

from runtime_actors.channel import messages as m
from runtime_actors.channel.events import CloseReason, PeerClosed
from runtime_actors.channel.session import LOST_AFTER_BEATS, MAX_INVALID, RESET_AFTER_BEATS
from runtime_actors.commands import instances
from runtime_actors.commands.follow_ups import TellContext
from runtime_actors.contract.session import CORE_CAPABILITIES, SdkCapability
from runtime_actors.rules.delivery import WINDOW
from tests.actor_fakes import (
    PING_S,
    START_TIMEOUT_S,
    SWEEP_S,
    TOKEN,
    Heard,
    Rig,
    Worker,
    a_channel,
    an_instance,
    expected,
)

INPUT, OUTPUT = CORE_CAPABILITIES


def condemned(rig: Rig) -> list[str]:
    return [one.reason for one in rig.boxes["supervisor"].of(m.Condemn)]


def beat(rig: Rig, times: int = 1, *, after_s: float = PING_S) -> None:
    for _ in range(times):
        rig.monotonic.now_s += after_s
        rig.due(m.BeatDue)


def sweep(rig: Rig) -> None:
    rig.monotonic.now_s += SWEEP_S + 1
    rig.due(m.SweepDue)


def codes(heard: list[Heard]) -> list[str]:
    return [str(one.body["code"]) for one in heard]


@pytest.fixture
def worker(rig: Rig) -> Worker:
    """Forked, not connected; one call waits for it."""
    a_channel(rig)
    return expected(rig, an_instance(rig))


@pytest.fixture
def open_worker(worker: Worker) -> Worker:
    worker.open()
    return worker


# --- the socket ---


def test_a_socket_is_opened_and_its_path_is_told(rig: Rig, worker: Worker) -> None:
    [listening] = rig.boxes["supervisor"].of(m.Listening)

    assert listening == m.Listening(worker.attempt_id, str(rig.sockets.doors[worker.door].path))


def test_a_socket_that_cannot_be_opened_is_told_without_a_path_and_the_session_is_over(rig: Rig) -> None:
    a_channel(rig)
    rig.sockets.fails_to_listen = True

    worker = expected(rig, an_instance(rig), forked=False)
    rig.tell("channel", m.ProcessGone(worker.attempt_id))

    assert rig.boxes["supervisor"].of(m.Listening) == [m.Listening(worker.attempt_id, "")]
    assert rig.boxes["router"].of(m.SessionOver) == [m.SessionOver(worker.attempt_id, ())]


def test_only_the_forked_process_may_connect(rig: Rig, worker: Worker) -> None:
    worker.connect(7, pid=worker.pid + 1)
    worker.hello()

    assert rig.sockets.closed == [7]
    assert worker.hear() == []
    assert condemned(rig) == []


@pytest.mark.parametrize("pid", [4242, 0])
def test_whoever_connects_before_the_fork_is_told_is_a_stranger(rig: Rig, pid: int) -> None:
    a_channel(rig)
    worker = expected(rig, an_instance(rig), forked=False)

    worker.connect(7, pid=pid)
    worker.hello()

    assert rig.sockets.closed == [7]
    assert worker.hear() == []


def test_where_the_kernel_does_not_tell_the_pid_the_token_alone_decides(worker: Worker) -> None:
    worker.connect(pid=0)
    worker.hello()

    assert worker.hear_types() == ["session.welcome"]


# --- hello ---


def test_a_hello_is_answered_with_the_session_and_what_it_may_do(worker: Worker) -> None:
    worker.connect()
    worker.hello()

    [welcome] = worker.hear()
    assert welcome.type == "session.welcome"
    assert (welcome.body["session"], welcome.body["window"], welcome.body["ping_ms"]) == (1, WINDOW, 1000)
    assert welcome.body["context"] == {
        "app_scope": "notes",
        "instance_id": worker.instance_id,
        "conversation_id": "talk",
        "app_version": "1.0.0",
        "state": "starting",
    }
    assert welcome.body["effectiveSdkCapabilities"] == [one.to_wire() for one in CORE_CAPABILITIES]


def test_a_wrong_token_is_refused_ends_the_attempt_and_is_audited(rig: Rig, worker: Worker) -> None:
    worker.connect()
    worker.hello(token="x" * len(TOKEN))

    heard = worker.hear()
    assert ([one.type for one in heard], codes(heard)) == (["session.refused"], ["attach_denied"])
    assert condemned(rig) == ["attach_denied"]
    assert "session.refused" in rig.events()


def test_a_worker_with_a_wrong_token_is_not_listened_to(rig: Rig, worker: Worker) -> None:
    worker.connect()
    worker.hello(token="x" * len(TOKEN))
    worker.hear()

    worker.say("tools.complete", {"call_id": "c1", "result": {"ok": True}})
    worker.say("inbox.list")

    assert worker.hear() == []
    assert rig.boxes["router"].of(m.Report) == []


def test_another_attempts_hello_is_refused(rig: Rig, worker: Worker) -> None:
    body = {"attempt_id": "att-99", "token": TOKEN, "sdk_version": "1", "sdkCapabilities": [], "ready": False}

    worker.connect()
    worker.say("session.hello", body)

    assert codes(worker.hear()) == ["attach_denied"]
    assert condemned(rig) == ["attach_denied"]


def test_a_second_hello_on_a_connection_gives_no_new_credit(rig: Rig, open_worker: Worker) -> None:
    open_worker.hello(ready=True)

    heard = open_worker.hear()
    assert ([one.type for one in heard], codes(heard)) == (["session.refused"], ["session_stale"])
    assert condemned(rig) == ["session_stale"]


def test_what_a_worker_offers_beyond_what_is_allowed_is_ignored(worker: Worker) -> None:
    more = SdkCapability(name="camera", surface="platform", supportLevel="native")

    worker.connect()
    worker.hello(capabilities=(*CORE_CAPABILITIES, more))

    [welcome] = worker.hear()
    assert welcome.body["effectiveSdkCapabilities"] == [one.to_wire() for one in CORE_CAPABILITIES]


def test_a_worker_that_offers_less_at_first_is_frozen_at_that(worker: Worker) -> None:
    worker.connect()
    worker.hello(capabilities=(INPUT, OUTPUT.model_copy(update={"supportLevel": "unsupported"})))

    [welcome] = worker.hear()
    assert welcome.body["effectiveSdkCapabilities"] == [INPUT.to_wire()]


@pytest.mark.parametrize(
    "offer",
    [(INPUT,), (INPUT, OUTPUT.model_copy(update={"supportLevel": "polyfilled"})), ()],
    ids=["less", "weaker", "nothing"],
)
def test_a_reconnect_with_less_than_the_snapshot_ends_the_attempt(
    rig: Rig, open_worker: Worker, offer: tuple[SdkCapability, ...]
) -> None:
    open_worker.disconnect()
    open_worker.connect(2)
    open_worker.hello(ready=True, capabilities=offer)

    assert codes(open_worker.hear()) == ["capability_set_incompatible"]
    assert condemned(rig) == ["capability_set_incompatible"]


def test_a_reconnect_with_more_than_the_snapshot_gets_the_snapshot(open_worker: Worker) -> None:
    more = SdkCapability(name="camera", surface="platform", supportLevel="native")

    open_worker.disconnect()
    open_worker.connect(2)
    open_worker.hello(ready=True, capabilities=(*CORE_CAPABILITIES, more))

    welcome = open_worker.hear()[0]
    assert welcome.body["effectiveSdkCapabilities"] == [one.to_wire() for one in CORE_CAPABILITIES]
    assert welcome.body["session"] == 2


# --- ready ---


def test_ready_is_committed_before_the_state_and_the_first_page_are_sent(rig: Rig, worker: Worker) -> None:
    worker.connect()
    worker.hello()
    worker.confined()
    worker.hear()
    rig.hold("store")
    worker.say("session.ready")
    before = worker.hear()

    rig.let_go("store")

    heard = worker.hear()
    assert before == []
    assert [one.type for one in heard] == ["context.changed", "inbox.message"]
    assert heard[0].body == {"state": "background"}
    assert (heard[1].body["message_id"], heard[1].body["repeated"]) == ("m1", False)
    assert heard[1].body["call"]["call_id"] == "c1"
    assert "attempt.ready" in rig.events()


def test_ready_before_the_hello_is_refused_and_attaches_nothing(rig: Rig, worker: Worker) -> None:
    worker.connect()
    worker.say("session.ready")

    assert codes(worker.hear()) == ["message_invalid"]
    assert "attempt.ready" not in rig.events()


def test_ready_a_second_time_is_refused_and_asks_the_store_nothing(rig: Rig, open_worker: Worker) -> None:
    rig.boxes["store"].forget()

    open_worker.say("session.ready")

    assert codes(open_worker.hear()) == ["message_invalid"]
    assert instances.attach not in [run.rule for run in rig.boxes["store"].seen]  # type: ignore[attr-defined]


def test_an_attach_that_the_store_could_not_decide_is_asked_again_by_the_sweep(rig: Rig, worker: Worker) -> None:
    worker.connect()
    worker.hello()
    worker.confined()
    rig.hold("store")
    worker.say("session.ready")
    rig.boxes["store"].waiting.clear()  # lost
    rig.let_go("store")
    worker.hear()

    sweep(rig)

    assert worker.hear_types() == ["context.changed", "inbox.message"]


def test_an_attempt_of_an_instance_that_is_closing_is_given_nothing_and_ended(rig: Rig, worker: Worker) -> None:
    rig.sql.execute("update instances set state = 'closed' where instance_id = ?", (worker.instance_id,))

    worker.open()

    assert worker.hear() == []
    assert condemned(rig) == ["not_wanted"]


def test_a_change_of_state_is_told_and_stands_in_the_next_welcome(rig: Rig, open_worker: Worker) -> None:
    rig.tell("channel", TellContext(open_worker.instance_id, "foreground"))
    told = open_worker.hear()
    open_worker.disconnect()
    open_worker.connect(2)
    open_worker.hello(ready=True)

    assert told == [Heard("context.changed", {"state": "foreground"})]
    assert open_worker.hear()[0].body["context"]["state"] == "foreground"


def test_a_worker_that_is_suspended_is_told_and_gets_nothing_that_is_put_afterwards(
    rig: Rig, open_worker: Worker
) -> None:
    open_worker.hear()
    rig.tell("channel", TellContext(open_worker.instance_id, "suspended"))

    an_instance(rig, "notes.once", "later")

    assert open_worker.hear() == [Heard("context.changed", {"state": "suspended"})]
    open_worker.say("inbox.acknowledge", {"message_id": "m1"})
    assert [one.type for one in open_worker.hear()] == ["receipt"]  # what it says still counts


# --- time to start ---


def test_a_worker_that_does_not_say_hello_in_time_is_ended(rig: Rig, worker: Worker) -> None:
    worker.connect()

    beat(rig, after_s=START_TIMEOUT_S)
    assert condemned(rig) == []
    beat(rig)

    assert condemned(rig) == ["start_timeout"]


def test_the_time_to_load_begins_with_the_hello_and_a_reconnect_gives_no_more(rig: Rig, worker: Worker) -> None:
    worker.connect()
    beat(rig, after_s=START_TIMEOUT_S - 1)
    worker.hello()
    beat(rig, after_s=START_TIMEOUT_S - 1)
    assert condemned(rig) == []
    worker.disconnect()
    worker.connect(2)
    worker.hello()

    beat(rig, after_s=2)

    assert condemned(rig) == ["start_timeout"]


def test_a_process_that_waits_to_be_forked_is_given_its_time(rig: Rig) -> None:
    a_channel(rig)
    expected(rig, an_instance(rig), forked=False)

    beat(rig, after_s=START_TIMEOUT_S * 10)

    assert condemned(rig) == []


# --- frames that cannot be read ---


def test_an_invalid_frame_is_answered_and_audited(rig: Rig, open_worker: Worker) -> None:
    open_worker.raw(b"\xc1")

    heard = open_worker.hear()
    assert ([one.type for one in heard], codes(heard)) == (["rejected"], ["message_invalid"])
    assert "frame.refused" in rig.events()


@pytest.mark.parametrize("kind", ["session.welcome", "tool.invoke", "nothing"])
def test_a_type_of_another_channel_is_refused_with_its_request_id(open_worker: Worker, kind: str) -> None:
    request_id = open_worker.say(kind)

    [refused] = open_worker.hear()
    assert (refused.body["request_id"], refused.body["code"]) == (request_id, "message_invalid")


def test_invalid_frames_of_all_kinds_are_counted_and_the_last_one_ends_the_attempt(
    rig: Rig, open_worker: Worker
) -> None:
    for number in range(MAX_INVALID - 1):
        match number % 3:
            case 0:
                open_worker.raw(b"\xc1")
            case 1:
                open_worker.say("nothing")
            case _:
                open_worker.say("tools.get")
    assert condemned(rig) == []

    open_worker.raw(b"\xc1")
    open_worker.raw(b"\xc1")

    assert condemned(rig) == ["protocol_error"]


# --- beats, reset and resume ---


def test_a_worker_that_answers_its_beats_is_left_alone(rig: Rig, open_worker: Worker) -> None:
    for _ in range(LOST_AFTER_BEATS * 2):
        beat(rig)
        open_worker.pong()

    assert set(open_worker.hear_types()) == {"session.ping"}
    assert condemned(rig) == []


def test_missed_beats_reset_the_session_and_a_resume_begins_a_new_one(rig: Rig, open_worker: Worker) -> None:
    beat(rig, RESET_AFTER_BEATS)
    assert open_worker.hear_types() == ["session.ping"] * RESET_AFTER_BEATS
    beat(rig)
    [reset, _] = open_worker.hear()

    open_worker.resume(reset.body["session"])

    heard = open_worker.hear()
    assert (reset.type, reset.body["session"]) == ("session.reset", 1)
    assert [one.type for one in heard] == ["session.welcome", "context.changed", "inbox.message"]
    assert heard[0].body["session"] == 2
    assert heard[0].body["snapshot_digest"] == reset.body["snapshot_digest"]
    assert (heard[2].body["message_id"], heard[2].body["repeated"]) == ("m1", True)
    assert condemned(rig) == []


@pytest.mark.usefixtures("open_worker")
def test_six_missed_beats_end_the_attempt(rig: Rig) -> None:
    beat(rig, LOST_AFTER_BEATS)
    assert condemned(rig) == []

    beat(rig)

    assert condemned(rig) == ["not_responding"]


def test_no_resume_within_its_time_ends_the_attempt(rig: Rig, open_worker: Worker) -> None:
    beat(rig, RESET_AFTER_BEATS + 1)
    open_worker.pong()  # the process lives, only it does not resume

    beat(rig, 3)
    assert condemned(rig) == []
    beat(rig)

    assert condemned(rig) == ["not_responding"]


@pytest.mark.parametrize("session", [2, 7])
def test_a_resume_of_another_session_is_stale(rig: Rig, open_worker: Worker, session: int) -> None:
    beat(rig, RESET_AFTER_BEATS + 1)
    open_worker.hear()

    open_worker.resume(session)

    assert codes(open_worker.hear()) == ["session_stale"]
    assert condemned(rig) == ["session_stale"]


def test_a_resume_that_nobody_asked_for_is_stale(rig: Rig, open_worker: Worker) -> None:
    open_worker.resume(1)

    assert codes(open_worker.hear()) == ["session_stale"]
    assert condemned(rig) == ["session_stale"]


def test_a_resume_with_less_than_the_snapshot_ends_the_attempt(rig: Rig, open_worker: Worker) -> None:
    beat(rig, RESET_AFTER_BEATS + 1)
    open_worker.hear()

    open_worker.resume(1, capabilities=(INPUT,))

    assert codes(open_worker.hear()) == ["capability_set_incompatible"]
    assert condemned(rig) == ["capability_set_incompatible"]


def test_between_a_reset_and_its_resume_nothing_but_beats_is_sent(rig: Rig, open_worker: Worker) -> None:
    beat(rig, RESET_AFTER_BEATS + 1)
    open_worker.hear()

    an_instance(rig, call_id="c2")
    rig.tell("channel", TellContext(open_worker.instance_id, "foreground"))
    beat(rig)

    assert open_worker.hear_types() == ["session.ping"]


# --- the connection breaks ---


def test_no_reconnect_in_time_ends_the_attempt(rig: Rig, open_worker: Worker) -> None:
    open_worker.disconnect()
    assert [timer.after_s for timer in rig.timers.of(m.ReconnectDue)] == [5.0]
    assert condemned(rig) == []

    rig.due(m.ReconnectDue)

    assert condemned(rig) == ["connection_lost"]


def test_a_reconnect_in_time_is_a_new_session_with_everything_unacknowledged(rig: Rig, open_worker: Worker) -> None:
    open_worker.disconnect()
    open_worker.connect(2)
    open_worker.hello(ready=True)
    rig.due(m.ReconnectDue)

    heard = open_worker.hear()
    assert [one.type for one in heard] == ["session.welcome", "context.changed", "inbox.message"]
    assert heard[0].body["session"] == 2
    assert (heard[2].body["message_id"], heard[2].body["repeated"]) == ("m1", True)
    assert condemned(rig) == []


def test_whoever_is_there_again_in_time_may_still_be_about_to_say_hello(rig: Rig, open_worker: Worker) -> None:
    open_worker.disconnect()
    open_worker.connect(2)

    rig.due(m.ReconnectDue)
    assert condemned(rig) == []
    open_worker.hello(ready=True)

    assert "session.welcome" in open_worker.hear_types()


def test_a_reconnect_before_the_old_end_was_seen_closes_the_old_connection(rig: Rig, open_worker: Worker) -> None:
    old = open_worker.peer
    open_worker.connect(2)
    open_worker.hello(ready=True)
    open_worker.hear()

    open_worker.rig.tell("channel", PeerClosed(open_worker.door, old, CloseReason.CLOSED))

    assert rig.sockets.closed == [old]
    assert rig.timers.of(m.ReconnectDue) == []
    request_id = open_worker.say("tools.get", {"call_id": "c1"})
    assert open_worker.hear()[0].body["request_id"] == request_id


def test_each_break_of_the_connection_gets_its_own_time(rig: Rig, open_worker: Worker) -> None:
    open_worker.disconnect()
    open_worker.connect(2)
    open_worker.hello(ready=True)
    open_worker.disconnect()

    rig.due(m.ReconnectDue)
    assert condemned(rig) == []
    rig.due(m.ReconnectDue)

    assert condemned(rig) == ["connection_lost"]


@pytest.mark.parametrize("reason", [CloseReason.SLOW_CONSUMER, CloseReason.PROTOCOL_ERROR])
def test_a_worker_that_does_not_read_or_breaks_the_wire_is_ended(
    rig: Rig, open_worker: Worker, reason: CloseReason
) -> None:
    open_worker.disconnect(reason)

    assert condemned(rig) == [str(reason)]


# --- the end ---


def test_a_stop_is_told_with_its_grace_and_nothing_is_delivered_after_it(rig: Rig, open_worker: Worker) -> None:
    rig.tell("channel", m.StopSession(open_worker.attempt_id, "closing", 2.0))
    an_instance(rig, call_id="c2")
    beat(rig, LOST_AFTER_BEATS + 1)

    assert open_worker.hear() == [Heard("session.stop", {"reason": "closing", "grace_ms": 2000})]
    assert condemned(rig) == []


def test_requests_are_still_decided_while_a_worker_stops(rig: Rig, open_worker: Worker) -> None:
    rig.tell("channel", m.StopSession(open_worker.attempt_id, "closing", 2.0))
    open_worker.hear()

    request_id = open_worker.say("inbox.acknowledge", {"message_id": "m1"})

    assert open_worker.hear() == [Heard("receipt", {"request_id": request_id, "accepted": True})]


def test_a_worker_that_says_goodbye_and_stays_is_ended(rig: Rig, open_worker: Worker) -> None:
    open_worker.say("session.bye", {"reason": "main returned"})
    beat(rig, 10)
    assert condemned(rig) == []

    beat(rig)

    assert condemned(rig) == ["not_ending"]


def test_a_worker_that_was_told_to_stop_is_given_its_grace_before_that(rig: Rig, open_worker: Worker) -> None:
    rig.tell("channel", m.StopSession(open_worker.attempt_id, "closing", 60.0))

    beat(rig, 70)
    assert condemned(rig) == []
    beat(rig)

    assert condemned(rig) == ["not_ending"]


def test_a_session_is_over_once_the_dead_workers_socket_was_read_to_its_end(rig: Rig, open_worker: Worker) -> None:
    rig.tell("channel", m.ProcessGone(open_worker.attempt_id))
    assert rig.boxes["router"].of(m.SessionOver) == []
    open_worker.say("tools.complete", {"call_id": "c1", "result": {"ok": True}})

    open_worker.disconnect()

    said = [type(one) for one in rig.boxes["router"].seen if isinstance(one, m.Report | m.SessionOver)]
    assert said == [m.Report, m.SessionOver]
    assert rig.boxes["router"].of(m.SessionOver) == [m.SessionOver(open_worker.attempt_id, ("c1",))]
    assert rig.sockets.doors == {}


def test_a_socket_that_somebody_holds_open_is_read_long_enough(rig: Rig, open_worker: Worker) -> None:
    rig.tell("channel", m.ProcessGone(open_worker.attempt_id))

    rig.due(m.ReadLongEnough)
    open_worker.say("tools.complete", {"call_id": "c1", "result": {"ok": True}})
    open_worker.disconnect(CloseReason.CLOSED)

    assert rig.boxes["router"].of(m.Report) == []
    assert rig.boxes["router"].of(m.SessionOver) == [m.SessionOver(open_worker.attempt_id, ("c1",))]


def test_a_process_that_never_connected_is_over_at_once(rig: Rig, worker: Worker) -> None:
    rig.tell("channel", m.ProcessGone(worker.attempt_id))

    assert rig.boxes["router"].of(m.SessionOver) == [m.SessionOver(worker.attempt_id, ())]


def test_a_connection_that_ended_before_its_process_does_not_hold_up_the_end(rig: Rig, open_worker: Worker) -> None:
    open_worker.disconnect()

    rig.tell("channel", m.ProcessGone(open_worker.attempt_id))
    rig.due(m.ReconnectDue)

    assert rig.boxes["router"].of(m.SessionOver) == [m.SessionOver(open_worker.attempt_id, ("c1",))]
    assert condemned(rig) == []


def test_messages_that_were_settled_are_not_named_at_the_end(rig: Rig, open_worker: Worker) -> None:
    open_worker.say("inbox.acknowledge", {"message_id": "m1"})
    rig.tell("channel", m.ProcessGone(open_worker.attempt_id))

    open_worker.disconnect()

    assert rig.boxes["router"].of(m.SessionOver) == [m.SessionOver(open_worker.attempt_id, ())]
