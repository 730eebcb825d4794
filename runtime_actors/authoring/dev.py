"""`lineup dev`: an app that is being written, run again whenever one of its files changes.

The daemon is started anew and its state is kept, so calls that are open go on in the new version, as they would after
a crash or an update.
"""

from __future__ import annotations

import ast
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from runtime_actors.authoring.changes import Changes
from runtime_actors.authoring.daemon import SEALED, UNCONFINED, KeptDaemon, NotServed
from runtime_actors.authoring.runtime import read_app
from runtime_actors.authoring.values import NoValue, minimal
from runtime_actors.client import ClientError, DoorClient, door_of, parsed
from runtime_actors.contract.agent import Listing, Query, Rows
from runtime_actors.contract.base import JsonObject
from runtime_actors.errors import ExitCode
from runtime_actors.log import left_out
from runtime_actors.registry import MANIFEST
from runtime_actors.rules.text import neutral

_LOOK_S: Final = 0.5
_CALLS: Final = 50
_NOTHING_RUNS: Final = "nothing runs until this is mended; waiting for a change"
Say = Callable[[str], None]


class CannotServe(Exception):
    """No change of the app's files would mend it: says what would, for a person."""


def run(folder: Path, state: Path | None, say: Say) -> None:
    """Serve the app in `folder` until KeyboardInterrupt. Without a `state` folder, one that is gone afterwards.

    Raises:
        AddressTooLong: The state folder's path does not fit a socket.
        CannotServe: `folder` is no app's, or another daemon holds the state folder.

    """
    if not (folder / MANIFEST).exists():
        raise CannotServe(f"there is no {MANIFEST} in {folder}; begin one with: lineup new FOLDER")
    with contextlib.ExitStack() as kept:
        if state is None:
            state = Path(tempfile.mkdtemp(prefix="lineup-dev-")) / "state"
            kept.callback(shutil.rmtree, state.parent, ignore_errors=True)
        door_of(state, "control")
        session = kept.enter_context(contextlib.closing(_Session(folder, state, say)))
        while True:
            session.look()
            time.sleep(_LOOK_S)


class _Session:
    """The daemon, if the app can be served, and what was told of it so far."""

    def __init__(self, folder: Path, state: Path, say: Say) -> None:
        self._folder, self._state, self._say = folder, state, say
        self._changes = Changes(folder)
        self._daemon: KeptDaemon | None = None
        self._isolation = SEALED
        self._read: dict[Path, int] = {}
        self._calls: dict[tuple[str, ...], str] = {}
        self._serve()

    def close(self) -> None:
        if self._daemon is not None:
            self._daemon.stop()

    def look(self) -> None:
        """Tell what happened, and serve anew if a file changed."""
        with contextlib.suppress(ClientError):  # a daemon that died is on its way back
            self._tell_calls()
        self._tell_lines()
        changed = self._changes.look()
        if changed:
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""  # noqa: PLR2004 - enough to see which
            self._tell(f"changed: {', '.join(changed[:3])}{more}")
            self._serve()

    def _serve(self) -> None:
        faults = list(_faults(self._folder))
        if faults:
            for fault in faults:
                self._tell(fault)
            self._tell(
                "the version before runs on; waiting for a change" if self._daemon is not None else _NOTHING_RUNS
            )
            return
        if self._daemon is not None:
            self._daemon.stop()
            self._tell_lines()
        self._daemon = KeptDaemon(self._state, [self._folder], options=("--all-apps",), isolation=self._isolation)
        try:
            self._daemon.start()
            self._tell_ready(self._daemon)
        except (NotServed, ClientError) as failed:
            self._daemon.stop()
            if self._daemon.exit_code == ExitCode.DAEMON_RUNNING:
                raise CannotServe(f"{failed}\nGive a --state of its own, or none.") from None
            self._tell(str(failed))
            self._daemon = None  # the version before was stopped for this one, and its files are no longer there
            self._tell(_NOTHING_RUNS)

    def _tell_ready(self, daemon: KeptDaemon) -> None:
        app = read_app(self._folder)
        scope = app.manifest.app_scope
        if all(row["app_scope"] != scope or row["folder"] != app.folder for row in self._rows("apps")):
            why = [told for line in daemon.last_lines() if (told := left_out(line)) is not None]
            raise NotServed(
                "\n".join(["the daemon does not register it:", *why[-1:]])
            )  # those before are older starts'
        if daemon.isolation != self._isolation:
            self._tell(UNCONFINED)
        first = self._isolation == SEALED and not self._calls
        self._isolation = daemon.isolation
        self._tell(f"{scope} {app.manifest.version} is served")
        for tool in app.manifest.tools if first else ():
            with contextlib.suppress(NoValue):
                given = json.dumps(minimal(tool.input_schema))
                self._say(f"  lineup agent call {tool.id} '{given}' --timeout 1 --state {self._state}")

    def _tell_calls(self) -> None:
        for row in reversed(self._rows("calls") if self._daemon is not None else ()):
            key = (row["agent_id"], row["conversation_id"], row["call_id"])
            now = str(row["status"]) + (f" ({row['error_code']})" if row.get("error_code") else "")
            now += ", to be cancelled" if row.get("cancel_requested") and "cancelled" not in now else ""
            if self._calls.get(key) != now:
                self._calls[key] = now
                self._tell(f"{row['call_id']} of {row['tool_id']} in {row['conversation_id']}: {now}")

    def _tell_lines(self) -> None:
        """Lines that are whole, of each log; one that was begun anew is read from its start."""
        for path in sorted((self._state / "logs").glob("*/*.log")):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                begins_at = self._read.get(path, 0)
                file.seek(begins_at if begins_at <= path.stat().st_size else 0)
                data = file.read()
                whole = data[: data.rfind(b"\n") + 1]
                self._read[path] = file.tell() - len(data) + len(whole)
                for line in whole.decode(errors="replace").splitlines():
                    self._say(f"         | {neutral(line)}")

    def _rows(self, what: Listing) -> tuple[JsonObject, ...]:
        with DoorClient(door_of(self._state, "control")) as door:
            _, body = door.request("lineup.v1.control.query", Query(what=what, limit=_CALLS), timeout_s=2.0)
            return parsed(Rows, body).rows

    def _tell(self, what: str) -> None:
        at = datetime.now().astimezone().strftime("%H:%M:%S")
        self._say(f"{at} {neutral(what, lines=True)}")


def _faults(folder: Path) -> Iterator[str]:
    """What would keep the app from being served, before the version that runs is stopped for it."""
    try:
        read_app(folder)
    except NotServed as fault:
        yield str(fault)
    for path in sorted(folder.glob("*.py")):
        try:
            ast.parse(path.read_bytes(), path.name)
        except SyntaxError as error:
            yield f"{path.name}, line {error.lineno}: {error.msg}"
        except (OSError, ValueError):  # gone meanwhile, or no text: the import says more
            continue
