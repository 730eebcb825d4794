"""What an app may do about its own place, and what keeps it awake."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Final

import pytest

from runtime_actors.rules.instances import AttemptState, InstanceState
from runtime_actors.rules.lifecycle import (
    Activity,
    Place,
    why_awake,
    why_not_background,
    why_not_close,
    why_not_foreground,
)

BOARD: Final = Place(instance_id="board", app_scope="board", stack=(), floor=None)
CHAT: Final = Place(instance_id="chat", app_scope="chat", stack=("chat",), floor="chat")


@pytest.mark.parametrize(
    "place",
    [
        BOARD,
        replace(BOARD, stack=("board",)),
        replace(BOARD, stack=("chat",), floor="chat"),
        replace(BOARD, stack=("chat", "board"), floor="chat"),
        replace(BOARD, stack=("chat", "board"), floor="chat", kept_back=True),  # it is there already
        replace(CHAT, stack=("chat",)),
    ],
)
def test_the_front_is_granted_when_nobody_or_only_chat_or_the_app_itself_is_there(place: Place) -> None:
    assert why_not_foreground(place) is None


@pytest.mark.parametrize(
    "place",
    [
        replace(BOARD, stack=("other",)),
        replace(BOARD, stack=("chat", "board", "other"), floor="chat"),
        replace(CHAT, stack=("chat", "other")),
        replace(BOARD, kept_back=True),
        replace(BOARD, stack=("chat",), floor="chat", kept_back=True),
    ],
)
def test_the_front_is_refused_over_another_app_for_chat_that_is_covered_and_after_a_person_sent_it_away(
    place: Place,
) -> None:
    assert why_not_foreground(place) is not None


def test_chat_cannot_go_behind_what_is_not_there() -> None:
    assert why_not_background(CHAT, serves_in_front=False) is not None


@pytest.mark.parametrize("stack", [("chat", "board"), ("chat", "board", "other"), ("chat",)])
def test_an_app_goes_behind_unless_it_serves_a_tool_that_requires_the_foreground(stack: tuple[str, ...]) -> None:
    place = replace(BOARD, stack=stack, floor="chat")

    assert why_not_background(place, serves_in_front=False) is None
    assert why_not_background(place, serves_in_front=True) is not None


@pytest.mark.parametrize(("open_calls", "open_surfaces"), list(product([0, 1], [0, 2])))
def test_an_app_closes_when_nothing_of_it_is_open(open_calls: int, open_surfaces: int) -> None:
    why = why_not_close(open_calls=open_calls, open_surfaces=open_surfaces)

    assert (why is None) == (open_calls == open_surfaces == 0)


ASLEEP_SOON: Final = Activity(
    instance_id="board",
    state=InstanceState.BACKGROUND,
    attempt_id="att-1",
    attempt_state=AttemptState.READY,
    on_screen=False,
    has_messages=False,
    busy_calls=0,
    touched="then",
)


@pytest.mark.parametrize(("state", "on_screen"), list(product(InstanceState, [False, True])))
def test_only_what_is_behind_or_in_front_of_nobody_may_sleep(state: InstanceState, *, on_screen: bool) -> None:
    may = why_awake(replace(ASLEEP_SOON, state=state, on_screen=on_screen)) is None

    assert may == (state == "background" or (state == "foreground" and not on_screen))


@pytest.mark.parametrize(
    "kept",
    [
        replace(ASLEEP_SOON, has_messages=True),
        replace(ASLEEP_SOON, busy_calls=1),
        replace(ASLEEP_SOON, attempt_state=AttemptState.STARTING),
        replace(ASLEEP_SOON, attempt_state=AttemptState.STOPPING),
    ],
)
def test_work_keeps_an_instance_awake(kept: Activity) -> None:
    assert why_awake(kept) is not None
