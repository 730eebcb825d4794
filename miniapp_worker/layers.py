"""Every layer of a worker's confinement, in the order that `docs/isolation.md` gives reasons for.

`plan` once in the zygote; in each worker `confine` before any thread exists, `seal` when the connection is up, and
`canaries.run` after it. What cannot be had here is left out, never silently: `Applied` says what is in force. A step
that fails where the plan says that it works raises, and the worker must end.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from miniapp_worker import landlock, namespaces, privileges, readable, seccomp


class Layer(StrEnum):
    """What a test can switch off, to show what it is for."""

    NAMESPACES = "namespaces"
    UID = "uid"
    CAPABILITIES = "capabilities"
    DUMPABLE = "dumpable"
    LANDLOCK = "landlock"
    FILTER = "filter"
    SEAL = "seal"


@dataclass(frozen=True, slots=True)
class Plan:
    """What can be had on this machine, and is made once for all workers."""

    readable: readable.Readable
    way: namespaces.Way | None
    uids: privileges.UidRange | None
    """For the daemon to choose from, one for each living attempt. None: workers keep its own uid."""
    landlock_abi: int
    connecting: seccomp.Filter | None
    sealing: seccomp.Filter | None


@dataclass(frozen=True, slots=True)
class Applied:
    """What the kernel has taken: each entry follows from its answers, not from the plan."""

    namespaces: frozenset[str]
    own_uid: bool
    landlock_abi: int
    filters: int


class DaemonGone(Exception):
    """The daemon ended while its worker was being confined: nobody would end this process later."""


def plan(root: Path) -> Plan:
    """Find out what works, by trying it in forked children. For a process with one thread; some 10 ms.

    `root` is the folder that the packages of this distribution lie in.
    """
    wanted = readable.by_every_worker(root)
    way = namespaces.find_way(wanted)
    has_own_root = way is not None and way.with_root
    uids = privileges.private_uids() if wanted.is_open_to_strangers(with_parents=not has_own_root) else None
    filters = (seccomp.connecting(), seccomp.sealing()) if seccomp.is_available() else (None, None)
    return Plan(wanted, way, uids, landlock.kernel_abi(), *filters)


def confine(
    made: Plan,
    *,
    app_folder: Path,
    socket_path: Path,
    uid: int | None,
    threads: int,
    stay_tied: Callable[[], bool],
    without: frozenset[Layer] = frozenset(),
) -> Applied:
    """Give up everything that connecting to `socket_path` and running the app beneath `app_folder` does not need.

    After `confine.confine`, with its no_new_privs, and before any thread. `uid` is one of the plan's range, None to
    keep the daemon's. `stay_tied` asks the kernel again to kill this process with the daemon, and says whether it
    still lives.

    Raises:
        DaemonGone: it does not.
        OSError: a layer of the plan could not be applied.
    """
    sees = made.readable.with_app(app_folder)
    entered: frozenset[str] = frozenset()
    if made.way is not None and Layer.NAMESPACES not in without:
        entered = namespaces.enter(made.way, sees, socket_path)
    if Layer.CAPABILITIES not in without:
        privileges.drop_bounding_set()
    is_alone = uid is not None and Layer.UID not in without
    if uid is not None and is_alone:
        privileges.become(uid)
    if Layer.CAPABILITIES not in without:
        privileges.drop_capabilities()
    if is_alone or "user" in entered:
        _limit_threads(threads)
    if not stay_tied():  # a change of uid has cleared it
        raise DaemonGone
    if Layer.DUMPABLE not in without:
        privileges.set_dumpable(dumpable=False)
    abi = 0
    if made.landlock_abi and Layer.LANDLOCK not in without:
        abi = landlock.restrict_self(sees.trees, (socket_path,), abi=made.landlock_abi)
    filters = 0
    if made.connecting is not None and Layer.FILTER not in without:
        seccomp.install(made.connecting)
        filters = 1
    return Applied(entered, is_alone, abi, filters)


def seal(made: Plan) -> int:
    """Take the right to connect from every thread; the number of filters this added is returned."""
    if made.sealing is None:
        return 0
    seccomp.install(made.sealing)
    return 1


_NPROC: Final = resource.RLIMIT_NPROC


def _limit_threads(threads: int) -> None:
    """Only where this process is counted alone: otherwise the limit counts every process of the user."""
    _, hard = resource.getrlimit(_NPROC)
    allowed = threads if hard == resource.RLIM_INFINITY else min(threads, hard)
    resource.setrlimit(_NPROC, (allowed, allowed))
