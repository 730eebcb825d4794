"""The pytest plugin: a real process, a real runtime, real kills."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runtime_actors.authoring.daemon import PROCESS
from runtime_actors.authoring.runtime import PrivateRuntime
from tests.authoring.conftest import run_pytest
from tests.e2e.daemon import ROOT

pytestmark = pytest.mark.timeout(240)  # it starts whole test runs


def test_a_run_that_does_not_use_it_loads_nothing_of_the_runtime() -> None:
    code = (
        "import sys, runtime_actors.pytest_plugin; print({'pydantic', 'zmq', 'hypothesis', 'rich'} & set(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert loaded.stdout.strip() == "set()"


def test_a_run_that_does_not_use_it_says_nothing_of_it(folder: Path) -> None:
    (folder / "test_other.py").write_text("def test_other():\n    assert True\n")

    run = run_pytest(cwd=folder)

    assert run.returncode == 0
    assert "lineup" not in run.stdout.replace("runtime_actors.pytest_plugin", "")


def test_the_app_may_be_named_by_the_ini_option_or_a_mark(tea: Path) -> None:
    aside = tea.parent / "aside"
    aside.mkdir()
    wants = "def test_it(lineup_app):\n    assert lineup_app.app_scope == 'tea'\n"
    (aside / "test_ini.py").write_text(wants)
    (aside / "test_mark.py").write_text(f"import pytest\n\n@pytest.mark.lineup_app({str(tea)!r})\n{wants}")

    by_ini = run_pytest("-q", "test_ini.py", "-o", "lineup_app=../tea", "--rootdir=.", cwd=aside)
    by_mark = run_pytest("-q", "--strict-markers", "test_mark.py", cwd=aside)
    by_nobody = run_pytest("-q", "test_ini.py", cwd=aside)

    assert (by_ini.returncode, by_mark.returncode) == (0, 0), by_ini.stdout + by_mark.stdout
    assert by_nobody.returncode == 1
    assert "name the app's by the ini option lineup_app" in by_nobody.stdout


def test_a_failing_test_shows_where_the_call_is_and_what_the_app_printed(tea: Path) -> None:
    text = (tea / "app.py").read_text()
    (tea / "app.py").write_text(
        text.replace("    checklist = Checklist(sdk)", "    print('good morning')\n    checklist = Checklist(sdk)")
    )
    (tea / "tests" / "test_app.py").write_text(
        "def test_it_ends(lineup_app):\n    lineup_app.call('tea.start', {'steps': ['boil']}).result(timeout_s=1)\n"
    )

    run = run_pytest(cwd=tea)

    assert run.returncode == 1
    assert "of tea.start is running, and not over" in run.stdout
    assert "tea printed" in run.stdout
    assert "good morning" in run.stdout


def test_an_app_that_forgets_fails_the_kill_it_does_not_survive(tea: Path) -> None:
    text = (tea / "app.py").read_text()
    assert 'list(known["ticked"]) if known else []' in text
    (tea / "app.py").write_text(text.replace('list(known["ticked"]) if known else []', "[]"))

    run = run_pytest("-q", "-k", "survives", cwd=tea)

    assert run.returncode == 1
    assert "1 failed" in run.stdout


def test_where_workers_cannot_be_confined_it_goes_on_and_says_so(tea: Path) -> None:
    (tea / "conftest.py").write_text(
        "from runtime_actors.authoring import runtime\nruntime._OPTIONS = (*runtime._OPTIONS, '--landlock-abi=0')\n"
    )

    run = run_pytest("-q", "-k", "cancel", cwd=tea)

    assert run.returncode == 0, run.stdout
    assert run.stdout.count("lineup: this machine cannot confine MiniApps") == 1


def test_the_runtime_leaves_no_process_and_no_folder(tea: Path) -> None:
    with PrivateRuntime(tea, options=("--landlock-abi=0",)) as runtime:
        ground = runtime.state.parent
        call = runtime.call("tea.start", {"steps": ["boil"]}, runtime.new_conversation())
        call.running()
        call.survives()
        assert runtime.daemon.isolation == PROCESS
        assert runtime.daemon.starts == 2

    assert not ground.exists()
