"""When the interaction actor looks for questions whose time is over."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runtime_actors.commands import interactions
from runtime_actors.commands.asker import Asker
from runtime_actors.contract.interactions import UiRequest
from runtime_actors.interaction.actor import InteractionActor
from runtime_actors.interaction.messages import SweepDue, TimeUp
from runtime_actors.records.transaction import rfc3339
from tests.actor_fakes import SWEEP_S, Rig, an_instance


@pytest.fixture(autouse=True)
def actor(rig: Rig) -> InteractionActor:
    made = InteractionActor(
        rig.care,
        store=rig.store,
        me=rig.boxes["interaction"],
        timers=rig.timers,
        clock=rig.clock,
        sweep_s=SWEEP_S,
    )
    rig.plug("interaction", made)
    return made


def asks(rig: Rig, within_s: float, request_id: str = "q1") -> None:
    question = {"kind": "confirm", "title": "Sure?", "prompt": ""}
    wish = UiRequest.model_validate(
        {"request": question, "expires_at": rfc3339(rig.clock.now().wall + timedelta(seconds=within_s))}
    )
    instance_id = an_instance(rig)
    asked = rig.run(interactions.request_interaction, interactions.AskPerson(Asker(instance_id, "a", request_id), wish))
    assert isinstance(asked, interactions.InteractionState)


def statuses(rig: Rig) -> list[str]:
    return [status for (status,) in rig.rows("select status from interactions order by rowid")]


def test_a_question_ends_when_its_time_has_come(rig: Rig) -> None:
    asks(rig, 10.0)
    rig.clock.move(10.0)

    rig.due(TimeUp)

    assert statuses(rig) == ["expired"]


def test_after_a_look_the_next_one_is_planned(rig: Rig) -> None:
    asks(rig, 10.0)
    asks(rig, 20.0, "q2")
    rig.clock.move(10.0)
    rig.due(TimeUp)
    rig.clock.move(10.0)

    rig.due(TimeUp)

    assert statuses(rig) == ["expired", "expired"]


def test_the_sweep_finds_what_no_timer_was_set_for(rig: Rig) -> None:
    rig.lost = lambda _: True
    asks(rig, 10.0)
    rig.clock.set_wall(rig.clock.now().wall + timedelta(days=1))

    rig.due(SweepDue)

    assert statuses(rig) == ["expired"]


def test_a_rebuilt_actor_looks_again(rig: Rig, actor: InteractionActor) -> None:
    rig.lost = lambda _: True
    asks(rig, 10.0)
    rig.clock.move(10.0)

    actor.rebuild()
    rig.settle()

    assert statuses(rig) == ["expired"]
