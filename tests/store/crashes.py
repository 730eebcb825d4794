"""Run by `test_crashes.py`: kills a process at each step of a restore, an acceptance or a migration; prints the rest.

`crashes.py WHAT FOLDER`. Steps are the calls by which files change: a rename, an unlink, a sync, a statement of SQLite.
One JSON object a line.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from sqlite_utils import Database

from runtime_actors.store import backup, files, verifying
from runtime_actors.store.migrations import MIGRATIONS
from tests.store.bench import a_bench, note

_SECOND: Final = "create table newer (a integer) strict;\ninsert into newer select seq from audit;\ndrop table newer;\n"
_CHANGING: Final = ("replace", "unlink", "open", "chmod", "rename", "write_text")


def main(what: str, folder: Path) -> None:
    with a_bench(folder / "new") as bench:
        for number in range(3):
            bench.ask(note, f"new {number}")
        backup.copy_to(bench.opened.sql, str(folder / "copy"), lambda: None)
    with a_bench(folder / "template") as bench:
        for number in range(9):
            bench.ask(note, f"old {number}")
        # As a crash leaves it: the newest entries are only in the log.
        shutil.copytree(folder / "template", folder / "old", ignore=shutil.ignore_patterns(files.BALLAST))
    if what == "accept":
        (folder / "old" / files.WAL).unlink()
        with a_bench(folder / "short") as bench:
            bench.ask(note, "old 0")
        shutil.copy(folder / "short" / files.DATABASE, folder / "old" / files.DATABASE)
    act = {
        "restore": lambda state: backup.restore(state, folder / "copy"),
        "accept": backup.accept_lost_tail,
        "migrate": lambda state: files.open_database(state, "power", (*MIGRATIONS, _SECOND)).close(),
    }[what]
    step, killed = 1, True
    while killed:
        state = folder / "s"
        shutil.copytree(folder / "old", state)
        killed = kills(act, state, step)
        sys.stdout.write(json.dumps({"step": step, "killed": killed, **left(what, state)}) + "\n")
        sys.stdout.flush()
        shutil.rmtree(state)
        step += 1


def kills(act: Callable[[Path], Any], state: Path, step: int) -> bool:
    """Run it in a child that dies in front of the step; whether it got so far."""
    child = os.fork()
    if child == 0:
        try:
            count_steps(step)
            act(state)
        except BaseException:  # noqa: BLE001 - a child must not go on as its parent
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    if status:
        sys.exit(f"step {step}: the child failed")
    return False


def count_steps(last: int) -> None:
    passed = 0

    def step() -> None:
        nonlocal passed
        passed += 1
        if passed == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(do: Callable[..., Any]) -> Callable[..., Any]:
        def first_step(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
            step()
            return do(*arguments, **named)

        return first_step

    places: list[tuple[object, str]] = [(pathlib.Path, name) for name in _CHANGING] + [
        (os, "fsync"),
        (Database, "execute"),
    ]
    for place, name in places:
        setattr(place, name, counted(getattr(place, name)))
    connect = sqlite3.connect

    def traced(*arguments: Any, **named: Any) -> sqlite3.Connection:  # noqa: ANN401
        made: sqlite3.Connection = connect(*arguments, **named)
        made.set_trace_callback(lambda _statement: step())
        return made

    setattr(sqlite3, "connect", traced)  # noqa: B010 - a plain assignment would have to have the type of all overloads


def left(what: str, state: Path) -> dict[str, Any]:
    """What the next daemon finds, and whether all files that it should not find are gone."""
    refused = None
    try:
        with a_bench(state) as bench:
            found = {
                "seq": bench.end()[0],
                "holds": bench.walked() == bench.end() == bench.opened.side.read(),
                "notes": bench.row("select count(*) from audit where event = 'test.noted'")[0],
                "restored": bench.row("select count(*) from audit where event = 'store.restored'")[0],
                "version": bench.row("pragma user_version")[0] if what == "migrate" else None,
            }
    except Exception as error:  # noqa: BLE001 - the test judges it
        refused = str(error)
        found = {}
        if what == "accept":  # the owner says it once more
            backup.accept_lost_tail(state)
            return {"refused": refused, "again": left("", state)}
    kept = state / "store.db.before-restore"
    if kept.exists():
        found["kept_seq"] = verifying.verify(kept)[0]
    return {"refused": refused, "files": sorted(path.name for path in state.iterdir()), **found}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
