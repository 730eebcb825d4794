"""An agent in another language (docs/examples/agent.mjs), written from the protocol page alone, and a real daemon."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import ACCEPTED

pytestmark = [pytest.mark.xdist_group("node-agent"), pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples"
INSTALL_S = 150
AGENT_S = 60
REFUSED = 3
PROBE = ROOT / "tests" / "apps" / "probe"
ECHO = "probe.echo"
TEXT = {"text": "Written in another language"}


@pytest.fixture(scope="module")
def agent_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its packages; tests that need it are skipped where they cannot be had."""
    for needed in ("node", "npm"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    folder = tmp_path_factory.mktemp("node-agent")
    for name in ("agent.mjs", "package.json"):
        shutil.copy(EXAMPLE / name, folder)
    try:
        installed = subprocess.run(
            # Without scripts: the packages bring what they need built, and nothing foreign runs at installation.
            ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm install took more than {INSTALL_S} s")
    if installed.returncode != 0:
        pytest.skip(f"npm install failed: {installed.stderr.strip().splitlines()[:1]}")
    return folder


class Daemon:
    """A runtime with a state folder of its own, that can be killed and started again."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        options = ["--state", str(self.state), "--apps", str(PROBE)]
        command = [sys.executable, "-m", "runtime_actors", "run", *ACCEPTED, *options]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if not said.startswith("ready "):
            self.kill()
        assert said.startswith("ready ")

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait(AGENT_S)
        self.process.stdout.close()
        self.process = None

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(10)
        finally:
            self.kill()


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    # Not tmp_path: the path of a Unix socket holds 107 bytes.
    with tempfile.TemporaryDirectory(prefix="lineup-", ignore_cleanup_errors=True) as folder:
        made = Daemon(Path(folder))
        made.start()
        yield made
        made.stop()


class Said:
    """What one run of the agent printed, and how it ended."""

    def __init__(self, output: str, exit_code: int) -> None:
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
        self.exit_code = exit_code

    def of(self, what: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["what"] == what]


class Agents:
    """Runs of the example."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def start(self, state: Path, tool: str, value: dict[str, Any], call_id: str | None = None) -> subprocess.Popen[str]:
        command = ["node", "agent.mjs", str(state), tool, json.dumps(value), *([call_id] if call_id else [])]
        agent = subprocess.Popen(command, cwd=self._folder, stdout=subprocess.PIPE, text=True)
        self._started.append(agent)
        return agent

    def run(self, state: Path, tool: str, value: dict[str, Any], call_id: str | None = None) -> Said:
        return wait_for(self.start(state, tool, value, call_id))

    def kill(self) -> None:
        for agent in self._started:
            assert agent.stdout is not None
            agent.kill()
            agent.wait(AGENT_S)
            agent.stdout.close()


def wait_for(agent: subprocess.Popen[str], already: str = "") -> Said:
    assert agent.stdout is not None
    too_long = threading.Timer(AGENT_S, agent.kill)
    too_long.start()
    try:
        output = agent.stdout.read()  # not communicate(): some may wait in the buffer of this file already
        return Said(already + output, agent.wait(AGENT_S))
    finally:
        too_long.cancel()


@pytest.fixture
def agents(agent_folder: Path) -> Iterator[Agents]:
    made = Agents(agent_folder)
    yield made
    made.kill()


def test_it_attaches_calls_a_tool_and_gets_the_result(agents: Agents, daemon: Daemon) -> None:
    said = agents.run(daemon.state, ECHO, TEXT)

    assert [line["agent"] for line in said.of("attached")] == ["local"]
    assert ECHO in said.of("inventory")[0]["tools"]
    assert [line["repeated"] for line in said.of("state")] == [False]
    assert [line["status"] for line in said.of("final")] == ["completed"]
    assert said.exit_code == 0


def test_a_repeated_call_is_answered_with_its_state_and_another_body_is_a_conflict(
    agents: Agents, daemon: Daemon
) -> None:
    first = agents.run(daemon.state, ECHO, TEXT, "call-1")

    again = agents.run(daemon.state, ECHO, TEXT, "call-1")
    other = agents.run(daemon.state, ECHO, {"text": "Another"}, "call-1")

    assert again.of("state")[0] | {"audit": None} == {
        "what": "state",
        "call_id": "call-1",
        "status": "completed",
        "repeated": True,
        "audit": None,
    }
    assert again.of("final") == first.of("final")
    assert [line["code"] for line in other.of("refused")] == ["call_id_conflict"]
    assert other.exit_code == REFUSED


@pytest.mark.parametrize(
    ("tool", "value", "code"),
    [
        ("probe.nowhere", {}, "tool_not_advertised"),
        (ECHO, {"text": 7}, "tool_input_invalid"),
    ],
)
def test_it_is_refused_as_the_page_says(
    agents: Agents, daemon: Daemon, tool: str, value: dict[str, Any], code: str
) -> None:
    said = agents.run(daemon.state, tool, value)

    assert [line["code"] for line in said.of("refused")] == [code]
    assert said.exit_code == REFUSED


def test_a_wrong_token_is_refused(agents: Agents, daemon: Daemon) -> None:
    with tempfile.TemporaryDirectory(prefix="lineup-") as folder:
        stranger = Path(folder)
        (stranger / "tokens").mkdir()
        (stranger / "tokens" / "local").write_text("not the token")
        (stranger / "run").symlink_to(daemon.state / "run")

        said = agents.run(stranger, ECHO, TEXT)

    assert [line["code"] for line in said.of("refused")] == ["attach_denied"]
    assert said.exit_code == REFUSED


def test_it_resumes_when_the_daemon_is_killed_under_it(agents: Agents, daemon: Daemon) -> None:
    agent = agents.start(daemon.state, ECHO, TEXT)
    assert agent.stdout is not None
    seen = ""
    while '"inventory"' not in seen:  # its call is on its way, or about to be
        seen += agent.stdout.readline()

    daemon.kill()
    daemon.start()
    said = wait_for(agent, seen)

    assert [line["status"] for line in said.of("final")] == ["completed"]
    assert said.exit_code == 0


def test_it_waits_for_a_daemon_that_is_not_up_yet(agents: Agents, daemon: Daemon) -> None:
    daemon.kill()
    agent = agents.start(daemon.state, ECHO, TEXT)

    daemon.start()
    said = wait_for(agent)

    assert [line["status"] for line in said.of("final")] == ["completed"]
    assert said.exit_code == 0
