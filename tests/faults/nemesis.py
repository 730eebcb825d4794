"""Who strikes while the daemon stands still at a failpoint: the process to be struck is one that a signal can reach."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

from tests.e2e.agent import History
from tests.e2e.daemon import ROOT, Daemon, wait_until
from tests.faults.peers import OWN, read_journal, ready

STOPPED_S: Final = 0.12
"""How long a process stands still."""
_TURN_S: Final = 0.004
_GONE_S: Final = 40.0
_AT: Final = re.compile(r"failpoint  command=(\S+) point=(\S+) action=stop-daemon\n")

Point = tuple[str, str]
"""Command and point."""


class Peer:
    """A host or an agent in a process of its own, started again whenever it dies."""

    def __init__(self, kind: str, state: Path, name: str) -> None:
        self.kind, self.name = kind, name
        self._state = state
        self.journal = state.with_name(f"{state.name}.{name}.jsonl")
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "tests.faults.peers",
            self.kind,
            str(self._state),
            str(self.journal),
            self.name,
        ]
        self.starts += 1
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)

    def signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and another one in its place."""
        self.end()
        self.start()

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def is_ready(self) -> bool:
        """Whether it hears signals."""
        path = ready(self.journal)
        return self._process is not None and path.exists() and path.read_text() == str(self._process.pid)

    def wait_ready(self) -> None:
        wait_until(f"{self.name} hears signals", lambda: self.is_ready)

    def finish(self) -> bool:
        """Let it end what it began; whether it did."""
        assert self._process is not None
        self.wait_ready()
        self._process.terminate()
        try:
            return self._process.wait(_GONE_S) == 0
        except subprocess.TimeoutExpired:
            return False

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def history(self) -> History:
        return [row for row in read_journal(self.journal) if row["what"] not in OWN]


class Nemesis(threading.Thread):
    """Watches a daemon; when it stands still at a point, strikes whom that point is planned for, and lets it go on."""

    def __init__(self, daemon: Daemon, strikes: Mapping[Point, str], peers: Sequence[Peer]) -> None:
        super().__init__(name="nemesis", daemon=True)
        self._daemon, self._strikes = daemon, strikes
        self._peers = {peer.kind: peer for peer in peers}
        self._over = threading.Event()
        self._read = 0
        self.struck: dict[Point, str] = {}
        """By point: what was done there."""
        self.history: History = []

    def close(self) -> None:
        self._over.set()
        if self.is_alive():
            self.join(5)
        self._go_on()

    def run(self) -> None:
        while not self._over.wait(_TURN_S):
            if self._stands_still():
                self._strike()

    def _stands_still(self) -> bool:
        process = self._daemon.process
        if process is None or process.poll() is not None:
            return False
        with contextlib.suppress(OSError, IndexError):
            stat = Path(f"/proc/{process.pid}/stat").read_text()
            return stat.rpartition(")")[2].split()[0] == "T"
        return False

    def _strike(self) -> None:
        said = self._daemon.said()
        found = [(match[1], match[2]) for match in _AT.finditer(said, self._read)]
        self._read = len(said)
        undone: list[Callable[[], None]] = []
        for point in found:
            action = self._strikes.get(point, "stop-daemon")
            kind, _, target = action.partition("-")
            undo = self._do(kind, target)
            if undo is None:
                continue
            undone.append(undo)
            self.struck[point] = action
            self._note(point, action)
        if any(action == "stop-daemon" for action in map(self._strikes.get, found)):
            time.sleep(STOPPED_S)
        self._go_on()
        if undone:
            time.sleep(STOPPED_S)
        for undo in undone:
            undo()

    def _do(self, kind: str, target: str) -> Callable[[], None] | None:
        """What undoes it; None if there was nobody to do it to."""
        if target == "daemon":
            return lambda: None
        peer = self._peers.get(target)
        if peer is not None:
            return self._to_peer(kind, peer)
        family = sorted(self._daemon.family(), key=lambda one: (one.create_time(), one.pid))
        chosen = family[:1] if target == "zygote" else family[1:]
        for one in chosen:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.suspend()
        return (lambda: _resume(chosen)) if chosen else None

    def _to_peer(self, kind: str, peer: Peer) -> Callable[[], None] | None:
        if not peer.is_running:
            return None
        match kind:
            case "kill":
                peer.end()
                return peer.start
            case "stop":
                peer.signal(signal.SIGSTOP)
                return lambda: peer.signal(signal.SIGCONT)
            case _ if peer.is_ready:
                peer.signal(signal.SIGUSR1)
                return lambda: None
            case _:
                return None

    def _go_on(self) -> None:
        process = self._daemon.process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)

    def _note(self, point: Point, action: str) -> None:
        detail: dict[str, Any] = {"point": ":".join(point)}
        self.history.append(
            {"what": "fault", "at": time.monotonic(), "by": "nemesis", "kind": action, "detail": detail}
        )


def _resume(processes: Sequence[psutil.Process]) -> None:
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.resume()
