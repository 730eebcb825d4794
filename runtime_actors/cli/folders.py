"""What is done to folders without a daemon: checking a MiniApp's, restoring a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from runtime_actors.cli.exits import DONE
from runtime_actors.cli.show import say
from runtime_actors.contract import codec
from runtime_actors.errors import DaemonRunning, StoreUnusable
from runtime_actors.rules.registration import Fault, register
from runtime_actors.store import backup as backups

_DAEMON_RUNS: Final = 3
_STORE_UNUSABLE: Final = 5


def faults_of(folder: Path) -> list[Fault]:
    """Everything that is wrong with a MiniApp's folder: where in its manifest, and what."""
    manifest = folder / "manifest.json"
    try:
        with manifest.open("rb") as file:
            text = file.read(codec.MAX_FRAME_BYTES + 1)
    except OSError as error:
        return [
            ("", f"{manifest} cannot be read ({error.strerror}); a MiniApp is a folder with manifest.json and app.py")
        ]
    if len(text) > codec.MAX_FRAME_BYTES:
        return [("", f"manifest.json may have {codec.MAX_FRAME_BYTES} bytes")]
    try:
        raw = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        codec.check(raw)
    except codec.IntakeError as error:
        return [("", error.detail)]
    except (ValueError, RecursionError) as error:
        return [("", f"no JSON: {error}")]
    found = register(raw, str(folder.absolute()), packaged=False)
    faults = list(found) if isinstance(found, list) else []
    if not (folder / "app.py").is_file():
        faults.append(("", "app.py is missing; it defines async def main(sdk)"))
    return faults


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


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("an object has the same key twice")
    return read


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
