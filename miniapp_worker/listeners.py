"""Who is told of what came in, and how an app's functions are run."""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from miniapp_worker.exhaustion import Limit, limit_met

T = TypeVar("T")

Unsubscribe = Callable[[], None]
"""Ends a subscription. Calling it again does nothing."""
Listener = Callable[[T], Awaitable[None] | None]
"""A function, or a coroutine function: each of its runs is then a task of its own."""


class Work:
    """The tasks that listeners started and that have not ended."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self.exhausted: asyncio.Future[Limit] = asyncio.get_running_loop().create_future()
        """One of them met a limit of the process, which cannot go on like that."""

    def start(self, coroutine: Coroutine[Any, Any, object]) -> None:
        task: asyncio.Task[object] = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self) -> None:
        """Until none is left, those included that start meanwhile."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()


@dataclass(frozen=True, slots=True, eq=False)
class _Subscription(Generic[T]):
    listener: Listener[T]
    wants: Callable[[T], bool]


@dataclass(slots=True, eq=False)
class Listeners(Generic[T]):
    """Hands each item to every listener that wants it. What nobody wants yet waits for the first who does."""

    work: Work
    on_failure: Callable[[T, BaseException], None]
    """Told of what a listener raised."""
    _subscriptions: list[_Subscription[T]] = field(default_factory=list)
    _kept: dict[str, T] = field(default_factory=dict)
    _closed: bool = False

    def subscribe(self, listener: Listener[T], wants: Callable[[T], bool] = lambda _: True) -> Unsubscribe:
        """Add a listener, and hand it at once what waited for it."""
        subscription = _Subscription(listener, wants)
        self._subscriptions.append(subscription)
        for name in [name for name, item in self._kept.items() if wants(item)]:
            self._run(listener, self._kept.pop(name))

        def unsubscribe() -> None:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)

        return unsubscribe

    def hand(self, name: str, item: T) -> None:
        """Hand `item` to its listeners, or keep it under `name`."""
        takers = [] if self._closed else [one for one in self._subscriptions if one.wants(item)]
        if not takers:
            self._kept[name] = item
        for taker in takers:
            self._run(taker.listener, item)

    def tell(self, item: T) -> None:
        """Hand news to its listeners; without one it is dropped."""
        for taker in [one for one in self._subscriptions if one.wants(item)]:
            self._run(taker.listener, item)

    def take_kept(self, wants: Callable[[T], bool]) -> list[T]:
        """What waits for a listener and is wanted here; it waits no longer."""
        return [self._kept.pop(name) for name in [name for name, item in self._kept.items() if wants(item)]]

    def forget(self, name: str) -> None:
        self._kept.pop(name, None)

    def close(self) -> None:
        """Hand out nothing more."""
        self._closed = True

    def _run(self, listener: Listener[T], item: T) -> None:
        try:
            outcome = listener(item)
        except BaseException as error:  # noqa: BLE001 - whatever an app raises costs it one item
            self._failed(item, error)
            return
        if inspect.isawaitable(outcome):
            self.work.start(self._finish(outcome, item))

    async def _finish(self, outcome: Awaitable[None], item: T) -> None:
        try:
            await outcome
        except BaseException as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # the process ends: nobody failed
                raise
            self._failed(item, error)

    def _failed(self, item: T, error: BaseException) -> None:
        self.on_failure(item, error)
        met = limit_met(error)
        if met is not None and not self.work.exhausted.done():
            self.work.exhausted.set_result(met)


def print_error(error: BaseException) -> None:
    """Into the app's log."""
    traceback.print_exception(error, file=sys.stderr)
