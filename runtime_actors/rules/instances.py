"""The life of a MiniApp instance, and of the processes (attempts) it runs in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from runtime_actors.errors import IllegalTransition

if TYPE_CHECKING:
    from collections.abc import Mapping


class InstanceState(StrEnum):
    """The first four are the seed's (section 3); an instance in one of them is live."""

    STARTING = "starting"
    FOREGROUND = "foreground"
    BACKGROUND = "background"
    SUSPENDED = "suspended"
    CLOSING = "closing"
    CLOSED = "closed"
    FAILED = "failed"


class InstanceEvent(StrEnum):
    """What can happen to an instance."""

    READY_IN_FRONT = "ready_in_front"
    READY_BEHIND = "ready_behind"
    FRONTED = "fronted"
    COVERED = "covered"
    SUSPENDED = "suspended"
    WOKEN = "woken"
    PROCESS_LOST = "process_lost"
    CLOSE_WANTED = "close_wanted"
    PROCESS_ENDED = "process_ended"
    GIVEN_UP = "given_up"


_S, _E = InstanceState, InstanceEvent

INSTANCE_TRANSITIONS: Final[Mapping[InstanceState, Mapping[InstanceEvent, InstanceState]]] = {
    _S.STARTING: {
        _E.READY_IN_FRONT: _S.FOREGROUND,
        _E.READY_BEHIND: _S.BACKGROUND,
        _E.FRONTED: _S.STARTING,  # the focus is kept apart; it counts when the app is ready
        _E.COVERED: _S.STARTING,
        _E.PROCESS_LOST: _S.STARTING,
        _E.CLOSE_WANTED: _S.CLOSING,
        _E.GIVEN_UP: _S.FAILED,
    },
    _S.FOREGROUND: {
        _E.FRONTED: _S.FOREGROUND,
        _E.COVERED: _S.BACKGROUND,
        _E.SUSPENDED: _S.SUSPENDED,  # in front of a conversation that nobody sees
        _E.PROCESS_LOST: _S.STARTING,
        _E.CLOSE_WANTED: _S.CLOSING,
        _E.GIVEN_UP: _S.FAILED,
    },
    _S.BACKGROUND: {
        _E.FRONTED: _S.FOREGROUND,
        _E.COVERED: _S.BACKGROUND,
        _E.SUSPENDED: _S.SUSPENDED,
        _E.PROCESS_LOST: _S.STARTING,
        _E.CLOSE_WANTED: _S.CLOSING,
        _E.GIVEN_UP: _S.FAILED,
    },
    _S.SUSPENDED: {
        _E.FRONTED: _S.STARTING,  # reaching the front wakes it
        _E.WOKEN: _S.STARTING,
        _E.COVERED: _S.SUSPENDED,
        _E.PROCESS_ENDED: _S.SUSPENDED,
        _E.CLOSE_WANTED: _S.CLOSING,
    },
    _S.CLOSING: {_E.PROCESS_ENDED: _S.CLOSED, _E.PROCESS_LOST: _S.CLOSED, _E.COVERED: _S.CLOSING},
    _S.CLOSED: {},
    _S.FAILED: {},
}

LIVE: Final = frozenset({_S.STARTING, _S.FOREGROUND, _S.BACKGROUND, _S.SUSPENDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecord:
    """A MiniApp in a conversation."""

    instance_id: str
    conversation_id: str
    app_scope: str
    app_version: str
    state: InstanceState
    end_reason: str | None = None
    created_at: str
    updated_at: str


def must_move(instance: InstanceRecord, event: InstanceEvent, *, at: str) -> InstanceRecord:
    """Apply `event`; all of them are the runtime's own.

    Raises:
        IllegalTransition: The table has no such cell: a bug here.

    """
    state = INSTANCE_TRANSITIONS[instance.state].get(event)
    if state is None:
        detail = f"instance {instance.instance_id} is {instance.state} and cannot take {event}"
        raise IllegalTransition(detail)
    return replace(instance, state=state, updated_at=max(at, instance.updated_at))


class AttemptState(StrEnum):
    """Of one OS process of an instance."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    """Told to end: its end is not a crash."""
    ENDED = "ended"


class AttemptEvent(StrEnum):
    """What can happen to an attempt."""

    ATTACHED = "attached"
    STOP_ORDERED = "stop_ordered"
    ENDED = "ended"


ATTEMPT_TRANSITIONS: Final[Mapping[AttemptState, Mapping[AttemptEvent, AttemptState]]] = {
    AttemptState.STARTING: {
        AttemptEvent.ATTACHED: AttemptState.READY,
        AttemptEvent.STOP_ORDERED: AttemptState.STOPPING,
        AttemptEvent.ENDED: AttemptState.ENDED,
    },
    AttemptState.READY: {
        AttemptEvent.STOP_ORDERED: AttemptState.STOPPING,
        AttemptEvent.ENDED: AttemptState.ENDED,
    },
    AttemptState.STOPPING: {
        AttemptEvent.STOP_ORDERED: AttemptState.STOPPING,
        AttemptEvent.ENDED: AttemptState.ENDED,
    },
    AttemptState.ENDED: {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One OS process of an instance."""

    attempt_id: str
    instance_id: str
    state: AttemptState
    pid: int | None = None
    level: str | None = None
    snapshot: bytes | None = None
    """`sdkCapabilitySnapshot[]`, canonical; frozen when the attempt became ready."""
    end_reason: str | None = None
    unexpected: bool = False
    started_at: str
    started_boot_s: float
    ended_boot_s: float | None = None
    ended_at: str | None = None


def attempt_after(attempt: AttemptRecord, event: AttemptEvent) -> AttemptState | None:
    """The state that `event` leads to, or None if it comes too late to matter."""
    return ATTEMPT_TRANSITIONS[attempt.state].get(event)
