"""The files that a worker may read: what Landlock grants it and, where it has a root of its own, all there is."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

StrPath = str | os.PathLike[str]

_INSTALLED_IN: Final = frozenset({"site-packages", "dist-packages"})
_PLACES_OF_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
_SINGLE: Final = ("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")
_TO_READ: Final = 0o4
_TO_PASS: Final = 0o1


@dataclass(frozen=True, slots=True)
class Readable:
    """Files and whole trees, by real path, none beneath another; and the other names by which they are looked for.

    Strings: each worker adds its app, and pathlib would take half as long as the fork for that.
    """

    trees: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    """(name, real path), where the two differ."""

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Self:
        """What does not exist is left out."""
        real = {path: path.resolve() for path in paths if path.exists()}
        all_real = frozenset(real.values())
        trees = (str(path) for path in dict.fromkeys(real.values()) if not all_real.intersection(path.parents))
        return cls(tuple(trees), tuple((str(path), str(found)) for path, found in real.items() if path != found))

    def with_app(self, folder: StrPath) -> Self:
        """And one app's folder, which may lie beneath a tree that is readable already, or above one."""
        name, real = os.fspath(folder), os.path.realpath(folder)
        is_new = not any(f"{real}/".startswith(f"{tree}/") for tree in self.trees)
        others = [tree for tree in self.trees if not f"{tree}/".startswith(f"{real}/")]
        return type(self)(
            (*others, real) if is_new else self.trees,
            self.links if real == name else (*self.links, (name, real)),
        )

    def is_open_to_strangers(self, *, with_parents: bool) -> bool:
        """Whether a uid that owns nothing here can read it: every tree, and the way to it if that stays as it is.

        Looks at the trees' roots, not at each file in them: a probe worker finds the rest.
        """
        places = {Path(tree): _TO_READ for tree in self.trees}
        if with_parents:
            parents = (parent for tree in places for parent in tree.parents)
            places = {**dict.fromkeys(parents, _TO_PASS), **places}
        return all(path.stat().st_mode & needed for path, needed in places.items())


def can_be_entered(folder: Path) -> bool:
    """Whether a uid that owns nothing here passes through all folders above `folder`, up to the root."""
    return all(parent.stat().st_mode & _TO_PASS for parent in folder.resolve().parents)


def by_every_worker(root: Path) -> Readable:
    """What importing and loading libraries needs, whatever the app.

    `root` holds the packages of this distribution. Of a source tree only the worker's own are given; where they are
    installed among other libraries, all of them are, this runtime's code and packaged apps included: no secrets.
    Some system calls a path: ask once, in the zygote.
    """
    is_source_tree = root.name not in _INSTALLED_IN
    own = (root / "miniapp_worker", root / "runtime_actors" / "__init__.py", root / "runtime_actors" / "contract")
    imports = (
        Path(entry) for entry in sys.path if entry and not (is_source_tree and Path(entry).resolve() == root.resolve())
    )
    shipped = (Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))
    python_lib = Path(sys.base_prefix) / "lib"  # where a libpython that is not the system's lies
    system = (Path(entry) for entry in (*_PLACES_OF_LIBRARIES, *_SINGLE))
    return Readable.of((*shipped, *imports, python_lib, *system, *own))
