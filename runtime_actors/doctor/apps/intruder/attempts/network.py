"""The network. Nothing leaves the machine: what leads outside is asked for, and never sent anything."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from typing import Final

from .attempt import Act
from .decoys import Decoys
from .sockets import connect

_HERE: Final = "127.0.0.1"
_OUTSIDE: Final = "192.0.2.1"
"""For documentation (RFC 5737): nobody's."""
_FAST_OPEN: Final = 0x20000000
_MULTIPATH: Final = 262
_SCTP: Final = 132
_ALGORITHMS: Final = 38
_MOST_FAMILIES: Final = 46
_COMMON: Final = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, _ALGORITHMS, 40)


def _udp(decoys: Decoys) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.sendto(b"!", (_HERE, decoys.udp_port))


def _route_outside(_: Decoys) -> None:
    """Connecting a datagram socket looks for a route, and sends nothing."""
    connect(socket.AF_INET, socket.SOCK_DGRAM, 0, (_OUTSIDE, 9))


def _fast_open(decoys: Decoys) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as opened:
        opened.sendto(b"!", _FAST_OPEN, (_HERE, decoys.tcp_port))


def _tcp_listen(_: Decoys) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as opened:
        opened.bind((_HERE, 0))
        opened.listen()


def _udp_listen(_: Decoys) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind((_HERE, 0))


def _open(family: int, kind: int, protocol: int = 0) -> Act:
    return lambda _: socket.socket(family, kind, protocol).close()


def _rare_family(_: Decoys) -> None:
    """Each protocol family is kernel code of its own; the rare ones had the most holes."""
    refused = errno.EAFNOSUPPORT
    for family in set(range(_MOST_FAMILIES)) - set(_COMMON):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            with suppress(OSError):
                socket.socket(family, kind).close()
                return
    try:
        socket.socket(9, socket.SOCK_STREAM).close()
    except OSError as error:
        refused = error.errno or refused
    raise OSError(refused, os.strerror(refused))


ALL: Final[dict[str, Act]] = {
    "tcp": lambda decoys: connect(socket.AF_INET, socket.SOCK_STREAM, 0, (_HERE, decoys.tcp_port)),
    "tcp6": lambda decoys: connect(socket.AF_INET6, socket.SOCK_STREAM, 0, ("::1", decoys.tcp6_port)),
    "multipath_tcp": lambda decoys: connect(socket.AF_INET, socket.SOCK_STREAM, _MULTIPATH, (_HERE, decoys.tcp_port)),
    "tcp_fast_open": _fast_open,
    "tcp_listen": _tcp_listen,
    "udp": _udp,
    "udp_listen": _udp_listen,
    "route_outside": _route_outside,
    "sctp": _open(socket.AF_INET, socket.SOCK_STREAM, _SCTP),
    "raw_internet": _open(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "raw_packets": _open(socket.AF_PACKET, socket.SOCK_RAW),
    "netlink": _open(socket.AF_NETLINK, socket.SOCK_RAW),
    "vsock": _open(socket.AF_VSOCK, socket.SOCK_STREAM),
    "kernel_crypto": _open(_ALGORITHMS, socket.SOCK_SEQPACKET),
    "rare_family": _rare_family,
}
