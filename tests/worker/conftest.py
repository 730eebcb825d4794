"""A runtime's end and a folder for an app."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.worker.runtime_end import RuntimeEnd, runtime_end

PRELUDE = "from miniapp_worker.sdk import *\nimport asyncio\n"


@pytest.fixture
def runtime() -> Iterator[RuntimeEnd]:
    with runtime_end() as runtime:
        yield runtime


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Write an `app.py`; the SDK's names and asyncio are imported already."""

    def write(source: str) -> Path:
        (tmp_path / "app.py").write_text(PRELUDE + dedent(source), encoding="utf-8")
        return tmp_path

    yield write
    for name in [name for name in sys.modules if name.startswith("miniapp_echo")]:
        del sys.modules[name]  # a real worker loads one app in its life
