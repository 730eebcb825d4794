"""One trial: do these tests find what is wrong with this tree?"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.mutants.finding import CHOSEN, REPORT
from tests.mutants.tree import Tree

_TEST_S: Final = 40
"""What one test may take; a fault that makes it wait for ever is found as well."""
NOT_RUN: Final = frozenset({"ImportError", "ModuleNotFoundError", "SyntaxError", "NameError", "UnboundLocalError"})
"""What is wrong with code that nobody could have run: such a fault is no fault but a mistake in planting it."""


class End(StrEnum):
    """How a trial ended."""

    FOUND = "found"
    SURVIVED = "survived"
    """All tests passed."""
    BROKEN = "broken"
    """Nothing could be collected or run, or the time was over: that finds nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a trial said."""

    end: End
    seconds: float
    test: str = ""
    """Which one failed first."""
    error: str = ""
    """The class of what it raised, or what broke."""
    says: str = ""


def try_tests(
    tree: Tree, tests: Sequence[str], *, chosen: Sequence[str] | None = None, limit_s: float = 120.0
) -> Outcome:
    """Run files or node ids in a process of their own; of what they hold only `chosen`, in that order."""
    with tempfile.TemporaryDirectory(prefix="trial-") as folder:
        report, names = Path(folder, "report"), Path(folder, "chosen")
        given = environment(tree, report)
        if chosen is not None:
            names.write_text(json.dumps(list(chosen)), encoding="utf-8")
            given[CHOSEN] = str(names)
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-p", "tests.mutants.finding"]
        command += ["-x", f"--timeout={_TEST_S}", f"--basetemp={folder}/t", *tests]
        begun = time.monotonic()
        code, output = _run(command, tree.root, given, limit_s)
        return _judge(code, output, report, time.monotonic() - begun)


def environment(tree: Tree, report: Path) -> dict[str, str]:
    """For pytest: the code of the tree, and nothing of a pytest that this runs in."""
    given = os.environ | {"PYTHONPATH": str(tree.root), REPORT: str(report)}
    for name in ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        given.pop(name, None)
    return given


def _run(command: list[str], root: Path, given: dict[str, str], limit_s: float) -> tuple[int | None, str]:
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command, cwd=root, env=given, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            finish(process)
        output.seek(0)
        return code, output.read()


def finish(process: subprocess.Popen[bytes]) -> None:
    """Whatever the tests have left behind in their session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _judge(code: int | None, output: str, report: Path, seconds: float) -> Outcome:
    if code is None:
        return Outcome(End.BROKEN, seconds, error="the time was over")
    if code == 0:
        return Outcome(End.SURVIVED, seconds)
    if code != 1 or not report.exists():
        return Outcome(End.BROKEN, seconds, error=f"pytest ended with {code}", says=output[-2000:])
    found = json.loads(report.read_text(encoding="utf-8"))
    end = End.BROKEN if found["error"] in NOT_RUN else End.FOUND
    return Outcome(end, seconds, found["test"], found["error"], found["says"])
