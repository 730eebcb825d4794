"""Letting peers in: not faster than costs others anything, and not without a descriptor to spare."""

from __future__ import annotations

import logging
import selectors
import socket
import time
from collections.abc import Iterator
from typing import Final

from runtime_actors.channel.descriptors import SpareDescriptors
from runtime_actors.channel.door import OpenDoor, SocketLimits
from runtime_actors.channel.seldom import Seldom

_AT_A_TIME: Final = 16
_REST_S: Final = 0.02
_NO_ROOM_S: Final = 0.1
_MAX_PROCESSES: Final = 1024

seldom = Seldom(logging.getLogger(__name__))


class Allowance:
    """So many a second; what is not used is saved, up to a number."""

    __slots__ = ("_a_second", "_at", "_left", "_most")

    def __init__(self, a_second: float, most: float, now: float) -> None:
        self._a_second, self._most = a_second, most
        self._left, self._at = most, now

    def take(self, now: float) -> bool:
        """Use one, if there is one; `now` is monotonic, in seconds."""
        self._left = min(self._most, self._left + (now - self._at) * self._a_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Listeners:
    """The listening sockets of all doors. Belongs to the socket thread.

    Who connects over and over takes time from everybody. What comes from a process beyond its allowance is closed
    before anything was done for it, so that others are not kept waiting in the kernel's queue behind it; and a door
    rests for a moment when even that is too much.
    """

    def __init__(self, selector: selectors.BaseSelector, limits: SocketLimits) -> None:
        self._selector = selector
        self._limits = limits
        self._descriptors = SpareDescriptors(limits.spare_descriptors)
        self._resting: dict[OpenDoor, float] = {}
        self._of_door: dict[OpenDoor, Allowance] = {}
        self._of_process: dict[int, Allowance] = {}

    def add(self, door: OpenDoor) -> None:
        a_second = self._limits.accepts
        self._of_door[door] = Allowance(a_second, a_second * _REST_S, time.monotonic())
        self._selector.register(door.sock, selectors.EVENT_READ, door)

    def remove(self, door: OpenDoor) -> None:
        del self._of_door[door]
        if self._resting.pop(door, None) is None:
            self._selector.unregister(door.sock)
        door.sock.close()

    def accept(self, door: OpenDoor) -> Iterator[socket.socket]:
        """A few of those that wait."""
        for _ in range(_AT_A_TIME):
            if door in self._resting or door.sock.fileno() < 0:
                return  # since this very turn
            now = time.monotonic()
            if not self._descriptors.suffice(now):
                self._rest(door, now + _NO_ROOM_S, "too few file descriptors are free")
                return
            if not self._of_door[door].take(now):
                self._rest(door, now + _REST_S, "too many come at once")
                return
            try:
                sock, _ = door.sock.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:  # EMFILE, ENFILE, ENOBUFS, ENOMEM: they pass
                self._rest(door, now + _NO_ROOM_S, error.strerror or str(error))
                return
            self._descriptors.opened()
            yield sock

    def may_connect(self, process: int) -> bool:
        """Whether this process has not connected too often lately."""
        now = time.monotonic()
        allowance = self._of_process.get(process)
        if allowance is None:
            if len(self._of_process) >= _MAX_PROCESSES:
                self._of_process.clear()
            allowance = Allowance(self._limits.connects, self._limits.connects_at_once, now)
            self._of_process[process] = allowance
        return allowance.take(now)

    def due(self) -> float | None:
        """When the next door has rested; monotonic."""
        return min(self._resting.values()) if self._resting else None

    def on_time(self, now: float) -> None:
        for door in [door for door, until in self._resting.items() if until <= now]:
            del self._resting[door]
            self._selector.register(door.sock, selectors.EVENT_READ, door)

    def _rest(self, door: OpenDoor, until: float, why: str) -> None:
        seldom.warning(f"a door lets nobody in for now: {why}", door.door.name)
        self._selector.unregister(door.sock)
        self._resting[door] = until
