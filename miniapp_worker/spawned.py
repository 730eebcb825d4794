"""From a fresh fork of the zygote to running MiniApp code, or to the end.

The gate is a pipe whose write end only the daemon holds. A line lets the worker go on: its token, which so
never passes the zygote, whose memory every later worker inherits. The end before it means that the daemon gave this
worker up, or is gone.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn, cast

from pydantic import BaseModel, ConfigDict

from miniapp_worker import confine, layers, prctl

_NOT_RUN: Final = 1
_GATE: Final = confine.FIRST_KEPT_FD
_MOST_TOKEN_BYTES: Final = 1024

Entry = Callable[[dict[str, object], layers.Confinement], int]


class Keeps(BaseModel):
    """What a worker keeps of this machine, beside what every worker may read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    app_folder: Path | None
    socket_path: Path | None
    uid: int | None
    """One of the plan's range, or None: the daemon's own."""


class Order(BaseModel):
    """What the daemon asks the zygote for. Descriptors travel beside it: log, gate, and life when not `by_kernel`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempt_id: str
    daemon_pid: int
    by_kernel: bool
    """Whether the kernel ties the worker's life to the daemon's; otherwise pipes do."""
    entry: str
    """`module:function`, imported before the worker is confined, called after it; returns the exit code."""
    limits: confine.Limits
    keeps: Keeps | None
    """None: limits only. Nothing foreign may run in such a process."""
    spec: dict[str, object]


def become_worker(order: Order, log_fd: int, kept: list[int], plan: layers.Plan | None) -> NoReturn:
    """Run in the forked child. Whatever happens, it ends here and never returns into the zygote's code.

    `kept` is the gate, and behind it the life pipe where there is one: held until the process ends, to tell the daemon.
    """
    code = _NOT_RUN
    try:
        confine.take_descriptors(log_fd, kept)
        token = _await_release()
        if token is not None and _is_tied(order):
            entry = _find(order.entry)
            confine.confine(order.limits)
            confinement = _confine_by_kernel(order, plan)
            if order.by_kernel:
                os.close(_GATE)
            else:
                threading.Thread(target=_end_with_the_gate, name="gate", daemon=True).start()
            code = _run(entry, order.spec | {"token": token}, confinement)
    except BaseException:  # noqa: BLE001 - the outermost frame of a process: what it does not print is lost
        traceback.print_exc()
    finally:
        _leave(code)


def _await_release() -> str | None:
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(_GATE, _MOST_TOKEN_BYTES)
        if not piece:
            return None
        line += piece
    return line.decode().removesuffix("\n")


def _is_tied(order: Order) -> bool:
    return not order.by_kernel or prctl.die_with_parent(order.daemon_pid)


def _confine_by_kernel(order: Order, plan: layers.Plan | None) -> layers.Confinement:
    if plan is None or order.keeps is None:
        return layers.NOTHING
    applied = layers.confine(
        plan,
        app_folder=order.keeps.app_folder,
        socket_path=order.keeps.socket_path,
        uid=order.keeps.uid,
        threads=order.limits.threads,
        stay_tied=lambda: _is_tied(order),
    )
    return layers.Confinement(plan, applied)


def _end_with_the_gate() -> None:
    while os.read(_GATE, 1):
        pass
    with suppress(OSError):  # out of reach of a confined process, which has no children either
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _find(name: str) -> Entry:
    module, _, function = name.partition(":")
    return cast("Entry", getattr(importlib.import_module(module), function))


def _run(entry: Entry, spec: dict[str, object], confinement: layers.Confinement) -> int:
    try:
        return entry(spec, confinement)
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        print(left.code, file=sys.stderr)  # noqa: T201 - what the interpreter does with sys.exit("text")
        return 1


def _leave(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        # Not sys.exit: exit handlers registered in the zygote are not the worker's.
        os._exit(code)
