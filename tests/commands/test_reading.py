"""Whoever only reads changes nothing: what was read can be read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from runtime_actors.commands import agents, apps, calls, inbox, instances
from runtime_actors.records.transaction import Transaction
from tests.fakes import AGENT, Records, a_failure, a_key, admitted, attached, by

READERS: Final[dict[str, tuple[Callable[[Transaction, Any], Any], object]]] = {
    "read_inbox": (inbox.read_inbox, inbox.InboxPageOf("ins-1", frozenset(), 0, 10)),
    "read_for_app": (inbox.read_for_app, ("ins-1", "c1")),
    "read_deliveries": (agents.read_deliveries, agents.PageOf(AGENT, frozenset(), None, 10, 1_000_000)),
    "read_call": (calls.read_call, a_key()),
    "read_wanted": (instances.read_wanted, None),
    "read_running": (instances.read_running, None),
    "current_inventory": (apps.current_inventory, None),
    "public_keys": (agents.public_keys, None),
}


@pytest.mark.parametrize("name", READERS)
def test_reading_twice_gives_the_same_and_leaves_everything_as_it_is(records: Records, name: str) -> None:
    rule, argument = READERS[name]
    for call_id in ("c1", "c2", "c3"):
        admitted(records, call_id=call_id)
    attached(records, "ins-1")
    records.run(calls.finish, a_failure(by(records.call("c2"))))
    before, entries = records.everything(), records.events()

    first, second = records.run(rule, argument), records.run(rule, argument)

    assert first == second
    assert records.everything() == before
    assert records.events() == entries
