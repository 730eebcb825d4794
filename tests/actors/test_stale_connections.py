"""Who spoke for an attempt before and does so no longer: nothing that still comes from there counts."""

from __future__ import annotations

import pytest

from runtime_actors.channel import messages as m
from runtime_actors.channel.events import CloseReason, PeerClosed, PeerMessage
from runtime_actors.contract import envelope
from tests.actor_fakes import SENT_AT, Rig, Worker, a_channel, an_instance, an_open_worker

RESULT: dict[str, object] = {"call_id": "c1", "result": {"ok": True}}


@pytest.fixture
def worker(rig: Rig) -> Worker:
    """Open, with one call."""
    a_channel(rig)
    return an_open_worker(rig, an_instance(rig))


def say_from(worker: Worker, peer: int, kind: str, body: dict[str, object]) -> None:
    """A frame that comes over one connection, whichever the worker has now."""
    frame = envelope.encode(f"lineup.v1.{kind}", body, id=f"late/{peer}", sent_at=SENT_AT)
    worker.rig.tell("channel", PeerMessage(worker.door, peer, frame))


def reports(rig: Rig) -> list[str]:
    return [one.by.request_id for one in rig.boxes["router"].of(m.Report)]


def test_a_report_over_a_connection_that_was_replaced_is_not_handed_on(rig: Rig, worker: Worker) -> None:
    old = worker.peer
    worker.connect(2)
    worker.hello(ready=True)

    say_from(worker, old, "tools.complete", RESULT)
    say_from(worker, 2, "tools.complete", RESULT)

    assert reports(rig) == ["late/2"]


def test_a_report_over_a_new_connection_counts_from_its_hello_on(rig: Rig, worker: Worker) -> None:
    worker.connect(2)

    say_from(worker, 2, "tools.complete", RESULT)
    before = reports(rig)
    worker.hello(ready=True)
    say_from(worker, 2, "tools.complete", RESULT)

    assert before == []
    assert reports(rig) == ["late/2"]


def test_a_report_of_an_attempt_that_is_over_is_not_handed_on(rig: Rig, worker: Worker) -> None:
    peer = worker.peer
    rig.tell("channel", m.ProcessGone(worker.attempt_id), PeerClosed(worker.door, peer, CloseReason.PEER_GONE))

    say_from(worker, peer, "tools.complete", RESULT)

    assert reports(rig) == []
