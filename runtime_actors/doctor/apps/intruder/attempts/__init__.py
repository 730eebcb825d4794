"""All that is attempted, by what is attacked."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Final

from . import bombs, channel, files, kernel, network, processes, sockets
from .attempt import Act

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "files": tuple(files.ALL),
    "sockets": tuple(sockets.ALL),
    "network": tuple(network.ALL),
    "processes": tuple(processes.ALL),
    "kernel": (*kernel.ON_X86, *kernel.ALL, *kernel.DEADLY),
    "its own channel": tuple(channel.ALL),
    "resources": tuple(bombs.ALL),
}
"""On every machine: the order in which they are made."""
BOMBS: Final = frozenset(bombs.ALL)
CHANNEL: Final = frozenset(channel.ALL)
LOOK_UPS: Final = files.LOOK_UPS | processes.LOOK_UPS
"""Only a root of its own keeps a worker from learning what exists."""
DEADLY: Final = frozenset(kernel.DEADLY)
NOT_HERE: Final = frozenset((*kernel.ON_X86, *kernel.DEADLY)) if platform.machine() != "x86_64" else frozenset[str]()
"""Those that cannot be made on this machine."""
ALL: Final[Mapping[str, Act]] = {
    name: act
    for name, act in (
        files.ALL | sockets.ALL | network.ALL | processes.ALL | kernel.ON_X86 | kernel.ALL | kernel.DEADLY | bombs.ALL
    ).items()
    if name not in NOT_HERE
}
"""Those of the channel apart, which need the SDK."""
