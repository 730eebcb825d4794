"""A copy of the project in which faults are planted: the shared tree is never touched."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
COPIED: Final = ("runtime_actors", "miniapp_worker", "miniapps", "tests", "scripts", "docs", "pyproject.toml")
_FIRST_TIME_S: Final = 1_000_000_000


class Tree:
    """The files that a finder needs, in a folder of their own. Used by one thread."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._planted = 0

    @contextmanager
    def planted(self, file: str, text: str) -> Iterator[None]:
        """For as long as this lasts, `file` holds `text`."""
        path = self.root / file
        before, times = path.read_bytes(), path.stat()
        self._planted += 1
        path.write_text(text, encoding="utf-8")
        # Bytecode is known by its source's size and time in seconds: two faults of one size could share it.
        os.utime(path, (_FIRST_TIME_S + self._planted,) * 2)
        try:
            yield
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@contextmanager
def copied_tree(root: Path = ROOT) -> Iterator[Tree]:
    """A copy of the tree as it is now, removed at the end."""
    # A short name: the sockets of tests lie below it, and the path of one has 108 bytes (unix(7)).
    with tempfile.TemporaryDirectory(prefix="mut-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # workers have uids of their own, and read their code from it
        for name in COPIED:
            source, target = root / name, Path(folder, name)
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
            else:
                shutil.copy2(source, target)
        yield Tree(Path(folder))
