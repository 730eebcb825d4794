"""A store actor on real files, driven on the test's own thread: what is told is handled when the test says so."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from runtime_actors import state_folder
from runtime_actors.actor import Care
from runtime_actors.commands import calls, follow_ups, instances
from runtime_actors.config import Bounds, Failpoint
from runtime_actors.contract import codec
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.tools import CallStatus
from runtime_actors.records.audit import anchor, walk
from runtime_actors.records.transaction import Transaction
from runtime_actors.rules.calls import CallKey
from runtime_actors.store import files
from runtime_actors.store.actor import StoreActor, StoreParts
from runtime_actors.store.failpoints import Failpoints
from runtime_actors.store.messages import Run
from runtime_actors.store.opening import OpenStore, open_store
from tests.fakes import SNAPSHOT, CountingIds, HandClock, Recorder, an_invoke, some_settings

FOLLOW_UPS: Final = (
    follow_ups.Deliver,
    follow_ups.Settled,
    follow_ups.TellCallChanged,
    follow_ups.TellContext,
    follow_ups.Post,
    follow_ups.InstanceWanted,
    follow_ups.InstanceDone,
    follow_ups.DueAt,
    follow_ups.InventoryChanged,
)


@dataclass(slots=True)
class Bench:
    """One opened store."""

    state: Path
    opened: OpenStore
    clock: HandClock
    actor: StoreActor
    told: list[object] = field(default_factory=list)
    """Outcomes and follow-ups, in the order they were told."""
    unusable: list[str] = field(default_factory=list)
    """Why the daemon would end."""

    def tell(
        self,
        rule: Callable[[Transaction, Any], Any],
        argument: object = None,
        then: Callable[[Any], None] | None = None,
        *,
        call_key: CallKey | None = None,
    ) -> None:
        """Leave a command."""
        self.send(Run(rule, argument, then or self.told.append, call_key))

    def send(self, message: object) -> None:
        """Leave any message."""
        self.actor.actor_ref.tell(message)

    def handle(self) -> list[object]:
        """Handle what waits; everything told so far."""
        while not self.actor.actor_inbox.empty():
            self.actor.on_receive(self.actor.actor_inbox.get().message)
        return self.told

    def ask(self, rule: Callable[[Transaction, Any], Any], argument: object = None) -> Any:  # noqa: ANN401 - the outcome
        """One command alone, and its outcome."""
        outcomes: list[object] = []
        self.tell(rule, argument, outcomes.append)
        self.handle()
        assert len(outcomes) == 1
        return outcomes[0]

    def row(self, sql: str, *arguments: object) -> tuple[Any, ...]:
        """The first row."""
        found: tuple[Any, ...] = self.opened.sql.execute(sql, arguments).fetchone()
        return found

    def status(self, call_id: str = "c1") -> str | None:
        """Of a call, if there is one."""
        row = self.opened.sql.execute("select status from calls where call_id = ?", (call_id,)).fetchone()
        return None if row is None else str(row[0])

    def walked(self) -> object:
        """Where the chain ends, or where it breaks."""
        return walk(self.opened.sql, *anchor(self.opened.sql))

    def end(self) -> tuple[int, bytes]:
        """Where the actor thinks the chain ends."""
        return self.opened.chain.seq, self.opened.chain.head

    def digest(self) -> str:
        """Of every row of every table, to see that nothing changed."""
        return hashlib.sha256("\n".join(self.opened.sql.iterdump()).encode()).hexdigest()


@contextlib.contextmanager
def a_bench(
    state: Path,
    *,
    durability: str = "power",
    bounds: Bounds | None = None,
    failpoints: tuple[Failpoint, ...] = (),
    side: Callable[[Path], files.SideFile] | None = None,
    act: Callable[[str], None] = lambda _action: None,
) -> Iterator[Bench]:
    """Open the folder as `boot` does, without a lock and threads, and close it as a stopped actor does."""
    state_folder.prepare(state)
    clock = HandClock()
    opened = open_store(state, durability, clock)
    if side is not None:
        opened.side.close()
        opened = replace(opened, side=side(state))
    unusable: list[str] = []
    recorder: Recorder[object] = Recorder()
    parts = StoreParts(
        sql=opened.sql,
        chain=opened.chain,
        side=opened.side,
        ballast=opened.ballast,
        identity=opened.identity,
        settings=some_settings(bounds=bounds),
        clock=clock,
        ids=CountingIds(),
        listeners=dict.fromkeys(FOLLOW_UPS, recorder),
        failpoints=Failpoints(failpoints, act),
        unusable=unusable.append,
    )
    care = Care(set_aside=lambda aside: unusable.append(repr(aside)), give_up=_give_up, born=lambda _actor: None)
    actor = StoreActor(care, parts)
    bench = Bench(state, opened, clock, actor, recorder.messages, unusable)
    try:
        yield bench
    finally:
        actor.on_stop()


def _give_up(name: str, error: BaseException) -> None:
    raise AssertionError(f"the {name} gave up") from error


# --- rules that tests run ---


def note(tx: Transaction, name: str) -> str:
    """Leaves an entry, and says its name."""
    tx.note("test.noted", who=name)
    return name


def note_then_raise(tx: Transaction, error: BaseException) -> str:
    """Leaves an entry and a follow-up that must not stay, and raises."""
    tx.note("test.undone")
    tx.follow_ups.append(follow_ups.DueAt(1.0))
    raise error


def is_rejected(outcome: object, code: str) -> bool:
    """Whether it was refused with this code."""
    return isinstance(outcome, Rejection) and outcome.code == code


# --- how far a story has come ---


def admit_call(bench: Bench, call_id: str = "c1") -> object:
    """The outcome of admitting a call to `notes`."""
    return bench.ask(calls.admit, an_invoke(call_id=call_id))


def run_call(bench: Bench, call_id: str = "c1") -> calls.Reporter:
    """A call that is running; who may report about it."""
    answer = admit_call(bench, call_id)
    assert isinstance(answer, calls.CallAnswer), answer
    instance_id = answer.call.instance_id
    assert instance_id is not None
    begun = bench.ask(instances.begin_attempt, instance_id)
    if isinstance(begun, instances.AttemptBegun):
        bench.ask(instances.attach, instances.Attached(begun.attempt_id, "process", SNAPSHOT))
    reporter = calls.Reporter(instance_id, "att-1", "q1", call_id)
    progressed = bench.ask(calls.report_progress, calls.ProgressReport(reporter, codec.encode({"percent": 1})))
    assert isinstance(progressed, calls.Reported), progressed
    return reporter


def complete_call(bench: Bench, reporter: calls.Reporter) -> object:
    """The outcome of its result."""
    result = {"ok": True}
    report = calls.FinalReport(reporter, CallStatus.COMPLETED, codec.encode(result), result=result)
    return bench.ask(calls.finish, report)
