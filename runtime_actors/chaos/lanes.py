"""Several runs at once, each on a thread: daemons are processes of their own, and whoever plays them mostly waits."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future

from runtime_actors.chaos.run import Played
from runtime_actors.chaos.world import World

OnWorld = Callable[[World], None]


class Interrupted(Exception):
    """No further run is wanted."""


def in_order(numbers: range, jobs: int, play: Callable[[int, OnWorld], Played]) -> Generator[Played]:
    """What `play` returns for each number, in their order, or raises; `jobs` of them are played at a time.

    `play` tells of the world that it has made, before it starts it. When this iterator is closed, all are closed.
    """
    if jobs == 1:
        for number in numbers:
            yield play(number, _ignored)
        return
    lanes = _Lanes(numbers, play)
    try:
        for lane in range(jobs):
            threading.Thread(target=lanes.play_all, name=f"lane {lane}", daemon=True).start()
        for _ in numbers:
            yield lanes.next_played()
    finally:
        lanes.close()


class _Lanes:
    def __init__(self, numbers: range, play: Callable[[int, OnWorld], Played]) -> None:
        self._play = play
        self._lock = threading.Lock()
        self._left = iter(numbers)
        self._expected = iter(numbers)
        self._played: dict[int, Future[Played]] = {number: Future() for number in numbers}
        self._worlds: list[World] = []
        self._is_over = False

    def play_all(self) -> None:
        """One run after the other. For a thread of its own."""
        for number in iter(self._next, None):
            try:
                self._played[number].set_result(self._play(number, self._opened))
            except BaseException as error:  # noqa: BLE001 - for whoever waits
                self._played[number].set_exception(error)

    def next_played(self) -> Played:
        return self._played.pop(next(self._expected)).result()

    def close(self) -> None:
        with self._lock:
            self._is_over = True
        for world in self._worlds:
            world.close()

    def _next(self) -> int | None:
        with self._lock:
            return None if self._is_over else next(self._left, None)

    def _opened(self, world: World) -> None:
        with self._lock:
            if self._is_over:
                raise Interrupted
            self._worlds = [*itertools.filterfalse(_is_closed, self._worlds), world]


def _is_closed(world: World) -> bool:
    return world.is_closed


def _ignored(_: World) -> None:
    """One at a time ends by itself."""
