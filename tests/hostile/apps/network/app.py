"""Opens every kind of socket, and knocks at every door of the runtime."""

from __future__ import annotations

import array
import asyncio
import errno
import gc
import importlib
import os
import socket
import stat
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall

Attack = Callable[[], object]

LAST_FAMILY: Final = 46
MULTIPATH: Final = 262
FAST_OPEN: Final = 0x20000000
KINDS: Final = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET)
SO_PEERPIDFD: Final = 77
HERE: Final = "127.0.0.1"


async def main(sdk: MiniAppSDK) -> None:
    @sdk.tools.handler("network.attack")
    async def attack(call: MiniAppToolCall) -> JsonObject:
        found = {name: outcome(act) for name, act in attacks(call.input).items()}
        try:
            await asyncio.open_connection(HERE, call.input["tcp"])
        except OSError as refused:
            found["asyncio"] = errno.errorcode.get(refused.errno or 0, str(refused))
        else:
            found["asyncio"] = "open"
        return found

    @sdk.tools.handler("network.libzmq")
    async def libzmq(call: MiniAppToolCall) -> JsonObject:
        """Use the usual library for another connection. It may take the refusal for a fault, and abort."""
        if not call.repeated:
            await asyncio.to_thread(act_by_libzmq, **call.input)
        return {"repeated": call.repeated}

    await sdk.run_until_stopped()


def outcome(act: Attack) -> str:
    try:
        act()
    except OSError as refused:
        return errno.errorcode.get(refused.errno or 0, str(refused))
    return "open"


def attacks(targets: JsonObject) -> Mapping[str, Attack]:
    found: dict[str, Attack] = {name: partial(act, targets) for name, act in ALL.items()}
    for name, path in {**targets["doors"], "its own door": own_door()}.items():
        found[f"connect to {name}"] = partial(connect, socket.AF_UNIX, socket.SOCK_STREAM, 0, path)
        found[f"connect datagrams to {name}"] = partial(connect, socket.AF_UNIX, socket.SOCK_DGRAM, 0, path)
        found[f"send to {name} by a pair"] = partial(send_by_pair, path)
    for family in range(1, LAST_FAMILY):
        for kind in KINDS:
            found[f"a socket of family {family} and kind {int(kind)}"] = partial(open_and_close, family, kind)
    return found


ALL: Final[Mapping[str, Callable[[Any], object]]] = {
    "tcp": lambda targets: connect(socket.AF_INET, socket.SOCK_STREAM, 0, (HERE, targets["tcp"])),
    "tcp by name": lambda targets: socket.create_connection(("localhost", targets["tcp"]), timeout=1),
    "tcp over six": lambda targets: connect(socket.AF_INET6, socket.SOCK_STREAM, 0, ("::1", targets["tcp"])),
    "tcp over many paths": lambda targets: connect(
        socket.AF_INET, socket.SOCK_STREAM, MULTIPATH, (HERE, targets["tcp"])
    ),
    "tcp in the first packet": lambda targets: send_first(targets["tcp"]),
    "tcp far away": lambda _: connect(socket.AF_INET, socket.SOCK_STREAM, 0, ("192.0.2.1", 80)),
    "udp": lambda targets: send_to(targets["udp"]),
    "a name": lambda _: socket.getaddrinfo("example.org", 80),
    "an abstract name": lambda targets: connect(socket.AF_UNIX, socket.SOCK_STREAM, 0, f"\0{targets['abstract']}"),
    "listening": lambda _: listen(socket.AF_INET, (HERE, 0)),
    "listening to an abstract name": lambda _: listen(socket.AF_UNIX, "\0hostile-was-here"),
    "listening to a path": lambda _: listen(socket.AF_UNIX, "hostile-was-here"),
    "a pair of datagrams": lambda _: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    "a pair of packets": lambda _: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET),
    "a descriptor through the channel": lambda _: on_channel(pass_descriptor),
    "a message aside through the channel": lambda _: on_channel(lambda own: own.send(b"!", socket.MSG_OOB)),
    "a handle on the daemon": lambda _: on_channel(
        lambda own: os.close(own.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD))
    ),
    "the channel to somewhere else": lambda targets: on_channel(lambda own: own.connect(targets["doors"]["agent"])),
    "the channel as a door": lambda _: on_channel(lambda own: own.listen()),
}


def connect(family: int, kind: int, protocol: int, address: Any) -> None:  # noqa: ANN401 - as wild as the families
    with socket.socket(family, kind, protocol) as opened:
        opened.settimeout(1)
        opened.connect(address)


def open_and_close(family: int, kind: int) -> None:
    socket.socket(family, kind).close()


def listen(family: int, address: Any) -> None:  # noqa: ANN401 - as above
    with socket.socket(family, socket.SOCK_STREAM) as opened:
        opened.bind(address)
        opened.listen()


def send_by_pair(path: str) -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendto(b"!", path)


def send_first(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as opened:
        opened.sendto(b"!", FAST_OPEN, (HERE, port))


def send_to(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.sendto(b"!", (HERE, port))


def pass_descriptor(own: socket.socket) -> None:
    own.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])


def on_channel(act: Callable[[socket.socket], object]) -> None:
    """Do something with the connection to the runtime, without its library."""
    own = socket.socket(fileno=os.dup(channel_descriptor()))
    with own:
        act(own)


def channel_descriptor() -> int:
    """The socket whose other end has a name."""
    for descriptor in range(3, 1024):
        try:
            is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
        except OSError:
            continue
        if is_socket and named(descriptor):
            return descriptor
    raise LookupError("the channel was not found")


def named(descriptor: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as found:
        return bool(found.getpeername())


def act_by_libzmq(act: str, address: str) -> None:
    zmq = importlib.import_module("zmq")
    opened = zmq.Context().socket(zmq.DEALER)
    opened.setsockopt(zmq.LINGER, 0)  # what is never taken would be waited for
    getattr(opened, act)(address)
    opened.send(b"!", zmq.NOBLOCK)
    opened.poll(500)


def own_door() -> str:
    """The path that this process once connected to."""
    link = next(one for one in gc.get_objects() if type(one).__name__ == "Link")
    return str(link._path)
