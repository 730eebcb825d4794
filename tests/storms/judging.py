"""Opens what power left as a daemon would, and says what of it breaks a promise."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from runtime_actors.commands.recovery import Recovered, recover, recover_call
from runtime_actors.errors import StoreUnusable
from runtime_actors.records.audit import anchor, audit_entries, walk
from runtime_actors.rules.calls import FINAL
from runtime_actors.store import files
from runtime_actors.store.migrations import MIGRATIONS
from tests.store.bench import Bench, a_bench
from tests.storms.images import Image
from tests.storms.stories import STATE, Known, Mark, MayRestore, Restored

_BALLAST: Final = "ballast"


def judged(image: Image, folder: Path, ballast: Path, durability: str, migrations: tuple[str, ...]) -> list[str]:
    """What is wrong with an image: of what was told something is lost, or it cannot be opened, or is half done.

    `folder` is there and empty, on the same disk as `ballast`, which spares the making of one.
    """
    image.leave_in(folder)
    state = folder / STATE
    if not state.exists():
        return ["the whole state folder is gone, and clients were told"] if image.told else []
    (state / _BALLAST).unlink(missing_ok=True)
    os.link(ballast, state / _BALLAST)
    try:
        if len(migrations) > len(MIGRATIONS):
            with closing(files.open_database(state, durability, migrations)) as sql:
                return list(_broken_store(sql, state, image))
        with a_bench(state, durability=durability) as bench:
            return list(_broken(bench, state, image))
    except StoreUnusable as error:
        return [f"refused: {error}"]
    except Exception as error:  # noqa: BLE001 - a traceback where words were promised is what is looked for
        return [f"{type(error).__name__}: {error}"]


def _broken(bench: Bench, state: Path, image: Image) -> Iterator[str]:
    yield from _broken_store(bench.opened.sql, state, image)
    kept = bench.opened.side.read()
    if kept is None or kept[0] > bench.end()[0]:
        yield f"the side file says {kept and kept[0]}, the store ends at {bench.end()[0]}"
    before = bench.end()[0]
    found = bench.ask(recover)
    if not isinstance(found, Recovered):
        yield f"recovery: {found}"
        return
    for key in found.interrupted:
        bench.ask(recover_call, key)
    if bench.end()[0] <= before or bench.walked() != bench.end() or bench.unusable:
        yield f"recovery left a broken store: {bench.walked()}, {bench.unusable}"


def _broken_store(sql: sqlite3.Connection, state: Path, image: Image) -> Iterator[str]:
    found = sql.execute("pragma integrity_check").fetchall()
    if found != [("ok",)]:
        yield f"corrupt: {found[:3]}"
        return
    if sql.execute("pragma foreign_key_check").fetchall():
        yield "a row refers to nothing"
    walked = walk(sql, *anchor(sql))
    if not isinstance(walked, tuple):
        yield f"the chain is broken: {walked}"
    yield from _lost(sql, state, image)
    yield from _halves(sql)


def _lost(sql: sqlite3.Connection, state: Path, image: Image) -> Iterator[str]:
    """Of what was told."""
    told = image.told
    was_restored = any(entry.event == "store.restored" for entry, _ in audit_entries(sql, anchor(sql)[0]))
    for number, fact in enumerate(told):
        match fact:
            case Mark(seq, head) if not was_restored or _holds(told, number, seq):
                if _head(sql, state, seq) != head:
                    yield f"lost: a receipt names entry {seq}, which is not on the chain"
            case Restored() if not was_restored:
                yield "lost: the restore was told to be done"
            case Known(call_id, final) if not was_restored or _holds(told, number, 0):
                row = sql.execute("select status from calls where call_id = ?", (call_id,)).fetchone()
                if row is None or (final is not None and row[0] != final):
                    yield f"lost: call {call_id} was told to be {final or 'admitted'}, and is {row and row[0]}"


def _holds(told: tuple[object, ...], number: int, seq: int) -> bool:
    """Whether a fact holds in a restored store too: the copy had it, or it was told of the restored store."""
    begun = next((at for at, fact in enumerate(told) if isinstance(fact, MayRestore)), len(told))
    if number > begun:
        return True
    through = next((fact.seq for fact in told if isinstance(fact, MayRestore)), 0)
    if seq:
        return seq <= through
    return any(isinstance(fact, Mark) and fact.seq <= through for fact in told[number:begun])


def _head(sql: sqlite3.Connection, state: Path, seq: int) -> bytes | None:
    start, head = anchor(sql)
    if seq == start:
        return head
    if seq > start:
        row = sql.execute("select head from audit where seq = ?", (seq,)).fetchone()
        return bytes(row[0]) if row else None
    try:
        exported = [json.loads(line) for line in (state / "export.jsonl").read_text().splitlines()]
    except (OSError, ValueError):
        return None
    return next((bytes.fromhex(entry["head_hash"]) for entry in exported if entry["seq"] == seq), None)


def _halves(sql: sqlite3.Connection) -> Iterator[str]:
    """Records and log are written together, so each says what the other does."""
    if anchor(sql)[0]:
        return  # the log is not all here
    admitted, ended = set[str](), set[str]()
    for entry, _ in audit_entries(sql, 0):
        if entry.event == "call.admitted":
            admitted.add(str(entry.subject["call_id"]))
        elif entry.event == "call.ended":
            ended.add(str(entry.subject["call_id"]))
    calls = dict(sql.execute("select call_id, status from calls").fetchall())
    results = {row[0] for row in sql.execute("select call_id from outbox where kind = 'lineup.v1.tool.result'")}
    if calls.keys() != admitted:
        yield f"half done: calls {calls.keys() ^ admitted} differ in records and log"
    finals = {call_id for call_id, status in calls.items() if status in FINAL}
    if not finals == ended == results:
        yield f"half done: ended are {sorted(finals)}, in the log {sorted(ended)}, in the outbox {sorted(results)}"
