"""Whoever edits, swaps, removes or inserts an entry of the chain is found."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any, Final

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.rules.audit import GENESIS, AuditEntry, Break, first_break, next_head

Chain = list[tuple[AuditEntry, bytes]]


def a_chain(length: int) -> Chain:
    head, made = GENESIS, []
    for seq in range(1, length + 1):
        entry = AuditEntry(
            seq, f"2026-01-01T12:00:{seq:02}.000Z", "call.ended", {"call_id": f"c{seq % 2}"}, {"n": seq % 3}, b"\1" * 32
        )
        head = next_head(head, entry)
        made.append((entry, head))
    return made


def test_a_chain_that_was_left_alone_is_walked_to_its_end() -> None:
    chain = a_chain(9)

    assert first_break(0, GENESIS, chain) == (9, chain[-1][1])
    assert first_break(4, chain[3][1], chain[4:]) == (9, chain[-1][1])
    assert first_break(0, GENESIS, []) == (0, GENESIS)


def test_the_head_is_what_the_protocol_says() -> None:
    entry, head = a_chain(1)[0]
    written = {
        "at": "2026-01-01T12:00:01.000Z", "detail": {"n": 1}, "digest": "01" * 32, "event": "call.ended", "seq": 1,
        "subject": {"call_id": "c1"},
    }  # fmt: skip

    assert entry.canonical() == msgpack.packb(written)
    assert head == hashlib.sha256(bytes(32) + msgpack.packb(written)).digest()


EDITS: Final[dict[str, dict[str, Any]]] = {
    "seq": {"seq": 99},
    "at": {"at": "2026-01-01T12:00:00.000Z"},
    "event": {"event": "call.admitted"},
    "subject": {"subject": {"call_id": "c9"}},
    "detail": {"detail": {}},
    "digest": {"digest": b"\2" * 32},
}


@pytest.mark.parametrize("field", EDITS)
@pytest.mark.parametrize("at", range(6))
def test_an_edited_entry_is_found_where_it_is(field: str, at: int) -> None:
    chain = a_chain(6)
    chain[at] = (replace(chain[at][0], **EDITS[field]), chain[at][1])

    found = first_break(0, GENESIS, chain)

    assert isinstance(found, Break)
    assert found.seq == at + 1


@given(st.integers(0, 7), st.integers(0, 7))
def test_swapped_entries_are_found(one: int, other: int) -> None:
    chain = a_chain(8)
    chain[one], chain[other] = chain[other], chain[one]

    found = first_break(0, GENESIS, chain)

    if one == other:
        assert found == (8, chain[-1][1])
    else:
        assert isinstance(found, Break)
        assert found.seq == min(one, other) + 1


@given(st.integers(0, 7), st.integers(1, 8))
def test_a_cut_is_found_and_a_cut_tail_shows_an_earlier_end(start: int, length: int) -> None:
    chain = a_chain(8)
    del chain[start : start + length]

    found = first_break(0, GENESIS, chain)

    if start + length >= 8:  # a chain cannot see that its tail is gone: the side file and agents' marks can
        assert found == (start, chain[-1][1] if chain else GENESIS)
    else:
        assert found == Break(start + 1, f"entry {start + 1} is missing")


@given(st.integers(0, 7))
def test_an_entry_that_was_put_in_is_found_even_with_heads_made_anew_up_to_the_next_mark(at: int) -> None:
    chain = a_chain(8)
    forged = replace(chain[at][0], event="nothing.happened")
    before = chain[at - 1][1] if at else GENESIS
    chain[at] = (forged, next_head(before, forged))

    found = first_break(0, GENESIS, chain)

    if at == 7:  # a rewritten tail is whole in itself, and ends elsewhere
        assert found == (8, chain[-1][1])
        assert chain[-1][1] != a_chain(8)[-1][1]
    else:
        assert isinstance(found, Break)
        assert found.seq == at + 2


@given(st.integers(0, 7), st.integers(0, 31), st.integers(1, 255))
def test_a_flipped_bit_of_a_head_is_found(at: int, byte: int, flip: int) -> None:
    chain = a_chain(8)
    head = bytearray(chain[at][1])
    head[byte] ^= flip
    chain[at] = (chain[at][0], bytes(head))

    assert first_break(0, GENESIS, chain) == Break(at + 1, f"entry {at + 1} does not match its hash")
