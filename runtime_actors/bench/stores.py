"""Stores to measure with: many open calls, as a killed daemon leaves them, and a long history."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import sqlite3
import sys
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from runtime_actors import registry, state_folder
from runtime_actors.bench import ground
from runtime_actors.bench.agent import ECHO, GIVEN, Agent
from runtime_actors.bench.ground import BenchFailed, Daemon
from runtime_actors.commands import calls, instances
from runtime_actors.config import Bounds
from runtime_actors.contract import codec
from runtime_actors.contract.rejection import Rejection
from runtime_actors.records.audit import entry_of
from runtime_actors.records.transaction import Settings
from runtime_actors.rules.audit import AuditEntry, next_head
from runtime_actors.rules.calls import CallKey
from runtime_actors.rules.restart import RestartPolicy
from runtime_actors.store.actor import StoreParts
from runtime_actors.store.failpoints import Failpoints
from runtime_actors.store.groups import Groups
from runtime_actors.store.messages import Run
from runtime_actors.store.opening import open_store
from runtime_actors.store.space import Space
from runtime_actors.system import RandomIds, SystemClock

_A_CONVERSATION: Final = 1000
_GROUP: Final = 500
_SLICE: Final = 10_000
_PATTERNS: Final = 1000
"""Calls that a history is made of."""
_IN_FLIGHT: Final = 64
_CACHE_KIB: Final = 256 * 1024


# --- open calls ---


def leave_open_calls(state: Path, apps: Path, count: int) -> None:
    """Leave a store as a daemon leaves it that is killed with so many calls open, half of which are running.

    Raises:
        BenchFailed: The calls were refused.

    """
    if ground.tied(["-m", __name__, str(state), str(apps), str(count)]).wait():
        raise BenchFailed("a store with open calls could not be made")


class _Nobody:
    """Gets what a daemon's actors would."""

    def tell(self, message: object) -> None:
        """Drop it, as a kill does."""


def admit_and_die(state: Path, apps: Path, count: int) -> None:
    """Run the runtime's own commands in groups of the store's own, and end as if killed."""
    state_folder.prepare(state)
    opened = open_store(state, "process", SystemClock())
    catalogue, _ = registry.load((apps,))
    parts = StoreParts(
        sql=opened.sql,
        chain=opened.chain,
        side=opened.side,
        ballast=opened.ballast,
        identity=opened.identity,
        settings=Settings(catalogue, Bounds(), RestartPolicy(), cancel_grace_s=10, stop_grace_s=2),
        clock=SystemClock(),
        ids=RandomIds(),
        listeners=defaultdict(_Nobody),
        failpoints=Failpoints((), sys.exit),
        unusable=sys.exit,
    )
    groups = Groups(parts, Space(opened.sql, opened.ballast, opened.identity.wal))
    for begin in range(0, count, _A_CONVERSATION):
        _open_calls(groups, f"talk-{begin // _A_CONVERSATION}", min(_A_CONVERSATION, count - begin))
    os._exit(0)


def _open_calls(groups: Groups, conversation: str, count: int) -> None:
    keys = [CallKey("local", conversation, uuid.uuid4().hex) for _ in range(count)]
    admitted: list[calls.CallAnswer] = _run(groups, [(calls.admit, _checked(key)) for key in keys])
    instance_id = str(admitted[0].call.instance_id)
    (begun,) = _run(groups, [(instances.begin_attempt, instance_id)])
    _run(groups, [(instances.attach, instances.Attached(begun.attempt_id, "process", b"\x80"))])
    progress = codec.encode({"percent": 1})
    reporters = [calls.Reporter(instance_id, begun.attempt_id, key.call_id, key.call_id) for key in keys[::2]]
    _run(groups, [(calls.report_progress, calls.ProgressReport(by, progress)) for by in reporters])


def _checked(key: CallKey) -> calls.CheckedInvoke:
    digest = hashlib.sha256(key.call_id.encode()).digest()
    return calls.CheckedInvoke(key, ECHO, "r", codec.encode(dict(GIVEN)), digest, None)


def _run(groups: Groups, wanted: list[tuple[Callable[..., Any], Any]]) -> list[Any]:
    outcomes: list[Any] = []
    for begin in range(0, len(wanted), _GROUP):
        groups.run([Run(rule, argument, outcomes.append) for rule, argument in wanted[begin : begin + _GROUP]])
    refused = [one for one in outcomes if isinstance(one, Rejection)]
    if refused:
        sys.exit(f"refused: {refused[0]}")
    return outcomes


# --- a long history ---


def make_history(state: Path, count: int) -> None:
    """Make that many calls with a daemon, all of them finished and acknowledged, and stop it."""
    with Daemon(state) as daemon, Agent(daemon) as agent:
        agent.flow(count, _IN_FLIGHT)
        agent.settle()


def lengthen(source: Path, state: Path, count: int, step: Callable[[], None]) -> None:
    """Copy a stopped store, and repeat its finished calls and their audit entries until there are `count` of them.

    Rows are copied with new ids and the chain goes on over the entries, so the store holds: a daemon opens and verifies
    it. `step` is called every 10,000 calls.
    """
    shutil.copytree(source, state, ignore=shutil.ignore_patterns("run", "logs"))
    opened = open_store(state, "process", SystemClock())
    sql, seq, head = opened.sql, opened.chain.seq, opened.chain.head
    try:
        sql.execute(f"pragma cache_size = -{_CACHE_KIB}")  # the ids come in no order, as those of agents do
        patterns = itertools.cycle(_patterns(sql))
        (there,) = sql.execute("select count(*) from calls").fetchone()
        for begin in range(there, count, _SLICE):
            sql.execute("begin immediate")
            for _ in range(begin, min(count, begin + _SLICE)):
                seq, head = next(patterns).repeat(sql, seq, head)
            sql.execute("commit")
            step()
        opened.side.write(seq, head)
    finally:
        sql.close()
        opened.side.close()


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A finished call: its row, and its audit entries."""

    row: dict[str, object]
    entries: tuple[AuditEntry, ...]
    insert: str

    def repeat(self, sql: sqlite3.Connection, seq: int, head: bytes) -> tuple[int, bytes]:
        """Write it once more under a new id, behind `(seq, head)`; the end of the chain then."""
        call_id = uuid.uuid4().hex
        sql.execute(self.insert, (self.row | {"seq": None, "call_id": call_id}))
        for pattern in self.entries:
            seq += 1
            one = replace(pattern, seq=seq, subject=pattern.subject | {"call_id": call_id})
            head = next_head(head, one)
            names, detail = codec.encode(one.subject), codec.encode(one.detail)
            sql.execute(
                "insert into audit values (?, ?, ?, ?, ?, ?, ?)",
                (seq, one.at, one.event, names, detail, one.digest, head),
            )
        return seq, head


def _patterns(sql: sqlite3.Connection) -> Iterator[_Pattern]:
    """The first calls, and their audit entries, of which each has two or three."""
    columns = [str(row[1]) for row in sql.execute("pragma table_info(calls)")]
    insert = f"insert into calls ({', '.join(columns)}) values ({', '.join(f':{name}' for name in columns)})"  # noqa: S608
    entries: dict[str, list[AuditEntry]] = defaultdict(list)
    first = "select seq, at, event, subject, detail, digest from audit order by seq limit ?"
    for found in sql.execute(first, (10 * _PATTERNS,)):
        entry = entry_of(found)
        if "call_id" in entry.subject:
            entries[entry.subject["call_id"]].append(entry)
    rows = sql.execute("select * from calls where due_boot_s is null order by seq limit ?", (_PATTERNS,)).fetchall()
    for row in rows:
        values = dict(zip(columns, row, strict=True))
        yield _Pattern(values, tuple(entries[str(values["call_id"])]), insert)


if __name__ == "__main__":
    admit_and_die(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
