from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def state() -> Iterator[Path]:
    """A state folder whose path is short enough for sockets, which pytest's own may not be."""
    with tempfile.TemporaryDirectory(prefix="lu-") as folder:
        yield Path(folder)
