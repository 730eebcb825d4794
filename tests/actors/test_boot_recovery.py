"""What a start brings in order before its doors are open."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from runtime_actors.commands import calls
from runtime_actors.daemon import Daemon
from runtime_actors.store.client import Store
from tests.actor_fakes import Rig, a_channel, an_instance, an_open_worker

LONGER_THAN_ANY_S = 3600.0


@dataclass(frozen=True, slots=True)
class AtOnce:
    """The store's mailbox, for somebody who waits for each outcome on the store's own thread."""

    rig: Rig

    def tell(self, message: object) -> None:
        self.rig.tell("store", message)


def recover(rig: Rig) -> None:
    """The daemon's part between the start of its actors and the opening of its doors."""
    starting = Daemon.__new__(Daemon)  # what it opens besides a store is not needed for this
    starting._recover_calls(Store(AtOnce(rig)))


def an_open_worker_with_a_running_call(rig: Rig) -> str:
    """Its attempt id."""
    a_channel(rig)
    worker = an_open_worker(rig, an_instance(rig))
    outcome = rig.run(calls.acknowledge, calls.Acknowledge(worker.instance_id, worker.attempt_id, 1))
    assert isinstance(outcome, calls.Acknowledged)
    return worker.attempt_id


@pytest.mark.parametrize("count", [1, 101])
def test_what_became_overdue_without_a_daemon_has_ended_before_the_doors_open(rig: Rig, count: int) -> None:
    for number in range(count):
        an_instance(rig, call_id=f"c{number}")
    rig.clock.move(LONGER_THAN_ANY_S)

    recover(rig)

    assert rig.rows("select status, count(*) from calls group by status") == [("expired", count)]
    assert rig.rows("select count(*) from outbox") == [(count,)]


def test_what_was_running_waits_again_before_the_doors_open(rig: Rig) -> None:
    worker = an_open_worker_with_a_running_call(rig)

    recover(rig)

    assert rig.status() == "waiting_for_app"
    assert rig.rows("select state from attempts where attempt_id = ?", worker) == [("ended",)]
