"""Attacks before it is asked anything: at its import, which trusted code started.

What it does depends on the scope that its copy was given: `startup-raises` raises, and so on.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Final

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall


def outcome(act: Callable[[], object]) -> str:
    try:
        act()
    except OSError as refused:
        return errno.errorcode.get(refused.errno or 0, str(refused))
    return "open"


def fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def hang() -> None:
    threading.Event().wait()


REACHED: Final = {
    "signal the parent": outcome(lambda: os.kill(os.getppid(), 0)),
    "a socket": outcome(lambda: socket.socket(socket.AF_UNIX).close()),
    "the network": outcome(lambda: socket.create_connection(("127.0.0.1", 9), timeout=1)),
    "the root": outcome(lambda: os.listdir("/")),  # noqa: PTH208 - a system call
    "a file": outcome(lambda: os.close(os.open("/tmp/hostile-was-here", os.O_CREAT | os.O_WRONLY))),  # noqa: S108
    "a process": outcome(fork),
    "its own end undone": outcome(lambda: signal.signal(signal.SIGKILL, signal.SIG_IGN)),
}
SPOILS: Final[Mapping[str, Callable[[], object]]] = {
    "raises": lambda: int("not today"),
    "exits": lambda: sys.exit(0),
    "leaves": lambda: os._exit(0),
    "aborts": os.abort,
    "hangs": hang,
}
SPOILS.get(str(__package__).rpartition("_")[2], int)()


async def main(sdk: MiniAppSDK) -> None:
    if str(__package__).endswith("_ends"):
        return

    @sdk.tools.handler(f"{sdk.context.app_scope}.report")
    async def report(_: MiniAppToolCall) -> JsonObject:
        return dict(REACHED)

    await sdk.run_until_stopped()
