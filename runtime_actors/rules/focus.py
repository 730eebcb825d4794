"""The focus stack of a conversation: instance ids, the last one is in front. Pure list arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

Stack = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FocusChange:
    """What a change of the stack means for the instances."""

    stack: Stack
    covered: str | None = None
    fronted: str | None = None


def front(stack: Stack) -> str | None:
    """Who is in front."""
    return stack[-1] if stack else None


def bring_to_front(stack: Stack, instance_id: str) -> FocusChange:
    """Put an instance in front, whether it was on the stack or not."""
    return _change(stack, (*(one for one in stack if one != instance_id), instance_id))


def remove(stack: Stack, instance_id: str) -> FocusChange:
    """Take an instance off the stack; who was behind it comes to the front."""
    return _change(stack, tuple(one for one in stack if one != instance_id))


def restore(stack: Stack, instance_id: str, previous: str) -> FocusChange:
    """Give the front back to `previous`, unless somebody else took it meanwhile or `previous` is gone."""
    if front(stack) != instance_id or previous not in stack:
        return FocusChange(stack)
    return bring_to_front(stack, previous)


def _change(before: Stack, after: Stack) -> FocusChange:
    was, now = front(before), front(after)
    if was == now:
        return FocusChange(after)
    return FocusChange(after, covered=was if was in after else None, fronted=now)
