"""docs/miniapp-guide.md does what it says: its files are written and its commands are run, in their order."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from runtime_actors.authoring.promises import PROMISES
from runtime_actors.simulator import read_scenario
from tests.e2e.daemon import ROOT, wait_until

GUIDE = ROOT / "docs" / "miniapp-guide.md"
_BLOCK = re.compile(r"^```(?P<kind>\w*) ?(?P<target>\S*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_MODULES = {"lineup": "runtime_actors", "pytest": "pytest"}


@dataclass(frozen=True)
class Block:
    kind: str
    target: str
    text: str

    @property
    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """Each command with the lines that its output must hold."""
        for part in self.text.split("$ ")[1:]:
            command, *expected = part.rstrip().splitlines()
            yield command, expected


def blocks() -> list[Block]:
    return [Block(**found.groupdict()) for found in _BLOCK.finditer(GUIDE.read_text())]


class Reader:
    """Somebody who reads the guide, and does it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._serving: tuple[subprocess.Popen[bytes], IO[bytes]] | None = None
        found = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        plain = {
            "PYTHONPATH": found,
            "PYTHONUNBUFFERED": "1",
            "PYTEST_ADDOPTS": "",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        self._environment = os.environ | plain

    def do(self, block: Block) -> None:
        if block.kind == "console":
            for command, expected in block.commands:
                self._type(command, expected)
        elif "#" in block.target:
            name, pointer = block.target.split("#")
            self._add(name, pointer, block.text)
        else:
            path = self._folder / block.target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)

    def close(self) -> None:
        """Ctrl-C to what is served."""
        if self._serving is not None:
            process, out = self._serving
            process.send_signal(signal.SIGINT)
            process.wait(20)
            out.close()
            self._serving = None

    def _add(self, name: str, pointer: str, text: str) -> None:
        """As JSON Patch (RFC 6902) adds to the end of an array."""
        assert pointer == "/tools/-"
        manifest = json.loads((self._folder / name).read_text())
        manifest["tools"].append(json.loads(text))
        (self._folder / name).write_text(json.dumps(manifest))

    def _type(self, command: str, expected: list[str]) -> None:
        program, *arguments = shlex.split(command)
        plugin = ["-p", "runtime_actors.pytest_plugin"] if program == "pytest" else []
        typed = [sys.executable, "-m", _MODULES[program], *plugin, *arguments]
        if arguments[0] == "dev":
            self._serve(typed, expected)
            return
        run = subprocess.run(
            typed,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        for line in expected:
            assert line in run.stdout + run.stderr, f"{command}: {run.stdout}{run.stderr}"

    def _serve(self, typed: list[str], expected: list[str]) -> None:
        """In the other terminal; what was served there is ended first."""
        self.close()
        path = self._folder / "out"
        out = path.open("wb")
        process = subprocess.Popen(
            typed, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        self._serving = (process, out)
        for line in expected:
            wait_until(line, partial(self._has_said, path, line), 40.0)

    @staticmethod
    def _has_said(path: Path, line: str) -> bool:
        return line in path.read_text()


@pytest.mark.timeout(240)
def test_a_reader_who_does_what_the_guide_says_sees_what_it_says(folder: Path) -> None:
    found = blocks()
    reader = Reader(folder)

    try:
        for block in found:
            reader.do(block)
    finally:
        reader.close()

    assert {block.kind for block in found} == {"console", "json", "python"}
    assert len(found) > 10
    assert read_scenario((folder / "counter" / "scenario.jsonl").read_text().splitlines())


def test_the_guide_names_each_promise() -> None:
    named = re.findall(
        r"^\| `([a-z-]+)` \| ", GUIDE.read_text().split(" Conformance (")[1].split("\n## ")[0], re.MULTILINE
    )

    assert named == [promise.id for promise in PROMISES]
