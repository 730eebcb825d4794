from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from tests.e2e.daemon import CAN_SEAL
from tests.profile.__main__ import profile
from tests.profile.journey import STATIONS, WIRE, Journey, journey
from tests.profile.page import call_part, figures_part, replaced
from tests.profile.picture import draw
from tests.profile.tracks import Mark


def a_call(begin_us: int, *, without: tuple[int, ...] = ()) -> list[Mark]:
    """A call that takes 10 us to each station; what it does not pass is left out."""
    return [
        Mark(1000 * (begin_us + 10 * number), station.lane, station.what)
        for number, station in enumerate(STATIONS)
        if number not in without
    ]


def test_every_leg_is_given_in_the_median() -> None:
    found = journey([*a_call(0), *a_call(1000), *a_call(2000)])

    assert found.calls == 3
    assert found.median_us == 10 * (len(STATIONS) - 1)
    assert [leg.took_us for leg in found.legs] == [10] * (len(STATIONS) - 1)


def test_a_station_that_no_call_passes_any_more_becomes_part_of_the_next_leg() -> None:
    gone = (5, 6)

    found = journey([*a_call(0, without=gone), *a_call(1000, without=gone)])

    assert len(found.legs) == len(STATIONS) - 3
    assert [leg.took_us for leg in found.legs if leg.took_us > 10] == [30]
    assert sum(leg.took_us for leg in found.legs) == found.median_us


def test_a_transaction_of_something_else_meanwhile_does_not_count() -> None:
    stray = Mark(1000 * 45, "store", "begin")

    assert journey([*a_call(0), stray]) == journey(a_call(0))


def test_without_a_whole_call_there_is_nothing_to_show() -> None:
    with pytest.raises(ValueError, match="no call"):
        journey([Mark(0, "agent", "asks")])


def test_the_picture_is_well_formed_and_names_every_leg() -> None:
    found = journey(a_call(0))

    picture = ET.fromstring(draw(found))  # noqa: S314 - drawn by ourselves

    titles = [title.text or "" for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert all(any(leg.what in title for title in titles) for leg in found.legs)


def test_only_the_part_between_the_markers_is_replaced() -> None:
    page = "a\n<!-- call: begin -->\nold\n<!-- call: end -->\nb\n"

    assert replaced(page, "call", "new\n") == "a\n<!-- call: begin -->\nnew\n<!-- call: end -->\nb\n"
    with pytest.raises(ValueError, match="no markers of figures"):
        replaced(page, "figures", "new")


def test_figures_become_a_table_only_when_all_of_them_are_there() -> None:
    row = {"name": "call.floor", "value": 0.5, "unit": "ms", "reference": 0.25, "reference_is": "the floor"}
    row |= {"ratio": 2.0, "bar": 2.0, "bar_is": "ratio at most", "ok": True, "spread": [0.4, 0.6], "what": "a call"}
    lines = [json.dumps(row), json.dumps({"figures": 1, "ok": True})]

    assert figures_part(lines).endswith(
        "| `call.floor` | a call | 0.5 ms | 0.4 to 0.6 | 0.25: the floor | 2.00 | ≤ 2 | yes |"
    )
    with pytest.raises(ValueError, match="not all"):
        figures_part(lines[:1])


@pytest.mark.skipif(not CAN_SEAL, reason="the daemon confines its workers")
def test_a_call_is_followed_through_every_process() -> None:
    found: Journey = profile(20)

    assert found.calls > 10
    assert {leg.lane for leg in found.legs} >= {"gateway", "router", "store", "channel", "worker", "outbox", "agent"}
    assert found.legs[0].kind == WIRE
    assert len(call_part(found).splitlines()) > len(found.legs)
