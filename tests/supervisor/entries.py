"""What test workers run instead of a MiniApp. Imported in the worker, by name."""

# ruff: noqa: T201 - what they print is their log

from __future__ import annotations

import errno
import json
import os
import random
import resource
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from miniapp_worker import privileges
from miniapp_worker.layers import Confinement

Spec = dict[str, object]


def describe(_spec: Spec, _: Confinement) -> int:
    """What this process is and has, as one line of JSON in its log."""
    _open_to_its_user()
    mask: set[int] = {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())}
    facts = {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "sid": os.getsid(0),
        "pgid": os.getpgid(0),
        "cwd": str(Path.cwd()),
        "umask": os.umask(0),
        "environ": dict(os.environ),
        "exec_environ": Path("/proc/self/environ").read_bytes().decode().rstrip("\0").split("\0"),
        "fds": _open_fds(),
        "threads": len(os.listdir("/proc/self/task")),  # noqa: PTH208 - a count is all that is wanted
        "limits": {
            name: resource.getrlimit(getattr(resource, name))
            for name in ("RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_AS")
        },
        "no_new_privs": _status_line("NoNewPrivs"),
        "blocked": sorted(mask),
        "ready_made": "miniapp_worker.main" in sys.modules,
        "random": random.random(),  # noqa: S311 - whether it repeats is the question
    }
    print(json.dumps(facts))
    return 0


def _open_fds() -> dict[str, str]:
    links: dict[str, str] = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - the listing's own descriptor is among them
        try:
            links[name] = str(Path(f"/proc/self/fd/{name}").readlink())
        except FileNotFoundError:
            continue
    return links


def _status_line(name: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(f"{name}:"))


def say(spec: Spec, text: object) -> None:
    """Tell the test, through the named pipe that it listens to."""
    with Path(str(spec["says_to"])).open("w") as pipe:
        print(text, file=pipe)


def wait(spec: Spec, _: Confinement) -> int:
    say(spec, "waiting")
    threading.Event().wait(60)
    return 0


def seal(spec: Spec, confinement: Confinement) -> int:
    """As `miniapp_worker.main` does between the welcome and the app."""
    say(spec, "sealing")
    confinement.seal()
    say(spec, "sealed")
    return 0


def wait_openly(spec: Spec, _: Confinement) -> int:
    """Like `wait`, and its memory can be looked at by whoever runs the tests."""
    _open_to_its_user()
    say(spec, "waiting")
    threading.Event().wait(60)
    return 0


def _open_to_its_user() -> None:
    # Forked from a zygote that nobody but root can look into, this process could not even read about itself.
    if sys.platform == "linux":
        privileges.set_dumpable(dumpable=True)


def wait_with_child(spec: Spec, _: Confinement) -> int:
    child = os.fork()
    if child == 0:
        threading.Event().wait(60)
        os._exit(0)
    say(spec, child)
    threading.Event().wait(60)
    return 0


def leave_orphan(spec: Spec, _: Confinement) -> int:
    """Ends, leaving a process that has ended and was never waited for."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    say(spec, child)
    return 0


def code(spec: Spec, _: Confinement) -> int:
    return int(str(spec["code"]))


def leave(spec: Spec, _: Confinement) -> int:
    sys.exit(str(spec["reason"]))


def fail(_spec: Spec, _: Confinement) -> int:
    raise ValueError("the planted fault")


def flood(spec: Spec, _: Confinement) -> int:
    line = b"x" * 1023 + b"\n"
    for _number in range(int(str(spec["kib"]))):
        os.write(1, line)
    print("the last line")
    return 0


def write_file(spec: Spec, _: Confinement) -> int:
    Path(str(spec["path"])).write_text("something")
    return 0


def eat_memory(_spec: Spec, _: Confinement) -> int:
    try:
        hoard: Sequence[bytes] = [bytes(2**20) for _ in range(4096)]
    except MemoryError:
        print("no more")
        return 7
    return len(hoard)


def crash(_spec: Spec, _: Confinement) -> int:
    os.kill(os.getpid(), signal.SIGSEGV)
    return 0


def spin(_spec: Spec, _: Confinement) -> int:
    while True:
        pass


def length(spec: Spec, _: Confinement) -> int:
    print(len(str(spec["text"])))
    return 0


def look_around(spec: Spec, confinement: Confinement) -> int:
    """What this process was confined by, and which of the folders it is asked about it can list."""
    facts = {
        "planned": confinement.made is not None,
        "landlock_abi": confinement.applied.landlock_abi,
        "filters": confinement.applied.filters,
        "uid": os.geteuid(),
        "listed": {path: _listed(path) for path in str(spec["paths"]).split(":")},
    }
    print(json.dumps(facts))
    return 0


def _listed(path: str) -> str:
    try:
        return " ".join(sorted(os.listdir(path)))  # noqa: PTH208 - no object for each name
    except OSError as error:
        return errno.errorcode[error.errno or 0]
