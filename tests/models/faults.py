"""What is planned to go wrong inside a daemon, and the mailboxes and boundaries at which it does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from runtime_actors.store.actor import StoreActor
from runtime_actors.store.failpoints import Failpoints


@dataclass(slots=True)
class Faults:
    """What is planned to go wrong."""

    kill_in: int | None = None
    """Boundaries until the daemon is killed: before a COMMIT, after it, after the side file, before each send."""
    others_go_on: bool = False
    """Whether the other threads come to the end of their mailboxes before the kill reaches them."""
    loses: set[type] = field(default_factory=set)
    """Kinds of follow-ups of which the next one gets lost between the COMMIT and its receiver."""
    passed: int = 0
    lost: int = 0

    def is_time(self) -> bool:
        """Pass a boundary; whether it is the one."""
        self.passed += 1
        if self.kill_in is None:
            return False
        self.kill_in -= 1
        if self.kill_in > 0:
            return False
        self.kill_in = None
        return True


class Mailed(Protocol):
    """The daemon that mailboxes belong to."""

    alive: bool
    store_actor: StoreActor

    def note_told(self, name: str, message: object) -> None:
        """One actor tells another."""


class Box:
    """An actor's mailbox, as long as the daemon lives."""

    def __init__(self, life: Mailed, name: str) -> None:
        self._life, self._name = life, name
        self.waiting: deque[object] = deque()

    def tell(self, message: object) -> None:
        if self._life.alive:
            self._life.note_told(self._name, message)
            self.waiting.append(message)

    def take(self) -> object:
        return self.waiting.popleft()


class StoreBox(Box):
    """The store looks into its mailbox for more of a group, so it has the one that pykka gives it."""

    def tell(self, message: object) -> None:
        if self._life.alive:
            self._life.store_actor.actor_ref.tell(message)

    def take(self) -> object:
        return self._life.store_actor.actor_inbox.get().message


class News:
    """Follow-ups on their way to an actor; some get lost."""

    def __init__(self, faults: Faults, box: Box) -> None:
        self._faults, self._box = faults, box

    def tell(self, follow_up: object) -> None:
        faults = self._faults
        if type(follow_up) in faults.loses:
            faults.loses.discard(type(follow_up))
            faults.lost += 1
        else:
            self._box.tell(follow_up)


class Points(Failpoints):
    """Every COMMIT has a boundary in front of it and one behind it."""

    def __init__(self, step: Callable[[str], bool]) -> None:
        super().__init__((), lambda _: None)
        self._step = step

    def before_commit(self, _group: object) -> None:
        self._step("before COMMIT")

    def after_commit(self, _group: object) -> None:
        self._step("after COMMIT")
