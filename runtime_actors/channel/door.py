"""A door: a Unix socket that peers connect to, and where what they say is left."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runtime_actors.actor import Beat
from runtime_actors.channel.events import SocketEvent
from runtime_actors.channel.window import Window
from runtime_actors.mailbox import Mailbox

if TYPE_CHECKING:
    from runtime_actors.channel.peer import Peer

MAX_PATH_BYTES: Final = 103 if sys.platform == "darwin" else 107
"""sun_path less its NUL (unix(7), unix(4))."""

_LISTEN_BACKLOG: Final = 256
"""Connections that wait to be accepted. Beyond it connect() fails, for whoever did not cause that as well."""
_OPEN_TO_OTHERS: Final = 0o066 if sys.platform == "linux" else 0o077
"""Linux asks the socket's own mode too, so its folder may be passed through; elsewhere the folder is all there is."""


class PathTooLong(OSError):
    """A socket path does not fit into `sockaddr_un`."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            errno.ENAMETOOLONG,
            f"socket path has {len(os.fsencode(path))} bytes, a Unix socket holds {MAX_PATH_BYTES}",
            str(path),
        )


class FolderNotPrivate(OSError):
    """The folder of a socket lets others in, so that connect() would not stop them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(errno.EACCES, "the folder of a socket must have mode 0700", str(folder))


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """What one peer, and all of them together, may cost."""

    backlog: int = 8192
    """Messages that wait for a door's reader before its peers are no longer read."""
    frames_ahead: int = 16
    """Frames of one process that wait for a door's reader before its peers are no longer read."""
    bytes_ahead: int = 32 * 1024
    """Bytes, likewise. One larger frame waits alone."""
    all_bytes_ahead: int = 8 * 1024 * 1024
    """Bytes of all peers that wait for readers before nobody is read."""
    unfinished_bytes: int = 8 * 1024 * 1024
    """Kept of frames that have not come whole, of all peers; for more the one that began first is closed."""
    commands: int = 64
    """ZMTP commands of one peer in a second."""
    unread_bytes: int = 512 * 1024
    """Bytes that wait for one peer before it is no longer read: it may take its answers first."""
    write_bytes: int = 8 * 1024 * 1024
    """Bytes that wait for one peer before it is closed as `slow_consumer`."""
    all_write_bytes: int = 16 * 1024 * 1024
    """Bytes that wait for all peers; for more the one that has been behind the longest is closed as `slow_consumer`."""
    handshake_s: float = 3.0
    handshakes: int = 128
    """Unfinished ones, of all doors; for one more the oldest of the process that has most is given up."""
    connects: int = 100
    """Of one process, to all doors, a second ..."""
    connects_at_once: int = 256
    """... and at first, or after a while. What comes on top is closed at once."""
    accepts: int = 2000
    """Of all processes, to one door, a second. What comes on top waits."""
    spare_descriptors: int = 64
    """Descriptors that connections leave to the rest of the process."""


@dataclass(frozen=True, slots=True)
class Door:
    """What the caller of `SocketThread.listen` wants."""

    name: str
    """Stands in every event."""
    path: Path
    mailbox: Mailbox[SocketEvent | Beat]
    """Its reader answers beats when it comes to them, as every actor does."""
    backlog: Callable[[], int]
    """How many messages wait for whoever reads `mailbox`. Asked before each frame is told: it must be cheap."""
    max_peers: int
    """Unfinished handshakes included. What comes on top is closed at once, or, if its process has fewer, the oldest of
    the process that has most."""


@dataclass(slots=True, eq=False)
class OpenDoor:
    """A door and what the socket thread knows about it."""

    door: Door
    sock: socket.socket
    peers: dict[int, Peer] = field(default_factory=dict)
    windows: dict[int, Window] = field(default_factory=dict)
    """By process: what of it waits for the reader."""
    paused: bool = False
    """Its peers are not read, because its reader has too much to do."""


def bind(path: Path) -> socket.socket:
    """Listen at `path`: mode 0600, in a private folder, made if missing. A socket left there is replaced.

    The caller holds the lock of the state folder, so whoever bound that socket is gone.

    Raises:
        PathTooLong: `path` does not fit.
        FolderNotPrivate: the folder exists and is open to others.
        FileExistsError: something that is not a socket is in the way.
        OSError: whatever else the system has against it.

    """
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise PathTooLong(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if stat.S_IMODE(path.parent.stat().st_mode) & _OPEN_TO_OTHERS:
        raise FolderNotPrivate(path.parent)
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        path.chmod(0o600)  # before listen(): until then connect() is refused
        listener.listen(_LISTEN_BACKLOG)
        listener.settimeout(0)
    except OSError:
        listener.close()
        raise
    return listener


def credentials(sock: socket.socket) -> tuple[int, int]:
    """Pid and uid of the process at the other end, as they were when it called connect() (unix(7), SO_PEERCRED).

    Raises:
        OSError: the peer is gone already, on systems that ask it now.

    """
    if sys.platform == "linux":
        pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    else:  # macOS: LOCAL_PEERPID, and the head of LOCAL_PEERCRED's struct xucred {version, uid, ...}, at SOL_LOCAL
        (pid,) = struct.unpack("i", sock.getsockopt(0, 2, 4))
        _, uid = struct.unpack_from("II", sock.getsockopt(0, 1, 76))
    return int(pid), int(uid)


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(errno.EEXIST, "not a socket", str(path))
    path.unlink()


def cut(pid: int) -> int:
    """End every connection of this process with that one; how many there were."""
    done = 0
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers are all that is wanted
        with contextlib.suppress(OSError):
            descriptor = os.dup(int(name))
            try:
                one = socket.socket(fileno=descriptor)
            except OSError:  # no socket
                os.close(descriptor)
                continue
            with one:
                if one.family == socket.AF_UNIX and credentials(one)[0] == pid:
                    one.shutdown(socket.SHUT_RDWR)
                    done += 1
    return done
