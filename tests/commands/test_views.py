"""What operators list: each filter leaves out what it says, and pages follow one another without a gap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from runtime_actors.commands import calls
from runtime_actors.commands.views import Page, View, view_calls, view_inbox, view_outbox
from tests.fakes import Records, a_failure, admitted, by

FILTERS: Final[dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]]] = {
    "open": ({"open": True}, lambda row: row["status"] == "waiting_for_app"),
    "not only open": ({"open": False}, lambda _: True),
    "status": ({"status": "failed"}, lambda row: row["status"] == "failed"),
    "conversation": ({"conversation_id": "talk-2"}, lambda row: row["conversation_id"] == "talk-2"),
    "agent": ({"agent_id": "other"}, lambda row: row["agent_id"] == "other"),
    "app": ({"app_scope": "board"}, lambda row: row["app_scope"] == "board"),
    "open of an app": (
        {"open": True, "app_scope": "notes"},
        lambda row: row["app_scope"] == "notes" and row["status"] == "waiting_for_app",
    ),
}


@pytest.fixture
def busy(records: Records) -> Records:
    """With calls of two agents, two conversations and two apps, some of them ended."""
    for number in range(4):
        admitted(records, call_id=f"n{number}")
    admitted(records, "board.open", "b0")
    admitted(records, call_id="o0", agent_id="other", conversation_id="talk-2")
    for call_id in ("n0", "n2"):
        records.run(calls.finish, a_failure(by(records.call(call_id))))
    return records


def listed(records: Records, chosen: dict[str, Any], limit: int = 100) -> list[dict[str, Any]]:
    """All pages."""
    rows: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        page = records.run(view_calls, View(chosen, after, limit))
        assert isinstance(page, Page)
        assert len(page.rows) <= limit
        rows += [dict(row) for row in page.rows]
        if page.next is None:
            return rows
        after = page.next


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_of_calls_leaves_out_the_others_and_no_more(busy: Records, name: str) -> None:
    chosen, wanted = FILTERS[name]

    everything, found = listed(busy, {}), listed(busy, chosen)

    assert len(everything) == 6
    assert found == [row for row in everything if wanted(row)]
    assert found


@pytest.mark.parametrize("limit", [1, 2, 3, 6])
def test_the_pages_of_calls_follow_one_another_the_newest_first(busy: Records, limit: int) -> None:
    rows = listed(busy, {}, limit)

    assert [row["call_id"] for row in rows] == ["o0", "b0", "n3", "n2", "n1", "n0"]


@pytest.mark.parametrize(("view", "count"), [(view_inbox, 4), (view_outbox, 2)])
def test_a_page_that_holds_the_last_row_says_that_nothing_follows(
    busy: Records, view: Callable[..., Page], count: int
) -> None:
    for limit in (count, count + 1):
        page = busy.run(view, View({}, None, limit))
        assert (len(page.rows), page.next) == (count, None)
    first = busy.run(view, View({}, None, count - 1))
    assert len(first.rows) == count - 1
    last = busy.run(view, View({}, first.next, count - 1))
    assert (len(last.rows), last.next) == (1, None)
