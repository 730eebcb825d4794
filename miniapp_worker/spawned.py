"""From a fresh fork of the zygote to running MiniApp code, or to the end.

The gate is a pipe whose write end only the daemon holds. A first line lets the worker go on: its token, which so
never passes the zygote, whose memory every later worker inherits. A second, empty one admits it to MiniApp code. The
end before either means that the daemon gave this worker up, or is gone.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Self, cast

from miniapp_worker import confine, forks, layers, prctl

_NOT_RUN: Final = 1
_be_born: Final = forks.born()
_GATE: Final = confine.FIRST_KEPT_FD
_MOST_TOKEN_BYTES: Final = 1024

Entry = Callable[[dict[str, object], layers.Confinement], int]


# No models: the daemon is believed, and checking would take 0.1 MiB of every worker.
@dataclass(frozen=True, slots=True)
class Keeps:
    """What a worker keeps of this machine, beside what every worker may read."""

    app_folder: str | None
    socket_path: str | None
    uid: int | None
    """One of the plan's range, or None: the daemon's own."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the daemon asks the zygote for. Descriptors travel beside it: log, gate, and life when not `by_kernel`."""

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

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Self:
        """From the map that it travels as.

        Raises:
            TypeError: a field is missing, or there is no such field.
        """
        limits, keeps = confine.Limits(**told["limits"]), told["keeps"]
        return cls(**{**told, "limits": limits, "keeps": None if keeps is None else Keeps(**keeps)})


def become_worker(order: Order, log_fd: int, kept: list[int], plan: layers.Plan | None) -> NoReturn:
    """Run in the forked child. Whatever happens, it ends here and never returns into the zygote's code.

    `kept` is the gate, and behind it the life pipe where there is one: held until the process ends, to tell the daemon.
    """
    code = _NOT_RUN
    try:
        code = live(order, log_fd, kept, plan)
    except BaseException:  # noqa: BLE001 - the outermost frame of a process: what it does not print is lost
        traceback.print_exc()
    finally:
        _leave(code)


def live(order: Order, log_fd: int, kept: list[int], plan: layers.Plan | None) -> int:
    """Be that worker, to its end; the exit code is returned."""
    confine.take_descriptors(log_fd, kept)
    token, is_admitted = _await_release()
    if token is None or not _is_tied(order):
        return _NOT_RUN
    _be_born()
    entry = _find(order.entry)
    confine.confine(order.limits)
    confinement = _confine_by_kernel(order, plan, _wait_admitted if order.by_kernel and not is_admitted else None)
    if not order.by_kernel:
        threading.Thread(target=_end_with_the_gate, name="gate", daemon=True).start()
    elif is_admitted:
        os.close(_GATE)
    return _run(entry, order.spec | {"token": token}, confinement)


def _await_release() -> tuple[str | None, bool]:
    """The token, and whether the second line came with it; None: the gate ended."""
    read = b""
    while b"\n" not in read:
        piece = os.read(_GATE, _MOST_TOKEN_BYTES)
        if not piece:
            return None, False
        read += piece
    token, _, rest = read.partition(b"\n")
    return token.decode(), rest != b""


def _wait_admitted() -> None:
    if not os.read(_GATE, 1):
        raise layers.DaemonGone
    os.close(_GATE)


def _is_tied(order: Order) -> bool:
    return not order.by_kernel or prctl.die_with_parent(order.daemon_pid)


def _confine_by_kernel(
    order: Order, plan: layers.Plan | None, wait_admitted: Callable[[], None] | None
) -> layers.Confinement:
    if plan is None or order.keeps is None:
        return layers.Confinement(None, layers.NOTHING.applied, wait_admitted)
    applied = layers.confine(
        plan,
        app_folder=order.keeps.app_folder,
        socket_path=order.keeps.socket_path,
        uid=order.keeps.uid,
        threads=order.limits.threads,
        stay_tied=lambda: _is_tied(order),
    )
    return layers.Confinement(plan, applied, wait_admitted)


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
