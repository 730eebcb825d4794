"""Which files of an app's folder changed since the last look. Polled: it works on every file system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_NOT_THE_APP: Final = frozenset({"__pycache__", "node_modules"})
_MOST_FILES: Final = 5_000
"""Beyond these a change goes unseen: an app's folder is small, and a look must stay cheap."""

_Mark = tuple[int, int]


class Changes:
    """Remembers time and size of each file but hidden ones and `__pycache__`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = _marks(folder)

    def look(self) -> list[str]:
        """Paths below the folder that were changed, added or removed, sorted."""
        now = _marks(self._folder)
        changed = {path for path, _ in self._known.items() ^ now.items()}
        self._known = now
        return sorted(os.path.relpath(path, self._folder) for path in changed)


def _marks(folder: Path) -> dict[str, _Mark]:
    found: dict[str, _Mark] = {}
    pending = [str(folder)]
    while pending and len(found) < _MOST_FILES:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or entry.name in _NOT_THE_APP:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        stat = entry.stat()
                        found[entry.path] = (stat.st_mtime_ns, stat.st_size)
        except OSError:  # removed while it was looked at: the next look sees it
            continue
    return found
