"""What tests hand in instead of the world, and builders.

A clock moved by hand, counted names, mailboxes that keep what they get, and a real SQLite store in memory with a small
catalogue. Builders such as `an_invoke(call_id="c2")` let a test name only what matters.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sqlite_utils import Database

from runtime_actors.commands import agents, apps, calls, instances
from runtime_actors.config import Bounds
from runtime_actors.contract import codec
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.tools import CallStatus, Failure, ToolInvoke
from runtime_actors.mailbox import Moment
from runtime_actors.records import boxes
from runtime_actors.records import calls as call_rows
from runtime_actors.records import instances as instance_rows
from runtime_actors.records.audit import audit_entries
from runtime_actors.records.boxes import Delivery, InboxRow
from runtime_actors.records.transaction import Chain, Settings, Transaction
from runtime_actors.rules.audit import GENESIS
from runtime_actors.rules.calls import CallKey, CallRecord
from runtime_actors.rules.flood import FloodMeter
from runtime_actors.rules.instances import AttemptRecord, InstanceRecord
from runtime_actors.rules.inventory import Catalogue
from runtime_actors.rules.registration import RegisteredApp, register
from runtime_actors.rules.restart import RestartPolicy
from runtime_actors.store.migrations import migrate

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.rules.audit import AuditEntry

M = TypeVar("M")
A = TypeVar("A")
O = TypeVar("O")  # noqa: E741 - an outcome
F = TypeVar("F")

START: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
AGENT: Final = "local"
TALK: Final = "talk"
"""The conversation of whatever names no other."""
SNAPSHOT: Final = codec.encode({"capabilities": []})


# --- effects ---


class HandClock:
    """Time goes on when told to."""

    def __init__(self) -> None:
        self._now = Moment(START, 1000.0, "boot-1")

    def now(self) -> Moment:
        return self._now

    def move(self, seconds: float) -> None:
        """Wall and boot clock go on together."""
        now = self._now
        self._now = Moment(now.wall + timedelta(seconds=seconds), now.boot_s + seconds, now.boot_id)

    def set_wall(self, wall: datetime) -> None:
        """Somebody set the wall clock; the boot clock does not care."""
        self._now = Moment(wall, self._now.boot_s, self._now.boot_id)

    def reboot(self, down_s: float) -> None:
        """The machine was off for so long: the boot clock starts over."""
        number = int(self._now.boot_id.rpartition("-")[2]) + 1
        self._now = Moment(self._now.wall + timedelta(seconds=down_s), 5.0, f"boot-{number}")


class CountingIds:
    """`ins-1`, `ins-2`, `att-1`, ..."""

    def __init__(self) -> None:
        self._given: Counter[str] = Counter()

    def new(self, prefix: str) -> str:
        self._given[prefix] += 1
        return f"{prefix}-{self._given[prefix]}"


class Recorder(Generic[M]):
    """A mailbox that keeps what it is told."""

    def __init__(self) -> None:
        self.messages: list[M] = []

    def tell(self, message: M) -> None:
        self.messages.append(message)


class LosingMailbox(Generic[M]):
    """A mailbox that loses what `loses` picks and hands the rest on."""

    def __init__(self, to: Recorder[M], loses: Callable[[M], bool]) -> None:
        self._to, self._loses = to, loses

    def tell(self, message: M) -> None:
        if not self._loses(message):
            self._to.tell(message)


# --- manifests ---


def a_tool(tool_id: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A tool descriptor; takes `{"text": ...}`, gives `{"ok": true or false}`."""
    handling = changes.get("handling", "direct")
    takes_front = handling in {"launch", "foreground"}
    return {
        "id": tool_id,
        "version": 1,
        "title": "A tool",
        "description": "Does what its test needs.",
        "handling": handling,
        "target": {
            "app_scope": tool_id.partition(".")[0],
            "requires_foreground": takes_front,
            "restore_previous_focus": takes_front,
        },
        "input_schema": {"type": "object", "properties": {"text": {"type": "string", "maxLength": 100}}},
        "output_schema": {
            "type": "object",
            "required": ["ok"],
            "additionalProperties": False,
            "properties": {"ok": {"type": "boolean"}},
        },
        "timeout_ms": 60_000,
    } | changes


def a_manifest(app_scope: str, *tools: dict[str, Any], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Manifest v1 of an app that is bundled and asks for nothing."""
    return {
        "app_scope": app_scope,
        "version": "1.0.0",
        "kind": "bundled-reference",
        "tools": list(tools),
        "subscriptions": [],
        "requested_capabilities": [],
        "host": {"min_version": "0.1.0", "surface_required": False},
    } | changes


def an_app(manifest: dict[str, Any]) -> RegisteredApp:
    """Registered, or the test is wrong."""
    app = register(manifest, f"/apps/{manifest['app_scope']}", packaged=False)
    assert isinstance(app, RegisteredApp), app
    return app


BOARD: Final = a_manifest(
    "board",
    a_tool("board.open", handling="launch"),
    a_tool("board.update", handling="operation"),
    a_tool("board.show", handling="foreground"),
)
NOTES: Final = a_manifest(
    "notes",
    a_tool("notes.write"),
    a_tool("notes.once"),
    subscriptions=[{"type": "lineup.v1.message"}],
    extensions={"on_interruption": {"notes.once": "fail"}},
)
GUARDED: Final = a_manifest(
    "guarded", a_tool("guarded.read", permissions=["files.read"]), requested_capabilities=["files.read"]
)
SCREEN: Final = a_manifest("screen", a_tool("screen.draw"), host={"min_version": "0.1.0", "surface_required": True})
CATALOGUE: Final = Catalogue.of(an_app(one) for one in (BOARD, NOTES, GUARDED, SCREEN))


# --- requests ---


def a_key(call_id: str = "c1", *, agent_id: str = AGENT, conversation_id: str = TALK) -> CallKey:
    return CallKey(agent_id, conversation_id, call_id)


def an_invoke(
    tool_id: str = "notes.write",
    call_id: str = "c1",
    *,
    agent_id: str = AGENT,
    conversation_id: str = TALK,
    inventory_revision: str = "r6",
    given: dict[str, Any] | None = None,
    verdict: Rejection | None = None,
) -> calls.CheckedInvoke:
    """An invocation that passed the rungs which need no record, unless `verdict` says otherwise."""
    body = ToolInvoke(call_id=call_id, tool_id=tool_id, inventory_revision=inventory_revision, input=given or {})
    return calls.CheckedInvoke(
        key=a_key(call_id, agent_id=agent_id, conversation_id=conversation_id),
        tool_id=tool_id,
        inventory_revision=inventory_revision,
        input=codec.encode(body.input),
        digest=codec.digest(body.to_wire()),
        verdict=verdict,
    )


def by(call: CallRecord, request_id: str = "q1") -> calls.Reporter:
    """The instance that a call was given to speaks about it."""
    assert call.instance_id is not None
    return calls.Reporter(call.instance_id, "att-1", request_id, call.call_id)


def a_result(who: calls.Reporter, *, ok: object = True) -> calls.FinalReport:
    """A result; valid while `ok` is a boolean."""
    result = {"ok": ok}
    return calls.FinalReport(who, CallStatus.COMPLETED, codec.encode(result), result=result)


def a_failure(who: calls.Reporter, code: str = "app.broken") -> calls.FinalReport:
    payload = codec.encode(Failure(code=code, message="it broke").to_wire())
    return calls.FinalReport(who, CallStatus.FAILED, payload, code=code)


def a_cancellation(who: calls.Reporter) -> calls.FinalReport:
    payload = codec.encode(Failure(code="app.cancelled", message="").to_wire())
    return calls.FinalReport(who, CallStatus.CANCELLED, payload, code="app.cancelled")


# --- records ---

Dump = dict[str, list[tuple[Any, ...]]]


@dataclass(slots=True)
class Records:
    """A real store in memory, and commands run on it one at a time, as the store actor runs them."""

    sql: sqlite3.Connection
    clock: HandClock = field(default_factory=HandClock)
    ids: CountingIds = field(default_factory=CountingIds)
    chain: Chain = field(default_factory=lambda: Chain(0, GENESIS))
    floods: FloodMeter = field(default_factory=FloodMeter)
    settings: Settings = field(default_factory=lambda: some_settings())  # noqa: PLW0108 - defined below
    follow_ups: list[object] = field(default_factory=list)
    """Of the latest command."""

    def transaction(self) -> Transaction:
        """What a rule is handed; reading through it needs no `run`."""
        return Transaction(self.sql, self.chain, self.settings, self.ids, self.clock.now(), self.floods)

    def run(self, rule: Callable[[Transaction, A], O], argument: A) -> O:
        """One command, all or nothing.

        Raises:
            Exception: The command's own; then nothing of it is left.

        """
        kept = self.chain.kept()
        tx = self.transaction()
        try:
            self.sql.execute("begin immediate")
            outcome = rule(tx, argument)
            self.chain.write(self.sql)
            self.sql.execute("commit")
        except BaseException:
            if self.sql.in_transaction:
                self.sql.execute("rollback")
            self.chain.go_back(kept)
            raise
        self.follow_ups = tx.follow_ups
        return outcome

    def told(self, kind: type[F]) -> list[F]:
        """Follow-ups of one kind, of the latest command."""
        return [one for one in self.follow_ups if isinstance(one, kind)]

    def everything(self) -> Dump:
        """All rows of all tables but the audit's."""
        names = self.sql.execute("select name from sqlite_master where type = 'table' and name <> 'audit'").fetchall()
        return {name: sorted(self.sql.execute(f"select * from {name}").fetchall(), key=repr) for (name,) in names}  # noqa: S608

    def audit(self) -> list[AuditEntry]:
        """Every entry, oldest first."""
        return [entry for entry, _ in audit_entries(self.sql, 0)]

    def events(self, after: int = 0) -> list[str]:
        """What the entries behind `after` are about."""
        return [entry.event for entry, _ in audit_entries(self.sql, after)]

    def call(self, call_id: str = "c1", *, agent_id: str = AGENT, conversation_id: str = TALK) -> CallRecord:
        """A call that must be there."""
        found = call_rows.find(self.transaction(), a_key(call_id, agent_id=agent_id, conversation_id=conversation_id))
        assert found is not None
        return found

    def instance(self, instance_id: str | None) -> InstanceRecord:
        """An instance that must be there."""
        found = instance_rows.get(self.transaction(), instance_id or "")
        assert found is not None
        return found

    def attempt(self, attempt_id: str) -> AttemptRecord:
        """An attempt that must be there."""
        found = instance_rows.attempt(self.transaction(), attempt_id)
        assert found is not None
        return found

    def inbox(self, app_scope: str = "notes", conversation_id: str = TALK) -> list[InboxRow]:
        """Messages that are not acknowledged, in order."""
        return boxes.page(self.transaction(), conversation_id, app_scope, 0, 10_000)

    def outbox(self, agent_id: str = AGENT) -> list[Delivery]:
        """Deliveries that are not settled, in order."""
        return list(boxes.deliveries(self.transaction(), agent_id))

    def stack(self, conversation_id: str = TALK) -> tuple[str, ...]:
        """The focus stack."""
        return instance_rows.stack(self.transaction(), conversation_id)

    def revision(self) -> str:
        """Of the inventory that agents see now."""
        return apps.current_inventory(self.transaction()).revision


def some_settings(
    catalogue: Catalogue = CATALOGUE, bounds: Bounds | None = None, restart: RestartPolicy | None = None
) -> Settings:
    return Settings(catalogue, bounds or Bounds(), restart or RestartPolicy(), cancel_grace_s=10.0, stop_grace_s=2.0)


def some_records(settings: Settings | None = None) -> Records:
    """A new store in memory, made by the project's migrations, with the agents `local` and `other`."""
    sql = sqlite3.connect(":memory:", isolation_level=None)
    sql.execute("pragma foreign_keys = on")
    migrate(Database(sql))
    records = Records(sql, settings=settings or some_settings())
    for name in (AGENT, "other"):
        records.run(agents.add_agent, agents.NewAgent(name, codec.digest(name), None))
    return records


# --- how far a story has come ---


def admitted(records: Records, tool_id: str = "notes.write", call_id: str = "c1", **changes: Any) -> CallRecord:  # noqa: ANN401
    """A call that waits for its app."""
    outcome = records.run(calls.admit, an_invoke(tool_id, call_id, **changes))
    assert isinstance(outcome, calls.CallAnswer), outcome
    names = {name: changes[name] for name in ("agent_id", "conversation_id") if name in changes}
    return records.call(call_id, **names)


def attached(records: Records, instance_id: str | None) -> str:
    """Give an instance a process that is ready; its attempt id is returned."""
    begun = records.run(instances.begin_attempt, instance_id or "")
    assert isinstance(begun, instances.AttemptBegun), begun
    ready = records.run(instances.attach, instances.Attached(begun.attempt_id, "process", SNAPSHOT))
    assert isinstance(ready, instances.AttemptReady), ready
    return begun.attempt_id


def acknowledged(records: Records, call: CallRecord) -> CallRecord:
    """Its app takes a call over."""
    row = boxes.message(records.transaction(), call.conversation_id, call.app_scope, call.message or 0)
    assert row is not None
    assert call.instance_id is not None
    outcome = records.run(calls.acknowledge, calls.Acknowledge(call.instance_id, "att-1", row.number))
    assert isinstance(outcome, calls.Acknowledged), outcome
    return records.call(call.call_id, agent_id=call.agent_id, conversation_id=call.conversation_id)


def running(records: Records, tool_id: str = "notes.write", call_id: str = "c1", **changes: Any) -> CallRecord:  # noqa: ANN401
    """A call that its app has taken over."""
    call = admitted(records, tool_id, call_id, **changes)
    if instance_rows.running_attempt(records.transaction(), call.instance_id or "") is None:
        attached(records, call.instance_id)
    return acknowledged(records, call)


def process_ended(
    records: Records, attempt_id: str, *, counted: bool = True, delivered: tuple[str, ...] = (), reason: str = "exited"
) -> instances.Ended | None:
    """A process is gone."""
    return records.run(instances.end_attempt, instances.AttemptEnd(attempt_id, reason, counted, delivered))


def refused(outcome: object) -> str:
    """The code of a refusal."""
    assert isinstance(outcome, Rejection), outcome
    return str(outcome.code)


def assert_refused(
    records: Records, rule: Callable[[Transaction, A], object], argument: A, code: str, event: str
) -> None:
    """A refusal leaves its audit entry, and nothing else."""
    before, seq = records.everything(), records.chain.seq

    outcome = records.run(rule, argument)

    assert refused(outcome) == code
    assert records.everything() == before
    assert [(entry.event, entry.detail) for entry in records.audit()[seq:]] == [(event, {"code": code})]
    assert records.follow_ups == []
