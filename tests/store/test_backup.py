"""Backup of a store that is at work, restore of one that is not, and moving old audit entries out of it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime_actors import state_folder
from runtime_actors.client import DoorClient, Refused, door_of
from runtime_actors.errors import DaemonRunning, StoreUnusable
from runtime_actors.records.audit import walk_rows
from runtime_actors.records.transaction import Transaction
from runtime_actors.store import backup, files
from runtime_actors.store.messages import Copy, ExportAudit, Upkeep
from tests.e2e.agent import Agent
from tests.e2e.daemon import Daemon, short_folder
from tests.store.bench import Bench, a_bench, is_rejected, note, run_call

WITHIN_S = 30.0


def fill(tx: Transaction, rows: int) -> None:
    """Something to copy: a kilobyte a row."""
    for _ in range(rows):
        tx.sql.execute("insert into set_aside values (null, 'a', ?, '', '')", ("m" * 1000,))


def copied(bench: Bench, path: Path) -> Any:  # noqa: ANN401 - JSON or a Rejection
    """Copy and wait for the verdict."""
    box: queue.SimpleQueue[object] = queue.SimpleQueue()
    bench.send(Copy(str(path), box.put))
    bench.handle()
    return box.get(timeout=WITHIN_S)


def test_a_copy_is_verified_before_it_is_told(tmp_path: Path) -> None:
    with a_bench(tmp_path / "s") as bench:
        run_call(bench)
        told = copied(bench, tmp_path / "copy")
        end = bench.end()

    assert told == {
        "path": str(tmp_path / "copy"),
        "bytes": (tmp_path / "copy").stat().st_size,
        "audit_seq": end[0],
        "head_hash": end[1].hex(),
    }
    assert backup.verify(tmp_path / "copy") == end
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "s"]
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600


def test_commands_go_on_while_a_copy_is_made_and_the_copy_holds(tmp_path: Path) -> None:
    with a_bench(tmp_path / "s", durability="process") as bench:
        bench.ask(fill, 20_000)
        done: list[str] = []

        def again(name: str) -> None:
            done.append(name)
            if len(done) < 50:
                bench.tell(note, f"n{len(done)}", again)

        box: queue.SimpleQueue[object] = queue.SimpleQueue()
        bench.send(Copy(str(tmp_path / "copy"), box.put))
        bench.tell(note, "n0", again)
        bench.send(Upkeep())
        copy = bench.actor.actor_inbox.get()
        bench.actor.on_receive(copy.message)
        during = len(done)
        told: Any = box.get(timeout=WITHIN_S)
        bench.handle()

        assert during > 10
        assert told["audit_seq"] <= bench.end()[0]
        assert backup.verify(tmp_path / "copy")[0] == told["audit_seq"]
        assert told["audit_seq"] >= during - 1  # the last one came after the last piece
        assert bench.walked() == bench.end()


def test_a_copy_of_a_damaged_store_is_refused_and_removed(tmp_path: Path) -> None:
    state = tmp_path / "s"
    with a_bench(state) as bench:
        bench.ask(fill, 2000)
    with (state / files.DATABASE).open("r+b") as file:
        file.seek(200 * 4096)
        file.write(b"\xff" * 4096 * 20)
    with a_bench(state) as bench:
        told = copied(bench, tmp_path / "copy")

    assert is_rejected(told, "store_unavailable")
    assert not (tmp_path / "copy").exists()


def test_a_copy_of_a_store_with_a_broken_chain_is_refused_and_removed(tmp_path: Path) -> None:
    with a_bench(tmp_path / "s") as bench:
        for number in range(5):
            bench.ask(note, str(number))
        bench.opened.sql.execute("update audit set at = 'yesterday' where seq = 2")
        told = copied(bench, tmp_path / "copy")

    assert is_rejected(told, "store_unavailable")
    assert "entry 2" in told.detail
    assert not (tmp_path / "copy").exists()


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "copy").write_text("mine")
    with a_bench(tmp_path / "s") as bench:
        told = copied(bench, tmp_path / "copy")

    assert is_rejected(told, "not_found")
    assert (tmp_path / "copy").read_text() == "mine"


def test_a_copy_ends_early_when_the_store_is_stopped(tmp_path: Path) -> None:
    with a_bench(tmp_path / "s") as bench:
        bench.ask(fill, 5000)
        box: queue.SimpleQueue[object] = queue.SimpleQueue()
        bench.send(Copy(str(tmp_path / "copy"), box.put))
        copy = bench.actor.actor_inbox.get()
        stopped = bench.actor.actor_ref.ask("stop", block=False)
        bench.actor.on_receive(copy.message)

        assert is_rejected(box.get(timeout=1), "store_unavailable")
        assert not (tmp_path / "copy").exists()
        assert not bench.actor.actor_inbox.empty()
    del stopped


# --- verify and restore ---


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of a small store."""
    with a_bench(tmp_path / "source") as bench:
        for number in range(3):
            bench.ask(note, f"kept {number}")
        copied(bench, tmp_path / "a copy?#%41.db")
    return tmp_path / "a copy?#%41.db"


def test_a_restored_store_begins_a_new_series_of_numbers_and_notes_the_restore(copy: Path, tmp_path: Path) -> None:
    state = tmp_path / "s"
    with a_bench(state) as bench:
        for number in range(9):
            bench.ask(note, f"old {number}")
        old_end, old_stream = bench.end(), bench.row("select value from meta where name = 'stream'")
    token = (state / "tokens" / "local").read_text()

    seq, head = backup.restore(state, copy)

    with a_bench(state) as bench:
        assert bench.walked() == bench.end() == bench.opened.side.read() == (seq, head)
        assert bench.row("select count(*) from audit where event = 'test.noted'") == (3,)
        assert bench.row("select event from audit order by seq desc") == ("store.restored",)
        assert bench.row("select value from meta where name = 'stream'") != old_stream
    assert (state / "tokens" / "local").read_text() == token
    assert backup.verify(state / "store.db.before-restore") == old_end


def test_a_restore_can_be_taken_back(copy: Path, tmp_path: Path) -> None:
    state = tmp_path / "s"
    with a_bench(state) as bench:
        bench.ask(note, "old")
    backup.restore(state, copy)

    backup.restore(state, state / "store.db.before-restore")

    with a_bench(state) as bench:
        assert bench.row("select count(*) from audit where event = 'test.noted'") == (1,)


def test_a_copy_can_be_restored_into_an_empty_folder(copy: Path, tmp_path: Path) -> None:
    backup.restore(tmp_path / "empty", copy)

    with a_bench(tmp_path / "empty") as bench:
        assert bench.walked() == bench.end()
        assert bench.end()[0] == 4


@pytest.mark.parametrize("old", ["garbage", "folder", "gone"])
def test_a_copy_takes_the_place_of_a_store_that_cannot_be_opened(copy: Path, tmp_path: Path, old: str) -> None:
    state = tmp_path / "s"
    with a_bench(state) as bench:
        bench.ask(note, "old")
    database = state / files.DATABASE
    database.unlink()
    if old == "garbage":
        database.write_bytes(b"garbage" * 1000)
        (state / files.WAL).write_bytes(b"more")
    elif old == "folder":
        database.mkdir()

    backup.restore(state, copy)

    with a_bench(state) as bench:
        assert bench.walked() == bench.end()
    if old == "garbage":
        assert (state / "store.db.before-restore").read_bytes() == b"garbage" * 1000
        assert (state / "store.db.before-restore-wal").read_bytes() == b"more"


@pytest.mark.parametrize("harm", ["cut", "garbage", "empty", "missing", "chain", "version", "page"])
def test_a_copy_that_does_not_hold_is_refused_and_nothing_is_changed(copy: Path, tmp_path: Path, harm: str) -> None:
    state = tmp_path / "s"
    with a_bench(state) as bench:
        bench.ask(note, "old")
        end = bench.end()
    if harm == "cut":
        os.truncate(copy, copy.stat().st_size // 2)
    elif harm == "garbage":
        copy.write_bytes(b"garbage" * 5000)
    elif harm == "empty":
        copy.write_bytes(b"")
    elif harm == "missing":
        copy.unlink()
    elif harm == "page":
        with copy.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * 4096)
    else:
        with contextlib.closing(sqlite3.connect(copy)) as sql:
            sql.execute("pragma user_version = 99" if harm == "version" else "update audit set seq = 9 where seq = 2")
            sql.commit()
    before = sorted(path.name for path in state.iterdir())

    with pytest.raises(StoreUnusable):
        backup.restore(state, copy)

    assert sorted({path.name for path in state.iterdir()} - {state_folder.LOCK}) == before
    with a_bench(state) as bench:
        assert bench.walked() == bench.end() == end


def test_a_folder_that_a_daemon_holds_is_not_restored_into(copy: Path, tmp_path: Path) -> None:
    with a_bench(tmp_path / "s"):
        pass
    held = state_folder.lock(tmp_path / "s")
    try:
        with pytest.raises(DaemonRunning):
            backup.restore(tmp_path / "s", copy)
    finally:
        os.close(held)


# --- the export of old audit entries ---


def exported(bench: Bench, path: Path, keep: int) -> Any:  # noqa: ANN401 - JSON or a Rejection
    box: queue.SimpleQueue[object] = queue.SimpleQueue()
    bench.send(ExportAudit(str(path), keep, box.put))
    bench.handle()
    return box.get(timeout=1)


def noted(bench: Bench, count: int) -> None:
    for number in range(count):
        bench.tell(note, str(number))
    bench.handle()


def test_an_export_leaves_an_anchor_and_both_parts_are_one_chain(tmp_path: Path) -> None:
    with a_bench(tmp_path / "s") as bench:
        noted(bench, 1700)
        genesis = bench.actor.anchor

        told = exported(bench, tmp_path / "old.jsonl", 100)

        assert told["entries"] == 1600
        assert (told["from_seq"], told["through_seq"]) == (1, 1600)
        assert bench.actor.anchor == (1600, bytes.fromhex(told["head_hash"]))
        assert bench.row("select min(seq), max(seq) from audit") == (1601, 1701)
        assert bench.row("select event from audit order by seq desc") == ("audit.exported",)
        assert bench.walked() == bench.end() == bench.opened.side.read()
        lines = [json.loads(line) for line in (tmp_path / "old.jsonl").read_bytes().splitlines()]
        assert walk_lines(genesis, lines) == bench.actor.anchor

    with a_bench(tmp_path / "s") as bench:
        assert bench.walked() == bench.end()


def walk_lines(start: tuple[int, bytes], lines: list[dict[str, Any]]) -> object:
    """Verify an exported file as docs/protocol.md, section 7, says."""
    from runtime_actors.contract import codec  # noqa: PLC0415 - only here

    rows = [
        (
            line["seq"], line["at"], line["event"], codec.encode(line["subject"]), codec.encode(line["detail"]),
            bytes.fromhex(line["digest"]), bytes.fromhex(line["head_hash"]),
        )
        for line in lines
    ]  # fmt: skip
    return walk_rows(*start, rows)


def test_the_next_export_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    with a_bench(tmp_path / "s") as bench:
        noted(bench, 20)
        first = exported(bench, tmp_path / "1", 5)
        noted(bench, 20)

        second = exported(bench, tmp_path / "2", 0)

        assert second["from_seq"] == first["through_seq"] + 1
        assert bench.row("select count(*) from audit") == (1,)
        assert bench.walked() == bench.end()
        assert backup_of(bench, tmp_path) == bench.end()


def backup_of(bench: Bench, folder: Path) -> tuple[int, bytes]:
    copied(bench, folder / "copy")
    return backup.verify(folder / "copy")


def test_an_export_of_nothing_makes_an_empty_file_and_no_entry(tmp_path: Path) -> None:
    with a_bench(tmp_path / "s") as bench:
        noted(bench, 5)
        before = bench.digest()

        told = exported(bench, tmp_path / "none", 10)

        assert told["entries"] == 0
        assert (tmp_path / "none").read_bytes() == b""
        assert bench.digest() == before


def test_commands_go_on_between_the_slices_of_an_export(tmp_path: Path) -> None:
    with a_bench(tmp_path / "s") as bench:
        noted(bench, 2000)
        box: list[object] = []
        seen: list[int] = []
        bench.send(ExportAudit(str(tmp_path / "old"), 0, box.append))
        for _ in range(4):
            bench.tell(note, "between", lambda _outcome: seen.append(len(box)))
            bench.actor.on_receive(bench.actor.actor_inbox.get().message)
        bench.handle()

        assert seen.count(0) >= 3
        assert bench.walked() == bench.end()


def test_an_export_that_cannot_be_written_deletes_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with a_bench(tmp_path / "s") as bench:
        noted(bench, 5)
        before = bench.digest()

        assert is_rejected(exported(bench, tmp_path / "mine", 0), "not_found")
        assert is_rejected(exported(bench, tmp_path / "no" / "folder", 0), "not_found")

        assert bench.digest() == before
        assert (tmp_path / "mine").read_text() == "mine"


def test_a_broken_chain_is_not_exported(tmp_path: Path) -> None:
    with a_bench(tmp_path / "s") as bench:
        noted(bench, 5)
        bench.opened.sql.execute("update audit set event = 'test.forged' where seq = 2")
        before = bench.digest()

        told = exported(bench, tmp_path / "old", 0)

        assert is_rejected(told, "internal_error")
        assert bench.digest() == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]


def test_an_export_whose_rows_cannot_be_deleted_keeps_file_and_rows(tmp_path: Path) -> None:
    with a_bench(tmp_path / "s") as bench:
        noted(bench, 5)
        bench.opened.sql.execute("create trigger planted before delete on audit begin select raise(abort, 'no'); end")

        told = exported(bench, tmp_path / "old", 0)

        assert is_rejected(told, "internal_error")
        assert bench.actor.anchor[0] == 0
        assert bench.walked() == bench.end()
        assert len((tmp_path / "old").read_bytes().splitlines()) == 5


def test_a_break_behind_the_newest_entries_is_found_while_serving(tmp_path: Path) -> None:
    with a_bench(tmp_path / "s") as bench:
        noted(bench, 3000)
        bench.opened.sql.execute("update audit set event = 'test.forged' where seq = 500")
    with a_bench(tmp_path / "s") as bench:
        for _ in range(100):
            bench.send(Upkeep())
        bench.handle()

        assert bench.actor.broken_chain == "entry 500 does not match its hash"
        assert bench.ask(note, "still served") == "still served"


# --- the same through a daemon ---


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with short_folder() as folder, Daemon(folder / "s") as one:
        yield one


def order(daemon: Daemon, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    with DoorClient(door_of(daemon.state, "control")) as door:
        data: dict[str, Any] = door.request(f"lineup.v1.control.{kind}", body, timeout_s=WITHIN_S, repeat=False)[1][
            "data"
        ]
        return data


def test_a_backup_under_load_is_restored_and_its_calls_come_to_their_ends(daemon: Daemon) -> None:
    copy = daemon.state.parent / "copy"
    daemon.start()
    with Agent(daemon.state) as agent:
        agent.attached()
        first = [agent.invoke("probe.echo", str(number)) for number in range(20)]
        agent.final(first[-1])
        told: list[dict[str, Any]] = []
        taken = threading.Thread(target=lambda: told.append(order(daemon, "backup", {"path": str(copy)})))
        taken.start()
        later = []
        while taken.is_alive() or not told:
            later.append(agent.invoke("probe.echo", "later"))
            agent.final(later[-1])
        stream = agent.stream
    assert backup.verify(copy)[0] == told[0]["audit_seq"]
    with pytest.raises(DaemonRunning):
        backup.restore(daemon.state, copy)
    daemon.kill()

    backup.restore(daemon.state, copy)

    daemon.start()
    with Agent(daemon.state) as agent:
        agent.attached()
        assert agent.stream != stream
        assert agent.get(first[0])[1]["call"]["status"] == "completed"
        again = agent.invoke("probe.echo", "again")
        assert agent.final(again)["status"] == "completed"
    assert order(daemon, "verify_audit", {})["audit_seq"] > told[0]["audit_seq"]
    assert daemon.terminate() == 0


def test_an_export_through_the_control_door_keeps_the_log_verifiable(daemon: Daemon) -> None:
    daemon.start()
    for number in range(30):
        daemon.control("switch", {"kind": "app", "name": "probe", "enabled": bool(number % 2)})
    path = daemon.state.parent / "old.jsonl"

    told = order(daemon, "export_audit", {"path": str(path), "keep": 3})

    assert told["entries"] == len(path.read_bytes().splitlines()) > 20
    found = order(daemon, "verify_audit", {})
    assert found["entries"] == len(daemon.audit()) < 10
    with pytest.raises(Refused) as refused:
        order(daemon, "export_audit", {"path": str(path), "keep": 0})
    assert refused.value.code == "not_found"
    assert daemon.terminate() == 0
    daemon.start()
    assert order(daemon, "verify_audit", {})["audit_seq"] > found["audit_seq"]
