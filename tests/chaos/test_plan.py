"""What is planned: named, or drawn from a seed."""

from __future__ import annotations

import pytest

from runtime_actors.chaos.plan import DEADLY, FAULTS, WITH_PEOPLE, Kind, Point, PointInvalid, planned, read_point

_COMMANDS = ("admit", "finish")


def test_the_same_seed_plans_the_same_faults_and_another_one_others() -> None:
    assert planned(7, FAULTS, (), steps=9) == planned(7, FAULTS, (), steps=9)
    assert planned(7, FAULTS, (), steps=9) != planned(8, FAULTS, (), steps=9)


def test_every_kind_is_drawn_before_long() -> None:
    drawn = {fault.kind for seed in range(60) for fault in planned(seed, FAULTS, (), steps=9)}

    assert drawn == set(FAULTS)


def test_what_people_do_is_struck_only_where_a_person_takes_part() -> None:
    def drawn(*, people: bool) -> set[str]:
        plans = [planned(seed, FAULTS, (), steps=9, people=people) for seed in range(200)]
        return {fault.point.name.partition(":")[0] for faults in plans for fault in faults}

    assert drawn(people=True) >= set(WITH_PEOPLE)
    assert not drawn(people=False) & set(WITH_PEOPLE)


def test_no_run_that_is_drawn_kills_more_workers_than_every_call_must_survive() -> None:
    for kills in (0, 1, 2, 3):
        for seed in range(200):
            deaths = sum(one.kind in DEADLY for one in planned(seed, FAULTS, (), steps=9, kills=kills))
            assert deaths + kills <= max(2, kills + 1)


def test_points_that_are_named_are_struck_and_no_others() -> None:
    points = (Point("finish:after", 2), Point("progress"))

    faults = planned(3, (Kind.KILL_DAEMON,), points, steps=9)

    assert [fault.point for fault in faults] == list(points)
    assert {fault.kind for fault in faults} == {Kind.KILL_DAEMON}


def test_what_waits_is_struck_at_once_and_what_is_seen_from_outside_a_little_later() -> None:
    at_once, before_a_step, later = planned(
        3, FAULTS, (Point("finish:before"), Point("step", 2), Point("result")), steps=9
    )

    assert at_once.delay_s == before_a_step.delay_s == 0
    assert later.delay_s > 0


def test_at_an_outcome_nothing_strikes_but_its_loss() -> None:
    (fault,) = planned(3, (Kind.CLOCK,), (Point("finish:outcome"),), steps=9)

    assert fault.kind is Kind.DROP_OUTCOME


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("finish:after", Point("finish:after")),
        ("finish:before:3", Point("finish:before", 3)),
        ("call.running", Point("call.running")),
        ("progress:2", Point("progress", 2)),
        ("step:12", Point("step", 12)),
    ],
)
def test_a_point_is_read_as_it_is_written(text: str, point: Point) -> None:
    assert read_point(text, _COMMANDS) == point
    assert str(point) == text


@pytest.mark.parametrize(
    "text", ["", "finish", "finish:during", "finish:after:0", "vanish:after", "progress:x", "finish:after:1:1", "a b"]
)
def test_what_is_no_point_is_refused(text: str) -> None:
    with pytest.raises(PointInvalid):
        read_point(text, _COMMANDS)
