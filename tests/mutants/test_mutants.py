"""The tests find what somebody could break. Each planted fault is asked of its cheapest finder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.mutants import page
from tests.mutants.planted import Edit, Mutant, NoLongerFits, by_name, mutants
from tests.mutants.run import find, find_all
from tests.mutants.tree import ROOT, Tree
from tests.mutants.trial import End

MUTANTS = mutants()
LEAST = 23
SHARE = 0.9
FINDERS = ("tests/test_value.py",)


def a_mutant(new: str, *, old: str = "value = 1\n") -> Mutant:
    return Mutant("planted", "The value is 1.", (Edit("value.py", old, new),), FINDERS, "calls")


@pytest.fixture
def small(tmp_path: Path) -> Tree:
    """One module, and one test of it."""
    (tmp_path / "value.py").write_text("value = 1\n", encoding="utf-8")
    (tmp_path / "tests" / "mutants").mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("finding.py"), tmp_path / "tests" / "mutants")
    test = "import value\n\ndef test_the_value_is_1():\n    assert value.value == 1\n"
    (tmp_path / "tests" / "test_value.py").write_text(test, encoding="utf-8")
    return Tree(tmp_path)


def test_there_are_many_and_each_has_a_name_a_promise_and_a_finder() -> None:
    assert len(MUTANTS) >= LEAST
    assert len(by_name(MUTANTS)) == len(MUTANTS)
    assert [one.name for one in MUTANTS if not (one.promise.endswith(".") and one.edits and one.finders)] == []


@pytest.mark.parametrize("name", by_name(MUTANTS))
def test_a_mutant_fits_the_code_and_is_a_program(name: str) -> None:
    mutant = by_name(MUTANTS)[name]

    for file, text in mutant.texts(ROOT).items():
        compile(text, file, "exec")
        assert text != (ROOT / file).read_text(encoding="utf-8")


def test_the_page_names_all_of_them() -> None:
    assert page.check(MUTANTS) == 0


def test_a_page_without_one_of_them_is_noticed(tmp_path: Path) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    shorter = tmp_path / "mutants.md"
    shorter.write_text(text.replace(MUTANTS[0].name, "another"), encoding="utf-8")

    assert page.check(MUTANTS, shorter) == 1


# --- what counts as found ---


def test_a_test_that_fails_because_of_a_fault_has_found_it(small: Tree) -> None:
    verdict = find(small, a_mutant("value = 2\n"), FINDERS)

    assert (verdict.end, verdict.test) == (End.FOUND, "tests/test_value.py::test_the_value_is_1")


@pytest.mark.parametrize(
    ("new", "end"),
    [
        ("value = 1  # the same\n", End.SURVIVED),
        ("value = nobody\n", End.BROKEN),
        ("value = (\n", End.BROKEN),
        ("import nobody\nvalue = 1\n", End.BROKEN),
        ("import os\nos._exit(1)\n", End.BROKEN),
    ],
)
def test_what_cannot_be_run_finds_nothing(small: Tree, new: str, end: End) -> None:
    verdict = find(small, a_mutant(new), FINDERS)

    assert verdict.end is end


def test_a_fault_is_taken_out_again_and_leaves_no_bytecode_that_is_taken_for_the_next(small: Tree) -> None:
    ends = [find(small, a_mutant(new), FINDERS).end for new in ("value = 2\n", "value = 1\n") * 2]

    assert ends == [End.FOUND, End.SURVIVED] * 2
    assert (small.root / "value.py").read_text(encoding="utf-8") == "value = 1\n"


@pytest.mark.parametrize("old", ["value = 3\n", "e"])
def test_a_fault_without_a_place_of_its_own_is_refused(small: Tree, old: str) -> None:
    mutant = a_mutant("value = 2\n", old=old)
    if old == "e":
        (small.root / "value.py").write_text("one = value = 1\n", encoding="utf-8")

    with pytest.raises(NoLongerFits, match="planted no longer fits"):
        mutant.texts(small.root)


# --- all of them ---


@pytest.mark.timeout(900)
def test_nine_of_ten_planted_faults_are_found() -> None:
    verdicts = find_all(MUTANTS, is_long=False)

    found = [verdict for verdict in verdicts if verdict.is_found]
    left = {verdict.mutant.name: f"{verdict.end} {verdict.error}" for verdict in verdicts if not verdict.is_found}
    assert len(found) >= LEAST, left
    assert len(found) >= SHARE * len(MUTANTS), left
