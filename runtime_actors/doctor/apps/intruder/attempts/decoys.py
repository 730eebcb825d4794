"""What the attempts are aimed at; nothing of it is anybody's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Decoys:
    """Paths, ports and processes. All fields are JSON, because they travel in a call."""

    store: str
    """A database that only the daemon's uid may read."""
    apps: str
    """The folder with the folders of all apps."""
    own_app: str
    sibling_file: str
    open_folder: str
    """Writable for all uids."""
    door: str
    """A unix socket that listens, and that all uids may connect to."""
    control: str
    """One in a folder that only the daemon's uid may enter."""
    datagram_door: str
    abstract: str
    tcp_port: int
    tcp6_port: int
    """0 where there is no IPv6."""
    udp_port: int
    leaked_fd: int
    """Open in the daemon when it starts, on a secret."""
    victim: int = 0
    """A process like the daemon: of its uid, not dumpable."""
    victim_address: int = 0
    """Where in its memory 8 bytes lie that may be read and written."""
    sigio_victim: int = 0
    own_door: str = ""
    """Where the worker's own connection leads, if that is not to be found out."""
    sibling_call: str = ""
    sibling_message: str = ""
