"""Takes memory, threads, descriptors, processor time and log as far as they go, and never ends by itself.

A call that comes again says so: an earlier process was ended for it.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import mmap
import os
import signal
import sys
import threading
from typing import Final

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall

NAMES: Final = (
    "heap", "shared", "threads", "descriptors", "processor", "log", "unread", "asks", "blocks", "freezes", "stays",
)  # fmt: skip
MIB: Final = 2**20
CAP_MIB: Final = 1536
CAP_THREADS: Final = 400
CAP_DESCRIPTORS: Final = 5000
LOG_MIB: Final = 100
ASKED: Final = 60
PATIENCE: Final = 60


async def main(sdk: MiniAppSDK) -> None:
    app = Greedy()
    for name in (
        "heap",
        "shared",
        "threads",
        "descriptors",
        "processor",
        "log",
        "unread",
        "asks",
        "blocks",
        "freezes",
        "stays",
    ):
        sdk.tools.handler(f"resources.{name}")(getattr(app, name))
    while True:
        await sdk.run_until_stopped()
        await asyncio.sleep(0.01)  # it was asked to end, and does not


class Greedy:
    """One resource a tool. What was taken is kept until the answer."""

    async def heap(self, call: MiniAppToolCall) -> JsonObject:
        return {"repeated": True} if call.repeated else {"mib": await asyncio.to_thread(fill_heap)}

    async def shared(self, call: MiniAppToolCall) -> JsonObject:
        return {"repeated": True} if call.repeated else {"mib": await asyncio.to_thread(fill_shared_memory)}

    async def threads(self, call: MiniAppToolCall) -> JsonObject:
        if call.repeated:
            return {"repeated": True}
        over = threading.Event()
        started = 0
        try:
            while started < CAP_THREADS:
                threading.Thread(target=over.wait, daemon=True).start()
                started += 1
        except RuntimeError:
            return {"threads": started}
        finally:
            over.set()
        return {"threads": started}

    async def descriptors(self, call: MiniAppToolCall) -> JsonObject:
        if call.repeated:
            return {"repeated": True}
        held: list[int] = []
        try:
            while len(held) < CAP_DESCRIPTORS:
                held.append(os.dup(0))
        except OSError:
            pass
        reached = len(held)
        for one in held:
            os.close(one)
        return {"descriptors": reached}

    async def processor(self, call: MiniAppToolCall) -> JsonObject:
        if not call.repeated:
            signal.signal(signal.SIGXCPU, signal.SIG_IGN)  # the kernel says first that it is enough
            for _ in range(2):
                threading.Thread(target=compute_for_ever, daemon=True).start()
            await asyncio.Event().wait()
        return {"repeated": call.repeated}

    async def log(self, call: MiniAppToolCall) -> JsonObject:
        if not call.repeated:
            await asyncio.to_thread(write_for_long)
        return {"repeated": call.repeated}

    async def unread(self, call: MiniAppToolCall) -> JsonObject:
        """No text is ever acknowledged, because nobody here listens to any."""
        return {"repeated": call.repeated}

    async def asks(self, call: MiniAppToolCall) -> JsonObject:
        """Ask for the whole inbox as often as the credit allows, read no answer, and say that all is well."""
        if not call.repeated:
            connection = next(one for one in gc.get_objects() if type(one).__name__ == "_Connection")
            asyncio.get_running_loop().remove_reader(connection._socket)
            for number in range(ASKED):
                connection.send(frame(f"a{number}", "inbox.list", {}))
            for beat in range(PATIENCE):
                connection.send(frame(f"p{beat}", "session.pong", {"beat": beat}))
                await asyncio.sleep(0.05)
        return {"repeated": call.repeated}

    async def blocks(self, call: MiniAppToolCall) -> JsonObject:
        if not call.repeated:
            never = threading.Lock()
            never.acquire()
            never.acquire()
        return {"repeated": call.repeated}

    async def freezes(self, call: MiniAppToolCall) -> JsonObject:
        if not call.repeated:
            os.kill(os.getpid(), signal.SIGSTOP)
        return {"repeated": call.repeated}

    async def stays(self, _: MiniAppToolCall) -> JsonObject:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        return {"pid": os.getpid()}


def frame(number: str, kind: str, body: JsonObject) -> bytes:
    said = {"v": 1, "id": number, "type": f"lineup.v1.{kind}", "sent_at": "2026-01-01T00:00:00Z", "body": body}
    return bytes(sys.modules["msgpack"].packb(said))


def fill_heap() -> int:
    held: list[bytearray] = []
    try:
        while len(held) < CAP_MIB:
            held.append(bytearray(b"\1") * MIB)
    except MemoryError:
        pass
    return len(held)


def fill_shared_memory() -> int:
    """As fast as it can be touched: memory that is only mapped costs nobody anything."""
    block = bytes(MIB)
    held: list[mmap.mmap] = []
    try:
        while len(held) < CAP_MIB:
            held.append(mmap.mmap(-1, MIB))
            held[-1].write(block)
    except OSError:
        pass
    return len(held)


def compute_for_ever() -> None:
    while True:
        hashlib.pbkdf2_hmac("sha256", b"hostile", b"salt", 200_000)


def write_for_long() -> None:
    line = b"x" * 1023 + b"\n"
    for _ in range(LOG_MIB):
        rest = line * 1024
        while rest:
            rest = rest[os.write(1, rest) :]
