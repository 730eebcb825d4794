"""What a disk may hold after a loss of power: from the events of a story, cut anywhere.

What was synced is there. Of what was pending anything may be: nothing, all, some of it, and of a single write some of
its sectors, the last of them torn. A file's data and the names of folders go to the disk by themselves: a file may be
there without its name, and a name without what was written to its file. A sector that is being written holds the old or
the new bytes, from a point on, but no others (what SQLite calls powersafe overwrite, sqlite.org/psow.html).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.storms.recorder import ROOT, Cut, Event, Named, Synced, Told, Wrote

SECTORS: Final = (512, 4096)
TORN: Final = (0.0, 0.5, 1.0)
"""How much of the last sector of a torn write there is."""

_A_CUT: Final = 7
"""Images: the extremes, and one of each sort that is drawn."""
_PASSES: Final = 30

Change = Wrote | Cut
Kept = Callable[[Change], Sequence[Change]]
"""What is left of a pending change."""


@dataclass(slots=True)
class _Node:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)


@dataclass(slots=True)
class _Folder:
    durable: dict[str, int] = field(default_factory=dict)
    pending: list[Named] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Image:
    """One state of the disk."""

    cut: int
    """How many events had happened."""
    way: str
    """What was left of what was pending, in words."""
    files: tuple[tuple[str, bytes], ...]
    """By path. Folders are there when something in them is."""
    folders: tuple[str, ...]
    told: tuple[Any, ...]
    """What clients knew."""

    @property
    def digest(self) -> bytes:
        """Equal images have equal ones, and what clients knew counts too."""
        made = hashlib.blake2b(repr((self.folders, len(self.told))).encode())
        for path, content in self.files:
            made.update(f"{path} {len(content)}\0".encode())
            made.update(content)
        return made.digest()

    def leave_in(self, folder: Path) -> None:
        """Make it real."""
        for name in self.folders:
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in self.files:
            (folder / name).write_bytes(content)


class Disk:
    """Follows a story event by event."""

    def __init__(self, folders: set[int]) -> None:
        self._folders: dict[int, _Folder] = {node: _Folder() for node in folders}
        self._nodes: dict[int, _Node] = {}
        self.told: list[Any] = []

    def step(self, event: Event) -> None:
        match event:
            case Wrote() | Cut():
                self._node(event.node).pending.append(event)
            case Named():
                self._folders[event.folder].pending.append(event)
            case Synced(node) if node in self._folders:
                folder = self._folders[node]
                _rename(folder.durable, folder.pending)
                folder.pending.clear()
            case Synced(node):
                found = self._node(node)
                _change(found.durable, found.pending)
                found.pending.clear()
            case Told(fact):
                self.told.append(fact)

    def _node(self, node: int) -> _Node:
        return self._nodes.setdefault(node, _Node())

    @property
    def is_all_durable(self) -> bool:
        """Whether a cut here leaves nothing open."""
        names = any(folder.pending for folder in self._folders.values())
        return not names and not any(node.pending for node in self._nodes.values())

    def image(self, cut: int, way: str, keep: Kept, keep_name: Callable[[Named], bool]) -> Image:
        """The disk, of what is pending with so much as is kept."""
        found = list(self._walk(ROOT, "", keep_name))
        files = [(path, self._content(node, keep)) for path, node in found if node not in self._folders]
        folders = [path for path, node in found if node in self._folders]
        return Image(cut, way, tuple(files), tuple(folders), tuple(self.told))

    def _walk(self, node: int, path: str, keep_name: Callable[[Named], bool]) -> Iterator[tuple[str, int]]:
        """Path and node of all that has a name."""
        folder = self._folders[node]
        names = dict(folder.durable)
        _rename(names, [one for one in folder.pending if keep_name(one)])
        for name, child in sorted(names.items()):
            here = f"{path}/{name}" if path else name
            yield here, child
            if child in self._folders:
                yield from self._walk(child, here, keep_name)

    def _content(self, node: int, keep: Kept) -> bytes:
        found = self._node(node)
        content = bytearray(found.durable)
        _change(content, [left for one in found.pending for left in keep(one)])
        return bytes(content)


def _rename(names: dict[str, int], changes: Sequence[Named]) -> None:
    for change in changes:
        for name, node in change.names:
            if node is None:
                names.pop(name, None)
            else:
                names[name] = node


def _change(content: bytearray, changes: Sequence[Change]) -> None:
    for change in changes:
        if isinstance(change, Cut):
            del content[change.size :]
            content.extend(bytes(change.size - len(content)))
        else:
            content.extend(bytes(max(0, change.offset - len(content))))
            content[change.offset : change.offset + len(change.data)] = change.data


# --- ways to lose power ---


def _nothing(_change: Change) -> Sequence[Change]:
    return ()


def _everything(change: Change) -> Sequence[Change]:
    return (change,)


def _always(_named: Named) -> bool:
    return True


def _never(_named: Named) -> bool:
    return False


def torn(change: Wrote, sector: int, share: float, sectors: Callable[[], bool]) -> Sequence[Change]:
    """Some sectors of a write, and of the last one `share`."""
    pieces: list[Change] = []
    first, end = change.offset // sector, change.offset + len(change.data)
    last = (end - 1) // sector
    for number in range(first, last + 1):
        begin, stop = max(change.offset, number * sector), min(end, (number + 1) * sector)
        if number == last:
            stop = begin + int((stop - begin) * share)
        elif not sectors():
            continue
        if stop > begin:
            data = change.data[begin - change.offset : stop - change.offset]
            pieces.append(Wrote(change.node, begin, data))
    return pieces


def ways(chance: random.Random, many: int) -> Iterator[tuple[str, Kept, Callable[[Named], bool]]]:
    """The two extremes of each, and as many drawn ones of each sort."""
    for data, kept in (("no data", _nothing), ("all data", _everything)):
        for names, kept_name in (("no names", _never), ("all names", _always)):
            yield f"{data}, {names}", kept, kept_name

    def some_name(_named: Named) -> bool:
        return chance.random() < 0.5

    for _ in range(many):
        share = chance.random()

        def some(one: Change, share: float = share) -> Sequence[Change]:
            return (one,) if chance.random() < share else ()

        yield "some data, some names", some, some_name
        for sector in SECTORS:
            part = chance.choice(TORN)

            def keep(one: Change, sector: int = sector, part: float = part) -> Sequence[Change]:
                fate = chance.random()
                if isinstance(one, Cut) or fate < 0.4:
                    return (one,) if fate < 0.4 else ()
                return torn(one, sector, part, lambda: chance.random() < 0.5) if fate < 0.8 else ()

            yield f"sectors of {sector} torn at {part:g}, some names", keep, some_name


def images(events: Sequence[Event], folders: set[int], begun: int, seed: int, wanted: int) -> Iterator[Image]:
    """About so many different states that the disk may be left in, or all that can be found in a few passes."""
    seen: set[bytes] = set()
    for number in range(_PASSES):
        for image in _pass(events, folders, begun, f"{seed}/{number}", wanted):
            if image.digest not in seen:
                seen.add(image.digest)
                yield image
                if len(seen) >= wanted:
                    return


def _pass(events: Sequence[Event], folders: set[int], begun: int, seed: str, wanted: int) -> Iterator[Image]:
    """Cuts around syncs, and drawn ones between, over the whole story."""
    chance = random.Random(seed)  # noqa: S311 - to be drawn again
    at_syncs = [number for number, event in enumerate(events) if number >= begun and _is_edge(event)]
    between = [number for number in range(begun, len(events)) if not _is_edge(events[number])]
    cuts = {*at_syncs, *chance.sample(between, min(len(between), len(at_syncs))), len(events)}
    if len(cuts) * _A_CUT > wanted:
        cuts = {*chance.sample(sorted(cuts), wanted // _A_CUT), len(events)}
    disk = Disk(folders)
    for number in range(len(events) + 1):
        if number in cuts:
            for way, keep, keep_name in ways(chance, 0 if disk.is_all_durable else 1):
                yield disk.image(number, way, keep, keep_name)
        if number < len(events):
            disk.step(events[number])


def _is_edge(event: Event) -> bool:
    """The moment before it is one at which most is pending, or somebody has just been told."""
    return isinstance(event, (Synced, Named))
