"""What is done to folders without a daemon: checking a MiniApp's, restoring a store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from runtime_actors import registry
from runtime_actors.cli.exits import DONE
from runtime_actors.cli.show import say
from runtime_actors.errors import AppRefused, DaemonRunning, StoreUnusable
from runtime_actors.store import backup as backups

_DAEMON_RUNS: Final = 3
_STORE_UNUSABLE: Final = 5


def faults_of(folder: Path) -> list[tuple[str, str]]:
    """Everything that is wrong with a MiniApp's folder: where in its manifest, and what."""
    try:
        registry.read_app(folder)
    except AppRefused as refused:
        return refused.faults
    return []


def restore(state: Path, file: Path) -> int:
    """Put the backup `file` in the place of the store."""
    try:
        backups.restore(state, file)
    except DaemonRunning:
        return _stop_it_first()
    except StoreUnusable as error:
        say(f"nothing was changed: {error}")
        return _STORE_UNUSABLE
    say(f"restored from {file}; start it with: lineup start")
    return DONE


def accept_lost_tail(state: Path) -> int:
    """Let the store begin again at the audit entry that it ends with."""
    try:
        backups.accept_lost_tail(state)
    except DaemonRunning:
        return _stop_it_first()
    except StoreUnusable as error:
        say(f"nothing was changed: {error}")
        return _STORE_UNUSABLE
    say("accepted; start it with: lineup start")
    return DONE


def _stop_it_first() -> int:
    say("a daemon holds this folder; stop it first with: lineup stop")
    return _DAEMON_RUNS
