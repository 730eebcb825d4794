"""The second witness: what the decoys and victims show of an attempt, whatever the intruder says of it."""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from runtime_actors.doctor.decoys import Laid

_VICTIM: Final = Path(__file__).with_name("victim.py")
_ANSWER_S: Final = 10.0
_LOGS_BYTES: Final = 4 * 2**20
"""More than that the logs of two instances may not keep."""


class Victim:
    """A process like the daemon, and what it was like when it started."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_VICTIM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"SECRET": "of a victim"},
            start_new_session=True,
        )
        self.address = int(self._answer())
        self._before = self._state()

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_changed(self) -> bool:
        """Dead, limited, slowed down, or with something else in its memory."""
        try:
            return self._process.poll() is not None or self._state() != self._before
        except (OSError, ValueError):
            return True

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _state(self) -> tuple[object, ...]:
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return (
            self._answer(),
            resource.prlimit(self.pid, resource.RLIMIT_NOFILE),
            os.getpriority(os.PRIO_PROCESS, self.pid),
            os.sched_getaffinity(self.pid),
            os.sched_getscheduler(self.pid),
        )

    def _answer(self) -> str:
        stdout = self._process.stdout
        if stdout is None or not select.select([stdout], [], [], _ANSWER_S)[0]:
            raise TimeoutError("a victim does not answer")
        return str(json.loads(stdout.readline()))


class Traps:
    """Looks at everything that an attempt may have touched."""

    def __init__(self, laid: Laid, logs: Path) -> None:
        self._laid = laid
        self._logs = logs
        self.victims = [Victim(), Victim()]
        self._files = self._look()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for victim in self.victims:
            victim.close()

    def sprung(self) -> bool:
        """Whether anything was touched since the last look. What was, is set up anew."""
        changed = [place for place, victim in enumerate(self.victims) if victim.is_changed()]
        for place in changed:
            self.victims[place].close()
            self.victims[place] = Victim()
        before, self._files = self._files, self._look()
        return bool(changed) | self._was_visited() | (before != self._files)

    def log_is_kept(self) -> bool:
        """Whether more of the instances' output is on the disk than belongs there."""
        return sum(path.stat().st_size for path in self._logs.glob("*/*")) > _LOGS_BYTES

    def _was_visited(self) -> bool:
        visited = False
        for one in self._laid.listening:
            with suppress(BlockingIOError):
                one.accept()[0].close()
                visited = True
        for one in self._laid.datagrams:
            with suppress(BlockingIOError):
                visited = bool(one.recv(64))
        return visited

    def _look(self) -> list[tuple[object, ...]]:
        decoys = self._laid.decoys
        found: list[tuple[object, ...]] = [tuple(sorted(os.listdir(decoys.open_folder)))]  # noqa: PTH208
        for path in (decoys.store, decoys.sibling_file, decoys.open_folder, decoys.own_app):
            seen = Path(path).stat()
            found.append((seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns))
        return found
