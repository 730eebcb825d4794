"""A MiniApp that is healthy or broken in one way, and `lineup chaos` on it."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.e2e.daemon import ROOT

APPS: Final = Path(__file__).with_name("apps")
SCENARIO: Final = APPS / "tally.jsonl"
_LIMIT_S: Final = 100.0


@contextlib.contextmanager
def an_app(variant: str) -> Iterator[Path]:
    """The folder of a tally that workers can read."""
    with tempfile.TemporaryDirectory(prefix="lu-") as folder:
        top = Path(folder)
        top.chmod(0o755)
        app = top / "tally"
        app.mkdir()
        for name, to in (("manifest.json", "manifest.json"), ("tally.py", "tally.py"), (f"{variant}.py", "app.py")):
            shutil.copyfile(APPS / name, app / to)
            (app / to).chmod(0o644)
        app.chmod(0o755)
        yield app


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "runtime_actors", "chaos", *map(str, arguments)]


def chaos(*arguments: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=ROOT, input=given, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )


def played(*arguments: str | Path) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    """Exit code, a row a run, and the summary."""
    done = chaos(*arguments, "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows, done.stderr
    return done.returncode, rows[:-1], rows[-1]
