"""`lineup audit verify` walks the log a slice at a time, while calls go on."""

from __future__ import annotations

import pytest

from runtime_actors.commands.views import Slice, verify_slice
from runtime_actors.rules.audit import GENESIS, Break
from tests.fakes import Records, admitted

AT_ONCE = 4


@pytest.fixture
def log(records: Records) -> Records:
    """With more entries than a slice has."""
    for number in range(6):
        admitted(records, call_id=f"c{number}")
    return records


def walked(records: Records) -> list[Slice]:
    """Slice by slice, as the control door asks for them."""
    slices = [records.run(verify_slice, (0, GENESIS, AT_ONCE))]
    while not slices[-1].done:
        slices.append(records.run(verify_slice, (slices[-1].seq, slices[-1].head, AT_ONCE)))
    return slices


def test_a_whole_log_is_walked_to_its_end(log: Records) -> None:
    slices = walked(log)

    assert len(slices) > 2
    assert [one.broken for one in slices] == [None] * len(slices)
    assert (slices[-1].seq, slices[-1].head) == (log.chain.seq, log.chain.head)


@pytest.mark.parametrize("seq", [1, AT_ONCE, AT_ONCE + 1, 2 * AT_ONCE])
def test_a_break_ends_the_walk_and_is_said(log: Records, seq: int) -> None:
    log.sql.execute("update audit set event = 'edited' where seq = ?", (seq,))

    slices = walked(log)

    assert [isinstance(one.broken, Break) for one in slices] == [*([False] * (len(slices) - 1)), True]
    assert slices[-1].broken is not None
    assert slices[-1].broken.seq == seq
