"""`lineup new`: what it writes runs, is tested, and keeps every promise, untouched."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from runtime_actors import registry
from runtime_actors.authoring.scaffold import FILES, CannotMake, make
from runtime_actors.simulator import Player, read_scenario
from tests.authoring.conftest import lineup, run_pytest
from tests.e2e.daemon import Daemon

pytestmark = pytest.mark.timeout(240)  # it starts whole test runs


def test_the_app_is_named_after_its_folder_everywhere(folder: Path) -> None:
    written = make(folder / "my-list")

    manifest = json.loads((folder / "my-list" / "manifest.json").read_text())
    assert manifest["app_scope"] == "my-list"
    assert [tool["id"] for tool in manifest["tools"]] == ["my-list.start", "my-list.tick", "my-list.clear"]
    assert [path.relative_to(folder / "my-list").as_posix() for path in written] == list(FILES)
    assert manifest["extensions"]["title"] == "My list"
    assert manifest["extensions"]["description"].startswith("My list: ")
    assert not any("example" in path.read_text().lower() for path in written)


def test_two_of_them_are_served_side_by_side(folder: Path) -> None:
    made = [make(folder / name)[0].parent for name in ("tea", "coffee")]

    _, refused = registry.load(made)

    assert refused == []


@pytest.mark.parametrize(
    ("name", "proposed"),
    [
        ("runtime", "'app'"),
        ("my-lineup", "'my'"),
        ("lineup-tools", "'tools'"),
        ("line-up", "'app'"),
        ("lineups", "'s'"),
        ("chat", "'my-chat'"),
        ("interact", "'my-interact'"),
    ],
)
def test_a_name_that_could_not_be_served_is_refused_with_one_that_can(folder: Path, name: str, proposed: str) -> None:
    with pytest.raises(CannotMake, match=proposed):
        make(folder / name)


def test_workers_with_a_uid_of_their_own_can_read_it_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        written = make(folder / "tea")
    finally:
        os.umask(before)

    assert all(path.stat().st_mode & stat.S_IROTH for path in written)
    assert stat.S_IMODE((folder / "tea").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("name", "proposed"), [("My List", "'my-list'"), ("2fast", "'app-2fast'"), ("a_b", "'a-b'"), ("Ünï", "'n'")]
)
def test_a_name_that_cannot_be_a_scope_is_refused_with_one_that_can(folder: Path, name: str, proposed: str) -> None:
    with pytest.raises(CannotMake, match=proposed):
        make(folder / name)

    assert list(folder.iterdir()) == []


def test_a_name_that_a_packaged_app_has_is_refused(folder: Path) -> None:
    with pytest.raises(CannotMake, match="packaged"):
        make(folder / "task-dashboard")


def test_a_folder_that_is_not_empty_is_left_alone(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.txt").write_text("years of work")

    refused = lineup("new", str(folder / "mine"))

    assert refused.returncode == 1
    assert "not empty" in refused.stderr
    assert [path.name for path in (folder / "mine").iterdir()] == ["thesis.txt"]


def test_an_empty_folder_is_filled(folder: Path) -> None:
    (folder / "tea").mkdir()

    assert lineup("new", str(folder / "tea")).returncode == 0
    assert lineup("validate", str(folder / "tea")).returncode == 0


def test_its_own_tests_pass_with_every_kill(tea: Path) -> None:
    run = run_pytest("-q", "-rs", cwd=tea)

    assert run.returncode == 0, run.stdout
    assert "10 passed, 1 skipped" in run.stdout
    assert "no kill after ack" in run.stdout  # it never acknowledges: reporting progress takes a call over too


def test_it_keeps_every_promise(tea: Path) -> None:
    run = lineup("conformance", str(tea), "--json")

    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert [one["id"] for one in found if one["holds"] is not True] == []
    assert run.returncode == 0


def test_its_scenario_holds_under_chaos(tea: Path) -> None:
    run = lineup("chaos", str(tea / "scenario.jsonl"), "--app", str(tea), "--runs", "3", "--seed", "1")

    assert run.returncode == 0, run.stdout + run.stderr
    assert "all 3 runs held" in run.stdout


def test_its_scenario_plays(tea: Path) -> None:
    steps = read_scenario((tea / "scenario.jsonl").read_text().splitlines())

    with Daemon(tea.parent / "state", apps=[tea]) as daemon:
        daemon.start()
        with Player(daemon.state) as player:
            played = list(player.play(steps))

    assert [one.detail for one in played if not one.ok] == []
    assert len(played) == len(steps)
