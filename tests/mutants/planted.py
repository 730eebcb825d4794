"""The named faults: what each one changes, which promise it breaks, and which tests are expected to find it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.tree import Tree

FOLDER: Final = Path(__file__).with_name("planted")


class NoLongerFits(Exception):
    """The code that a fault changes has changed itself: look at both."""


@dataclass(frozen=True, slots=True)
class Edit:
    """`old` stands in `file` exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault that somebody could make."""

    name: str
    promise: str
    """The one that it breaks."""
    edits: tuple[Edit, ...]
    finders: tuple[str, ...]
    """Node ids, files or folders, the cheapest first."""
    area: str
    """The file that it is kept in."""

    @contextmanager
    def planted(self, tree: Tree) -> Iterator[None]:
        """For as long as this lasts, `tree` has the fault.

        Raises:
            NoLongerFits: An edit has no place, or more than one.

        """
        with ExitStack() as stack:
            for file, text in self.texts(tree.root).items():
                stack.enter_context(tree.planted(file, text))
            yield

    def texts(self, root: Path) -> dict[str, str]:
        """Each file that it changes, as it is with the fault.

        Raises:
            NoLongerFits: An edit has no place, or more than one.

        """
        texts: dict[str, str] = {}
        for edit in self.edits:
            text = texts.get(edit.file) or (root / edit.file).read_text(encoding="utf-8")
            if (count := text.count(edit.old)) != 1:
                raise NoLongerFits(f"mutant {self.name} no longer fits: {edit.file} has its text {count} times")
            texts[edit.file] = text.replace(edit.old, edit.new)
        return texts


def mutants() -> tuple[Mutant, ...]:
    """All of them, in the order of their files."""
    return tuple(one for path in sorted(FOLDER.glob("*.toml")) for one in _read(path))


def existing(finders: Sequence[str], root: Path) -> tuple[str, ...]:
    """Those finders that are there: a test may have another name by now, and its file still hold it."""
    return tuple(one for one in finders if _is_there(one, root))


def _is_there(finder: str, root: Path) -> bool:
    file, _, name = finder.partition("::")
    path = root / file
    words = name.partition("::")[0].partition("[")[0]
    return path.exists() and (not words or words in path.read_text(encoding="utf-8"))


def _read(path: Path) -> Iterator[Mutant]:
    for one in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
        edits = tuple(Edit(**edit) for edit in one["edit"])
        yield Mutant(one["name"], one["promise"], edits, tuple(one["finders"]), path.stem)


def by_name(all_of_them: Sequence[Mutant]) -> Mapping[str, Mutant]:
    """Each under its name."""
    return {one.name: one for one in all_of_them}
