"""kill -9 in front of every step by which a restore, an acceptance or a migration changes files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from runtime_actors.store.migrations import MIGRATIONS

_CHILD = Path(__file__).with_name("crashes.py")
_KEPT = {"audit.head", "ballast", "lock", "run", "store.db", "store.db-wal.refused", "tokens"}


def crashed(what: str, folder: Path) -> list[dict[str, Any]]:
    """What was left, by step; the last one was not killed."""
    command = [sys.executable, str(_CHILD), what, str(folder)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert child.returncode == 0, child.stderr[-2000:]
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    assert [line["killed"] for line in lines] == [True] * (len(lines) - 1) + [False]
    return lines


def test_a_killed_restore_leaves_the_old_store_or_the_new_one(tmp_path: Path) -> None:
    lines = crashed("restore", tmp_path)

    found = [(line["seq"], line["notes"], line["restored"], line.get("kept_seq")) for line in lines]
    old, new = (9, 9, 0, None), (4, 3, 1, 9)
    assert set(found) == {old, new}
    assert found == sorted(found, key=lambda one: one == new)  # once it is new it stays new
    assert found.count(old) > 10
    assert found.count(new) > 10
    for line in lines:
        assert line["refused"] is None
        assert line["holds"]
        assert set(line["files"]) <= _KEPT | {f"store.db.before-restore{suffix}" for suffix in ("", "-wal", "-shm")}


def test_a_killed_acceptance_is_repeated_or_done(tmp_path: Path) -> None:
    lines = crashed("accept", tmp_path)

    assert lines[-1]["refused"] is None
    for line in lines:
        if line["refused"] is not None:
            assert "lineup audit accept" in line["refused"]
        after = line.get("again", line)
        assert after["refused"] is None
        assert after["holds"]
        assert after["notes"] == 1
        assert set(after["files"]) <= _KEPT


def test_a_killed_migration_leaves_the_old_version_or_the_new_one(tmp_path: Path) -> None:
    lines = crashed("migrate", tmp_path)

    newer = f"version {len(MIGRATIONS) + 1}"
    is_new = [line["refused"] is not None for line in lines]
    assert is_new == sorted(is_new)
    assert is_new[-1]
    assert not is_new[0]
    for line in lines:
        if line["refused"] is None:
            assert (line["version"], line["notes"], line["holds"]) == (len(MIGRATIONS), 9, True)
        else:
            assert newer in line["refused"]
