"""Where a daemon may have been started, each made in a child.

`root`, an ordinary `user`, a `container`, and a `bare` one whose kernel can confine nothing.

    python -I places.py PLACE COMMAND...

becomes COMMAND there.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from miniapp_worker import bpf, namespaces, prctl, privileges, seccomp  # noqa: E402
from miniapp_worker.bpf import ALLOW, Rule, refuse  # noqa: E402
from runtime_actors.doctor.apps.intruder.attempts.attempt import NUMBERS  # noqa: E402

NOBODY: Final = 65534

_CLONE_NEWNS, _CLONE_NEWIPC = 0x00020000, 0x08000000
_DOCKER_CAPABILITIES: Final = 0xA80425FB
"""CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_RAW SYS_CHROOT MKNOD AUDIT_WRITE
SETFCAP: what docker leaves to root."""
_FORBIDDEN_IN_CONTAINERS: Final = (
    "unshare", "setns", "mount", "umount2", "pivot_root", "bpf", "perf_event_open", "userfaultfd", "add_key",
    "open_tree", "fsopen", "open_by_handle_at",
)  # fmt: skip

_libc: Final = ctypes.CDLL(None, use_errno=True)


def enter(place: str) -> None:
    """Make this process one that was started in `place`. Needs one thread, and root for all but `user`."""
    if os.getuid() == 0:
        os.setgroups([4])  # a group to lose
        # Nothing that a test mounts or leaves in System V memory may be seen outside.
        if _libc.unshare(ctypes.c_int(_CLONE_NEWNS | _CLONE_NEWIPC)) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        namespaces._mount(None, "/", None, namespaces._MS_REC | namespaces._MS_PRIVATE, None)
    if place == "user":
        _become_ordinary()
    elif place == "container":
        _become_contained(_FORBIDDEN_IN_CONTAINERS)
    elif place == "bare":
        _become_contained((*_FORBIDDEN_IN_CONTAINERS, "seccomp", "landlock_create_ruleset"))


def _become_ordinary() -> None:
    if os.getuid() != 0:
        return
    _open_the_way((Path(sys.base_prefix), Path(sys.prefix), ROOT))
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    privileges.set_dumpable(dumpable=True)  # as any program that such a user starts


def _open_the_way(needed: tuple[Path, ...]) -> None:
    """Where the interpreter lies in a home that only its owner may enter, show it in an empty one."""
    for path in needed:
        closed = next((one for one in reversed(path.parents) if not one.stat().st_mode & 0o1), None)
        if closed is None:
            continue
        tree = namespaces._detached_copy(str(path))
        namespaces._mount("home", str(closed), "tmpfs", 0, "mode=0755")
        namespaces._attach(tree, str(path))


def _become_contained(forbidden: Iterable[str]) -> None:
    for capability in range(64):
        if not _DOCKER_CAPABILITIES >> capability & 1:
            _libc.prctl(24, ctypes.c_ulong(capability), 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)(_DOCKER_CAPABILITIES & 0xFFFFFFFF, _DOCKER_CAPABILITIES & 0xFFFFFFFF, 0, 0, 0, 0)
    if _libc.capset(ctypes.byref(header), ctypes.byref(data)) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    prctl.refuse_new_privileges()
    rules: dict[int, Rule] = {NUMBERS[name]: refuse(errno.EPERM) for name in forbidden}
    rules[NUMBERS["clone3"]] = refuse(errno.ENOSYS)
    machine = platform.machine()
    code, own_pid = bpf.assemble(rules, ALLOW, audit_arch=seccomp._AUDIT_ARCH[machine], kill_from=None)
    seccomp.install(seccomp.Filter(code, own_pid))


if __name__ == "__main__":
    enter(sys.argv[1])
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - no shell is wanted
