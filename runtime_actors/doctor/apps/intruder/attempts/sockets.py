"""Sockets of this machine: the daemon's doors, and descriptors through the one connection there is."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final

from .attempt import Act
from .decoys import Decoys

_SO_PEERPIDFD: Final = 77


def connect(family: int, kind: int, protocol: int, address: object) -> None:
    with socket.socket(family, kind, protocol) as opened:
        opened.settimeout(2)
        opened.connect(address)  # type: ignore[arg-type]  # as wild as the attempts


def _to_unix(path: str) -> None:
    connect(socket.AF_UNIX, socket.SOCK_STREAM, 0, path)


def _own_doors() -> set[str]:
    """Where the connections of this process lead to."""
    doors = set()
    for descriptor in range(3, 256):
        with suppress(OSError):
            found = socket.socket(fileno=descriptor)
            try:
                doors.add(found.getpeername())
            finally:
                found.detach()  # the descriptor belongs to ZeroMQ
    return {door for door in doors if isinstance(door, str) and door}


def _own_door_again(decoys: Decoys) -> None:
    doors = _own_doors() or {decoys.own_door}
    for door in doors:
        _to_unix(door)


def _datagram_to_path(decoys: Decoys) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with closing(one), closing(other):
        one.sendto(b"!", decoys.datagram_door)


def _listen(address: Callable[[Decoys], str]) -> Act:
    def listen(decoys: Decoys) -> None:
        bound = address(decoys)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as opened:
            opened.bind(bound)
            opened.listen()
        if bound[0] != "\0":
            os.unlink(bound)  # noqa: PTH108

    return listen


def _on_pair(act: Callable[[socket.socket, socket.socket], object]) -> Act:
    def run(_: Decoys) -> None:
        one, other = socket.socketpair()
        with closing(one), closing(other):
            other.settimeout(2)
            act(one, other)

    return run


def _take_descriptor(_: socket.socket, other: socket.socket) -> None:
    other.settimeout(0)
    try:
        other.recvmsg(1, 64)
    except BlockingIOError:
        return  # nothing has come yet, but it could


def _handle_on_peer(one: socket.socket, _: socket.socket) -> None:
    os.close(one.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD))


def _listen_on_connected(one: socket.socket, _: socket.socket) -> None:
    try:
        one.listen()
    except OSError as error:
        if error.errno != errno.EINVAL:  # the kernel's own: it is connected
            raise


ALL: Final[dict[str, Act]] = {
    "connect_door": lambda decoys: _to_unix(decoys.door),
    "connect_control": lambda decoys: _to_unix(decoys.control),
    "own_door_again": _own_door_again,
    "connect_abstract": lambda decoys: _to_unix("\0" + decoys.abstract),
    "listen_abstract": _listen(lambda _: f"\0lineup-intruder-{os.getpid()}"),
    "listen_path": _listen(lambda decoys: f"{decoys.open_folder}/socket-{os.getpid()}"),
    "listen_again": _on_pair(_listen_on_connected),
    "datagram_to_path": _datagram_to_path,
    "pass_descriptor": _on_pair(lambda one, _: socket.send_fds(one, [b"!"], [0])),
    "take_descriptor": _on_pair(_take_descriptor),
    "handle_on_peer": _on_pair(_handle_on_peer),
    "out_of_band": _on_pair(lambda one, _: one.send(b"!", socket.MSG_OOB)),
    "socket_option": _on_pair(lambda one, _: one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)),
}
