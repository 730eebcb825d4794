"""Writes down, in order, every change of files below a folder: SQLite's through `vfs`, Python's by listening to `os`.

A change is pending until its file, or for a name its folder, is synced. What a story told to clients stands between.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runtime_actors.store import files
from tests.storms import vfs


@dataclass(frozen=True, slots=True)
class Wrote:
    node: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """A file was truncated, or grew by zeros."""

    node: int
    size: int


@dataclass(frozen=True, slots=True)
class Named:
    """Names of one folder changed, all at once: each leads to a node now, or nowhere."""

    folder: int
    names: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True, slots=True)
class Synced:
    """Of a node, a file or a folder, everything is on the disk."""

    node: int


@dataclass(frozen=True, slots=True)
class Told:
    """A client knows something that must never be lost from here on."""

    fact: Any


Event = Wrote | Cut | Named | Synced | Told
ROOT: Final = 0
"""The folder that holds the state folder, which is there and durable before anything is."""


class Recorder:
    """The events of one story. `base` is what the disk held when it began, durable: node by path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.events: list[Event] = []
        self.folders = {ROOT}
        self._nodes: dict[Path, int] = {root: ROOT}
        self._count = 0
        self._by_fd: dict[int, int] = {}
        for path in sorted(root.rglob("*")):
            if path.name != files.BALLAST:
                self._adopt(path)
        for node in (*self.folders, *self._nodes.values()):
            self.events.append(Synced(node))
        self.begun = len(self.events)
        """How many events only say what was there before."""

    def _adopt(self, path: Path) -> None:
        node = self._new(path, is_folder=path.is_dir())
        if path.is_file():
            self.events.append(Wrote(node, 0, path.read_bytes()))

    def told(self, fact: object) -> None:
        self.events.append(Told(fact))

    def _new(self, path: Path, *, is_folder: bool = False) -> int:
        self._count += 1
        self._nodes[path] = self._count
        if is_folder:
            self.folders.add(self._count)
        self.events.append(Named(self._nodes[path.parent], ((path.name, self._count),)))
        return self._count

    def _inside(self, path: object) -> Path | None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return None
        found = Path(os.fsdecode(path))
        is_ours = found.is_relative_to(self.root) and found != self.root and found.name != files.BALLAST
        return found if is_ours else None  # of the ballast nothing matters but that it takes space

    # --- what SQLite does ---

    def opened(self, path: str, *, is_new: bool) -> None:
        inside = self._inside(path)
        if inside is not None and (is_new or inside not in self._nodes):
            self._new(inside)

    def written(self, path: str, offset: int, data: bytes) -> None:
        if (inside := self._inside(path)) is not None:
            self.events.append(Wrote(self._nodes[inside], offset, data))

    def truncated(self, path: str, size: int) -> None:
        if (inside := self._inside(path)) is not None:
            self.events.append(Cut(self._nodes[inside], size))

    def synced(self, path: str) -> None:
        if (inside := self._inside(path)) is not None:
            self.events.append(Synced(self._nodes[inside]))

    def deleted(self, path: str) -> None:
        if (inside := self._inside(path)) is not None:
            self.events.append(Named(self._nodes[inside.parent], ((inside.name, None),)))
            del self._nodes[inside]

    def folder_synced(self, folder: str) -> None:
        node = self._nodes.get(Path(folder))
        if node is not None:
            self.events.append(Synced(node))

    # --- what Python does ---

    def moved(self, old: Path, new: Path) -> None:
        assert old.parent == new.parent, "across folders nothing is atomic"
        node = self._nodes.pop(old)
        self._nodes[new] = node
        self.events.append(Named(self._nodes[new.parent], ((old.name, None), (new.name, node))))

    def took(self, descriptor: int, path: Path, *, is_new: bool, is_cut: bool) -> None:
        node = self._new(path) if is_new or path not in self._nodes else self._nodes[path]
        self._by_fd[descriptor] = node
        if is_cut and not is_new:
            self.events.append(Cut(node, 0))

    def wrote_fd(self, descriptor: int, offset: int, data: bytes) -> None:
        if descriptor in self._by_fd:
            self.events.append(Wrote(self._by_fd[descriptor], offset, data))

    def patches(self) -> Iterator[tuple[object, str, Callable[..., Any]]]:
        """What stands for which function while the recording goes on."""
        yield os, "open", self._os_open
        yield os, "close", self._os_close
        yield os, "pwrite", self._os_pwrite
        yield os, "fsync", self._os_fsync
        yield os, "ftruncate", self._os_ftruncate
        yield os, "unlink", self._os_unlink
        yield os, "mkdir", self._os_mkdir
        yield os, "replace", self._os_replace
        yield os, "rename", self._os_replace
        yield pathlib.Path, "open", self._path_open()

    def _os_open(self, path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:  # noqa: ANN401 - as os.open
        inside = self._inside(path)
        was_there = inside is not None and inside.exists()
        descriptor = _OPEN(path, flags, mode, **more)
        if inside is not None and inside in self._nodes and self._nodes[inside] in self.folders:
            self._by_fd[descriptor] = self._nodes[inside]
        elif inside is not None and flags & (os.O_WRONLY | os.O_RDWR):
            self.took(descriptor, inside, is_new=not was_there, is_cut=bool(flags & os.O_TRUNC))
        elif isinstance(path, (str, os.PathLike)) and Path(path) == self.root:
            self._by_fd[descriptor] = ROOT
        return descriptor

    def _os_close(self, descriptor: int) -> None:
        self._by_fd.pop(descriptor, None)
        _CLOSE(descriptor)

    def _os_pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        written = _PWRITE(descriptor, data, offset)
        self.wrote_fd(descriptor, offset, bytes(data[:written]))
        return written

    def _os_fsync(self, descriptor: int) -> None:
        _FSYNC(descriptor)
        if descriptor in self._by_fd:
            self.events.append(Synced(self._by_fd[descriptor]))

    def _os_ftruncate(self, descriptor: int, size: int) -> None:
        _FTRUNCATE(descriptor, size)
        if descriptor in self._by_fd:
            self.events.append(Cut(self._by_fd[descriptor], size))

    def _os_unlink(self, path: Any, **more: Any) -> None:  # noqa: ANN401 - as os.unlink
        _UNLINK(path, **more)
        if (inside := self._inside(path)) is not None:
            self.deleted(str(inside))

    def _os_mkdir(self, path: Any, mode: int = 0o777, **more: Any) -> None:  # noqa: ANN401 - as os.mkdir
        _MKDIR(path, mode, **more)
        if (inside := self._inside(path)) is not None:
            self._new(inside, is_folder=True)

    def _os_replace(self, old: Any, new: Any, **more: Any) -> None:  # noqa: ANN401 - as os.replace
        _REPLACE(old, new, **more)
        before, after = self._inside(old), self._inside(new)
        if before is not None and after is not None:
            self.moved(before, after)

    def _path_open(self) -> Callable[..., Any]:
        true = pathlib.Path.open
        recorder = self

        def opening(path: Path, mode: str = "r", buffering: int = -1, **more: Any) -> Any:  # noqa: ANN401 - as Path.open
            inside = recorder._inside(path)
            if inside is None or not set(mode) & set("wxa+"):
                return true(path, mode, buffering, **more)
            raw = _RawFile(recorder, inside, mode.replace("b", "").replace("t", ""))
            if buffering == 0:
                return raw
            buffered = io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, **more)

        return opening


_OPEN, _CLOSE, _PWRITE, _FSYNC, _FTRUNCATE = os.open, os.close, os.pwrite, os.fsync, os.ftruncate
_UNLINK, _MKDIR, _REPLACE = os.unlink, os.mkdir, os.replace


class _RawFile(io.FileIO):
    """A file that tells of what is written to it."""

    def __init__(self, recorder: Recorder, path: Path, mode: str) -> None:
        was_there = path.exists()
        super().__init__(str(path), mode)
        self._recorder = recorder
        recorder.took(self.fileno(), path, is_new=not was_there, is_cut="w" in mode)

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        offset = self.tell()
        written = super().write(data)
        self._recorder.wrote_fd(self.fileno(), offset, bytes(memoryview(data)[:written]))
        return written

    def close(self) -> None:
        if not self.closed:
            self._recorder._by_fd.pop(self.fileno(), None)
        super().close()


@contextlib.contextmanager
def recording(library: ctypes.CDLL, root: Path) -> Iterator[Recorder]:
    """Write down everything that happens below `root`, which must be there."""
    recorder = Recorder(root)
    kept = [(place, name, getattr(place, name)) for place, name, _ in recorder.patches()]
    with vfs.listening(library, recorder):
        for place, name, patched in recorder.patches():
            setattr(place, name, patched)
        try:
            yield recorder
        finally:
            for place, name, true in kept:
                setattr(place, name, true)
