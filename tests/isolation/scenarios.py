"""What a confined child does: attack, or work as a MiniApp does. Returns what it reports, as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import importlib
import mmap
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
from tests.isolation import attacks

Seal = Callable[[], int]
LIMIT_MS: Final = 10_000


def matrix(decoys: attacks.Decoys, _: Path, seal: Seal) -> object:
    """Every attack: `open`, or the name of the errno."""
    seal()
    return {name: outcome(attack, decoys) for name, attack in attacks.ALL.items()}


def outcome(attack: attacks.Attack, decoys: attacks.Decoys) -> str:
    try:
        attack(decoys)
    except OSError as refused:
        return errno.errorcode.get(refused.errno or 0, type(refused).__name__)
    return "open"


def check(_: attacks.Decoys, __: Path, seal: Seal) -> object:
    """The worker's own canaries."""
    seal()
    return {found.name: [errno.errorcode.get(found.got, "open"), found.ok] for found in canaries.run()}


def status(_: attacks.Decoys, __: Path, seal: Seal) -> object:
    """What the kernel says about itself, where /proc can be seen."""
    seal()
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def work(_: attacks.Decoys, path: Path, seal: Seal) -> object:
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


def bombs(_: attacks.Decoys, __: Path, seal: Seal) -> object:
    """How far each goes: MiB of heap and of shared memory, threads."""
    seal()
    return {"heap": _heap(), "shared": _shared(), "threads": _threads()}


def _heap() -> int:
    held: list[bytearray] = []
    try:
        while len(held) < _CAP_MIB:
            held.append(bytearray(2**20))
    except MemoryError:
        pass
    reached = len(held)
    held.clear()
    return reached


def _shared() -> int:
    held: list[mmap.mmap] = []
    with contextlib.suppress(OSError):
        while len(held) * 16 < 2 * _CAP_MIB:
            held.append(mmap.mmap(-1, 16 * 2**20))
    reached = len(held) * 16
    for one in held:
        one.close()
    return reached


def _threads() -> int:
    stop = threading.Event()
    started: list[threading.Thread] = []
    with contextlib.suppress(RuntimeError):
        while len(started) < _CAP_THREADS:
            thread = threading.Thread(target=stop.wait)
            thread.start()
            started.append(thread)
    stop.set()
    for thread in started:
        thread.join()
    return len(started)


def foreign(_: attacks.Decoys, __: Path, seal: Seal) -> object:
    """A call by the numbers of another machine. Never returns under a filter."""
    seal()
    x32_getpid = 0x40000000 + 39
    return attacks.raw(x32_getpid)


def tied(_: attacks.Decoys, __: Path, seal: Seal) -> object:
    """What the process has asked of the kernel for itself; a filter would not let it be looked up."""
    seal()
    number = ctypes.c_int()
    attacks.syscall("prctl", 2, ctypes.addressof(number), 0, 0, 0)  # PR_GET_PDEATHSIG
    dumpable = attacks.syscall("prctl", 3, 0, 0, 0, 0)  # PR_GET_DUMPABLE
    return {"signal_at_its_end": number.value, "dumpable": dumpable, "groups": os.getgroups()}


def every_thread(decoys: attacks.Decoys, _: Path, seal: Seal) -> object:
    """Whether a thread that existed before the seal is bound by it."""
    asked, answered = threading.Event(), []

    def wait_and_try() -> None:
        asked.wait(5)
        answered.append(outcome(attacks.ALL["connect_door"], decoys))

    thread = threading.Thread(target=wait_and_try)
    thread.start()
    seal()
    asked.set()
    thread.join(5)
    return answered


_CAP_MIB: Final = 512
_CAP_THREADS: Final = 60

ALL: Final[dict[str, Callable[[attacks.Decoys, Path, Seal], object]]] = {
    "matrix": matrix,
    "check": check,
    "status": status,
    "work": work,
    "bombs": bombs,
    "foreign": foreign,
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
