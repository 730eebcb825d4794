"""The focus stack is list arithmetic; these are its laws."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.rules.focus import FocusChange, Stack, bring_to_front, front, remove, restore

NAMES = st.sampled_from("abcde")
STACKS = st.lists(NAMES, unique=True, max_size=5).map(tuple)


def check_change(before: Stack, change: FocusChange) -> None:
    """Nobody is there twice, and exactly those whose place in front changed are named."""
    was, now = front(before), front(change.stack)
    assert len(set(change.stack)) == len(change.stack)
    assert change.fronted == (now if now != was else None)
    assert change.covered == (was if now != was and was in change.stack else None)


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
    change = remove(stack, one)

    check_change(stack, change)
    assert change.stack == tuple(other for other in stack if other != one)


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


def test_the_front_taken_by_somebody_else_meanwhile_stays_with_them() -> None:
    assert restore(("a", "b", "c"), "b", "a") == FocusChange(("a", "b", "c"))
