"""What holds for each command: it is all or nothing at each of its statements, and running it again does nothing again.

A new command fails here until its story is told.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest

from runtime_actors.actor import SetAside
from runtime_actors.commands import (
    action_messages,
    actions,
    agents,
    apps,
    artifacts,
    calls,
    capabilities,
    hosts,
    inbox,
    instances,
    interactions,
    lifecycle,
    policy_changes,
    recovery,
    screens,
    surfaces,
    suspension,
    upkeep,
)
from runtime_actors.commands.asker import Asker
from runtime_actors.commands.command import COMMANDS, GROWING
from runtime_actors.contract import codec
from runtime_actors.contract.capabilities import CapabilityRequest
from runtime_actors.contract.host import HostAnswer, HostSurface
from runtime_actors.contract.interactions import UiCancel, UiRequest
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.surfaces import (
    ArtifactBegin,
    ArtifactChunk,
    SurfaceClose,
    SurfaceOpen,
    SurfaceRequest,
    SurfaceUpdate,
)
from runtime_actors.records.audit import audit_entries
from runtime_actors.rules.audit import GENESIS, first_break
from runtime_actors.rules.inventory import Catalogue
from tests.commands.people import PEOPLE
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
from tests.permission_fakes import an_instance, records_with, said, use_policy

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


# --- hosts, and what a person does ---


def attach_host(records: Records) -> hosts.Attaching:
    running(records)
    return hosts.Attaching(
        peer=1, host="screen", nonce="0123456789abcdef", surfaces=True, on_screen="talk", stream=None, after_number=None
    )


def show_on_screen(records: Records) -> object:
    records.run(hosts.attach_host, attach_host(records))
    return hosts.Showing(1, "other")


def detach_host(records: Records) -> int:
    records.run(hosts.attach_host, attach_host(records))
    return 1


def forget_hosts(records: Records) -> object:
    records.run(hosts.detach_host, detach_host(records))
    records.clock.move(60)
    return None


def drop_old_events(records: Records) -> object:
    running(records)
    records.sql.execute("update sqlite_sequence set seq = 20000 where name = 'host_events'")
    running(records, conversation_id="other")
    return None


def act(records: Records) -> object:
    running(records, "board.show", "c1")
    running(records, "notes.write", "c2")
    return actions.Act("ins-2", "focus")


def note_hanging(records: Records) -> object:
    running(records)
    records.run(actions.act, actions.Act("ins-1", "close"))
    records.clock.move(20)
    return None


def put_persons_text(records: Records) -> actions.PersonsText:
    records.settings = some_settings(PEOPLE)
    running(records)
    return actions.PersonsText("talk", "hello")


def send_text(records: Records) -> object:
    records.run(actions.put_persons_text, put_persons_text(records))
    return actions.SendText(Asker("ins-2", "att-2", "q1"), "hello", "act-1")


# --- what apps show and make ---


def open_surface(records: Records) -> surfaces.Opening:
    records.run(hosts.attach_host, attach_host(records))
    request = SurfaceRequest(kind="board", title="A board", state={"strokes": {}})
    return surfaces.Opening(Asker("ins-1", "att-1", "q1"), SurfaceOpen(surface=request, call_id="c1", key="b1"))


def update_surface(records: Records) -> object:
    records.run(surfaces.open_surface, open_surface(records))
    asked = SurfaceUpdate(surface_id="srf-1", patch={"strokes": {"s1": {}}})
    return surfaces.Updating(Asker("ins-1", "att-1", "q2"), asked)


def close_surface(records: Records) -> object:
    records.run(surfaces.open_surface, open_surface(records))
    return surfaces.Closing(Asker("ins-1", "att-1", "q2"), SurfaceClose(surface_id="srf-1"))


def bridge(records: Records) -> object:
    records.run(surfaces.bridge, _drawing(records, {"strokes": {"s1": {}}}))
    return HostSurface(surface_id="srf-1", op="update", patch={"strokes": {"s2": {}}}), "screen"


def _drawing(records: Records, patch: dict[str, Any]) -> tuple[HostSurface, str]:
    records.run(surfaces.open_surface, open_surface(records))
    return HostSurface(surface_id="srf-1", op="update", patch=patch), "screen"


def begin_artifact(records: Records) -> artifacts.Beginning:
    running(records)
    asked = ArtifactBegin(name="a.txt", media_type="text/plain", size=5, sha256=hashlib.sha256(b"hello").hexdigest())
    return artifacts.Beginning(Asker("ins-1", "att-1", "q1"), asked)


def add_chunk(records: Records) -> object:
    records.run(artifacts.begin_artifact, begin_artifact(records))
    asked = ArtifactChunk(artifact_id="art-1", offset=0, content="aGVsbG8=")
    return artifacts.Piece(Asker("ins-1", "att-1", "q2"), asked)


def drop_unfinished(records: Records) -> object:
    records.run(artifacts.begin_artifact, begin_artifact(records))
    records.clock.move(7200)
    return None


def request_interaction(records: Records) -> interactions.AskPerson:
    running(records)
    return _asks("int", {"parent_call_id": "c1"})


def _asks(name: str, how: dict[str, str] | None = None) -> interactions.AskPerson:
    fields = [{"id": "name", "label": "Name", "type": "text"}]
    question = {"kind": "input", "title": "Who?", "prompt": "", "fields": fields}
    return interactions.AskPerson(
        Asker("ins-1", "att-1", name), UiRequest.model_validate({"request": question} | (how or {}))
    )


def _asked(records: Records) -> None:
    records.run(interactions.request_interaction, request_interaction(records))


def _overdue(records: Records) -> None:
    _asked(records)
    records.run(interactions.request_interaction, _asks("int2"))
    records.clock.move(61)


def list_own(records: Records) -> object:
    _overdue(records)
    return interactions.OwnList(Asker("ins-1", "att-1", "q1"), None)


def read_own(records: Records) -> object:
    _overdue(records)
    return interactions.OwnOne(Asker("ins-1", "att-1", "q1"), "int-1")


def cancel_interaction(records: Records) -> object:
    _asked(records)
    return interactions.CancelOwn(Asker("ins-1", "att-1", "q1"), UiCancel(interaction_id="int-1"))


def present(records: Records) -> object:
    _asked(records)
    return interactions.Present("int-1", "screen")


def answer(records: Records) -> object:
    _asked(records)
    given = HostAnswer(interaction_id="int-1", values={"name": "Al"})
    return interactions.Answer("int-1", given, "screen")


def dismiss(records: Records) -> object:
    _asked(records)
    return interactions.Dismiss("int-1", "screen")


def save_draft(records: Records) -> object:
    _asked(records)
    return interactions.Draft("int-1", 1, codec.encode({"name": "A"}), "screen")


def expire_interactions(records: Records) -> object:
    _overdue(records)
    return None


def fail_unreadable(records: Records) -> object:
    _asked(records)
    records.sql.execute("update interactions set request = x'c1'")
    return None


_SHOWN: Final = ("host_events", "sqlite_sequence")


# --- the place of an app, and its sleep ---


def _idle(records: Records) -> None:
    records.run(calls.finish, a_result(by(running(records))))


def request_foreground(records: Records) -> Asker:
    _idle(records)
    return Asker("ins-1", "att-1", "q5")


def request_background(records: Records) -> object:
    records.run(lifecycle.request_foreground, request_foreground(records))
    return Asker("ins-1", "att-1", "q6")


def request_close(records: Records) -> object:
    records.run(lifecycle.request_foreground, request_foreground(records))
    return lifecycle.CloseWish(Asker("ins-1", "att-1", "q6"), "it is done")


def suspend(records: Records) -> object:
    _idle(records)
    return suspension.read_quiet(records.transaction(), None).quiet[0]


def wake_debtor(records: Records) -> object:
    records.run(suspension.suspend, cast("suspension.Quiet", suspend(records)))
    records.sql.execute("insert into inbox values ('talk', 'notes', 9, 'message', 'local', null, x'80', 0, '')")
    return "ins-1"


# --- what people permit ---


def request_capability(records: Records) -> object:
    records.settings = records_with('capability = "notify", decision = "ask"').settings
    wish = CapabilityRequest(capability="notify", reason="so that you hear of it")
    return capabilities.CapabilityWish(Asker(an_instance(records), "att-1", "q1"), wish)


def revoke_grant(records: Records) -> object:
    use_policy(records, 'decision = "ask", for = "always"')
    admitted(records)
    said(records, approved=True)
    return "gra-1"


def note_policy(records: Records) -> object:
    use_policy(records, 'app = "notes", decision = "deny"')
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
        Told(hosts.attach_host, attach_host),
        Told(hosts.show_on_screen, show_on_screen),
        Told(hosts.detach_host, detach_host),
        Told(hosts.forget_hosts, forget_hosts),
        Told(screens.drop_old_events, drop_old_events),
        # Each is another one, unless its host says that it is not (`hosts.once`).
        Told(actions.act, act, frozenset({"actions", "inbox", "inboxes"})),
        Told(actions.put_persons_text, put_persons_text, frozenset({"actions", "inbox", "inboxes", *_SHOWN})),
        Told(actions.send_text, send_text),
        Told(action_messages.note_hanging, note_hanging),
        Told(surfaces.open_surface, open_surface),
        Told(surfaces.update_surface, update_surface),
        Told(surfaces.close_surface, close_surface),
        Told(surfaces.bridge, bridge),
        Told(artifacts.begin_artifact, begin_artifact),
        Told(artifacts.add_chunk, add_chunk),
        Told(artifacts.drop_unfinished, drop_unfinished),
        Told(lifecycle.request_foreground, request_foreground),
        Told(lifecycle.request_background, request_background),
        Told(lifecycle.request_close, request_close),
        Told(suspension.suspend, suspend),
        Told(suspension.wake_debtor, wake_debtor),
        Told(interactions.request_interaction, request_interaction),
        Told(interactions.list_own, list_own),
        Told(interactions.read_own, read_own),
        Told(interactions.cancel_interaction, cancel_interaction),
        Told(interactions.present, present),
        Told(interactions.answer, answer),
        Told(interactions.dismiss, dismiss),
        Told(interactions.save_draft, save_draft),
        Told(interactions.expire_interactions, expire_interactions),
        Told(interactions.fail_unreadable, fail_unreadable),
        Told(capabilities.request_capability, request_capability),
        Told(capabilities.revoke_grant, revoke_grant),
        Told(policy_changes.note_policy, note_policy),
        Told(recovery.recover, recover),
        Told(recovery.recover_call, recover_call),
        Told(recovery.retire_missing_apps, retire_missing_apps),
    )
}


COUNTS_ONCE: Final = frozenset({"answer", "dismiss"})
"""The first word about a question counts. That a host only repeats its own, `hosts.once` knows."""
SAYS_NOTHING: Final = frozenset({"note_spawned", "save_draft"})
"""For the audit log: a draft is not validated and shown to nobody else."""


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
    assert {
        "act",
        "add_agent",
        "add_chunk",
        "admit",
        "begin_artifact",
        "bridge",
        "open_surface",
        "put_persons_text",
        "put_text",
        "request_capability",
        "request_interaction",
        "send_text",
    } == GROWING


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
    assert isinstance(second, Rejection) == (name in COUNTS_ONCE)
    assert changed - told.grows - ({"calls"} if name == "report_progress" else set()) == set()


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_command_leaves_an_audit_entry_unless_it_only_keeps_a_process_id(name: str) -> None:
    told = STORIES[name]
    records = some_records()
    argument = told.story(records)
    seq = records.chain.seq

    records.run(told.rule, argument)

    assert (records.chain.seq > seq) == (name not in SAYS_NOTHING)
