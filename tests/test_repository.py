"""What a newcomer, a packager and CI rely on before any code runs."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
TOP_LEVEL: Final = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "constraints.txt",
    "docs",
    "miniapp_worker",
    "miniapps",
    "pyproject.toml",
    "runtime_actors",
    "scripts",
    "tests",
}
MADE_BY_BUILDS: Final = {"build", "dist", "node_modules"}
COMMANDS: Final = ("scripts/demo", "scripts/test", "scripts/check", ".ci/run")
SHELL_FILES: Final = (*COMMANDS, "scripts/_env")


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def test_the_top_level_holds_what_it_promises_and_nothing_else() -> None:
    visible = {entry.name for entry in ROOT.iterdir() if not entry.name.startswith((".", "__pycache__"))}

    assert visible - MADE_BY_BUILDS == TOP_LEVEL


def test_the_readme_starts_with_the_two_commands_that_need_nothing_else() -> None:
    before, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition("```")
    _, _, block = rest.partition("\n")
    shown = [line.partition("#")[0].strip() for line in block.partition("```")[0].splitlines()]
    headings = [line for line in before.splitlines() if line.startswith("#")]

    assert [command for command in shown if command] == ["scripts/demo", "scripts/test"]
    assert len(headings) == 1
    assert len(before.splitlines()) < 10, "the commands come first"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_can_be_run_as_it_is(name: str) -> None:
    assert os.access(ROOT / name, os.X_OK)
    assert (ROOT / name).read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")


@pytest.mark.parametrize("name", SHELL_FILES)
def test_a_shell_file_has_no_syntax_error(name: str) -> None:
    checked = subprocess.run(["bash", "-n", ROOT / name], check=False, capture_output=True, text=True, timeout=5)

    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_changelog_starts_with_the_version_being_built() -> None:
    newest = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert newest is not None
    assert newest[1] == project()["version"]


def test_what_is_installed_has_the_version_being_built() -> None:
    installed = {found.version for found in distributions(name=project()["name"])}

    assert installed <= {project()["version"]}


def test_each_dependency_has_a_lower_bound_and_an_exact_version_in_the_constraints() -> None:
    asked = [*project()["dependencies"], *project()["optional-dependencies"]["dev"]]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {canonical(line.partition("==")[0]) for line in lines}

    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []
    assert [requirement for requirement in asked if ">=" not in requirement] == []
    assert {canonical(requirement.partition(">=")[0]) for requirement in asked} - pinned == set()


def canonical(name: str) -> str:
    """PyPA's normal form of a distribution's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
