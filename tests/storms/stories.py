"""What a store does while it is recorded: stories on real files, told to nobody but the recorder.

A fact that was told is either a `Mark`, a place on the audit chain as receipts carry it, or the status of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runtime_actors.records.transaction import Transaction
from runtime_actors.store import files, restoring
from runtime_actors.store.messages import Copy, ExportAudit
from runtime_actors.store.migrations import MIGRATIONS
from tests.store.bench import Bench, a_bench, admit_call, complete_call, note, run_call
from tests.storms.recorder import Recorder

STATE: Final = "s"
NEWER: Final = "create table newer (a integer) strict;\ninsert into newer select seq from audit;\ndrop table newer;\n"


@dataclass(frozen=True, slots=True)
class Mark:
    """A client holds a receipt with this place on the chain."""

    seq: int
    head: bytes


@dataclass(frozen=True, slots=True)
class Known:
    """A client was told that a call is admitted (None) or has this final status."""

    call_id: str
    final: str | None


@dataclass(frozen=True, slots=True)
class Restored:
    """From here on the store is the restored one; what was told before counts up to a place."""

    seq: int
    head: bytes


@dataclass(frozen=True, slots=True)
class MayRestore:
    """From here on the store may be the restored one, as far as the copy goes."""

    seq: int


@contextmanager
def told_bench(recorder: Recorder, durability: str) -> Iterator[Bench]:
    with a_bench(recorder.root / STATE, durability=durability) as bench:
        _tell_mark(bench, recorder)
        yield bench


def _tell_mark(bench: Bench, recorder: Recorder) -> None:
    recorder.told(Mark(*bench.end()))


def _notes(bench: Bench, recorder: Recorder, many: int) -> None:
    """A group of commands, each told when the store tells it."""
    for number in range(many):
        bench.tell(note, f"n{number}", lambda _outcome: _tell_mark(bench, recorder))
    bench.handle()


def _call(bench: Bench, recorder: Recorder, call_id: str) -> None:
    admit_call(bench, call_id)
    recorder.told(Known(call_id, None))
    reporter = run_call(bench, call_id)
    complete_call(bench, reporter)
    recorder.told(Known(call_id, "completed"))
    _tell_mark(bench, recorder)


def first_creation(recorder: Recorder, durability: str) -> None:
    with told_bench(recorder, durability) as bench:
        _notes(bench, recorder, 2)
        _call(bench, recorder, "c1")
        _notes(bench, recorder, 1)


def groups(recorder: Recorder, durability: str) -> None:
    with told_bench(recorder, durability) as bench:
        for number in range(10):
            _notes(bench, recorder, 1 + number % 4)
            _call(bench, recorder, f"g{number}")


def checkpoints(recorder: Recorder, durability: str) -> None:
    """The log is brought into the database and begun again, by itself and on demand; ends and starts between."""
    with told_bench(recorder, durability) as bench:
        bench.opened.sql.execute("pragma wal_autocheckpoint = 12").fetchall()
        for number in range(6):
            _call(bench, recorder, f"k{number}")
    with told_bench(recorder, durability) as bench:
        for number, how in enumerate(("passive", "full", "restart", "truncate")):
            _call(bench, recorder, f"o{number}")
            bench.opened.sql.execute(f"pragma wal_checkpoint({how})").fetchall()
            _notes(bench, recorder, 2)


def backup_and_restore(recorder: Recorder, durability: str) -> None:
    copy = recorder.root / STATE / "copy"
    with told_bench(recorder, durability) as bench:
        _call(bench, recorder, "b1")
        place = bench.end()
        bench.actor.on_receive(Copy(str(copy), lambda _done: None))
        _call(bench, recorder, "b2")
        _notes(bench, recorder, 2)
    recorder.told(MayRestore(place[0]))
    recorder.told(Restored(*restoring.restore(recorder.root / STATE, copy)))
    with told_bench(recorder, durability) as bench:
        _call(bench, recorder, "b3")


def export(recorder: Recorder, durability: str) -> None:
    with told_bench(recorder, durability) as bench:
        _notes(bench, recorder, 4)
        bench.send(ExportAudit(str(recorder.root / STATE / "export.jsonl"), 5, lambda _done: None))
        bench.handle()
        _notes(bench, recorder, 4)


def migration(recorder: Recorder, durability: str) -> None:
    files.open_database(recorder.root / STATE, durability, (*MIGRATIONS, NEWER)).close()


Story = Callable[[Recorder, str], None]


@dataclass(frozen=True, slots=True)
class Tale:
    """A story, and what there is when it begins."""

    play: Story
    base: tuple[Story, ...] = (first_creation,)
    """Stories that came before it, whose end is durable; none for an empty disk."""
    migrations: tuple[str, ...] = MIGRATIONS
    """The schema that whoever opens the images knows."""


TALES: Final = (
    Tale(first_creation, base=()),
    Tale(groups),
    Tale(checkpoints),
    Tale(backup_and_restore),
    Tale(export),
    Tale(migration, migrations=(*MIGRATIONS, NEWER)),
)


# --- stories that break the promise, to see that it is noticed ---


def hasty(recorder: Recorder, durability: str) -> None:
    """Clients are told what is only about to be committed."""

    def told_early(tx: Transaction, name: str) -> str:
        tx.note("test.noted", who=name)
        recorder.told(Mark(tx.chain.seq, tx.chain.head))
        return name

    with told_bench(recorder, durability) as bench:
        for number in range(20):
            bench.ask(told_early, f"n{number}")


def careless(recorder: Recorder, durability: str) -> None:
    """Nothing is synced at all."""
    with told_bench(recorder, durability) as bench:
        bench.opened.sql.execute("pragma synchronous = off").fetchall()
        bench.opened.sql.execute("pragma wal_autocheckpoint = 12").fetchall()
        for number in range(8):
            _call(bench, recorder, f"h{number}")


def play_base(tale: Tale, root: Path, durability: str) -> None:
    """What came before, with nobody listening."""
    for story in tale.base:
        story(Recorder(root), durability)
