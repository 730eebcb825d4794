"""Which calls a dead process had: all that it was sent or could read, in whichever session, and did not settle."""

from __future__ import annotations

import pytest

from runtime_actors.channel import messages as m
from runtime_actors.channel.session import RESET_AFTER_BEATS
from tests.actor_fakes import PING_S, Rig, Worker, a_channel, an_instance, an_open_worker


@pytest.fixture
def worker(rig: Rig) -> Worker:
    """Open, with one call that was sent, `c1`."""
    a_channel(rig)
    return an_open_worker(rig, an_instance(rig))


def dies(rig: Rig, worker: Worker) -> tuple[str, ...]:
    """The calls it is said to have had."""
    rig.tell("channel", m.ProcessGone(worker.attempt_id))
    worker.disconnect()
    [over] = rig.boxes["router"].of(m.SessionOver)
    return over.delivered


def test_a_call_that_was_listed_is_one_that_it_had(rig: Rig, worker: Worker) -> None:
    rig.lost = lambda _: True
    an_instance(rig, call_id="c2")
    rig.lost = lambda _: False

    worker.say("inbox.list", {"after_message_id": None})

    assert dies(rig, worker) == ("c1", "c2")


def test_a_call_that_was_never_sent_is_none_that_it_had(rig: Rig, worker: Worker) -> None:
    rig.lost = lambda _: True
    an_instance(rig, call_id="c2")
    rig.lost = lambda _: False

    assert dies(rig, worker) == ("c1",)


def test_a_call_of_before_a_reset_is_one_that_it_had(rig: Rig, worker: Worker) -> None:
    for _ in range(RESET_AFTER_BEATS + 1):
        rig.monotonic.now_s += PING_S
        rig.due(m.BeatDue)

    assert dies(rig, worker) == ("c1",)


def test_a_call_of_before_a_reconnect_is_one_that_it_had(rig: Rig, worker: Worker) -> None:
    worker.connect(2)
    worker.hello()

    assert dies(rig, worker) == ("c1",)


def test_a_call_whose_message_is_settled_is_told_of_by_its_record_alone(rig: Rig, worker: Worker) -> None:
    worker.say("inbox.acknowledge", {"message_id": "m1"})

    assert dies(rig, worker) == ()
