"""What a confined child does: attack, or work as a MiniApp does. Returns what it reports, as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import importlib
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Final

import zmq

from miniapp_worker import canaries
from runtime_actors.doctor.apps.intruder import attempts
from runtime_actors.doctor.apps.intruder.attempts.attempt import ended, syscall
from runtime_actors.doctor.apps.intruder.attempts.decoys import Decoys

Seal = Callable[[], int]
LIMIT_MS: Final = 10_000


def matrix(decoys: Decoys, _: Path, seal: Seal) -> object:
    """Every attempt that leaves the process alive: `open`, the name of the errno, or `refused`."""
    seal()
    return {name: _outcome(name, decoys) for name in attempts.ALL if name not in attempts.BOMBS | attempts.DEADLY}


def _outcome(name: str, decoys: Decoys) -> str:
    outcome, error = ended(attempts.ALL[name], decoys)
    return error or ("open" if outcome == "open" else "refused")


def check(_: Decoys, __: Path, seal: Seal) -> object:
    """The worker's own canaries."""
    seal()
    return {found.name: [errno.errorcode.get(found.got, "open"), found.ok] for found in canaries.run()}


def status(_: Decoys, __: Path, seal: Seal) -> object:
    """What the kernel says about itself, where /proc can be seen."""
    seal()
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def work(_: Decoys, path: Path, seal: Seal) -> object:
    """What a MiniApp may count on: its channel, threads, an event loop, imports of what it has not seen yet."""
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.LINGER, 0)
    dealer.connect(f"ipc://{path}")
    done: dict[str, object] = {"handshake": _echo(dealer, b"hello") == b"hello", "sealed": seal()}
    done["large"] = all(_echo(dealer, os.urandom(1) * 500_000) for _ in range(3))
    done["round_trips"] = all(_echo(dealer, b"x" * 100) for _ in range(200))
    with ThreadPoolExecutor(4) as pool:
        done["threads"] = list(pool.map(lambda number: number + 1, range(8))) == list(range(1, 9))
    done["event_loop"] = asyncio.run(_on_a_loop())
    for name in ("decimal", "sqlite3", "uuid", "zoneinfo", "csv", "hashlib", "platform", "xml.etree.ElementTree"):
        importlib.import_module(name)
    memory = sys.modules["sqlite3"].connect(":memory:")
    done["sqlite"] = memory.execute("select 6 * 7").fetchone() == (42,)
    done["zone"] = str(datetime.now(sys.modules["zoneinfo"].ZoneInfo("Europe/Berlin")).tzinfo) == "Europe/Berlin"
    done["own_app"] = runpy.run_path(str(path.parent.parent / "apps/own/app.py"))["VALUE"] == 7
    done["refused"] = {name: _refused(act) for name, act in _POLITELY.items()}
    done["bye"] = _echo(dealer, b"bye") == b"bye"
    dealer.close()
    context.term()
    return done


async def _on_a_loop() -> bool:
    loop = asyncio.get_running_loop()
    later: asyncio.Future[int] = loop.create_future()
    loop.call_later(0.001, later.set_result, 1)
    in_thread = await asyncio.to_thread(sum, (1, 2))
    return await later == 1 and in_thread == 3


def _echo(dealer: zmq.Socket[bytes], message: bytes) -> bytes:
    dealer.send(message)
    if not dealer.poll(LIMIT_MS):
        raise TimeoutError("no echo")
    return dealer.recv()


def _refused(act: Callable[[], object]) -> str:
    try:
        act()
    except OSError as refused:
        return type(refused).__name__
    return "open"


_POLITELY: Final[dict[str, Callable[[], object]]] = {
    "subprocess": lambda: subprocess.run(["/bin/true"], check=True),
    "temporary_file": tempfile.TemporaryFile,
    "connection": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
    "name": lambda: socket.getaddrinfo("example.org", 80),
    "make_folder": lambda: os.makedirs("/somewhere/else"),  # noqa: PTH103 - as an app would
}


def bombs(decoys: Decoys, _: Path, seal: Seal) -> object:
    """Those that need no daemon to end them: how each ended."""
    seal()
    return {name: ended(attempts.ALL[name], decoys) for name in _CAPPED_BY_THEMSELVES}


def by_32_bit_number(decoys: Decoys, _: Path, seal: Seal) -> object:
    """A call by the numbers of another machine. Never returns under a filter."""
    seal()
    return ended(attempts.ALL["by_32_bit_number"], decoys)


def by_x32_number(decoys: Decoys, _: Path, seal: Seal) -> object:
    seal()
    return ended(attempts.ALL["by_x32_number"], decoys)


def tied(_: Decoys, __: Path, seal: Seal) -> object:
    """What the process has asked of the kernel for itself; a filter would not let it be looked up."""
    seal()
    number = ctypes.c_int()
    syscall("prctl", 2, ctypes.addressof(number), 0, 0, 0)  # PR_GET_PDEATHSIG
    dumpable = syscall("prctl", 3, 0, 0, 0, 0)  # PR_GET_DUMPABLE
    return {"signal_at_its_end": number.value, "dumpable": dumpable, "groups": os.getgroups()}


def every_thread(decoys: Decoys, _: Path, seal: Seal) -> object:
    """Whether a thread that existed before the seal is bound by it."""
    asked, answered = threading.Event(), []

    def wait_and_try() -> None:
        asked.wait(5)
        answered.append(_outcome("connect_door", decoys))

    thread = threading.Thread(target=wait_and_try)
    thread.start()
    seal()
    asked.set()
    thread.join(5)
    return answered


_CAPPED_BY_THEMSELVES: Final = ("heap_bomb", "shared_memory_bomb", "thread_bomb", "descriptor_bomb")

ALL: Final[dict[str, Callable[[Decoys, Path, Seal], object]]] = {
    "matrix": matrix,
    "check": check,
    "status": status,
    "work": work,
    "bombs": bombs,
    "by_32_bit_number": by_32_bit_number,
    "by_x32_number": by_x32_number,
    "every_thread": every_thread,
    "tied": tied,
}


@contextlib.contextmanager
def runtime(scenario: str, path: Path, *, for_others: bool) -> Iterator[Callable[[], None]]:
    """The other end of the worker's socket. What it gives is called when the worker goes on, and returns at its end."""
    if scenario != "work":
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(path))
            door.listen()
            path.chmod(0o777 if for_others else 0o700)
            yield lambda: None
        return
    context = zmq.Context()  # only now: a worker is forked without one
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.LINGER, 0)
    router.bind(f"ipc://{path}")
    path.chmod(0o777 if for_others else 0o700)
    try:
        yield lambda: _serve(router, path)
    finally:
        router.close()
        context.term()


def _serve(router: zmq.Socket[bytes], path: Path) -> None:
    while router.poll(LIMIT_MS):
        identity, message = router.recv_multipart()
        if message == b"hello":
            path.unlink()
        router.send_multipart([identity, message])
        if message == b"bye":
            return
