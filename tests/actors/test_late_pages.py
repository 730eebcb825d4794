"""A page of messages that comes when nothing may be sent: it is not, and what it held is read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from runtime_actors.channel import messages as m
from runtime_actors.channel.session import RESET_AFTER_BEATS
from runtime_actors.commands.inbox import read_inbox
from runtime_actors.store.messages import Run
from tests.actor_fakes import PING_S, SWEEP_S, Rig, Worker, a_channel, an_instance, an_open_worker


@pytest.fixture
def worker(rig: Rig) -> Worker:
    """Open, with one call that was sent, and one more of which nobody told the channel."""
    a_channel(rig)
    worker = an_open_worker(rig, an_instance(rig))
    rig.lost = lambda _: True
    an_instance(rig, call_id="c2")
    rig.lost = lambda _: False
    return worker


def miss_beats(rig: Rig, worker: Worker) -> None:
    for _ in range(RESET_AFTER_BEATS + 1):
        rig.monotonic.now_s += PING_S
        rig.due(m.BeatDue)
    assert "session.reset" in worker.hear_types()


def tell_to_stop(rig: Rig, worker: Worker) -> None:
    rig.tell("channel", m.StopSession(worker.attempt_id, "closing", 1.0))
    assert worker.hear_types() == ["session.stop"]


NOT_OPEN: Final[dict[str, Callable[[Rig, Worker], None]]] = {"being reset": miss_beats, "stopping": tell_to_stop}


@pytest.mark.parametrize("state", NOT_OPEN)
def test_a_page_that_was_asked_for_before_is_not_sent(rig: Rig, worker: Worker, state: str) -> None:
    rig.hold("store")
    rig.monotonic.now_s += SWEEP_S + 1
    rig.due(m.SweepDue)
    assert [run for run in rig.boxes["store"].waiting if isinstance(run, Run) and run.rule is read_inbox]

    NOT_OPEN[state](rig, worker)
    rig.let_go("store")

    assert worker.hear_types() == []


def test_after_the_reset_everything_is_sent_once(rig: Rig, worker: Worker) -> None:
    rig.hold("store")
    rig.monotonic.now_s += SWEEP_S + 1
    rig.due(m.SweepDue)
    miss_beats(rig, worker)
    rig.let_go("store")
    worker.hear()

    worker.resume(1)

    messages = [one.body["number"] for one in worker.hear() if one.type == "inbox.message"]
    assert messages == [1, 2]
