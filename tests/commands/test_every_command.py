"""What holds for each command: it is all or nothing at each of its statements, and running it again does nothing again.

A new command fails here until its story is told.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest

from runtime_actors.actor import SetAside
from runtime_actors.commands import agents, apps, calls, inbox, instances, recovery, upkeep
from runtime_actors.commands.command import COMMANDS, GROWING
from runtime_actors.contract import codec
from runtime_actors.contract.rejection import Rejection
from runtime_actors.records.audit import audit_entries
from runtime_actors.rules.audit import GENESIS, first_break
from runtime_actors.rules.inventory import Catalogue
from tests.fakes import (
    NOTES,
    SNAPSHOT,
    Records,
    a_key,
    a_result,
    admitted,
    an_app,
    an_invoke,
    attached,
    by,
    running,
    some_records,
    some_settings,
)

Story = Callable[[Records], Any]
"""Brings a store to where the command belongs, and returns the command's argument."""


def waiting(records: Records) -> None:
    attached(records, admitted(records).instance_id)


def admit(records: Records) -> object:
    running(records, "notes.write", "c0")
    return an_invoke("board.open", "c1")


def request_cancel(records: Records) -> object:
    running(records)
    return calls.CancelWish(a_key(), "too slow")


def report_progress(records: Records) -> object:
    waiting(records)
    return calls.ProgressReport(by(records.call()), codec.encode({"percent": 50}))


def finish(records: Records) -> object:
    running(records, "board.show", "c0")
    attached(records, admitted(records, "notes.write", "c2").instance_id)
    call = running(records, "board.open", "c1")
    records.run(calls.report_progress, calls.ProgressReport(by(call), codec.encode({"percent": 50})))
    return a_result(by(call))


def acknowledge(records: Records) -> object:
    waiting(records)
    return calls.Acknowledge("ins-1", "att-1", 1)


def expire_due(records: Records) -> object:
    running(records, "board.open", "c1")
    admitted(records, "notes.write", "c2")
    records.clock.move(60)
    return None


def give_up_call(records: Records) -> object:
    running(records)
    return a_key()


def put_text(records: Records) -> object:
    running(records)
    return inbox.PutText("local", "talk", "t1", "notes", "hello", None, b"one")


def begin_attempt(records: Records) -> object:
    admitted(records)
    return "ins-1"


def note_spawned(records: Records) -> object:
    admitted(records)
    records.run(instances.begin_attempt, "ins-1")
    return instances.Spawned("att-1", 4711)


def attach(records: Records) -> object:
    running(records)
    records.run(instances.end_attempt, instances.AttemptEnd("att-1", "exited", counted=True))
    records.run(instances.begin_attempt, "ins-1")
    return instances.Attached("att-2", "process", SNAPSHOT)


def end_attempt(records: Records) -> object:
    running(records, "notes.write", "c1")
    running(records, "notes.once", "c2")
    return instances.AttemptEnd("att-1", "exited", counted=True)


def add_agent(_: Records) -> object:
    return agents.NewAgent("writer", b"hash", None)


def settle_deliveries(records: Records) -> object:
    records.run(calls.finish, a_result(by(running(records))))
    return agents.Settle("local", (1,))


def drop_unread(records: Records) -> object:
    records.run(calls.finish, a_result(by(running(records))))
    records.clock.move(31 * 86_400)
    return None


def count_floods(records: Records) -> object:
    for _ in range(30):
        records.run(agents.identify, agents.Credentials("nobody", b""))
    records.clock.move(10)
    return None


def note_event(_: Records) -> object:
    return agents.Event("worker.killed", {"instance_id": "ins-1"})


def set_aside(records: Records) -> object:
    running(records)
    return SetAside("router", "Invoke", "ValueError", a_key())


def switch(records: Records) -> object:
    running(records, "board.open", "c1")
    running(records, "notes.write", "c2")
    return apps.SwitchTo("app", "board", enabled=False)


def recover(records: Records) -> object:
    running(records, "notes.once", "c1")
    admitted(records, "notes.once", "c2")
    records.run(calls.finish, a_result(by(running(records, "board.open", "c3"))))
    return None


def recover_call(records: Records) -> object:
    running(records, "notes.once", "c1")
    records.run(recovery.recover, None)
    return a_key()


def retire_missing_apps(records: Records) -> object:
    running(records, "board.open")
    records.settings = some_settings(Catalogue.of([an_app(NOTES)]))
    return None


@dataclass(frozen=True)
class Told:
    rule: Callable[..., Any]
    story: Story
    grows: frozenset[str] = frozenset()
    """Tables that a repetition adds to all the same."""


STORIES: Final = {
    told.rule.__name__: told
    for told in (
        Told(calls.admit, admit),
        Told(calls.request_cancel, request_cancel),
        # Newer progress replaces what was not acknowledged, under a new number.
        Told(calls.report_progress, report_progress, frozenset({"outbox", "agents"})),
        Told(calls.finish, finish),
        Told(calls.acknowledge, acknowledge),
        Told(calls.expire_due, expire_due),
        Told(calls.give_up_call, give_up_call),
        Told(inbox.put_text, put_text),
        Told(instances.begin_attempt, begin_attempt),
        Told(instances.note_spawned, note_spawned),
        Told(instances.attach, attach),
        Told(instances.end_attempt, end_attempt),
        Told(agents.add_agent, add_agent),
        Told(agents.settle_deliveries, settle_deliveries),
        Told(agents.drop_unread, drop_unread),
        Told(agents.count_floods, count_floods),
        Told(agents.note_event, note_event),
        Told(upkeep.set_aside, set_aside, frozenset({"set_aside"})),
        Told(apps.switch, switch),
        Told(recovery.recover, recover),
        Told(recovery.recover_call, recover_call),
        Told(recovery.retire_missing_apps, retire_missing_apps),
    )
}


class FailingConnection:
    """A connection whose n-th statement fails, as a full disk or a bug would have it."""

    def __init__(self, real: sqlite3.Connection, fails_at: int | None = None) -> None:
        self.real, self.fails_at, self.count = real, fails_at, 0

    @property
    def in_transaction(self) -> bool:
        return self.real.in_transaction

    def execute(self, sql: str, arguments: object = ()) -> sqlite3.Cursor:
        if sql != "rollback":
            self.count += 1
            if self.count == self.fails_at:
                raise sqlite3.OperationalError("planted")
        return self.real.execute(sql, cast("tuple[Any, ...]", arguments))


def test_every_command_has_a_story() -> None:
    assert set(STORIES) == set(COMMANDS)
    assert {"admit", "put_text", "add_agent"} == GROWING


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_command_that_fails_at_any_statement_leaves_nothing_and_can_be_run_again(name: str) -> None:
    told = STORIES[name]
    whole = some_records()
    argument = told.story(whole)
    counter = FailingConnection(whole.sql)
    whole.sql = cast("sqlite3.Connection", counter)
    outcome = whole.run(told.rule, argument)
    assert not isinstance(outcome, Rejection)

    for fails_at in range(1, counter.count + 1):
        records = some_records()
        argument = told.story(records)
        real, floods, ids = records.sql, deepcopy(records.floods), deepcopy(records.ids)
        before, end = records.everything(), (records.chain.seq, records.chain.head)

        records.sql = cast("sqlite3.Connection", FailingConnection(real, fails_at))
        with pytest.raises(sqlite3.OperationalError, match="planted"):
            records.run(told.rule, argument)

        records.sql, records.floods, records.ids = (
            real,
            floods,
            ids,
        )  # a name that was lost with it would not be given again
        assert records.everything() == before
        assert (records.chain.seq, records.chain.head) == end
        assert records.run(told.rule, argument) == outcome
        assert records.everything() == whole.everything()
        assert first_break(0, GENESIS, audit_entries(real, 0)) == (whole.chain.seq, whole.chain.head)
        real.close()


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_command_that_is_run_again_does_nothing_again(name: str) -> None:
    told = STORIES[name]
    records = some_records()
    argument = told.story(records)
    first = records.run(told.rule, argument)
    before = records.everything()
    records.clock.move(0.5)

    second = records.run(told.rule, argument)

    after = records.everything()
    changed = {table for table in before if before[table] != after[table]}
    assert not isinstance(first, Rejection)
    assert not isinstance(second, Rejection)
    assert changed - told.grows - ({"calls"} if name == "report_progress" else set()) == set()


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_command_leaves_an_audit_entry_unless_it_only_keeps_a_process_id(name: str) -> None:
    told = STORIES[name]
    records = some_records()
    argument = told.story(records)
    seq = records.chain.seq

    records.run(told.rule, argument)

    assert (records.chain.seq > seq) == (name != "note_spawned")
