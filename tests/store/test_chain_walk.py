"""The walk along the audit chain, a slice at a time while others want the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from runtime_actors.store.walk import ChainWalk
from tests.store.bench import Bench, a_bench, note

SLICE: Final = 200
ENTRIES: Final = 3 * SLICE


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """With a log of three slices, whose second one was edited."""
    with a_bench(tmp_path) as made:
        for number in range(ENTRIES):
            made.tell(note, str(number))
        made.handle()
        made.opened.sql.execute("update audit set event = 'edited' where seq = ?", (SLICE + 50,))
        yield made


def test_while_the_store_is_wanted_one_slice_is_walked_at_a_time(bench: Bench) -> None:
    walk = ChainWalk(bench.opened.sql, ENTRIES)

    walk.go_on(lambda: True)
    after_one = walk.broken
    walk.go_on(lambda: True)

    assert after_one is None
    assert walk.broken is not None
    assert str(SLICE + 50) in walk.broken


def test_a_break_is_found_once_and_the_walk_ends_there(bench: Bench) -> None:
    walk = ChainWalk(bench.opened.sql, ENTRIES)
    for _ in range(ENTRIES // SLICE):
        walk.go_on(lambda: True)
    found = walk.broken
    bench.opened.sql.execute("update audit set event = 'test.noted' where seq = ?", (SLICE + 50,))

    walk.go_on(lambda: True)

    assert found is not None
    assert walk.broken == found


def test_what_was_exported_meanwhile_is_not_walked(bench: Bench) -> None:
    walk = ChainWalk(bench.opened.sql, ENTRIES)
    walk.go_on(lambda: True)
    seq, head = bench.row("select seq, head from audit where seq = ?", SLICE + 100)
    bench.opened.sql.execute("insert into meta values ('anchor', ?)", (f"{seq} {head.hex()}",))
    bench.opened.sql.execute("delete from audit where seq <= ?", (seq,))

    for _ in range(ENTRIES // SLICE):
        walk.go_on(lambda: True)

    assert walk.broken is None
