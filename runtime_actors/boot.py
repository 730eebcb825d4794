"""The entry of the daemon: takes the folder, and only then loads and runs the rest.

Order: lock, apps, isolation, store, actors, recovery, and only then the doors.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from runtime_actors import log, state_folder
from runtime_actors.errors import ExitCode, RuntimeActorsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.config import RuntimeConfig
    from runtime_actors.daemon import Daemon


def run(config: RuntimeConfig, make: Callable[[RuntimeConfig], Daemon] | None = None) -> int:
    """Run a daemon on this thread, which must be the main one, until it is told to stop.

    Prints `ready SOCKET` on stdout once it serves. `make` makes another daemon than the usual one. Exit codes: 0
    stopped, 2 a path too long for a socket, 3 another daemon holds the folder, 4 isolation below the minimum, 5 store
    unusable, 6 gave up restarting itself.
    """
    log.set_up(config.log_format)
    try:
        state_folder.prepare(config.state)
        lock = state_folder.lock(config.state)
        try:
            state_folder.forget_workers(config.state)
            return _serve(config, make)
        finally:
            os.close(lock)
    except RuntimeActorsError as error:
        return _explain(error.exit_code, error)
    except OSError as error:
        return _explain(ExitCode.STORE, f"{error.strerror}: {error.filename}" if error.filename else error)


def _serve(config: RuntimeConfig, make: Callable[[RuntimeConfig], Daemon] | None) -> int:
    # Loads every actor, which takes longer than to refuse a second daemon should take.
    from runtime_actors.channel.door import PathTooLong  # noqa: PLC0415
    from runtime_actors.daemon import Daemon  # noqa: PLC0415

    try:
        return (make or Daemon)(config).run()
    except PathTooLong as error:
        return _explain(ExitCode.USAGE, error)


def _explain(code: ExitCode, error: Exception | str) -> int:
    sys.stderr.write(f"lineup: {error}\n")
    return code
