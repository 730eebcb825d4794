"""What a stranger may slip at, and what he leaves alone."""

from __future__ import annotations

import pytest

from runtime_actors.contract.tools import CallStatus
from tests.mutants.chance import slips

SOURCE = '''"""Words that mean nothing: if a < 1."""

import logging
from typing import TYPE_CHECKING

from runtime_actors.contract.tools import CallStatus

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)
_S = CallStatus
MOST: int = 3


def decide(tx, call, file):
    """Nothing here: 1 < 2."""
    assert call.number > 0
    found = tx.find(call)
    if found is None or not found.open:
        logger.warning("1 < 2", extra={"n": 1})
        return None
    if call.number >= MOST:
        raise ValueError("more than 3")
    for row in tx.rows("select a from b where n <= ? and open order by number", call.number):
        tx.keep(row)
    os.fsync(file)
    found.count = found.count + 1
    return CallStatus.FAILED
'''


def made(kind: str) -> set[tuple[str, str]]:
    return {(slip.old, slip.new) for slip in slips("x.py", SOURCE) if slip.kind == kind}


def test_a_statement_may_be_forgotten_unless_its_name_would_have_no_value() -> None:
    assert made("deleted") == {
        ("return None", "pass"),
        ('raise ValueError("more than 3")', "pass"),
        ("tx.keep(row)", "pass"),
        ("os.fsync(file)", "pass"),
        ("found.count = found.count + 1", "pass"),
        ("return CallStatus.FAILED", "pass"),
    }


def test_a_condition_may_be_turned_round_or_lose_a_part() -> None:
    assert ("call.number >= MOST", "(not (call.number >= MOST))") in made("negated")
    assert made("comparison") == {
        ("found is None", "(found is not None)"),
        ("call.number >= MOST", "(call.number > MOST)"),
    }
    assert made("part dropped") == {
        ("found is None or not found.open", "((not found.open))"),
        ("found is None or not found.open", "((found is None))"),
    }


def test_a_status_may_be_taken_for_any_other() -> None:
    others = {new.removeprefix("CallStatus.") for _, new in made("constant of an enum")}

    assert others == set(CallStatus.__members__) - {"FAILED"}


def test_a_number_may_be_off_by_one_and_a_query_may_read_more_or_less() -> None:
    assert made("constant") >= {("3", "4"), ("3", "2")}
    assert {new for _, new in made("SQL")} == {
        '"select a from b where n < ? and open order by number"',
        '"select a from b where n <= ? or open order by number"',
        '"select a from b where n <= ? and open order by number desc"',
    }


def test_words_logs_types_and_checks_for_the_type_checker_are_left_alone() -> None:
    lines = {slip.context for slip in slips("x.py", SOURCE)}

    assert not {line for line in lines if line.startswith(('"""', "logger", "assert", "from", "if TYPE_CHECKING"))}


@pytest.mark.parametrize("number", range(0, 60, 7))
def test_a_slip_changes_its_place_and_nothing_else(number: int) -> None:
    every = slips("x.py", SOURCE)
    slip = every[number % len(every)]

    text = slip.text(SOURCE)

    assert slip.is_program(SOURCE)
    assert text == SOURCE[: slip.start] + slip.new + SOURCE[slip.end :]
    assert SOURCE[slip.start : slip.end] == slip.old
