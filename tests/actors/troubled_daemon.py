"""A daemon with trouble planted in one of its actors once it serves. Run as a script: STATE poison|one|stuck."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from runtime_actors import boot
from runtime_actors import daemon as daemon_module
from runtime_actors.actor import MAX_REBUILDS, Beat
from runtime_actors.config import RuntimeConfig
from runtime_actors.daemon import Daemon


def poison(daemon: Daemon, messages: int) -> None:
    """Messages that no router can take."""
    for _ in range(messages):
        daemon.refs["router"].tell(object())


def stuck(daemon: Daemon) -> None:
    """The router waits for what never comes."""

    def wait(_name: str) -> None:
        threading.Event().wait()

    daemon.refs["router"].tell(Beat(wait))


TROUBLES: dict[str, Callable[[Daemon], None]] = {
    "poison": lambda daemon: poison(daemon, MAX_REBUILDS + 1),
    "one": lambda daemon: poison(daemon, 1),
    "stuck": stuck,
}


def main(state: str, trouble: str) -> int:
    plain = Daemon._open_doors

    def open_doors(daemon: Daemon) -> None:
        plain(daemon)
        TROUBLES[trouble](daemon)

    with (
        mock.patch.object(Daemon, "_open_doors", open_doors),
        mock.patch.multiple(daemon_module, _STUCK_S=0.3, _LOOK_S=0.1),
    ):
        return boot.run(RuntimeConfig(Path(state), durability="process"))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
