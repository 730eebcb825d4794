"""`lineup conformance` finds the broken promise, and no other, in apps that were made to break it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtime_actors.authoring.promises import PROMISES
from tests.authoring.conftest import lineup
from tests.e2e.daemon import ROOT

pytestmark = pytest.mark.timeout(240)  # each starts daemons, and waits for what does not come

BAD_APPS = Path(__file__).with_name("bad_apps")
PLANTED = {
    "blocks": "answers-beats",
    "clings": "honours-stop",
    "deaf": "honours-cancel",
    "forgets": "survives-kills",
    "ignores": "serves-tools",
    "leaves": "stays-alive",
    "lies": "valid-outputs",
    "panics": "late-news",
    "shouts": "quiet-output",
    "shrugs": "takes-close",
    "stumbles": "valid-inputs",
    "unlawful": "manifest",
    "unready": "starts",
}


def tried(app: Path, *more: str) -> tuple[int, list[dict[str, Any]]]:
    run = lineup("conformance", str(app), "--json", *more)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert [one["id"] for one in found] == [promise.id for promise in PROMISES], run.stdout + run.stderr
    return run.returncode, found


def broken(found: list[dict[str, Any]]) -> list[str]:
    return [one["id"] for one in found if one["holds"] is False]


@pytest.mark.parametrize("app", sorted(PLANTED))
def test_a_planted_fault_is_found_by_the_promise_it_breaks(app: str) -> None:
    code, found = tried(BAD_APPS / app)

    assert broken(found) == [PLANTED[app]]
    assert code == 1


def test_each_bad_app_is_tried() -> None:
    assert {path.name for path in BAD_APPS.iterdir()} == set(PLANTED)


@pytest.mark.parametrize("app", sorted(path.parent.name for path in (ROOT / "miniapps").glob("*/manifest.json")))
def test_a_packaged_app_keeps_every_promise(app: str) -> None:
    code, found = tried(ROOT / "miniapps" / app)

    assert broken(found) == []
    assert all(one["holds"] for one in found)
    assert code == 0


def test_an_input_that_its_author_gave_must_not_fail(tea: Path) -> None:
    code, found = tried(
        tea, "--tool-input", "tea.start", '{"steps": ["boil"]}', "--tool-input", "tea.tick", '{"step": "fly"}'
    )

    assert broken(found) == ["serves-tools"]
    assert "app.unknown_step" in next(one["detail"] for one in found if one["id"] == "serves-tools")
    assert code == 1


def test_a_person_sees_a_table_and_the_sentence_of_what_is_broken() -> None:
    run = lineup("conformance", str(BAD_APPS / "unready"))

    assert "starts: It is imported and ready within ten seconds. (section 3)" in run.stdout
    assert "1 of 15 promises are broken: starts" in run.stdout
    assert "cannot import name 'Nonsense'" in run.stdout
    assert run.returncode == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("tea.nap", "{}"), "has no tool tea.nap"),
        (("tea.start", "steps"), "is not JSON"),
        (("tea.start", "[]"), "is no JSON object"),
        (("tea.start", '{"steps": 7}'), "breaks 'type' at /steps"),
    ],
)
def test_an_input_that_cannot_be_used_is_refused(tea: Path, given: tuple[str, str], said: str) -> None:
    run = lineup("conformance", str(tea), "--tool-input", *given)

    assert said in run.stdout + run.stderr
    assert run.returncode == 2
