"""An instance speaks about its own calls and no others, wherever the others run and whatever they are called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from runtime_actors.commands import calls, inbox
from runtime_actors.contract import codec
from runtime_actors.contract.rejection import Rejection
from runtime_actors.rules.calls import CallRecord
from tests.fakes import Records, a_cancellation, a_failure, a_result, acknowledged, admitted, by

Report = calls.ProgressReport | calls.FinalReport


def half_done(who: calls.Reporter) -> Report:
    return calls.ProgressReport(who, codec.encode({"percent": 50}))


WORDS: Final[dict[str, Callable[[calls.Reporter], Report]]] = {
    "complete": a_result,
    "fail": a_failure,
    "cancel": a_cancellation,
    "report_progress": half_done,
}
OTHERS: Final[dict[str, dict[str, str]]] = {
    "another app of the conversation": {"tool_id": "board.open"},
    "the same app in another conversation": {"tool_id": "notes.write", "conversation_id": "talk-2"},
    "the same app of another agent": {"tool_id": "notes.write", "conversation_id": "talk-2", "agent_id": "other"},
}


def two_calls(records: Records, other: str) -> tuple[CallRecord, CallRecord]:
    """Both running, in instances of their own."""
    mine = acknowledged(records, admitted(records, call_id="mine"))
    theirs = acknowledged(records, admitted(records, OTHERS[other]["tool_id"], "theirs", **places(other)))
    assert mine.instance_id != theirs.instance_id
    return mine, theirs


def places(other: str) -> dict[str, str]:
    return {name: value for name, value in OTHERS[other].items() if name != "tool_id"}


def say(records: Records, report: Report) -> object:
    """What it is answered."""
    if isinstance(report, calls.ProgressReport):
        return records.run(calls.report_progress, report)
    return records.run(calls.finish, report)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("other", OTHERS)
def test_a_word_about_the_call_of_another_instance_is_refused_and_changes_nothing(
    records: Records, word: str, other: str
) -> None:
    mine, theirs = two_calls(records, other)
    before = records.everything()

    outcome = say(records, WORDS[word](replace(by(mine), call_id=theirs.call_id)))

    assert isinstance(outcome, Rejection)
    assert outcome.code == "call_not_found"
    assert records.everything() == before


@pytest.mark.parametrize("other", OTHERS)
def test_the_call_of_another_instance_cannot_be_looked_at(records: Records, other: str) -> None:
    mine, theirs = two_calls(records, other)

    assert inbox.read_for_app(records.transaction(), (mine.instance_id or "", theirs.call_id)) is None
    assert inbox.read_for_app(records.transaction(), (mine.instance_id or "", mine.call_id)) is not None
