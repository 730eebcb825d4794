"""The focus stack of a conversation: instance ids, the last one is in front. Pure list arithmetic.

The `chat` instance, once there is one, is the floor: it is below all others, and when it comes to the front they leave.
"""

from __future__ import annotations

from dataclasses import dataclass

Stack = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FocusChange:
    """What a change of the stack means for the instances."""

    stack: Stack
    covered: str | None = None
    """It was in front, and lives on behind: still on the stack, or off it."""
    fronted: str | None = None


def front(stack: Stack) -> str | None:
    """Who is in front."""
    return stack[-1] if stack else None


def lay_floor(stack: Stack, floor: str) -> FocusChange:
    """Put the floor below all others. It is in front only if there are none."""
    return _change(stack, (floor, *(one for one in stack if one != floor)))


def bring_to_front(stack: Stack, instance_id: str, *, floor: str | None = None) -> FocusChange:
    """Put an instance in front, whether it was on the stack or not. The floor comes there by the others leaving."""
    if instance_id == floor:
        return _change(stack, (floor,))
    return _change(stack, (*(one for one in stack if one != instance_id), instance_id))


def leave(stack: Stack, instance_id: str) -> FocusChange:
    """Take a living instance off the stack; who was behind it comes to the front."""
    return _change(stack, tuple(one for one in stack if one != instance_id))


def remove(stack: Stack, instance_id: str) -> FocusChange:
    """Take an instance that ends off the stack: as `leave`, and it is covered by nobody."""
    change = leave(stack, instance_id)
    return FocusChange(change.stack, None, change.fronted)


def restore(stack: Stack, instance_id: str, previous: str, *, floor: str | None = None) -> FocusChange:
    """Give the front back to `previous`, unless somebody else took it meanwhile or `previous` is gone."""
    if front(stack) != instance_id or previous not in stack:
        return FocusChange(stack)
    return bring_to_front(stack, previous, floor=floor)


def _change(before: Stack, after: Stack) -> FocusChange:
    was, now = front(before), front(after)
    if was == now:
        return FocusChange(after)
    return FocusChange(after, covered=was, fronted=now)
