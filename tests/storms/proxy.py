"""A socket between an agent and its daemon that cuts, holds up and half closes what goes through it."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_CHUNK: Final = 65536
_TICK_S: Final = 0.02
_SEND_WITHIN_S: Final = 5.0


@dataclass(eq=False, slots=True)
class _Pair:
    """One connection: from the agent, and on to the daemon."""

    agent: socket.socket
    daemon: socket.socket
    open_ways: set[socket.socket] = field(default_factory=set)
    """Read ends that have not come to their end."""

    def other(self, one: socket.socket) -> socket.socket:
        return self.daemon if one is self.agent else self.agent


class Proxy:
    """Listens at `here`, connects each to `there`. Faults are asked for from any thread, and done by its own."""

    def __init__(self, here: Path, there: Path) -> None:
        self._there = there
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(here))
        self._listener.listen(16)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._pairs: list[_Pair] = []
        self._cut = self._half = False
        self._held_until = 0.0
        self._half_closed: list[tuple[float, _Pair]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    @property
    def is_used(self) -> bool:
        """Whether anybody is connected through it."""
        return bool(self._pairs)

    def cut(self) -> None:
        """Carry half of what comes next, then close."""
        self._cut = True

    def hold(self, seconds: float) -> None:
        """Carry nothing."""
        self._held_until = time.monotonic() + seconds

    def half_close(self) -> None:
        """End one direction after what comes next, and the rest a second later."""
        self._half = True

    def close(self) -> None:
        self._ended.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._ended.is_set():
            held = time.monotonic() < self._held_until
            ready: list[tuple[selectors.SelectorKey, int]] = [] if held else self._selector.select(_TICK_S)
            if held:
                self._ended.wait(_TICK_S)
            for key, _ in ready:
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data in self._pairs and isinstance(key.fileobj, socket.socket):
                    self._carry(key.data, key.fileobj)
            now = time.monotonic()
            for due, pair in tuple(self._half_closed):
                if due <= now:
                    self._drop(pair)
        for pair in tuple(self._pairs):
            self._drop(pair)
        self._selector.close()
        self._listener.close()

    def _accept(self) -> None:
        agent, _ = self._listener.accept()
        daemon = socket.socket(socket.AF_UNIX)
        try:
            daemon.connect(str(self._there))
        except OSError:  # nobody is there: the agent sees just that
            agent.close()
            daemon.close()
            return
        pair = _Pair(agent, daemon, {agent, daemon})
        for one in (agent, daemon):
            one.settimeout(_SEND_WITHIN_S)
            self._selector.register(one, selectors.EVENT_READ, pair)
        self._pairs.append(pair)

    def _carry(self, pair: _Pair, come: socket.socket) -> None:
        try:
            chunk = come.recv(_CHUNK)
            if self._cut and chunk:
                self._cut = False
                pair.other(come).sendall(chunk[: len(chunk) // 2])
                self._drop(pair)
                return
            pair.other(come).sendall(chunk)
            if self._half and chunk:
                self._half = False
                self._half_closed.append((time.monotonic() + 1.0, pair))
            elif chunk:
                return
            self._end_way(pair, come)
        except OSError:
            self._drop(pair)

    def _end_way(self, pair: _Pair, come: socket.socket) -> None:
        self._selector.unregister(come)
        pair.open_ways.discard(come)
        pair.other(come).shutdown(socket.SHUT_WR)
        if not pair.open_ways:
            self._drop(pair)

    def _drop(self, pair: _Pair) -> None:
        self._half_closed = [one for one in self._half_closed if one[1] is not pair]
        with contextlib.suppress(ValueError):
            self._pairs.remove(pair)
        for one in (pair.agent, pair.daemon):
            if one in pair.open_ways:
                self._selector.unregister(one)
            one.close()
        pair.open_ways.clear()
