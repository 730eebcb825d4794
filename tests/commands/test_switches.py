"""Apps and tools that are switched off, and on again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from runtime_actors.commands import apps, calls
from runtime_actors.commands.follow_ups import InstanceDone, InventoryChanged, TellCallChanged
from runtime_actors.rules.instances import InstanceState
from tests.fakes import a_result, admitted, an_invoke, assert_refused, by, running

if TYPE_CHECKING:
    from tests.fakes import Records


def switch(records: Records, kind: Any, name: str, *, enabled: bool = False) -> apps.Switched:  # noqa: ANN401
    outcome = records.run(apps.switch, apps.SwitchTo(kind, name, enabled=enabled))
    assert isinstance(outcome, apps.Switched)
    return outcome


def test_switching_an_app_off_closes_its_instances_and_ends_their_calls(records: Records) -> None:
    running(records, call_id="c1")
    admitted(records, call_id="c2", conversation_id="talk-2")
    running(records, "board.open", "c3")

    switched = switch(records, "app", "notes")

    assert switched == apps.Switched(records.revision(), changed=True)
    for call in (records.call("c1"), records.call("c2", conversation_id="talk-2")):
        assert (call.status, call.error_code) == ("failed", "app_disabled")
    assert [records.instance(f"ins-{number}").state for number in (1, 2, 3)] == ["closing", "closed", "foreground"]
    assert records.call("c3").status == "running"
    assert {one.reason for one in records.told(InstanceDone)} == {"app_disabled"}
    assert [one.change.reason for one in records.told(TellCallChanged)] == ["app_disabled"] * 2


def test_switching_a_tool_off_ends_its_calls_and_leaves_the_others(records: Records) -> None:
    running(records, "notes.write", "c1")
    running(records, "notes.once", "c2")

    switch(records, "tool", "notes.write")

    assert (records.call("c1").error_code, records.call("c2").status) == ("app_disabled", "running")
    assert records.instance("ins-1").state is InstanceState.BACKGROUND
    assert records.run(calls.finish, a_result(by(records.call("c2")))) == calls.Reported(records.call("c2").status)


def test_agents_are_told_the_new_inventory(records: Records) -> None:
    before = records.revision()

    switch(records, "tool", "notes.write")

    (told,) = records.told(InventoryChanged)
    assert told.inventory.revision == records.revision() != before
    assert told.inventory.disabled == frozenset({("tool", "notes.write")})


def test_switching_on_again_brings_the_old_revision_back(records: Records) -> None:
    before = records.revision()
    switch(records, "app", "notes")

    switched = switch(records, "app", "notes", enabled=True)

    assert switched == apps.Switched(before, changed=True)
    assert isinstance(records.run(calls.admit, an_invoke()), calls.CallAnswer)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_switch_that_stands_that_way_already_changes_nothing(records: Records, *, enabled: bool) -> None:
    if not enabled:
        switch(records, "app", "notes")
    before, entries = records.everything(), records.events()

    assert not switch(records, "app", "notes", enabled=enabled).changed
    assert (records.everything(), records.events(), records.follow_ups) == (before, entries, [])


@pytest.mark.parametrize(("kind", "name"), [("app", "unknown"), ("tool", "notes.unknown"), ("tool", "notes")])
def test_an_unknown_app_or_tool_cannot_be_switched(records: Records, kind: Any, name: str) -> None:  # noqa: ANN401
    to = apps.SwitchTo(kind, name, enabled=False)

    assert_refused(records, apps.switch, to, "not_found", f"{kind}.switch_refused")
