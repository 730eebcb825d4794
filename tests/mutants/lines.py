"""Which tests execute which line. Loaded into pytest it writes that down; elsewhere it reads it.

Machines of hypothesis run everything and take long: they are not traced, and asked last.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import pytest

from tests.mutants.finding import machines_only

TRACED: Final = "MUTANT_LINES"
FOLDERS: Final = ("commands", "rules", "records", "store", "router", "channel", "outbox", "orchestrator")
_ENOUGH: Final = 40
"""Runs of a function in one test; later ones are not looked at."""

_Trace = Callable[[FrameType, str, Any], Any]


class Recorder:
    """The pytest plugin."""

    def __init__(self, into: Path) -> None:
        self._into = into
        self._roots = tuple(f"{Path.cwd() / 'runtime_actors' / name}/" for name in FOLDERS)
        self._codes: dict[CodeType, str | None] = {}
        self._runs: Counter[CodeType] = Counter()
        self._now: set[tuple[str, int]] = set()
        self._lines: defaultdict[str, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._tests: list[tuple[str, float]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Trace one test with its fixtures."""
        self._now, begun = set(), time.monotonic()
        self._runs.clear()
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            done = yield
        finally:
            sys.settrace(None)
            threading.settrace(None)
        number = len(self._tests)
        self._tests.append((item.nodeid, time.monotonic() - begun))
        for file, line in self._now:
            self._lines[file][line].append(number)
        return done

    def pytest_sessionfinish(self) -> None:
        """Write it down."""
        self._into.write_text(json.dumps({"tests": self._tests, "lines": self._lines}), encoding="utf-8")

    def _called(self, frame: FrameType, _event: str, _argument: object) -> _Trace | None:
        code = frame.f_code
        file = self._codes.get(code, "")
        if file == "":
            name = code.co_filename
            file = self._codes[code] = str(Path(name).relative_to(Path.cwd())) if name.startswith(self._roots) else None
        if file is None:
            return None
        self._runs[code] += 1
        if self._runs[code] > _ENOUGH:
            return None
        now = self._now
        now.add((file, frame.f_lineno))

        def stepped(frame: FrameType, event: str, _argument: object) -> _Trace:
            if event == "line":
                now.add((file, frame.f_lineno))
            return stepped

        return stepped


def pytest_configure(config: pytest.Config) -> None:
    """Only where it is asked for."""
    if into := os.environ.get(TRACED):
        config.pluginmanager.register(Recorder(Path(into)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Machines are not traced."""
    items[:] = [item for item in items if not machines_only(item)]


@dataclass(frozen=True, slots=True)
class Lines:
    """What was written down."""

    tests: Sequence[tuple[str, float]]
    """Node id and seconds."""
    lines: Mapping[str, Mapping[str, Sequence[int]]]

    @classmethod
    def read(cls, path: Path) -> Lines:
        """From a file."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def of(self, file: str, first: int, last: int) -> list[str]:
        """Tests that execute one of these lines, the quickest first; none if they are run at the import alone."""
        found = self.lines.get(file, {})
        return self._quickest({number for line in range(first, last + 1) for number in found.get(str(line), ())})

    def of_file(self, file: str) -> list[str]:
        """Tests that execute any line of a file; if nobody does, all tests."""
        found = {number for those in self.lines.get(file, {}).values() for number in those}
        return self._quickest(found or set(range(len(self.tests))))

    def _quickest(self, numbers: set[int]) -> list[str]:
        return [self.tests[number][0] for number in sorted(numbers, key=lambda number: self.tests[number][1])]
