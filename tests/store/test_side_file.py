"""The side file keeps the newest place whatever tears, and what replaces it reaches the disk in the right order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime_actors.store import files

SLOT = 256


@pytest.mark.parametrize("writes", [1, 2, 3, 4])
def test_the_next_process_writes_over_the_older_place_and_leaves_the_newest(tmp_path: Path, writes: int) -> None:
    first = files.SideFile(tmp_path)
    for seq in range(1, writes + 1):
        first.write(seq, bytes([seq]) * 32)
    first.close()

    second = files.SideFile(tmp_path)
    second.write(writes + 1, bytes(32))
    second.close()

    raw = (tmp_path / files.SIDE_FILE).read_bytes()
    kept = {int(raw[at : at + SLOT].split()[0]) for at in (0, SLOT)}
    assert kept == {writes, writes + 1}


def test_a_replaced_side_file_is_synced_before_it_has_its_name_and_its_name_after_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, rename = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        sync(descriptor)
        done.append(f"synced {Path(f'/proc/self/fd/{descriptor}').readlink().name}")

    def renamed(self: Path, target: Path) -> Path:
        done.append(f"renamed {self.name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)

    files.replace_side_file(tmp_path, 7, bytes(32))

    new = f"{files.SIDE_FILE}.new"
    assert done == [f"synced {new}", f"renamed {new}", f"synced {tmp_path.name}"]
