"""What a worker keeps of this machine: a uid, its app's folder, its socket; and how much it may use."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runtime_actors.supervisor.zygote import Keeps, Offers, WorkerLimits

if TYPE_CHECKING:
    from runtime_actors.contract.manifest import Limits

_MIB: Final = 2**20
_MAPPED_BESIDE_HEAP: Final = 768 * _MIB
"""Libraries, shared mappings, and what the threads of a manifest's default number reserve."""
_USUAL_THREADS: Final = 16
_RESERVED_BY_THREAD: Final = 72 * _MIB
"""glibc on 64 bits: an arena and a stack, most of it never touched."""
_OWN_THREADS: Final = 4
"""Of a worker without any app: the main thread, two of ZeroMQ, and the gate where the kernel does not tie it."""
_MOST_FILES: Final = 10_000
_READ, _ENTER = 0o4, 0o5


def limits_of(asked: Limits) -> WorkerLimits:
    """What a manifest asks for, as the kernel counts it."""
    more_threads = max(0, asked.threads - _USUAL_THREADS)
    return WorkerLimits(
        memory_bytes=asked.memory_mb * _MIB,
        address_space_bytes=asked.memory_mb * _MIB + _MAPPED_BESIDE_HEAP + more_threads * _RESERVED_BY_THREAD,
        cpu_s=asked.cpu_s,
        open_files=asked.files,
        threads=asked.threads + _OWN_THREADS,
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Decides for each worker, from what the zygote found out about this machine."""

    offers: Offers

    def keeps(self, app_folder: Path, socket_path: Path, taken: Collection[int]) -> Keeps:
        """With a uid that no living worker has (`taken`), unless that uid could not read the app.

        Raises:
            OSError: the socket could not be given to the uid.
        """
        uid = next((one for one in self.offers.uids if one not in taken), None)
        if uid is not None and not can_read(app_folder, with_parents=not self.offers.own_root):
            uid = None
        if uid is not None:
            os.chown(socket_path, uid, -1)
        return Keeps(app_folder, socket_path, uid)


def can_read(folder: Path, *, with_parents: bool) -> bool:
    """Whether a uid that owns nothing here can read all of `folder`. One with too many files is not looked through."""
    if with_parents and not all(parent.stat().st_mode & 0o1 for parent in folder.resolve().parents):
        return False
    paths = [folder, *itertools.islice(folder.rglob("*"), _MOST_FILES + 1)]
    return len(paths) <= _MOST_FILES and all(_is_open(path) for path in paths)


def _is_open(path: Path) -> bool:
    mode = path.stat().st_mode
    needed = _ENTER if stat.S_ISDIR(mode) else _READ
    return mode & needed == needed
