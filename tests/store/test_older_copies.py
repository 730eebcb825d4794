"""A copy made by an older runtime is as good as one of today; one of a newer runtime is not."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from sqlite_utils import Database

from runtime_actors.errors import StoreUnusable
from runtime_actors.rules.audit import GENESIS
from runtime_actors.store.migrations import MIGRATIONS, migrate
from runtime_actors.store.verifying import verify


def a_copy(folder: Path, version: int) -> Path:
    """A store as the runtime of that version would begin it."""
    path = folder / "copy.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as sql:
        migrate(Database(sql), MIGRATIONS[:version])
        sql.execute(f"pragma user_version = {version}")
    return path


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_a_copy_of_every_version_up_to_this_one_is_accepted(tmp_path: Path, version: int) -> None:
    assert verify(a_copy(tmp_path, version)) == (0, GENESIS)


@pytest.mark.parametrize("version", [0, len(MIGRATIONS) + 1])
def test_a_copy_of_no_version_or_a_newer_one_is_refused(tmp_path: Path, version: int) -> None:
    with pytest.raises(StoreUnusable, match=f"schema version {version}"):
        verify(a_copy(tmp_path, version))
