"""A timer that runs out when what it was for is over does nothing."""

from __future__ import annotations

import pytest

from runtime_actors.channel import messages as m
from tests.actor_fakes import Rig, Worker, a_channel, an_instance, an_open_worker


@pytest.fixture
def worker(rig: Rig) -> Worker:
    """Open, with one call."""
    a_channel(rig)
    return an_open_worker(rig, an_instance(rig))


def over(rig: Rig) -> list[str]:
    return [one.attempt_id for one in rig.boxes["router"].of(m.SessionOver)]


def test_a_socket_that_was_read_to_its_end_is_not_over_a_second_time(rig: Rig, worker: Worker) -> None:
    rig.tell("channel", m.ProcessGone(worker.attempt_id))
    worker.disconnect()

    rig.due(m.ReadLongEnough)

    assert over(rig) == [worker.attempt_id]


def test_a_worker_that_is_over_is_not_waited_for(rig: Rig, worker: Worker) -> None:
    worker.disconnect()
    rig.tell("channel", m.ProcessGone(worker.attempt_id))

    rig.due(m.ReconnectDue)

    assert over(rig) == [worker.attempt_id]
    assert rig.boxes["supervisor"].of(m.Condemn) == []
