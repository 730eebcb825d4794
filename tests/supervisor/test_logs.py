from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_actors.supervisor.log_files import LogFolder, LogLimits
from runtime_actors.supervisor.logs import LogCapture
from tests.supervisor.conftest import LIMIT_S, Nursery

KIB = 1024


@pytest.fixture
def capture(tmp_path: Path) -> Iterator[LogCapture]:
    made = LogCapture(LogFolder(tmp_path / "logs"))
    made.start()
    yield made
    made.stop()


def kept_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.glob("*/*"))


def filled(root: Path, limits: LogLimits, *keys: tuple[str, str], size: int) -> LogFolder:
    folder = LogFolder(root, limits)
    for key in keys:
        folder.begin(key)
        assert folder.append(key, b"x" * (size - 1) + b"\n") == 0
        folder.finish(key)
    return folder


def test_what_a_worker_writes_to_both_streams_is_read_back_in_order(capture: LogCapture) -> None:
    write_end = capture.open("instance", "attempt")
    os.write(write_end, b"one\ntwo\n")
    os.write(write_end, "three ü \xff".encode("latin-1"))
    os.close(write_end)

    capture.stop()

    assert capture.tail("instance", 2) == ["two", "three � �"]
    assert capture.tail("instance", 0) == []


def test_a_tail_reaches_back_over_attempts(capture: LogCapture) -> None:
    for attempt in ("first", "second"):
        write_end = capture.open("instance", attempt)
        os.write(write_end, f"{attempt}\n".encode())
        os.close(write_end)

    capture.stop()

    assert capture.tail("instance", 5) == ["first", "second"]
    assert capture.attempts("instance") == ["first", "second"]


def test_files_and_folders_are_the_owners_alone(capture: LogCapture, tmp_path: Path) -> None:
    write_end = capture.open("instance", "attempt")
    os.write(write_end, b"text\n")
    os.close(write_end)

    capture.stop()

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "logs").rglob("*")}
    assert modes == {"instance": 0o700, "attempt.log": 0o600}
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700


@pytest.mark.parametrize("instance_id", ["", ".", "..", "../other", "a/b", "-", ".hidden", "a\0b", "a" * 300])
def test_an_id_that_could_lead_elsewhere_names_no_log(capture: LogCapture, tmp_path: Path, instance_id: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.log").write_text("another file")

    with pytest.raises(ValueError, match="cannot name"):
        capture.open(instance_id, "attempt")

    assert capture.tail(instance_id, 5) == []


def test_an_attempt_keeps_its_newest_output_within_its_bound(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path, LogLimits(attempt_bytes=8 * KIB))
    folder.begin(("i", "a"))

    for number in range(2000):
        folder.append(("i", "a"), f"line {number}\n".encode())

    assert 4 * KIB < kept_bytes(tmp_path) <= 8 * KIB
    lines = folder.tail("i", 10_000)
    assert lines[-1] == "line 1999"
    assert lines[-300:] == [f"line {number}" for number in range(1700, 2000)]


def test_output_larger_than_the_bound_in_one_piece_is_cut_to_it(tmp_path: Path) -> None:
    folder = filled(tmp_path, LogLimits(attempt_bytes=8 * KIB), ("i", "a"), size=100 * KIB)

    assert kept_bytes(tmp_path) <= 8 * KIB
    assert folder.tail("i", 1) != []


def test_an_instance_keeps_its_newest_attempts(tmp_path: Path) -> None:
    keys = [("i", f"attempt-{number}") for number in range(8)]

    folder = filled(tmp_path, LogLimits(attempts_per_instance=5), *keys, size=10)

    assert folder.attempts("i") == [attempt for _, attempt in keys[3:]]
    assert len(list(tmp_path.glob("*/*"))) == 5


def test_the_oldest_attempts_make_room_when_the_total_is_reached(tmp_path: Path) -> None:
    limits = LogLimits(attempt_bytes=16 * KIB, total_bytes=64 * KIB)
    keys = [(f"instance-{number}", "a") for number in range(50)]

    folder = filled(tmp_path, limits, *keys, size=8 * KIB)

    assert kept_bytes(tmp_path) <= 64 * KIB
    assert folder.attempts("instance-49") == ["a"]
    assert folder.attempts("instance-0") == []
    assert not (tmp_path / "instance-0").exists()


def test_many_small_logs_count_by_the_blocks_they_take(tmp_path: Path) -> None:
    limits = LogLimits(attempt_bytes=8 * KIB, total_bytes=64 * KIB)

    filled(tmp_path, limits, *[(f"instance-{number}", "a") for number in range(50)], size=2)

    assert len(list(tmp_path.glob("*/*"))) <= 16


def test_living_attempts_are_not_removed_and_stay_within_the_total_by_keeping_less(tmp_path: Path) -> None:
    limits = LogLimits(attempt_bytes=16 * KIB, total_bytes=64 * KIB)
    folder = LogFolder(tmp_path, limits)
    keys = [(f"instance-{number}", "a") for number in range(8)]
    for key in keys:
        folder.begin(key)

    for _ in range(30):
        for key in keys:
            folder.append(key, b"y" * KIB)

    assert kept_bytes(tmp_path) <= 8 * 8 * KIB
    assert all(folder.attempts(instance) == ["a"] for instance, _ in keys)


def test_logs_of_earlier_daemons_are_found_and_counted(tmp_path: Path) -> None:
    limits = LogLimits(attempts_per_instance=2)
    filled(tmp_path, limits, ("i", "a"), ("i", "b"), size=10)
    for age, name in enumerate(["b", "a"]):
        os.utime(tmp_path / "i" / f"{name}.log", (1000 - age, 1000 - age))

    folder = filled(tmp_path, limits, ("i", "c"), size=10)

    assert folder.attempts("i") == ["b", "c"]


def test_what_a_broken_disk_costs_is_counted_and_raises_nothing(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    root.write_text("a file where the folder should be")
    folder = LogFolder(root, LogLimits())
    folder.begin(("i", "a"))

    assert folder.append(("i", "a"), b"lost\n") == 5
    root.unlink()
    assert folder.append(("i", "a"), b"kept\n") == 0

    assert folder.tail("i", 5) == ["kept"]


class FullAtFirst(LogFolder):
    def __init__(self, root: Path) -> None:
        super().__init__(root, LogLimits())
        self.refused = threading.Event()

    def append(self, key: tuple[str, str], data: bytes) -> int:
        if self.refused.is_set():
            return super().append(key, data)
        self.refused.set()
        return len(data)


def test_when_the_disk_has_room_again_the_log_goes_on_behind_a_line_that_counts_the_loss(tmp_path: Path) -> None:
    folder = FullAtFirst(tmp_path / "logs")
    capture = LogCapture(folder)
    capture.start()
    write_end = capture.open("instance", "attempt")
    os.write(write_end, b"lost\n")
    assert folder.refused.wait(LIMIT_S)

    os.write(write_end, b"kept\n")
    os.close(write_end)
    capture.stop()

    assert capture.tail("instance", 5) == ["[lineup: 5 bytes of output dropped]", "kept"]


def test_a_flooding_worker_is_bounded_counted_and_ends(nursery: Nursery, tmp_path: Path) -> None:
    worker = nursery.fork("flood", kib=4096)
    quiet = nursery.fork("code", code=0)

    assert nursery.end_of(quiet)
    lines = nursery.output_of(worker)

    assert kept_bytes(tmp_path / "logs") <= 2**20 + 100
    assert any(line.startswith("[lineup: ") for line in lines)


def test_a_log_that_nobody_closes_does_not_keep_the_capture_from_stopping(capture: LogCapture) -> None:
    write_end = capture.open("instance", "attempt")
    os.write(write_end, b"last words\n")

    stopping = threading.Thread(target=capture.stop)
    stopping.start()
    stopping.join(LIMIT_S)

    assert not stopping.is_alive()
    assert capture.tail("instance", 1) == ["last words"]
    os.close(write_end)
    with pytest.raises(RuntimeError):
        capture.open("instance", "late")
