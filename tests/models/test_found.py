"""What the models found, each as a story of its own.

A call that a process was given is its own until it is settled, and a question expires in time whoever was killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from runtime_actors.channel import messages as channel
from runtime_actors.records.transaction import rfc3339
from tests.actor_fakes import Rig, a_channel, an_instance, an_open_worker
from tests.models.life import NAMES
from tests.models.questions import KINDS, SURE
from tests.models.world import World


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


@pytest.fixture
def world() -> Iterator[World]:
    made = World(NAMES, sealed=False, has_people=True)
    yield made
    made.close()


def test_a_question_of_an_earlier_daemon_expires_in_time_and_not_at_the_next_sweep(world: World) -> None:
    world.carry()
    world.agents["local"].invoke("talk-1", "c1", "notes.write", {})
    world.carry()
    [process] = world.machine.living()
    process.ask(KINDS[SURE].request, expires_at=rfc3339(world.clock.now().wall + timedelta(seconds=1)))
    world.carry()
    world.life.kill()
    world.rest()

    world.wait(1.0)

    world.rest()
    [question] = world.books.people.questions.values()
    assert question.status == "expired"
