"""`python -m runtime_actors.checker FOLDER`, as an operator meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runtime_actors.checker import RULES, figures, files
from runtime_actors.checker.__main__ import main
from tests.checker.evidence import evidence, recorded, spoilt

ROOT = Path(__file__).parents[2]

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run that kept every promise."""
    files.write(tmp_path, recorded(), seed=7, required={"duplicates": 1})
    return tmp_path


def test_what_was_written_is_what_is_read(folder: Path) -> None:
    seen, required = files.read(folder)

    assert required == {"duplicates": 1}
    assert replace(seen, history=[]) == replace(recorded(), history=[])
    assert sorted(seen.history, key=json.dumps) == sorted(recorded().history, key=json.dumps)
    assert len(list((folder / "histories").iterdir())) == len({row["by"] for row in recorded().history})


def test_a_run_that_kept_every_promise_ends_with_0(folder: Path, capsys: Capture) -> None:
    assert main([str(folder)]) == 0
    assert "no rule is broken" in capsys.readouterr().out


def test_a_broken_rule_is_shown_with_its_shortest_history(tmp_path: Path, capsys: Capture) -> None:
    run = spoilt()
    run.result()["body"]["call"]["result"]["text"] = "~"
    files.write(tmp_path, evidence(run))

    assert main([str(tmp_path)]) == 1

    said = capsys.readouterr().out
    assert RULES["end-disagrees"] in said
    assert '"what": "delivered"' in said
    assert max(map(len, said.splitlines())) < 700


def test_a_program_reads_the_same_as_json(tmp_path: Path, capsys: Capture) -> None:
    run = spoilt()
    run.listings["calls"].pop()
    files.write(tmp_path, evidence(run))

    assert main([str(tmp_path), "--json"]) == 1

    told = json.loads(capsys.readouterr().out)
    assert {one["rule"] for one in told["violations"]} == {"calls-differ"}
    assert {one["kind"] for one in told["violations"]} == {"safety"}
    assert told["violations"][0]["shortest"]
    assert told["figures"] == figures(recorded())


def test_a_run_that_proves_too_little_ends_with_1(folder: Path, capsys: Capture) -> None:
    files.write(folder, recorded(), required={"fault full-disk": 1})

    assert main([str(folder)]) == 1
    assert "fault full-disk: 0" in capsys.readouterr().out


def test_the_last_line_of_a_client_that_was_killed_never_happened(folder: Path) -> None:
    path = next((folder / "histories").glob("probe-*.jsonl"))
    path.write_text(path.read_text() + '{"what": "given", "at": 1')

    assert main([str(folder)]) == 0


def _cut_in_the_middle(folder: Path) -> None:
    path = next((folder / "histories").glob("local-*.jsonl"))
    path.write_text('{"what": "ok"\n' + path.read_text())


def _no_audit(folder: Path) -> None:
    (folder / "audit.jsonl").unlink()


def _odd_audit(folder: Path) -> None:
    (folder / "audit.jsonl").write_text('{"seq": 1}\n')


def _odd_bytes(folder: Path) -> None:
    (folder / "audit.jsonl").write_bytes(b"\xff\xfe")


def _no_listing(folder: Path) -> None:
    (folder / "listings.json").write_text("{}")


def _odd_run(folder: Path) -> None:
    (folder / "run.json").write_text('{"once": "probe.once"}')


def _odd_body(folder: Path) -> None:
    path = next((folder / "histories").glob("local-*.jsonl"))
    path.write_text(path.read_text().replace('"call_id"', '"call"'))


def _no_histories(folder: Path) -> None:
    for path in (folder / "histories").iterdir():
        path.unlink()


@pytest.mark.parametrize(
    "spoil", [_cut_in_the_middle, _no_audit, _odd_audit, _odd_bytes, _no_listing, _odd_run, _odd_body, _no_histories]
)
def test_what_cannot_be_read_is_said_in_words(folder: Path, spoil: Callable[[Path], None], capsys: Capture) -> None:
    spoil(folder)

    assert main([str(folder)]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("cannot be checked: ")
    assert "Traceback" not in said.err


def test_it_is_a_command_that_loads_nothing_of_the_runtime(folder: Path) -> None:
    look = (
        "import sys, runpy\n"
        "sys.argv = ['checker', sys.argv[1]]\n"
        "try:\n runpy.run_module('runtime_actors.checker', run_name='__main__')\n"
        "except SystemExit as end:\n code = end.code\n"
        "ours = {name for name in sys.modules if name.startswith('runtime_actors.')}\n"
        "assert all(name.startswith('runtime_actors.checker') for name in ours), ours\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", look, folder], cwd=ROOT, capture_output=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, b"")


def test_the_page_tells_of_every_rule() -> None:
    page = (ROOT / "docs" / "history.md").read_text()

    assert [name for name, sentence in RULES.items() if f"| `{name}` | {sentence} |" not in page] == []
