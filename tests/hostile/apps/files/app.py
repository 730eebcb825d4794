"""Reads what is not its own, writes everywhere, fills the disks."""

# An attack is a system call, and spelled as one.
# ruff: noqa: PTH101, PTH103, PTH104, PTH108, PTH120, PTH123

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall

Attack = Callable[[], object]

MARK: Final = "hostile-was-here"
MIB: Final = 2**20
DISK_MIB: Final = 64
SYSTEM: Final = ("/", "/etc", "/tmp", "/var/tmp", "/dev/shm", "/run", "/sys/fs/cgroup", "/home")  # noqa: S108


async def main(sdk: MiniAppSDK) -> None:
    @sdk.tools.handler("files.attack")
    async def attack(call: MiniAppToolCall) -> JsonObject:
        return {name: outcome(act) for name, act in attacks(call.input).items()}

    await sdk.run_until_stopped()


def outcome(act: Attack) -> str:
    try:
        act()
    except (OSError, sqlite3.Error) as refused:
        code = getattr(refused, "errno", None)
        return errno.errorcode[code] if code else str(refused)
    return "open"


def attacks(targets: JsonObject) -> Mapping[str, Attack]:
    state, process = targets["state"], f"/proc/{targets['daemon']}"
    files = (*targets["files"], "/etc/passwd", "/etc/shadow", "/proc/self/environ", "/proc/self/maps", "/proc/1/maps")
    folders = (*SYSTEM, state, f"{state}/run", f"{state}/logs", *targets["apps"])
    found: dict[str, Attack] = {name: partial(act, targets) for name, act in ALL.items()}
    for path in files:
        found[f"read {path}"] = partial(read, path)
        found[f"change {path}"] = partial(change, path)
    for path in (*folders, "/proc", "/proc/self/fd", f"{process}/root", f"{process}/fd"):
        found[f"list {path}"] = partial(os.listdir, path)
    for folder in (*folders, os.path.dirname(__file__), os.path.dirname(os.__file__), sys.prefix):
        found[f"write in {folder}"] = partial(write, f"{folder}/{MARK}")
        found[f"fill {folder}"] = partial(fill, f"{folder}/{MARK}-disk")
        found[f"folder in {folder}"] = partial(os.mkdir, f"{folder}/{MARK}-folder")
        found[f"link in {folder}"] = partial(os.symlink, state, f"{folder}/{MARK}-link")
        found[f"pipe in {folder}"] = partial(os.mkfifo, f"{folder}/{MARK}-pipe")
    return found


ALL: Final[Mapping[str, Callable[[Any], object]]] = {
    "ask the store": lambda targets: ask(targets["store"]),
    "steal the store by a link": lambda targets: os.link(targets["store"], f"{os.path.dirname(__file__)}/{MARK}-store"),
    "rename the store": lambda targets: os.rename(targets["store"], f"{targets['state']}/{MARK}-store"),
    "truncate the store": lambda targets: os.truncate(targets["store"], 0),
    "remove the store": lambda targets: os.unlink(targets["store"]),
    "open the store to all": lambda targets: os.chmod(targets["store"], 0o666),  # noqa: S103 - refused
    "give the store away": lambda targets: os.chown(targets["store"], 0, 0),
    "age the store": lambda targets: os.utime(targets["store"], (0, 0)),
    "label the store": lambda targets: os.setxattr(targets["store"], "user.hostile", b"1"),
    "hold the store": lambda targets: os.close(os.open(targets["store"], os.O_PATH)),
    "climb out of the own folder": lambda targets: read(
        f"{os.path.dirname(__file__)}/../../../../../../{targets['store']}"
    ),
    "climb above the root": lambda targets: read(f"/../../..{targets['store']}"),
    "read by the daemon's root": lambda targets: read(f"/proc/{targets['daemon']}/root{targets['store']}"),
    "read the daemon's memory": lambda targets: read(f"/proc/{targets['daemon']}/mem"),
    "read the daemon's environment": lambda targets: read(f"/proc/{targets['daemon']}/environ"),
    "change the own code": lambda _: write(__file__),
    "change the SDK": lambda _: write(sys.modules["miniapp_worker.sdk"].__file__ or ""),
    "write bytecode": lambda _: os.makedirs(f"{os.path.dirname(__file__)}/__pycache__/{MARK}"),
    "a temporary file": lambda _: tempfile.TemporaryFile().close(),
    "a nameless file": lambda _: os.close(os.open("/tmp", os.O_TMPFILE | os.O_RDWR)),  # noqa: S108
    "a file in memory": lambda _: os.close(os.memfd_create(MARK)),
    "a device": lambda _: os.mknod(f"/tmp/{MARK}-device", 0o600 | stat.S_IFBLK, os.makedev(8, 0)),  # noqa: S108
    "a change by a descriptor": lambda _: os.fchmod(1, 0o666),
    "left descriptors": lambda _: left_descriptors(),
}


def read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(64)


def change(path: str) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_APPEND))


def write(path: str) -> None:
    with open(path, "ab") as file:
        file.write(b"!")


def fill(path: str) -> None:
    with open(path, "wb") as file:
        file.writelines(bytes(MIB) for _ in range(DISK_MIB))


def ask(store: str) -> None:
    asked = sqlite3.connect(f"file:{store}?immutable=1", uri=True)
    asked.execute("select count(*) from calls")


def left_descriptors() -> None:
    """Succeed if a file, a folder or a pipe of somebody is open here, beside /dev/null and the log."""
    for descriptor in range(3, 1024):
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISFIFO(mode):
            return
    raise OSError("nothing is left")
