"""What gets its name in one step was brought to the disk before, and its name after that.

A loss of power may otherwise leave the name of a file whose content never arrived.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from runtime_actors.cli import identities
from runtime_actors.client import artifacts
from runtime_actors.store import backup, files, restoring
from runtime_actors.store.messages import Copy, ExportAudit
from tests.store.bench import a_bench, note


class Disk:
    """Listens to what the program asks of the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._synced: dict[int, int] = {}
        """Size at the last sync, by inode."""
        self._owed: set[Path] = set()
        """Folders in which something got its name since they were synced."""
        self._gone: set[Path] = set()
        """The same of what has lost its name."""
        self.named: list[str] = []
        self.wrong: list[str] = []
        sync = os.fsync

        def synced(descriptor: int) -> None:
            sync(descriptor)
            found = os.fstat(descriptor)
            self._synced[found.st_ino] = found.st_size
            for changed in (self._owed, self._gone):
                changed.discard(Path(f"/proc/self/fd/{descriptor}").readlink())

        monkeypatch.setattr(os, "fsync", synced)
        for name in ("rename", "replace", "link"):
            monkeypatch.setattr(os, name, self._listening(getattr(os, name)))
        unlink = os.unlink

        def unlinked(path: Any, *more: Any, **how: Any) -> None:  # noqa: ANN401
            unlink(path, *more, **how)
            self._gone.add(Path(path).parent.resolve())

        monkeypatch.setattr(os, "unlink", unlinked)

    def _listening(self, do: Callable[..., None]) -> Callable[..., None]:
        def named(source: Any, target: Any, *more: Any, **how: Any) -> None:  # noqa: ANN401
            path = Path(target)
            is_aside = path.name.endswith(SET_ASIDE)
            if path.parent.resolve() in self._owed | (set() if is_aside else self._gone):
                self.wrong.append(f"{path.name} was named before the last name was synced")
            if not is_aside:
                found = Path(source).stat()
                if self._synced.get(found.st_ino) != found.st_size:
                    self.wrong.append(f"{path.name} was named before its content was synced")
                self.named.append(path.name)
                self._owed.add(path.parent.resolve())
            do(source, target, *more, **how)

        return named

    def not_synced(self) -> set[str]:
        return {path.name for path in self._owed | self._gone}


SET_ASIDE: Final = (".before-restore", ".before-restore-wal", ".before-restore-shm")
"""What is put out of the way was complete before."""


def a_restore(folder: Path) -> Iterator[None]:
    made: queue.SimpleQueue[object] = queue.SimpleQueue()
    for name in ("source", "state"):
        with a_bench(folder / name) as bench:
            bench.ask(note, name)
            if name == "source":
                bench.send(Copy(str(folder / "copy"), made.put))
                bench.handle()
                made.get(timeout=20)
    yield
    backup.restore(folder / "state", folder / "copy")


def a_restore_over_what_is_left(folder: Path) -> Iterator[None]:
    """Of a store whose database is gone, and of an earlier restore."""
    story = a_restore(folder)
    next(story)
    (folder / "state" / files.DATABASE).unlink()
    for left in (files.WAL, f"{files.DATABASE}.before-restore-wal"):
        (folder / "state" / left).write_bytes(b"an old log")
    yield
    list(story)


def an_export(folder: Path) -> Iterator[None]:
    made: queue.SimpleQueue[object] = queue.SimpleQueue()
    with a_bench(folder) as bench:
        for number in range(5):
            bench.ask(note, str(number))
        yield
        bench.send(ExportAudit(str(folder / "old.jsonl"), 2, made.put))
        bench.handle()
        assert "path" in made.get(timeout=20)  # type: ignore[operator] # JSON


def a_new_store(folder: Path) -> Iterator[None]:
    yield
    with a_bench(folder / "state"):
        pass


def a_side_file(folder: Path) -> Iterator[None]:
    yield
    files.replace_side_file(folder, 7, bytes(32))


def a_token(folder: Path) -> Iterator[None]:
    yield
    identities._write_private(folder / "tokens" / "ada", "secret")


def an_artifact(folder: Path) -> Iterator[None]:
    yield
    artifacts.write_whole(folder / "board.png", b"content", replace=False)


def an_artifact_again(folder: Path) -> Iterator[None]:
    (folder / "board.png").write_bytes(b"old")
    yield
    artifacts.write_whole(folder / "board.png", b"content", replace=True)


WRITERS: Final[dict[str, tuple[Callable[[Path], Iterator[None]], set[str]]]] = {
    "a restore": (a_restore, {restoring.MARKER, files.DATABASE, files.SIDE_FILE}),
    "a restore over what is left": (a_restore_over_what_is_left, {restoring.MARKER, files.DATABASE}),
    "an export": (an_export, {"old.jsonl"}),
    "a new store": (a_new_store, {"local"}),
    "a side file": (a_side_file, {files.SIDE_FILE}),
    "a token": (a_token, {"ada"}),
    "an artifact": (an_artifact, {"board.png"}),
    "an artifact again": (an_artifact_again, {"board.png"}),
}
OTHERS: Final = {"a token", "an artifact", "an artifact again", "a new store"}
"""Whose file can be made again: that its name is lost with the power is no harm."""


@pytest.mark.parametrize("writer", WRITERS)
def test_content_is_synced_before_its_name_and_the_name_after(
    writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, names = WRITERS[writer]
    story = writes(tmp_path)
    next(story)
    disk = Disk(monkeypatch)

    assert list(story) == []

    assert disk.wrong == []
    assert set(disk.named) >= names
    if writer not in OTHERS:
        assert disk.not_synced() == set()
