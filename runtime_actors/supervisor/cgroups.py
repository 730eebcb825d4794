"""Limits on a worker as a whole, where this system lets the daemon set some: memory and processes. See cgroups(7).

What rlimits cannot say: RLIMIT_DATA does not count shared memory, RLIMIT_NPROC counts a user. Where there are none
(an ordinary user without a delegated cgroup, most containers) the rlimits stand alone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_CONTROLLERS: Final = ("memory", "pids")
_LIMIT_FILES: Final = {
    1: {"memory": "memory.limit_in_bytes", "pids": "pids.max"},
    2: {"memory": "memory.max", "pids": "pids.max"},
}
_EVENT_FILES: Final = {1: "memory.oom_control", 2: "memory.events"}
_LEAF_OF_DAEMON: Final = "lineup-daemon"


@dataclass(frozen=True, slots=True)
class Parents:
    """Where the groups of workers are made: a folder for each controller, the same one in version 2."""

    version: int
    folders: Mapping[str, Path]
    owner: str
    """In the name of each group: whose it is, however often the daemon is started again."""

    @classmethod
    def find(cls, daemon_pid: int, owner: str) -> Self | None:
        """What can be used, or None. Tried, not guessed: a group is made and removed. Before the zygote starts.

        Groups that a killed daemon of the same `owner` left behind are removed.

        Version 2 limits only groups beside which no process sits, so the daemon moves into one of its own if it has
        its group for itself.
        """
        unified, split = _own_folders()
        candidates = [cls(1, split, owner)] if all(name in split for name in _CONTROLLERS) else []
        if unified is not None and _hand_on_controllers(unified, daemon_pid):
            candidates.insert(0, cls(2, dict.fromkeys(_CONTROLLERS, unified), owner))
        for parents in candidates:
            parents.forget()
        return next((parents for parents in candidates if parents.can_make()), None)

    def make(self, attempt_id: str, *, memory_bytes: int, processes: int) -> Group:
        """A group for one attempt; threads count as processes.

        Raises:
            OSError: no room for another group.
        """
        wanted = {"memory": memory_bytes, "pids": processes}
        own = f"lineup-{self.owner}-{attempt_id}"
        group = Group(self.version, {name: folder / own for name, folder in self.folders.items()})
        try:
            for name, folder in group.folders.items():
                folder.mkdir(exist_ok=True)
                (folder / _LIMIT_FILES[self.version][name]).write_text(str(wanted[name]), encoding="ascii")
            _without_swap(group, memory_bytes)
        except OSError:
            group.remove()
            raise
        return group

    def forget(self) -> None:
        """Remove every empty group of this owner; the processes of the others still end."""
        for folder in set(self.folders.values()):
            for group in folder.glob(f"lineup-{self.owner}-*"):
                with contextlib.suppress(OSError):
                    group.rmdir()

    def can_make(self) -> bool:
        """Whether a group can be made just now."""
        try:
            self.make(f"probe-{os.getpid()}", memory_bytes=2**26, processes=16).remove()
        except OSError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Group:
    """The cgroup of one attempt."""

    version: int
    folders: Mapping[str, Path]

    def take(self, pid: int) -> None:
        """Put a process in, at its gate: what it used before is not counted. Raises OSError if it is gone."""
        for folder in set(self.folders.values()):
            (folder / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def oom_kills(self) -> int:
        """How often the kernel killed something in it for want of memory."""
        try:
            text = (self.folders["memory"] / _EVENT_FILES[self.version]).read_text(encoding="ascii")
        except OSError:
            return 0
        counts = dict(line.split()[:2] for line in text.splitlines() if line)
        return int(counts.get("oom_kill", 0))

    def remove(self) -> None:
        """After its processes were waited for. What is still in use stays behind, empty groups cost nothing."""
        for folder in set(self.folders.values()):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _without_swap(group: Group, memory_bytes: int) -> None:
    """Where swap is counted: what did not fit into memory would go there."""
    for name, limit in (("memory.swap.max", 0), ("memory.memsw.limit_in_bytes", memory_bytes)):  # versions 2 and 1
        path = group.folders["memory"] / name
        if path.exists():
            path.write_text(str(limit), encoding="ascii")


def _own_folders() -> tuple[Path | None, dict[str, Path]]:
    """This process's own group: in the unified hierarchy, and by controller in those of version 1."""
    unified: Path | None = None
    split: dict[str, Path] = {}
    mounts = list(_cgroup_mounts())
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, own = line.split(":", 2)
        names = frozenset(controllers.split(",")) if controllers else frozenset({""})
        for root, point, options in mounts:
            if (names <= options if controllers else options == {""}) and own.startswith(root):
                folder = point / own.removeprefix(root).strip("/")
                if controllers:
                    split |= dict.fromkeys(names & {*_CONTROLLERS}, folder)
                else:
                    unified = folder
    return unified, split


def _cgroup_mounts() -> Iterable[tuple[str, Path, frozenset[str]]]:
    """(root of the mount within its hierarchy, mount point, controllers; {""} for version 2). See proc(5)."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        placed, _, kind = line.partition(" - ")
        _, _, _, root, point, *_ = placed.split()
        name, _, options = kind.split(" ", 2)
        if name in ("cgroup", "cgroup2"):
            found = frozenset(options.split(",")) if name == "cgroup" else frozenset({""})
            yield root.rstrip("/"), Path(point), found


def _hand_on_controllers(folder: Path, daemon_pid: int) -> bool:
    try:
        offered = (folder / "cgroup.controllers").read_text(encoding="ascii").split()
        if not set(_CONTROLLERS) <= set(offered):
            return False
        inside = (folder / "cgroup.procs").read_text(encoding="ascii").split()
        if inside == [str(daemon_pid)]:
            leaf = folder / _LEAF_OF_DAEMON
            leaf.mkdir(exist_ok=True)
            (leaf / "cgroup.procs").write_text(str(daemon_pid), encoding="ascii")
        enable = " ".join(f"+{name}" for name in _CONTROLLERS)
        (folder / "cgroup.subtree_control").write_text(enable, encoding="ascii")
    except OSError:
        return False
    return True
