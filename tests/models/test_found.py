"""What the model found, each as a story of its own: a call that a process was given is its own until it is settled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_actors.channel import messages as channel
from tests.actor_fakes import Rig, a_channel, an_instance, an_open_worker


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "state")
    a_channel(made)
    yield made
    made.close()


def delivered(rig: Rig) -> tuple[str, ...]:
    """Calls that the dead process had, as it is told."""
    return rig.boxes["router"].of(channel.SessionOver)[-1].delivered


def test_a_process_that_dies_between_its_welcome_and_its_page_had_the_call_of_its_session_before(rig: Rig) -> None:
    worker = an_open_worker(rig, an_instance(rig, "notes.once"))
    worker.disconnect()
    rig.hold("store")
    worker.connect(peer=2)
    worker.hello(ready=True)

    worker.disconnect()
    rig.tell("channel", channel.ProcessGone(worker.attempt_id))

    assert delivered(rig) == ("c1",)


def test_a_call_that_a_process_read_in_a_list_is_one_that_it_had(rig: Rig) -> None:
    instance_id = an_instance(rig)
    worker = an_open_worker(rig, instance_id)
    rig.lost = lambda _: True  # so that the list alone tells of the call
    an_instance(rig, "notes.once", "c2")
    worker.say("inbox.list")

    rig.tell("channel", channel.ProcessGone(worker.attempt_id))
    worker.disconnect()

    assert delivered(rig) == ("c1", "c2")
