"""The focus stack is list arithmetic; these are its laws."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.rules.focus import FocusChange, Stack, bring_to_front, front, lay_floor, leave, remove, restore

NAMES = st.sampled_from("abcde")
STACKS = st.lists(NAMES, unique=True, max_size=5).map(tuple)


def check_change(before: Stack, change: FocusChange) -> None:
    """Nobody is there twice, and exactly those whose place in front changed are named."""
    was, now = front(before), front(change.stack)
    assert len(set(change.stack)) == len(change.stack)
    assert change.fronted == (now if now != was else None)
    assert change.covered == (was if now != was else None)


def test_nobody_is_in_front_of_an_empty_stack() -> None:
    assert front(()) is None


@given(STACKS, NAMES)
def test_who_is_brought_to_the_front_is_there_and_the_others_keep_their_order(stack: Stack, one: str) -> None:
    change = bring_to_front(stack, one)

    check_change(stack, change)
    assert front(change.stack) == one
    assert change.stack[:-1] == tuple(other for other in stack if other != one)


@given(STACKS, NAMES)
def test_who_is_removed_is_gone_and_the_others_keep_their_order(stack: Stack, one: str) -> None:
    change = leave(stack, one)

    check_change(stack, change)
    assert change.stack == tuple(other for other in stack if other != one)
    ended = remove(stack, one)
    assert (ended.stack, ended.covered, ended.fronted) == (change.stack, None, change.fronted)  # nobody covers the dead


@given(STACKS, NAMES)
def test_removing_undoes_a_newcomer(stack: Stack, one: str) -> None:
    if one not in stack:
        assert remove(bring_to_front(stack, one).stack, one).stack == stack


@given(STACKS, NAMES, NAMES)
def test_the_front_is_given_back_only_by_who_has_it_and_only_to_who_is_still_there(
    stack: Stack, one: str, previous: str
) -> None:
    change = restore(stack, one, previous)

    if front(stack) == one and previous in stack:
        check_change(stack, change)
        assert front(change.stack) == previous
        assert sorted(change.stack) == sorted(stack)
    else:
        assert change == FocusChange(stack)


@given(STACKS, NAMES)
def test_the_floor_is_below_all_others_and_in_front_only_of_nobody(stack: Stack, floor: str) -> None:
    change = lay_floor(stack, floor)

    check_change(stack, change)
    others = tuple(other for other in stack if other != floor)
    assert change.stack == (floor, *others)
    assert front(change.stack) == (front(others) or floor)


@given(STACKS, NAMES)
def test_the_floor_comes_to_the_front_by_the_others_leaving(stack: Stack, floor: str) -> None:
    change = bring_to_front(lay_floor(stack, floor).stack, floor, floor=floor)

    assert change.stack == (floor,)


@given(st.lists(st.tuples(st.sampled_from(["bring", "leave", "remove", "restore"]), NAMES, NAMES)))
def test_once_laid_the_floor_stays_at_the_bottom_whatever_the_others_do(moves: list[tuple[str, str, str]]) -> None:
    stack: Stack = lay_floor((), "floor").stack
    for move, one, previous in moves:
        match move:
            case "bring":
                stack = bring_to_front(stack, one, floor="floor").stack
            case "leave":
                stack = leave(stack, one).stack
            case "remove":
                stack = remove(stack, one).stack
            case _:
                stack = restore(stack, one, previous, floor="floor").stack

        assert stack[0] == "floor"


def test_giving_the_front_back_to_the_floor_sends_everybody_off_the_stack() -> None:
    assert restore(("chat", "a", "b"), "b", "chat", floor="chat") == FocusChange(("chat",), "b", "chat")


def test_the_front_taken_by_somebody_else_meanwhile_stays_with_them() -> None:
    assert restore(("a", "b", "c"), "b", "a") == FocusChange(("a", "b", "c"))
