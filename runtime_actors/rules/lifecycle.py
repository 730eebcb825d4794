"""What an app may do about its own place, and when its process may end to save memory (docs/people.md, section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from runtime_actors.rules import focus
from runtime_actors.rules.instances import AttemptState, InstanceState

if TYPE_CHECKING:
    from runtime_actors.rules.focus import Stack

KEPT_BACK_S: Final = 60.0
"""So long an app may not come to the front by itself after a person sent it away."""

CHAT: Final = "chat"
"""The scope whose instance is the floor of each focus stack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an instance that wishes something is."""

    instance_id: str
    app_scope: str
    stack: Stack
    floor: str | None
    """The conversation's `chat` instance, if there is one."""
    kept_back: bool = False
    """A person sent it away a moment ago."""


def why_not_foreground(place: Place) -> str | None:
    """The reason to refuse `request_foreground`; None to grant it, also if it is in front already."""
    front = focus.front(place.stack)
    if front == place.instance_id:
        return None
    if place.kept_back:
        return f"the person sent it away less than {KEPT_BACK_S:g} s ago"
    if front is None or (front == place.floor and place.app_scope != CHAT):
        return None
    return "another app is in front"


def why_not_background(place: Place, *, serves_in_front: bool) -> str | None:
    """The reason to refuse `request_background`. `serves_in_front`: a tool that requires the foreground is at work."""
    if place.app_scope == CHAT:
        return f"{CHAT} is below all others already"
    if serves_in_front:
        return "a call of a tool that requires the foreground is open"
    return None


def why_not_close(*, open_calls: int, open_surfaces: int) -> str | None:
    """The reason to refuse `request_close`."""
    if open_calls:
        return f"{open_calls} calls are open"
    if open_surfaces:
        return f"{open_surfaces} surfaces are open"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What keeps an instance awake, or would, and what it was touched by last."""

    instance_id: str
    state: InstanceState
    attempt_id: str
    attempt_state: AttemptState
    on_screen: bool
    """A host shows its conversation."""
    has_messages: bool
    """Some that it has not acknowledged."""
    busy_calls: int
    """Open ones that do not wait for a person, or must not run twice, or are to be cancelled."""
    touched: str
    """Changes with whatever is recorded about it; says nothing else."""


def why_awake(activity: Activity) -> str | None:
    """What keeps an instance from being suspended, however quiet it is."""
    if activity.state not in {InstanceState.FOREGROUND, InstanceState.BACKGROUND}:
        return f"it is {activity.state}"
    if activity.attempt_state is not AttemptState.READY:
        return "its process is not ready"
    if activity.state is InstanceState.FOREGROUND and activity.on_screen:
        return "a person sees it"
    if activity.has_messages:
        return "its inbox is not empty"
    if activity.busy_calls:
        return "it has calls that wait for nobody"
    return None
