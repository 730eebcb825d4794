"""`lineup dev`: an app that is changed while it runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from runtime_actors.authoring.changes import Changes
from tests.authoring.conftest import LINEUP, lineup
from tests.e2e.daemon import ROOT, is_alive, wait_until


class Dev:
    """`lineup dev` in a process, and what it said so far."""

    def __init__(self, app: Path) -> None:
        self.app = app
        self.state = app.parent / "state"
        self._out = app.parent / "out"
        with self._out.open("wb") as out:
            command = [*LINEUP, "dev", str(app), f"--state={self.state}"]
            environment = os.environ | {"PYTHONUNBUFFERED": "1"}
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
            )

    def hear(self, text: str, times: int = 1) -> None:
        def look() -> bool:
            assert self.process.poll() is None, self.said
            return self.said.count(text) >= times

        wait_until(f"{text!r} to be said {times} times", look, 40.0)

    @property
    def said(self) -> str:
        return self._out.read_text(errors="replace")

    def call(self, tool: str, given: object) -> str:
        made = lineup("agent", "call", tool, json.dumps(given), "--timeout=5", f"--state={self.state}")
        return made.stdout.strip()

    def replace(self, name: str, old: str, new: str) -> None:
        path = self.app / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


@pytest.fixture
def dev(tea: Path) -> Iterator[Dev]:
    one = Dev(tea)
    yield one
    if one.process.poll() is None:
        one.process.send_signal(signal.SIGINT)
        one.process.wait(20)


def test_an_open_call_goes_on_in_the_next_version(dev: Dev) -> None:
    dev.hear("is served")
    lineup("agent", "call", "tea.start", '{"steps": ["boil", "pour"]}', "--timeout=0.5", f"--state={dev.state}")
    dev.hear("of tea.start in main: running")

    dev.replace("app.py", "class Checklist:", "print('the second version')\n\n\nclass Checklist:")
    dev.hear("changed: app.py")
    dev.hear("is served", 2)
    dev.hear("| the second version")

    assert json.loads(dev.call("tea.tick", {"step": "boil"})) == {"left": 1}
    dev.hear("of tea.tick in main: completed")


def test_a_mistake_is_told_with_its_place_and_the_version_before_runs_on(dev: Dev) -> None:
    dev.hear("is served")

    dev.replace("manifest.json", '"handling": "launch"', '"handling": "lunch"')
    dev.hear("/tools/0/handling")
    dev.hear("the version before runs on")
    lineup("agent", "call", "tea.start", '{"steps": ["boil", "pour"]}', "--timeout=0.5", f"--state={dev.state}")
    dev.hear("of tea.start in main: running")
    dev.replace("manifest.json", '"handling": "lunch"', '"handling": "launch"')
    dev.hear("is served", 2)
    dev.replace("app.py", "class Checklist:", "class Checklist")

    dev.hear("app.py, line ")


def test_a_mistake_that_shows_only_at_the_start_leaves_nothing_running_and_that_is_said(dev: Dev) -> None:
    dev.hear("is served")

    dev.replace("manifest.json", '"title": "Tea"', '"title": "Whiteboard"')
    dev.hear("reads like the title of another app")
    dev.hear("nothing runs until this is mended")
    dev.replace("manifest.json", '"handling": "launch"', '"handling": "lunch"')
    dev.hear("nothing runs until this is mended", 2)
    dev.replace("manifest.json", '"handling": "lunch"', '"handling": "launch"')
    dev.replace("manifest.json", '"title": "Whiteboard"', '"title": "Tea"')

    dev.hear("is served", 2)
    assert "the version before runs on" not in dev.said
    assert (dev.state / "logs" / "daemon.log").exists()
    assert sorted(path.name for path in dev.app.parent.iterdir()) == ["out", "state", "tea"]


def test_a_daemon_that_must_have_all_apps_ends_no_call_for_a_mistake(dev: Dev) -> None:
    dev.hear("is served")
    lineup("agent", "call", "tea.start", '{"steps": ["boil"]}', "--timeout=0.5", f"--state={dev.state}")
    dev.hear("of tea.start in main: running")
    dev.process.send_signal(signal.SIGTERM)
    assert dev.process.wait(20) == 0
    dev.replace("manifest.json", '"handling": "launch"', '"handling": "lunch"')
    started = lineup("run", "--all-apps", f"--apps={dev.app}", f"--state={dev.state}")
    assert (started.returncode, "/tools/0/handling" in started.stderr) == (2, True)
    dev.replace("manifest.json", '"handling": "lunch"', '"handling": "launch"')

    again = Dev(dev.app)
    try:
        again.hear("of tea.start in main: running")
        assert json.loads(again.call("tea.tick", {"step": "boil"})) == {"left": 0}
    finally:
        again.process.send_signal(signal.SIGTERM)
        again.process.wait(20)


def test_what_no_change_of_the_app_would_mend_ends_it(dev: Dev, tmp_path: Path) -> None:
    dev.hear("is served")

    second = lineup("dev", str(dev.app), f"--state={dev.state}")
    nothing = lineup("dev", str(tmp_path))

    assert second.returncode == nothing.returncode == 1
    assert "another daemon" in second.stderr
    assert "there is no manifest.json" in nothing.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_and_its_kind_end_all_of_it(dev: Dev, number: signal.Signals) -> None:
    dev.hear("is served")
    family = psutil.Process(dev.process.pid).children(recursive=True)

    dev.process.send_signal(number)
    code = dev.process.wait(20)

    assert family
    assert not any(map(is_alive, family))
    assert code == 0
    assert "stopped" in dev.said


def test_each_change_is_seen_once_and_what_is_no_part_of_the_app_never(folder: Path) -> None:
    (folder / "pages").mkdir()
    (folder / "pages" / "a.html").write_text("1")
    (folder / "gone.py").write_text("")
    changes = Changes(folder)

    (folder / "pages" / "a.html").write_text("22")
    (folder / "new.py").write_text("")
    (folder / "gone.py").unlink()
    (folder / ".swap").write_text("")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "new.pyc").write_text("")

    assert changes.look() == ["gone.py", "new.py", "pages/a.html"]
    assert changes.look() == []
