"""A call that must not run twice is never given twice, however the process that may have had it ended."""

from __future__ import annotations

from typing import Final

import pytest

from runtime_actors.commands import instances, recovery
from runtime_actors.contract.tools import CallStatus
from runtime_actors.rules.instances import InstanceState
from runtime_actors.rules.inventory import Catalogue
from tests.fakes import (
    SNAPSHOT,
    Records,
    a_manifest,
    a_tool,
    acknowledged,
    admitted,
    an_app,
    attached,
    some_records,
    some_settings,
)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("taken_over", [True, False])
def test_it_ends_with_an_unknown_outcome_and_the_next_process_is_not_given_it(
    records: Records, *, counted: bool, taken_over: bool
) -> None:
    call = admitted(records, "notes.once")
    first = attached(records, call.instance_id)
    if taken_over:
        acknowledged(records, call)

    records.run(instances.end_attempt, instances.AttemptEnd(first, "crashed", counted, ("c1",)))
    attached(records, call.instance_id)

    ended = records.call()
    assert (ended.status, ended.error_code) == (CallStatus.FAILED, "outcome_unknown")
    assert records.inbox() == []
    assert len(records.outbox()) == 1


ONCE: Final = a_manifest(
    "stage", a_tool("stage.once", handling="launch"), extensions={"on_interruption": {"stage.once": "fail"}}
)


def test_a_process_that_finds_only_such_a_call_of_a_launch_is_not_needed() -> None:
    staged = some_records(some_settings(Catalogue.of([an_app(ONCE)])))
    call = admitted(staged, "stage.once")
    attached(staged, call.instance_id)
    acknowledged(staged, call)
    staged.run(recovery.recover, None)  # and its second half has not come to the call yet

    begun = staged.run(instances.begin_attempt, call.instance_id or "")
    assert isinstance(begun, instances.AttemptBegun)
    outcome = staged.run(instances.attach, instances.Attached(begun.attempt_id, "process", SNAPSHOT))

    assert outcome == instances.AttemptOver(begun.attempt_id)
    assert staged.call().error_code == "outcome_unknown"
    assert staged.instance(call.instance_id).state is InstanceState.CLOSING
    assert staged.inbox("stage") == []
    staged.sql.close()
