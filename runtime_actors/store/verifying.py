"""Whether a file is a store whose records and audit chain hold; here, or in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import runtime_actors
from runtime_actors.errors import StoreUnusable
from runtime_actors.records.audit import anchor, walk
from runtime_actors.rules.audit import Break
from runtime_actors.store.migrations import MIGRATIONS

_BOOT: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from runtime_actors.store.verifying import main; main()"
)


def verify(path: Path) -> tuple[int, bytes]:
    """Check a copy: it is whole, of a version that is known here, and its audit chain holds. Its end is returned.

    Raises:
        StoreUnusable: Something of that is not so.

    """
    if not path.is_file():
        raise StoreUnusable(f"there is no file {path}")
    try:
        with contextlib.closing(open_copy(path)) as sql:
            return verify_open(sql, path)
    except (sqlite3.Error, ValueError) as error:  # ValueError: text of a damaged file that is none
        raise StoreUnusable(f"{path} is not a store: {error}") from error


def open_copy(path: Path) -> sqlite3.Connection:
    """Open a store that nobody works with, to read it."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def verify_open(sql: sqlite3.Connection, path: Path) -> tuple[int, bytes]:
    """As `verify`, on an open connection.

    Raises:
        StoreUnusable: As `verify`.
        sqlite3.Error: It is no database.

    """
    version = int(sql.execute("pragma user_version").fetchone()[0])
    if not 1 <= version <= len(MIGRATIONS):
        raise StoreUnusable(f"{path} has schema version {version}; this runtime knows 1 to {len(MIGRATIONS)}")
    found = sql.execute("pragma quick_check(1)").fetchone()[0]
    if found != "ok":
        raise StoreUnusable(f"{path} is damaged: {found}")
    walked = walk(sql, *anchor(sql))
    if isinstance(walked, Break):
        raise StoreUnusable(f"the audit chain in {path} is broken: {walked.reason}")
    return walked


def verify_apart(path: Path) -> tuple[int, bytes]:
    """`verify` in a process of its own, which ends with this one: walking a long chain would slow every thread here.

    Raises:
        StoreUnusable: As `verify`, or the process ended early.

    """
    root = Path(runtime_actors.__file__).resolve().parent.parent
    with subprocess.Popen(
        [sys.executable, "-I", "-X", "utf8", "-c", _BOOT, str(root), str(path)],
        env={"LANG": "C.UTF-8"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C at the daemon's terminal is for the daemon
    ) as process:
        assert process.stdout is not None  # noqa: S101 - for the type checker
        # Not its exit code: a subreaper may have waited for it already.
        told = process.stdout.read()
    try:
        answer = json.loads(told)
    except ValueError:
        raise StoreUnusable(f"the check of {path} ended before it was done") from None
    if "fault" in answer:
        raise StoreUnusable(answer["fault"])
    return int(answer["audit_seq"]), bytes.fromhex(answer["head_hash"])


def main() -> None:
    """Check the file named on the command line and print the verdict as JSON; end when stdin does."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        seq, head = verify(Path(sys.argv[1]))
        answer: dict[str, object] = {"audit_seq": seq, "head_hash": head.hex()}
    except StoreUnusable as error:
        answer = {"fault": str(error)}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)  # the other thread still reads


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)
