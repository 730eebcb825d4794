"""A log that was cut or damaged: what opens is a prefix, and what the side file knows is never lost in silence."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime_actors.errors import StoreUnusable
from runtime_actors.records.audit import anchor, walk
from runtime_actors.store import files
from runtime_actors.store.backup import accept_lost_tail
from runtime_actors.store.opening import open_store
from runtime_actors.store.verifying import verify
from tests.fakes import HandClock
from tests.store.bench import a_bench, complete_call, run_call

_KEPT = (files.DATABASE, files.WAL, files.SIDE_FILE)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store as kill -9 leaves it: 12 calls came to their ends, most of them only in the log."""
    state = tmp_path_factory.mktemp("live")
    left = tmp_path_factory.mktemp("crashed")
    with a_bench(state) as bench:
        for number in range(12):
            complete_call(bench, run_call(bench, f"c{number}"))
            if number == 3:
                bench.opened.sql.execute("pragma wal_checkpoint(truncate)").fetchall()
        # In another process: closing a database file here would drop SQLite's locks on it.
        subprocess.run(["cp", "-r", f"{state}/.", str(left)], check=True)
    return left


def opened_end(crashed: Path, state: Path, harm: Callable[[Path], None]) -> tuple[int, bytes] | None:
    """Open a harmed copy: the end of a chain that holds, or None if it was refused in words."""
    for name in _KEPT:
        shutil.copy(crashed / name, state / name)
    shutil.copytree(crashed / "tokens", state / "tokens", dirs_exist_ok=True)
    if not (state / files.BALLAST).exists():
        os.link(crashed / files.BALLAST, state / files.BALLAST)
    harm(state)
    try:
        opened = open_store(state, "process", HandClock())
    except StoreUnusable:
        return None
    try:
        end = opened.chain.seq, opened.chain.head
        assert walk(opened.sql, *anchor(opened.sql)) == end
        return end
    finally:
        opened.sql.close()
        opened.side.close()


def committed(crashed: Path) -> tuple[int, bytes]:
    side = files.SideFile(crashed)
    kept = side.read()
    side.close()
    assert kept is not None
    return kept


def test_a_crashed_store_opens_with_all_that_was_committed(crashed: Path, tmp_path: Path) -> None:
    assert opened_end(crashed, tmp_path, lambda _state: None) == committed(crashed)


def _cuts(size: int) -> Iterator[int]:
    chance = random.Random(1)  # noqa: S311 - for repeatable cuts
    yield from (0, 1, 31, 32, 33, size - 1, size)
    yield from chance.sample(range(size), 430)


def test_a_log_that_was_cut_anywhere_is_refused_unless_nothing_was_lost(crashed: Path, tmp_path: Path) -> None:
    size = (crashed / files.WAL).stat().st_size
    found: Counter[str] = Counter()

    for cut in set(_cuts(size)):
        end = opened_end(crashed, tmp_path, lambda state, cut=cut: os.truncate(state / files.WAL, cut))  # type: ignore[misc]
        assert end in {None, committed(crashed)}, cut
        found["refused" if end is None else "whole"] += 1

    assert found.total() > 400
    assert found["refused"] > 300
    assert found["whole"] >= 1


def flip(path: Path, bit: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[bit // 8] ^= 1 << bit % 8
    path.write_bytes(bytes(raw))


@pytest.mark.parametrize(("name", "many"), [(files.WAL, 420), (files.DATABASE, 420), (files.SIDE_FILE, 150)])
def test_a_flipped_bit_is_refused_unless_nothing_of_the_chain_was_lost(
    crashed: Path, tmp_path: Path, name: str, many: int
) -> None:
    chance = random.Random(2)  # noqa: S311 - for repeatable bits
    size = (crashed / name).stat().st_size
    found: Counter[str] = Counter()

    for bit in chance.sample(range(size * 8), many):
        end = opened_end(crashed, tmp_path, lambda state, bit=bit: flip(state / name, bit))  # type: ignore[misc]
        assert end in {None, committed(crashed)}, bit
        found["refused" if end is None else "whole"] += 1

    if name == files.WAL:
        assert found["refused"] > 150
    if name == files.SIDE_FILE:
        assert found["refused"] == 0  # the other slot is true as well


def test_the_log_of_a_refused_store_is_kept_as_it_was(crashed: Path, tmp_path: Path) -> None:
    def cut(state: Path) -> None:
        log = state / files.WAL
        log.write_bytes(log.read_bytes()[: log.stat().st_size // 2] + b"what was torn")

    assert opened_end(crashed, tmp_path, cut) is None
    assert opened_end(crashed, tmp_path, lambda _: None) is not None  # a later one does not take its place

    kept = tmp_path / files.REFUSED_LOG
    whole = (crashed / files.WAL).read_bytes()
    assert kept.read_bytes() == whole[: len(whole) // 2] + b"what was torn"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_text_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    """SQLite hands such text out, also in its messages, and Python cannot decode it."""
    with a_bench(tmp_path):
        pass
    database = tmp_path / files.DATABASE
    database.write_bytes(
        database.read_bytes()
        .replace(b"CREATE TABLE audit (", b"CREATE TABLE aud\xe5t (")
        .replace(b"tableauditaudit", b"tableaud\xe5taud\xe5t")
    )

    for use in (lambda state: open_store(state, "process", HandClock()), lambda _: verify(database), accept_lost_tail):
        with pytest.raises(StoreUnusable):
            use(tmp_path)


@pytest.mark.parametrize("name", [files.WAL, files.DATABASE])
def test_a_missing_file_is_noticed(crashed: Path, tmp_path: Path, name: str) -> None:
    assert opened_end(crashed, tmp_path, lambda state: (state / name).unlink()) is None


def test_a_log_of_another_store_is_refused(crashed: Path, tmp_path: Path) -> None:
    """What a folder that was put together from copies of its files may hold."""
    with a_bench(tmp_path / "other") as bench:
        complete_call(bench, run_call(bench, "c0"))
        other = (tmp_path / "other" / files.WAL).read_bytes()

    def plant(state: Path) -> None:
        (state / files.WAL).write_bytes(other)

    assert opened_end(crashed, tmp_path, plant) is None


def test_a_shared_memory_file_of_somebody_else_harms_nothing(crashed: Path, tmp_path: Path) -> None:
    def plant(state: Path) -> None:
        (state / f"{files.DATABASE}-shm").write_bytes(b"\xff" * 32768)

    assert opened_end(crashed, tmp_path, plant) == committed(crashed)
