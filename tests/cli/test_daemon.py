"""The commands against a real daemon, started and stopped by themselves."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest

from runtime_actors.cli import main
from runtime_actors.log import LEFT_OUT, left_out, set_up
from tests.e2e.daemon import ACCEPTED, wait_until

WAIT_S = 15.0
pytestmark = pytest.mark.xdist_group("cli-daemon")

OPEN = '{"task_id": "t1", "title": "A task"}'


class Lineup:
    """The command, for one state folder."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def __call__(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """In this process, which is quicker."""
        said, told = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(told):
            patch.setenv("LINEUP_STATE", str(self.state))
            patch.setattr("sys.stdin", io.StringIO(stdin))
            code = main(arguments)
        return subprocess.CompletedProcess(arguments, code, said.getvalue(), told.getvalue())

    def spawn(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "runtime_actors", *arguments, "--state", str(self.state)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def json(self, *arguments: str) -> list[dict[str, Any]]:
        done = self(*arguments, "--json")
        assert done.returncode in {0, 1, 3, 4}, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def status(self) -> dict[str, Any]:
        return self.json("status")[0]

    def wait(self, holds: Callable[[], bool]) -> None:
        wait_until("it holds", holds, WAIT_S)


def _processes_of(folder: str) -> list[psutil.Process]:
    return [one for one in psutil.process_iter(["cmdline"]) if folder in " ".join(one.info["cmdline"] or ())]


@pytest.fixture(scope="module")
def lineup() -> Iterator[Lineup]:
    with tempfile.TemporaryDirectory(prefix="lu-") as folder:
        command = Lineup(Path(folder))
        started = command.spawn("start", "--durability", "process", *ACCEPTED)
        try:
            assert started.returncode == 0, started.stderr
            assert started.stdout == f"ready {folder}/run/agent.sock\n"
            yield command
        finally:
            stopped = command.spawn("stop")
            assert stopped.returncode == 0, stopped.stderr
            command.wait(lambda: not _processes_of(folder))  # they are past their last lock, and may still be ending


def test_an_app_that_is_left_out_is_told_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "apps" / "broken").mkdir(parents=True)
    (tmp_path / "apps" / "broken" / "manifest.json").write_text("{")
    with tempfile.TemporaryDirectory(prefix="lu-") as folder:
        command = Lineup(Path(folder))
        try:
            started = command.spawn("start", "--durability", "process", "--apps", str(tmp_path / "apps"), *ACCEPTED)
        finally:
            command.spawn("stop")
            command.wait(lambda: not _processes_of(folder))

    assert started.returncode == 0
    assert [line.split(": ")[:2] for line in started.stderr.splitlines()] == [["lineup", "left out"]]
    assert "manifest.json: " in started.stderr


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_log_of_either_format_tells_which_app_was_left_out(
    log_format: Literal["text", "json"], capsys: pytest.CaptureFixture[str]
) -> None:
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        set_up(log_format)
        logging.getLogger("lineup").warning("%s%s", LEFT_OUT, 'apps/"one": why')
    finally:
        logging.root.handlers[:], logging.root.level = handlers, level

    assert left_out(capsys.readouterr().err.strip()) == 'apps/"one": why'


def test_a_second_daemon_is_refused_with_3_and_the_first_goes_on(lineup: Lineup) -> None:
    before = lineup.status()["pid"]

    again, in_front = lineup.spawn("start"), lineup.spawn("run")

    assert (again.returncode, in_front.returncode) == (3, 3)
    assert "lineup stop" in again.stderr
    assert lineup.status()["pid"] == before


def test_status_tells_queues_restarts_latency_and_memory(lineup: Lineup) -> None:
    status = lineup.status()

    assert status["running"] is True
    assert {"queues", "restarts", "commit", "memory", "pid", "watcher_pid"} <= set(status)
    assert lineup("status").returncode == 0


def test_listings_have_the_fields_that_scripts_rely_on(lineup: Lineup) -> None:
    lineup(
        "agent", "call", "task-dashboard.open", OPEN, "--conversation", "list", "--call-id", "open", "--timeout", "1"
    )

    [instance] = [row for row in lineup.json("ps") if row["conversation_id"] == "list"]
    [inventory] = lineup.json("inventory")
    [call] = lineup.json("call", "open")

    named = "instance_id app_scope conversation_id state attempt_id pid level rss_bytes started_at"
    assert set(named.split()) <= set(instance)
    assert {"revision", "apps", "tools"} <= set(inventory)
    assert (call["status"], call["input"]) == ("running", json.loads(OPEN))
    assert {"app_scope", "enabled"} <= set(lineup.json("apps")[0])
    assert "open" in {row["call_id"] for row in lineup.json("calls", "--conversation", "list")}
    assert instance["instance_id"] in lineup.json("focus")[0]["stack"] or len(lineup.json("focus")) > 1
    for what in ("apps", "inventory", "ps", "calls", "inbox", "outbox", "focus", "audit"):
        shown = lineup(what)
        assert shown.returncode == 0, (what, shown.stderr)
    assert lineup("logs", instance["instance_id"]).returncode == 0


def test_a_call_that_nobody_made_is_not_found(lineup: Lineup) -> None:
    done = lineup("call", "nobody-made-this")

    assert done.returncode == 1
    assert "lineup calls" in done.stderr


def test_a_whole_call_is_one_command(lineup: Lineup) -> None:
    lineup("agent", "call", "task-dashboard.open", OPEN, "--conversation", "whole", "--timeout", "0")

    done = lineup(
        "agent",
        "call",
        "task-dashboard.update",
        "-",
        "--conversation",
        "whole",
        "--json",
        stdin='{"task_id": "t1", "progress": 5}',
    )

    last = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    assert last["result"]["progress"] == 5


def test_a_cancelled_call_ends_cancelled(lineup: Lineup) -> None:
    lineup("agent", "call", "task-dashboard.open", OPEN, "--conversation", "cancel", "--call-id", "c", "--timeout", "1")

    done = lineup("agent", "cancel", "c", "--conversation", "cancel")

    assert done.returncode == 0, done.stderr
    lineup.wait(lambda: lineup.json("call", "c")[0]["status"] == "cancelled")


def test_a_disabled_tool_is_refused_until_it_is_enabled_again(lineup: Lineup) -> None:
    assert lineup("tool", "disable", "task-dashboard.open").returncode == 0
    refused = lineup("agent", "call", "task-dashboard.open", OPEN, "--conversation", "off", "--json")
    assert lineup("tool", "enable", "task-dashboard.open").returncode == 0

    assert refused.returncode == 3
    assert json.loads(refused.stdout)["code"] in {"app_disabled", "tool_not_advertised"}
    assert lineup("app", "disable", "no-such-app").returncode == 3


def test_a_new_agent_can_call_and_cannot_see_another_agents_conversation(lineup: Lineup) -> None:
    added = lineup("agent", "add", "second")
    lineup("agent", "call", "task-dashboard.open", OPEN, "--conversation", "mine", "--timeout", "0")

    denied = lineup("agent", "call", "task-dashboard.open", OPEN, "--conversation", "mine", "--as", "second", "--json")

    assert added.returncode == 0, added.stderr
    assert (lineup.state / "tokens" / "second").stat().st_mode & 0o777 == 0o600
    assert (lineup.state / "tokens" / "second").read_text().strip() not in added.stdout
    assert denied.returncode == 3
    assert json.loads(denied.stdout)["code"] == "conversation_denied"
    assert lineup("agent", "add", "second").returncode == 0


def test_a_killed_worker_is_replaced_and_the_call_goes_on(lineup: Lineup) -> None:
    lineup("agent", "call", "task-dashboard.open", OPEN, "--conversation", "kill", "--call-id", "k", "--timeout", "1")
    [before] = [row for row in lineup.json("ps") if row["conversation_id"] == "kill"]

    killed = lineup("kill", before["instance_id"])

    assert killed.returncode == 0, killed.stderr
    lineup.wait(
        lambda: any(r["conversation_id"] == "kill" and r["pid"] not in {None, before["pid"]} for r in lineup.json("ps"))
    )
    assert lineup("kill", "ins-nobody").returncode == 3


def test_the_prompt_speaks_plainly_when_it_is_no_terminal(lineup: Lineup) -> None:
    typed = f"tools\nconversation plain\ncall task-dashboard.open {OPEN}\ncall nothing.here {{}}\ncalls\n"

    done = lineup("agent", stdin=typed)

    assert done.returncode == 0, done.stderr
    assert "task-dashboard.open" in done.stdout
    assert "tool_not_advertised" in done.stdout
    assert "now in conversation plain" in done.stdout


def test_a_scenario_stops_at_the_first_step_that_fails(lineup: Lineup, tmp_path: Path) -> None:
    scenario = tmp_path / "s.jsonl"
    scenario.write_text(
        "# a comment\n"
        f'{{"do": "call", "tool": "task-dashboard.open", "input": {OPEN}, "call_id": "s", "conversation": "script"}}\n'
        '{"do": "expect", "call_id": "s", "conversation": "script", "status": "completed"}\n'
        '{"do": "audit"}\n'
    )

    rows = lineup.json("agent", "script", str(scenario))

    assert [(row["step"], row["ok"]) for row in rows] == [(1, True), (2, False)]
    scenario.write_text('{"do": "dance"}\n')
    assert lineup("agent", "script", str(scenario)).returncode == 2


def test_the_audit_log_is_listed_and_verified(lineup: Lineup) -> None:
    entries = lineup.json("audit", "--all")

    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert lineup.json("audit", "verify")[0]["entries"] >= len(entries)


def test_a_broken_pipe_is_no_error_message(lineup: Lineup) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m runtime_actors audit --all --json --state {lineup.state} | head -n 1"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.stderr == ""


def test_the_watcher_starts_a_killed_daemon_again_and_calls_survive(lineup: Lineup) -> None:
    lineup("agent", "call", "task-dashboard.open", OPEN, "--conversation", "crash", "--call-id", "x", "--timeout", "1")
    before = lineup.status()

    os.kill(before["pid"], signal.SIGKILL)

    lineup.wait(lambda: lineup.status().get("pid", before["pid"]) != before["pid"])
    assert lineup.status()["watcher_pid"] == before["watcher_pid"]
    lineup.wait(lambda: lineup.json("call", "x")[0]["status"] == "running")
    assert lineup("audit", "verify").returncode == 0


def test_a_backup_is_restored_only_when_the_daemon_is_stopped(lineup: Lineup, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    made = lineup("backup", str(copy))
    assert made.returncode == 0, made.stderr
    assert lineup("backup", str(copy)).returncode == 2
    assert lineup("restore", str(copy)).returncode == 3

    with tempfile.TemporaryDirectory(prefix="lu-") as folder:
        other = Lineup(Path(folder))
        restored = other("restore", str(copy))
        started = other.spawn("start", *ACCEPTED)
        try:
            assert restored.returncode == 0, restored.stderr
            assert started.returncode == 0, started.stderr
            assert {row["call_id"] for row in other.json("calls")} >= {row["call_id"] for row in lineup.json("calls")}
        finally:
            assert other.spawn("stop").returncode == 0


def test_stopping_and_asking_when_nothing_runs_are_sentences(tmp_path: Path) -> None:
    nothing = Lineup(tmp_path)

    stopped, asked = nothing.spawn("stop"), nothing("status")

    assert (stopped.returncode, stopped.stderr) == (0, "lineup: not running\n")
    assert asked.returncode == 1
    assert nothing.json("status") == [{"running": False, "watcher_pid": None, "state": str(tmp_path)}]


def test_validate_names_each_fault_with_its_path(lineup: Lineup, tmp_path: Path) -> None:
    good = lineup("validate", "miniapps/task_dashboard")
    manifest = json.loads(Path("miniapps/task_dashboard/manifest.json").read_text())
    manifest["tools"][0]["input_schema"]["properties"]["task_id"]["pattern"] = "x"
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "app.py").write_text("")

    bad = lineup.json("validate", str(tmp_path))

    assert good.returncode == 0, good.stdout
    assert [row["path"] for row in bad] == ["/tools/0/input_schema/properties/task_id/pattern"]
    assert lineup("validate", str(tmp_path / "nowhere")).returncode == 1
