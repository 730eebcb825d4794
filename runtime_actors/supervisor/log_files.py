"""Where the output of attempts is kept: bounded for an attempt, an instance and in total.

`<root>/<instance_id>/<attempt_id>.log`, and the older half of what is kept in `<attempt_id>.log.1`.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,199}")
_BLOCK_BYTES: Final = 4096

Key = tuple[str, str]  # instance id, attempt id


@dataclass(frozen=True)
class LogLimits:
    attempt_bytes: int = 2**20
    """Kept as two halves: when the newer is full it replaces the older."""
    attempts_per_instance: int = 5
    total_bytes: int = 64 * 2**20
    """Over all instances, in blocks of 4 KiB, so that many small files count too. The oldest attempts go first."""


class LogFolder:
    """Safe from any thread. Nothing here raises for a full or broken disk: what cannot be kept is refused."""

    def __init__(self, root: Path, limits: LogLimits = LogLimits()) -> None:
        self._root: Final = root
        self._limits: Final = limits
        self._lock = threading.Lock()
        self._live: set[Key] = set()
        self._kept: OrderedDict[Key, int] = OrderedDict(_found(root))  # bytes of both halves, oldest first

    def begin(self, key: Key) -> None:
        """From now on the files of this attempt are not removed to make room for others.

        Raises:
            ValueError: an id that cannot be a file name.
        """
        if not all(_SAFE_NAME.fullmatch(part) for part in key):
            raise ValueError(f"{key} cannot name a log file")
        with self._lock:
            self._live.add(key)

    def finish(self, key: Key) -> None:
        with self._lock:
            self._live.discard(key)

    def append(self, key: Key, data: bytes) -> int:
        """Add to the newer half. Returns how many bytes of `data` a full or broken disk may have cost."""
        half = self._limits.attempt_bytes // 2
        lost = 0
        with self._lock:
            for start in range(0, len(data), half):
                part = data[start : start + half]
                try:
                    self._append(key, part, half)
                except OSError:
                    lost += len(part)
        return lost

    def tail(self, instance_id: str, lines: int) -> list[str]:
        """The last lines of an instance over all kept attempts, oldest first.

        Text as the MiniApp wrote it, control characters included: not safe to print.
        """
        found: list[str] = []
        with self._lock:
            for key in reversed([key for key in self._kept if key[0] == instance_id]):
                found[:0] = b"".join(self._halves(key)).decode(errors="replace").splitlines()
                if len(found) >= lines:
                    break
        return found[-lines:] if lines > 0 else []

    def attempts(self, instance_id: str) -> list[str]:
        """Those with something kept, oldest first."""
        with self._lock:
            return [attempt for instance, attempt in self._kept if instance == instance_id]

    def _append(self, key: Key, part: bytes, half: int) -> None:
        newer, older = self._paths(key)
        if key not in self._kept:
            self._root.mkdir(mode=0o700, exist_ok=True)
            newer.parent.mkdir(mode=0o700, exist_ok=True)
            self._kept[key] = 0
            self._make_room(key)
        size = newer.stat().st_size if newer.exists() else 0
        if size + len(part) > half:
            newer.replace(older)
            self._kept[key] = size
            self._make_room(key)
        fd = os.open(newer, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            written = os.write(fd, part)
        finally:
            os.close(fd)
        self._kept[key] += written
        if written < len(part):  # the disk filled up in the middle
            raise OSError("short write")

    def _make_room(self, key: Key) -> None:
        siblings = [other for other in self._kept if other[0] == key[0]]
        for other in siblings[: max(len(siblings) - self._limits.attempts_per_instance, 0)]:
            self._remove(other)
        total = sum(map(_blocks, self._kept.values())) + self._limits.attempt_bytes // 2
        for other in list(self._kept):
            if total <= self._limits.total_bytes:
                return
            if other not in self._live:
                total -= _blocks(self._kept[other])
                self._remove(other)
        if total > self._limits.total_bytes:  # only living attempts are left: this one keeps half as much
            self._paths(key)[1].unlink(missing_ok=True)
            self._kept[key] = 0

    def _remove(self, key: Key) -> None:
        if key in self._live:
            return
        for path in self._paths(key):
            with suppress(OSError):
                path.unlink(missing_ok=True)
        with suppress(OSError):  # others of its instance are still there
            (self._root / key[0]).rmdir()
        del self._kept[key]

    def _halves(self, key: Key) -> Iterator[bytes]:
        for path in reversed(self._paths(key)):
            with suppress(OSError):
                yield path.read_bytes()

    def _paths(self, key: Key) -> tuple[Path, Path]:
        folder = self._root / key[0]
        return folder / f"{key[1]}.log", folder / f"{key[1]}.log.1"


def _blocks(size: int) -> int:
    return max(-(-size // _BLOCK_BYTES), 1) * _BLOCK_BYTES


def _found(root: Path) -> list[tuple[Key, int]]:
    """What earlier daemons left, by the time of the last write."""
    sizes: dict[Key, int] = {}
    last: dict[Key, float] = {}
    for path in root.glob("*/*.log*"):
        with suppress(OSError):
            stat = path.stat()
            key = (path.parent.name, path.name.removesuffix(".1").removesuffix(".log"))
            sizes[key] = sizes.get(key, 0) + stat.st_size
            last[key] = max(last.get(key, 0.0), stat.st_mtime)
    return [(key, sizes[key]) for key in sorted(sizes, key=lambda key: last[key])]
