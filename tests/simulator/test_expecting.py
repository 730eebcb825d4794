"""What a scenario expects of a result: the members that it names, however deep, and of lists and values all."""

from __future__ import annotations

import pytest

from runtime_actors.simulator.player import _matches

RESULT = {"place": "A", "files": [{"name": "a", "id": "art-1"}], "sizes": {"w": 1, "h": 2}}


@pytest.mark.parametrize(
    ("wanted", "holds"),
    [
        ({}, True),
        ({"place": "A"}, True),
        ({"place": "B"}, False),
        ({"places": None}, False),
        ({"sizes": {"w": 1}}, True),
        ({"sizes": {"w": 2}}, False),
        ({"sizes": 1}, False),
        ({"files": [{"name": "a"}]}, False),
        ({"files": [{"name": "a", "id": "art-1"}]}, True),
        (None, False),
        (RESULT, True),
    ],
)
def test_what_is_named_must_hold(wanted: object, *, holds: bool) -> None:
    assert _matches(wanted, RESULT) == holds


def test_nothing_was_expected_and_something_came() -> None:
    assert not _matches({"place": "A"}, None)
