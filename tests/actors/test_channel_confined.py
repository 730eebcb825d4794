"""Between a worker's hello and its app: it says how it is confined, is measured, and is let go or ended."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from runtime_actors.channel import messages as m
from runtime_actors.channel.session import Verdict
from runtime_actors.contract import session as wire
from tests.actor_fakes import PING_S, START_TIMEOUT_S, Heard, Rig, Worker, a_channel, an_instance, expected

SEALED = Verdict("sealed", enough=True, sealed=True)
PARTIAL = Verdict("partial", enough=True, sealed=False)
TOO_WEAK = Verdict("partial", enough=False, sealed=False)
SAID = wire.Confined(namespaces=("net",), landlock_abi=3, canaries={"landlock": True, "filter": False})


def condemned(rig: Rig) -> list[str]:
    return [one.reason for one in rig.boxes["supervisor"].of(m.Condemn)]


def beat(rig: Rig, *, after_s: float = PING_S) -> None:
    rig.monotonic.now_s += after_s
    rig.due(m.BeatDue)


def refused(heard: list[Heard]) -> list[tuple[str, str]]:
    return [(one.type, str(one.body["code"])) for one in heard]


def level(rig: Rig) -> str | None:
    """Of the one attempt, as it is kept."""
    [(found,)] = rig.rows("select level from attempts")
    return None if found is None else str(found)


@pytest.fixture
def worker(rig: Rig) -> Worker:
    """Welcomed; one call waits for it."""
    a_channel(rig)
    made = expected(rig, an_instance(rig))
    made.connect()
    made.hello()
    made.hear()
    return made


# --- enough ---


def test_a_worker_is_measured_by_its_pid_and_its_word_and_then_let_go(rig: Rig, worker: Worker) -> None:
    rig.verdict = SEALED

    worker.say("session.confined", SAID)

    assert rig.measured == [(worker.pid, SAID)]
    assert worker.hear() == [Heard("session.go", {"level": "sealed"})]
    assert condemned(rig) == []


def test_the_level_that_was_measured_is_kept_with_the_attempt_and_audited(rig: Rig, worker: Worker) -> None:
    rig.verdict = PARTIAL
    worker.confined()
    assert level(rig) is None

    worker.say("session.ready")

    assert level(rig) == "partial"
    [(detail,)] = rig.rows("select detail from audit where event = 'attempt.ready'")
    assert "partial" in str(detail)


def test_the_door_of_a_sealed_worker_is_closed_and_its_connection_stays(rig: Rig, worker: Worker) -> None:
    rig.verdict = SEALED

    worker.confined()

    assert rig.sockets.doors_closed == [(worker.door, True)]
    assert rig.sockets.closed == []
    worker.say("session.ready")
    assert worker.hear_types() == ["session.go", "context.changed", "inbox.message"]


def test_the_door_of_a_worker_that_is_not_sealed_stays_open_for_it_to_come_again(rig: Rig, worker: Worker) -> None:
    rig.verdict = PARTIAL

    worker.confined()

    assert rig.sockets.doors_closed == []
    assert worker.door in rig.sockets.doors


def test_when_a_session_is_over_the_connection_of_a_sealed_one_is_closed_too(rig: Rig, worker: Worker) -> None:
    rig.verdict = SEALED
    worker.confined()
    worker.say("session.ready")

    rig.tell("channel", m.ProcessGone(worker.attempt_id))
    rig.due(m.ReadLongEnough)

    assert rig.sockets.closed == [worker.peer]
    assert [one.attempt_id for one in rig.boxes["router"].of(m.SessionOver)] == [worker.attempt_id]


# --- not enough ---


def test_a_worker_that_is_not_confined_enough_is_ended_and_not_let_go(rig: Rig, worker: Worker) -> None:
    rig.verdict = TOO_WEAK

    worker.confined()

    assert condemned(rig) == ["isolation_too_weak"]
    assert worker.hear() == []


def test_a_worker_that_was_found_too_weak_is_given_nothing_whatever_it_says(rig: Rig, worker: Worker) -> None:
    rig.verdict = TOO_WEAK
    worker.confined()
    rig.verdict = SEALED

    worker.confined()
    worker.say("session.ready")
    worker.disconnect()
    worker.connect(2)
    worker.hello(ready=True)
    worker.confined()

    assert {"session.go", "inbox.message"}.isdisjoint(worker.hear_types())
    assert condemned(rig) == ["isolation_too_weak"]
    assert "attempt.ready" not in rig.events()
    assert len(rig.measured) == 1


def test_a_worker_that_cannot_be_measured_for_want_of_descriptors_is_ended_and_nothing_fails(rig: Rig) -> None:
    def measure(_pid: int, _said: wire.Confined) -> Verdict:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    channel = a_channel(rig)
    channel._measure = measure
    worker = expected(rig, an_instance(rig))
    worker.connect()
    worker.hello()
    worker.hear()

    worker.confined()

    assert condemned(rig) == ["not_measured"]
    assert worker.hear() == []
    assert channel.rebuilt == 0


# --- said again ---


def test_a_worker_that_says_it_again_because_the_answer_was_lost_is_answered_and_not_measured_again(
    rig: Rig, worker: Worker
) -> None:
    rig.verdict = PARTIAL
    worker.confined()
    worker.disconnect()
    worker.connect(2)
    worker.hello()
    worker.hear()
    rig.verdict = SEALED  # what an app that runs by now could say

    worker.confined()

    assert worker.hear() == [Heard("session.go", {"level": "partial"})]
    assert len(rig.measured) == 1
    worker.say("session.ready")
    assert level(rig) == "partial"


def test_a_worker_whose_connection_broke_before_it_said_so_is_measured_on_the_next(rig: Rig, worker: Worker) -> None:
    worker.disconnect()
    worker.connect(2)
    worker.hello()
    worker.hear()

    worker.confined()

    assert worker.hear() == [Heard("session.go", {"level": "process"})]
    assert len(rig.measured) == 1


@pytest.mark.parametrize("resumed", [False, True])
def test_said_by_a_running_app_it_is_refused_and_changes_no_level(rig: Rig, worker: Worker, *, resumed: bool) -> None:
    rig.verdict = PARTIAL
    worker.confined()
    worker.say("session.ready")
    if resumed:
        worker.disconnect()
        worker.connect(2)
        worker.hello(ready=True)
    worker.hear()
    rig.verdict = SEALED

    worker.confined()

    assert refused(worker.hear()) == [("rejected", "message_invalid")]
    assert level(rig) == "partial"
    assert len(rig.measured) == 1
    assert rig.sockets.doors_closed == []


# --- out of turn ---


def test_ready_before_it_is_refused_and_attaches_nothing(rig: Rig, worker: Worker) -> None:
    worker.say("session.ready")

    assert refused(worker.hear()) == [("rejected", "message_invalid")]
    assert "attempt.ready" not in rig.events()


def test_a_hello_that_says_ready_is_no_way_round_it(rig: Rig) -> None:
    a_channel(rig)
    worker = expected(rig, an_instance(rig))
    worker.connect()

    worker.hello(ready=True)

    assert worker.hear_types() == ["session.welcome"]
    assert "attempt.ready" not in rig.events()
    worker.confined()
    assert worker.hear_types() == ["session.go"]


def test_said_before_the_hello_it_is_refused_and_nobody_is_measured(rig: Rig) -> None:
    a_channel(rig)
    worker = expected(rig, an_instance(rig))
    worker.connect()

    worker.confined()

    assert refused(worker.hear()) == [("rejected", "message_invalid")]
    assert rig.measured == []


@pytest.mark.parametrize(
    "changed",
    [
        {"landlock_abi": -1},
        {"landlock_abi": "6"},
        {"canaries": {"landlock": "yes"}},
        {"canaries": {str(number): True for number in range(9)}},
        {"namespaces": ["net"] * 9},
        {"namespaces": ["n" * 17]},
        {"level": "strong"},
    ],
    ids=str,
)
def test_what_is_no_report_is_refused_and_may_be_said_better(rig: Rig, worker: Worker, changed: dict[str, Any]) -> None:
    worker.say("session.confined", SAID.to_wire() | changed)

    assert refused(worker.hear()) == [("rejected", "message_invalid")]
    assert (rig.measured, condemned(rig)) == ([], [])
    worker.confined()
    assert worker.hear_types() == ["session.go"]


# --- its time ---


@pytest.mark.usefixtures("worker")
def test_a_worker_that_does_not_say_how_it_is_confined_in_time_is_ended(rig: Rig) -> None:
    beat(rig, after_s=START_TIMEOUT_S)
    assert condemned(rig) == []
    beat(rig)

    assert condemned(rig) == ["start_timeout"]


def test_a_reconnect_gives_no_more_time_to_say_it(rig: Rig, worker: Worker) -> None:
    beat(rig, after_s=START_TIMEOUT_S - 1)
    worker.disconnect()
    worker.connect(2)
    worker.hello()

    beat(rig, after_s=2)

    assert condemned(rig) == ["start_timeout"]


def test_the_time_to_load_begins_once_it_is_let_go_and_saying_it_again_gives_no_more(rig: Rig, worker: Worker) -> None:
    beat(rig, after_s=START_TIMEOUT_S - 1)
    worker.confined()
    beat(rig, after_s=START_TIMEOUT_S - 1)
    assert condemned(rig) == []
    worker.confined()

    beat(rig, after_s=2)

    assert condemned(rig) == ["start_timeout"]
