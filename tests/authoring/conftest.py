from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import ROOT

LINEUP = (sys.executable, "-m", "runtime_actors")
WITHIN_S = 200.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets, which pytest's own may not be."""
    with tempfile.TemporaryDirectory(prefix="lu-") as made:
        yield Path(made)


@pytest.fixture
def tea(folder: Path) -> Path:
    """An app made by `lineup new`."""
    made = lineup("new", str(folder / "tea"))
    assert made.returncode == 0, made.stderr
    return folder / "tea"


def lineup(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return _run([*LINEUP, *arguments], cwd)


def run_pytest(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A run of its own, with no plugin but ours."""
    return _run([sys.executable, "-m", "pytest", "-p", "runtime_actors.pytest_plugin", *arguments], cwd)


def _run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    found = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    more = {"PYTHONPATH": found, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    return subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | more,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
