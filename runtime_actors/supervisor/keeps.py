"""What a worker keeps of this machine: a uid, its app's folder, its socket; and how much it may use."""

from __future__ import annotations

import itertools
import logging
import os
import stat
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runtime_actors.supervisor.zygote import Keeps, Offers, WorkerLimits

if TYPE_CHECKING:
    from runtime_actors.contract.manifest import Limits

logger = logging.getLogger(__name__)

_MIB: Final = 2**20
_MAPPED_BESIDE_HEAP: Final = 592 * _MIB
"""Libraries, shared mappings, and what the threads of a manifest's default number reserve."""
_USUAL_THREADS: Final = 16
_RESERVED_BY_THREAD: Final = 72 * _MIB
"""glibc on 64 bits: an arena and a stack, most of it never touched."""
_OWN_HEAP: Final = 32 * _MIB
"""Of a worker without any app: what the kernel counts of the interpreter and the libraries, most of it shared."""
_OWN_THREADS: Final = 2
"""Of a worker without any app: the main thread, and the gate where the kernel does not tie it."""
_FILES_SHARING: Final = 128
_MOST_FILES: Final = 10_000
_READ, _ENTER = 0o4, 0o5


def limits_of(asked: Limits) -> WorkerLimits:
    """What a manifest asks for, as the kernel counts it."""
    heap = asked.memory_mb * _MIB + _OWN_HEAP
    more_threads = max(0, asked.threads - _USUAL_THREADS)
    return WorkerLimits(
        memory_bytes=heap,
        address_space_bytes=heap + _MAPPED_BESIDE_HEAP + more_threads * _RESERVED_BY_THREAD,
        cpu_s=asked.cpu_s,
        open_files=asked.files,
        threads=asked.threads + _OWN_THREADS,
    )


def sharing_a_uid(limits: WorkerLimits) -> WorkerLimits:
    """For a worker with the daemon's uid: what epoll may watch is counted for each uid, by the square of its files."""
    return replace(limits, open_files=min(limits.open_files, _FILES_SHARING))


@dataclass(frozen=True, slots=True)
class Place:
    """Decides for each worker, from what the zygote found out about this machine."""

    offers: Offers
    _readable: dict[Path, bool] = field(default_factory=dict, compare=False)

    def keeps(self, app_folder: Path, socket_path: Path, taken: Collection[int]) -> Keeps:
        """With a uid that no living worker has (`taken`), unless that uid could not read the app.

        Raises:
            OSError: the socket could not be given to the uid.
        """
        uid = next((one for one in self.offers.uids if one not in taken), None)
        if uid is not None and not self._is_readable(app_folder):
            uid = None
        if uid is not None:
            os.chown(socket_path, uid, -1)
        return Keeps(app_folder, socket_path, uid)

    def _is_readable(self, app_folder: Path) -> bool:
        found = self._readable.get(app_folder)
        if found is None:
            found = self._readable[app_folder] = can_read(app_folder, with_parents=not self.offers.own_root)
            if not found:
                logger.warning(
                    "an app's workers keep the daemon's uid: others cannot read all of its folder (chmod -R o+rX)",
                    extra={"folder": str(app_folder)},
                )
        return found


def can_read(folder: Path, *, with_parents: bool) -> bool:
    """Whether a uid that owns nothing here can read all of `folder`. One with too many files is not looked through."""
    if with_parents and not all(parent.stat().st_mode & 0o1 for parent in folder.resolve().parents):
        return False
    paths = [folder, *itertools.islice(folder.rglob("*"), _MOST_FILES + 1)]
    return len(paths) <= _MOST_FILES and all(_is_open(path) for path in paths)


def _is_open(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:  # a link to nowhere, or a file that has just gone: there is nothing to read for anybody
        return True
    needed = _ENTER if stat.S_ISDIR(mode) else _READ
    return mode & needed == needed
