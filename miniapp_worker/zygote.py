"""The process that workers are forked from: exec'ed clean, one thread, everything a worker needs already imported.

It never runs MiniApp code, holds no secret, and opens no ZeroMQ context: a forked context hangs. Each worker is
forked twice; the process in between ends at once, and so the daemon, a child subreaper, becomes the parent.
The zygote may then die without taking a worker along, and the daemon learns every exit status.

The control socket carries msgpack maps, one request at a time:

    daemon -> zygote   the fields of `Order`, with the descriptors log, gate[, life]
    zygote -> daemon   {ready: true, uids, own_root, trees} once (see `_describe`);
                       then {attempt_id, pid} or {attempt_id, errno} for each request
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import msgpack

from miniapp_worker import confine, layers, memory, prctl, privileges
from miniapp_worker.spawned import Order, become_worker

PRELOAD: Final = (
    "asyncio",
    "logging",
    "miniapp_worker.main",
    "miniapp_worker.probe",
    "miniapp_worker.warm_up",
)
"""Imported before the first fork, and so shared by all workers: their start is a fork, not an import."""

_READ_BYTES: Final = 65536
_PID: Final = struct.Struct("!i")


def main(
    root: Path, control_fd: int, daemon_pid: int, sockets: Path, *, by_kernel: bool, landlock_at_most: int | None
) -> None:
    """Serve until the daemon closes its end, or is gone. For the rest see `layers.plan`."""
    confine.forget_origins()
    if by_kernel and not prctl.die_with_parent(daemon_pid):
        return
    for name in PRELOAD:
        importlib.import_module(name)
    plan = None
    if sys.platform == "linux":
        plan = layers.plan(root, sockets=sockets, landlock_at_most=landlock_at_most)
        privileges.set_dumpable(dumpable=False)
    _warm_up(plan)
    memory.fill_gaps()
    gc.freeze()  # a collection in a worker would otherwise write to, and so copy, every shared page
    with socket.socket(fileno=control_fd) as control:
        control.sendall(msgpack.packb({"ready": True, **_describe(plan)}))
        _serve(control, plan)


def _warm_up(plan: layers.Plan | None) -> None:
    from miniapp_worker.warm_up import warm_up  # noqa: PLC0415 - one of PRELOAD

    try:
        memory.gather(lambda: warm_up(plan, lives=1))
        warm_up(plan)
    except Exception:  # noqa: BLE001 - on a machine that stands still, say: workers start as well, only cold
        traceback.print_exc()


def _describe(plan: layers.Plan | None) -> dict[str, object]:
    """What the daemon must know: which uids it may give away, whether a worker gets its own root, and what it reads."""
    if plan is None:
        return {"uids": None, "own_root": False, "trees": []}
    return {
        "uids": [plan.uids.first, plan.uids.count] if plan.uids is not None else None,
        "own_root": plan.way is not None and plan.way.with_root,
        "trees": list(plan.readable.trees),
    }


def _serve(control: socket.socket, plan: layers.Plan | None) -> None:
    unpacker = msgpack.Unpacker()
    fds: list[int] = []
    while True:
        data, received, _, _ = socket.recv_fds(control, _READ_BYTES, 3)
        if not data:
            return
        fds += received
        unpacker.feed(data)
        for request in unpacker:  # at most one: the daemon waits for each answer
            control.sendall(msgpack.packb(_fork(Order.read(request), fds, plan)))
            for fd in fds:
                os.close(fd)
            fds.clear()


def _fork(order: Order, fds: list[int], plan: layers.Plan | None) -> dict[str, object]:
    log_fd, *kept = fds
    try:
        pid = _fork_twice(lambda: become_worker(order, log_fd, kept, plan))
    except OSError as refused:
        return {"attempt_id": order.attempt_id, "errno": refused.errno}
    return {"attempt_id": order.attempt_id, "pid": pid}


def _fork_twice(born: Callable[[], NoReturn]) -> int:
    """The pid of a grandchild that runs `born` and, when this returns, is already the daemon's child.

    Raises:
        OSError: one of the forks was refused.
    """
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb", buffering=0) as answers:
        try:
            between = os.fork()
            if between == 0:
                _stand_between(write_end, born)
        finally:
            os.close(write_end)
        told = answers.read(_PID.size)
    os.waitpid(between, 0)  # the kernel has handed its child on before this returns
    answer: int = _PID.unpack(told)[0] if told else -errno.ECHILD
    if answer < 0:
        raise OSError(-answer, os.strerror(-answer))
    return answer


def _stand_between(write_end: int, born: Callable[[], NoReturn]) -> NoReturn:
    try:
        try:
            answer = os.fork()
        except OSError as refused:
            answer = -(refused.errno or errno.EAGAIN)
        if answer == 0:
            born()
        os.write(write_end, _PID.pack(answer))
    finally:
        os._exit(0)
