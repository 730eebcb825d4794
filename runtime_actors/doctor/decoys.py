"""Lays out what the intruder is to attack: files, sockets and folders that are nobody's."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runtime_actors.doctor.apps.intruder.attempts.decoys import Decoys

SECRET: Final = "a secret of the daemon"  # noqa: S105 - of a decoy
_FOLDERS: Final = (("decoys", 0o755), ("decoys/state", 0o700), ("decoys/open", 0o777), ("apps", 0o755))
_LEAKED_FROM: Final = 200
"""Above what a worker may open itself, so that no descriptor of its own has this number."""


@dataclass(frozen=True)
class Laid:
    """The decoys, and the ends of theirs that the intruder must not reach."""

    decoys: Decoys
    listening: tuple[socket.socket, ...]
    datagrams: tuple[socket.socket, ...]


@contextlib.contextmanager
def laid(folder: Path, *, own_app: str, sibling: str) -> Iterator[Laid]:
    """Lay them out in `folder`, which all uids may enter, around the apps `own_app` and `sibling` in its `apps`."""
    for name, mode in _FOLDERS:
        (folder / name).mkdir(exist_ok=True)
        (folder / name).chmod(mode)
    folder.chmod(0o755)
    store, opened, leaked = folder / "decoys/state/store.db", folder / "decoys/open", folder / "decoys/state/leaked"
    with contextlib.closing(sqlite3.connect(store)) as database, database:
        database.execute("create table secrets (secret)")
        database.execute("insert into secrets values (?)", (SECRET,))
    leaked.write_text(SECRET, encoding="ascii")
    for path in (store, leaked):
        path.chmod(0o600)
    abstract = f"lineup-decoy-{os.getpid()}"
    with ExitStack() as kept:
        door, hidden = _bound(kept, str(opened / "door")), _bound(kept, f"\0{abstract}")
        control = _bound(kept, str(folder / "decoys/state/control"))
        box = _bound(kept, str(opened / "box"), socket.SOCK_DGRAM)
        tcp, tcp6 = (_on_loopback(kept, family) for family in (socket.AF_INET, socket.AF_INET6))
        udp = _on_loopback(kept, socket.AF_INET, socket.SOCK_DGRAM)
        with leaked.open("rb") as file:
            leaked_fd = fcntl.fcntl(file, fcntl.F_DUPFD, _LEAKED_FROM)
        kept.callback(os.close, leaked_fd)
        found = Decoys(
            store=str(store),
            apps=str(folder / "apps"),
            own_app=str(folder / "apps" / own_app),
            sibling_file=str(folder / "apps" / sibling / "app.py"),
            open_folder=str(opened),
            door=str(opened / "door"),
            control=str(folder / "decoys/state/control"),
            datagram_door=str(opened / "box"),
            abstract=abstract,
            tcp_port=_port(tcp),
            tcp6_port=_port(tcp6),
            udp_port=_port(udp),
            leaked_fd=leaked_fd,
        )
        yield Laid(
            found,
            tuple(one for one in (door, control, hidden, tcp, tcp6) if one),
            tuple(one for one in (box, udp) if one),
        )


def _bound(kept: ExitStack, address: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    made = kept.enter_context(socket.socket(socket.AF_UNIX, kind))
    made.bind(address)
    if address[0] != "\0":
        Path(address).chmod(0o777)
    return _waiting(made)


def _on_loopback(kept: ExitStack, family: int, kind: int = socket.SOCK_STREAM) -> socket.socket | None:
    """None where there is no such network."""
    try:
        made = kept.enter_context(socket.socket(family, kind))
        made.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
    except OSError:
        return None
    return _waiting(made)


def _waiting(made: socket.socket) -> socket.socket:
    if made.type == socket.SOCK_STREAM:
        made.listen(64)
    made.settimeout(0)
    return made


def _port(made: socket.socket | None) -> int:
    return int(made.getsockname()[1]) if made else 0
