"""Every layer of a worker's confinement, in the order that `docs/isolation.md` gives reasons for.

`plan` once in the zygote; in each worker `confine` before any thread exists, `seal` when the connection is up, and
`canaries.run` after it. What cannot be had here is left out, never silently: `Applied` says what is in force. A step
that fails where the plan says that it works raises, and the worker must end.
"""

from __future__ import annotations

import itertools
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from miniapp_worker import canaries, landlock, namespaces, privileges, readable, seccomp


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
    tasks_of_user: int = 0
    """Processes and threads of the daemon's uid, all of which count where a worker has that uid too."""
    counts_by_namespace: bool = True
    """Whether RLIMIT_NPROC counts each user namespace on its own: since Linux 5.14."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What the kernel has taken: each entry follows from its answers, not from the plan."""

    namespaces: frozenset[str]
    own_uid: bool
    landlock_abi: int
    """0 also where it could not be shown: its canary was refused before."""
    filters: int


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a worker is in, and the last step into it."""

    made: Plan | None
    """None: there is nothing on this system that confines."""
    applied: Applied
    wait_admitted: Callable[[], None] | None = None
    """Returns once the daemon has done its part, and raises DaemonGone if it never will."""

    def seal(self) -> tuple[Applied, dict[str, bool]]:
        """`seal`, and then the canaries: for each layer, whether all attempts against it failed as they should.

        Raises:
            DaemonGone: nobody waits for this worker any more.
        """
        if self.wait_admitted is not None:
            self.wait_admitted()
        if self.made is None:
            return self.applied, {}
        added = seal(self.made)
        with_filters = self.applied.filters + added > 0
        findings = canaries.run(with_landlock=self.applied.landlock_abi > 0, with_filters=with_filters)
        return self.applied, canaries.held(findings)

    @property
    def is_sealed(self) -> bool:
        """Whether `seal` takes the right to connect, or has taken it."""
        return self.made is not None and self.made.sealing is not None


NOTHING: Final = Confinement(None, Applied(frozenset(), own_uid=False, landlock_abi=0, filters=0))


class DaemonGone(Exception):
    """The daemon ended while its worker was being confined: nobody would end this process later."""


def plan(root: Path, *, sockets: Path | None = None, landlock_at_most: int | None = None) -> Plan:
    """Find out what works, by trying it in forked children. For a process with one thread; some 10 ms.

    `root` is the folder that the packages of this distribution lie in, `sockets` the one that they are given
    a way into, to connect.
    `landlock_at_most` is the newest ABI of Landlock to use, as an older kernel would have it; 0 uses none.
    """
    wanted = readable.by_every_worker(root)
    way = namespaces.find_way(wanted)
    has_own_root = way is not None and way.with_root
    reached = wanted.is_open_to_strangers(with_parents=not has_own_root)
    if not has_own_root and sockets is not None:
        reached = reached and readable.can_be_entered(sockets)
    uids = privileges.private_uids() if reached else None
    has_filters = seccomp.is_available()
    abi = landlock.kernel_abi()
    return Plan(
        wanted,
        way,
        uids,
        abi if landlock_at_most is None else min(abi, landlock_at_most),
        seccomp.connecting() if has_filters else None,
        seccomp.sealing() if has_filters else None,
        tasks_of_user=privileges.tasks_of_user(),
        counts_by_namespace=_kernel() >= _COUNTS_BY_NAMESPACE,
    )


def confine(
    made: Plan,
    *,
    app_folder: readable.StrPath | None,
    socket_path: readable.StrPath | None,
    uid: int | None,
    threads: int,
    stay_tied: Callable[[], bool],
    without: frozenset[Layer] = frozenset(),
) -> Applied:
    """Give up everything that connecting to `socket_path` and running the app beneath `app_folder` does not need.

    Neither need be: a probe has none.
    After `confine.confine`, with its no_new_privs, and before any thread. `uid` is one of the plan's range, None to
    keep the daemon's. `stay_tied` asks the kernel again to kill this process with the daemon, and says whether it
    still lives.

    Raises:
        DaemonGone: it does not.
        OSError: a layer of the plan could not be applied.
    """
    sees = made.readable if app_folder is None else made.readable.with_app(app_folder)
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
    if is_alone or ("user" in entered and made.counts_by_namespace):
        _limit_threads(threads)
    else:
        _limit_threads(made.tasks_of_user + _MORE_TASKS)
    if not stay_tied():  # a change of uid has cleared it
        raise DaemonGone
    if Layer.DUMPABLE not in without:
        privileges.set_dumpable(dumpable=False)
    abi = 0
    if made.landlock_abi and Layer.LANDLOCK not in without:
        can_be_shown = canaries.opens_root()
        abi = landlock.restrict_self(sees.trees, (socket_path,) if socket_path else (), abi=made.landlock_abi)
        abi = abi if can_be_shown else 0
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
_MORE_TASKS: Final = 4096
"""That a worker lets its user have, over what there was when the zygote started. Far below what a system can hold."""
_COUNTS_BY_NAMESPACE: Final = (5, 14)


def _kernel() -> tuple[int, int]:
    major, minor, *_ = os.uname().release.split(".")
    return int(major), int("".join(itertools.takewhile(str.isdigit, minor)))


def _limit_threads(threads: int) -> None:
    """Of this process, where it is counted alone; otherwise the limit is for all tasks of the user (never root's)."""
    _, hard = resource.getrlimit(_NPROC)
    allowed = threads if hard == resource.RLIM_INFINITY else min(threads, hard)
    resource.setrlimit(_NPROC, (allowed, allowed))
