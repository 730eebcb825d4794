"""What a worker keeps of this machine, and how much it may use."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.contract.manifest import MOST_LIMITS, Limits
from runtime_actors.supervisor import keeps
from runtime_actors.supervisor.keeps import Place, can_read, limits_of, sharing_a_uid
from runtime_actors.supervisor.zygote import Keeps, Offers, WorkerLimits
from tests.e2e.daemon import short_folder

MIB = 2**20
OWN = 32
"""MiB of a worker without any app."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a socket to another uid")


@pytest.fixture
def folder() -> Iterator[Path]:
    """An app that everybody may read, in a folder that everybody may pass: pytest's own are private."""
    with short_folder() as made:
        made.chmod(0o755)
        app = made / "app"
        (app / "assets").mkdir(parents=True)
        (app / "app.py").write_text("")
        (app / "assets" / "page.html").write_text("")
        for path in (app, *app.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield app


@pytest.fixture
def socket_path(folder: Path) -> Iterator[Path]:
    path = folder.parent / "door"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        yield path


# --- limits ---


def test_the_limits_of_a_manifest_that_names_none_leave_room_for_what_a_worker_is_without_an_app() -> None:
    made = limits_of(Limits())

    assert made == WorkerLimits(
        memory_bytes=(256 + OWN) * MIB, address_space_bytes=880 * MIB, cpu_s=3600, open_files=64, threads=16 + 2
    )


def test_threads_beyond_the_usual_number_are_given_the_room_that_they_reserve() -> None:
    usual, more = limits_of(Limits(threads=16)), limits_of(Limits(threads=17))

    assert more.address_space_bytes - usual.address_space_bytes == 72 * MIB
    assert (more.threads, more.memory_bytes) == (usual.threads + 1, usual.memory_bytes)


def test_fewer_threads_than_usual_take_no_room_away() -> None:
    assert limits_of(Limits(threads=1)).address_space_bytes == limits_of(Limits()).address_space_bytes


asked_for = st.builds(
    Limits,
    memory_mb=st.integers(32, 4096),
    cpu_s=st.integers(1, 86_400),
    files=st.integers(32, 1024),
    threads=st.integers(1, 256),
)


@given(asked_for)
def test_whatever_a_manifest_asks_for_its_heap_fits_into_its_addresses(asked: Limits) -> None:
    made = limits_of(asked)

    assert made.memory_bytes == (asked.memory_mb + OWN) * MIB
    assert made.address_space_bytes >= made.memory_bytes + 592 * MIB
    assert (made.cpu_s, made.open_files) == (asked.cpu_s, asked.files)
    assert made.threads > asked.threads  # the runtime's own threads are not taken from the app's


@given(asked_for, asked_for)
def test_within_a_bound_each_limit_is_the_lower_of_two(asked: Limits, most: Limits) -> None:
    bounded = asked.within(most).model_dump()

    assert bounded == {name: min(value, most.model_dump()[name]) for name, value in asked.model_dump().items()}
    assert asked.within(MOST_LIMITS) == asked


@given(asked_for)
def test_a_worker_that_shares_the_daemons_uid_may_open_fewer_files_and_is_bounded_no_other_way(asked: Limits) -> None:
    alone = limits_of(asked)

    assert sharing_a_uid(alone) == replace(alone, open_files=min(asked.files, 128))


# --- a uid ---


@as_root
def test_a_worker_gets_the_first_uid_that_is_free_and_its_socket_is_that_uids(folder: Path, socket_path: Path) -> None:
    place = Place(Offers(uids=range(70_000, 70_010)))

    kept = place.keeps(folder, socket_path, {70_000, 70_001, 70_003})

    assert kept == Keeps(folder, socket_path, 70_002)
    found = socket_path.stat()
    assert (found.st_uid, found.st_gid) == (70_002, os.getegid())


@as_root
def test_workers_that_live_at_the_same_time_have_different_uids(folder: Path, socket_path: Path) -> None:
    place = Place(Offers(uids=range(70_000, 70_003)))
    taken: set[int] = set()

    for _ in range(3):
        uid = place.keeps(folder, socket_path, taken).uid
        assert uid is not None
        taken.add(uid)

    assert taken == {70_000, 70_001, 70_002}
    assert place.keeps(folder, socket_path, taken).uid is None


@pytest.mark.parametrize(
    "offers", [Offers(), Offers(uids=range(70_000, 70_001))], ids=["none is offered", "all are taken"]
)
def test_without_a_free_uid_a_worker_keeps_the_daemons_and_its_socket_stays(
    folder: Path, socket_path: Path, offers: Offers
) -> None:
    kept = Place(offers).keeps(folder, socket_path, {70_000})

    assert kept == Keeps(folder, socket_path, None)
    assert socket_path.stat().st_uid == os.geteuid()


@pytest.mark.parametrize("own_root", [True, False])
def test_a_worker_whose_app_another_uid_could_not_read_keeps_the_daemons(
    folder: Path, socket_path: Path, *, own_root: bool
) -> None:
    (folder / "app.py").chmod(0o600)

    kept = Place(Offers(uids=range(70_000, 70_010), own_root=own_root)).keeps(folder, socket_path, ())

    assert kept.uid is None
    assert socket_path.stat().st_uid == os.geteuid()


@as_root
@pytest.mark.parametrize(("own_root", "uid"), [(True, 70_000), (False, None)])
def test_a_closed_folder_above_the_app_matters_only_to_a_worker_without_a_root_of_its_own(
    folder: Path, socket_path: Path, *, own_root: bool, uid: int | None
) -> None:
    folder.parent.chmod(0o700)

    kept = Place(Offers(uids=range(70_000, 70_010), own_root=own_root)).keeps(folder, socket_path, ())

    assert kept.uid == uid


@as_root
def test_a_socket_that_is_gone_is_an_error_of_its_own_kind(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Place(Offers(uids=range(70_000, 70_001))).keeps(folder, folder / "no-socket", ())


@as_root
def test_an_app_is_looked_through_once(folder: Path, socket_path: Path) -> None:
    place = Place(Offers(uids=range(70_000, 70_001)))
    assert place.keeps(folder, socket_path, ()).uid == 70_000

    (folder / "app.py").chmod(0o600)

    assert place.keeps(folder, socket_path, ()).uid == 70_000
    assert Place(place.offers).keeps(folder, socket_path, ()).uid is None


# --- what a stranger can read ---


def test_a_folder_that_everybody_may_read_can_be_read(folder: Path) -> None:
    assert can_read(folder, with_parents=True)


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        (".", 0o754),  # listed, but not entered
        (".", 0o751),  # entered, but not listed
        (".", 0o700),
        ("assets", 0o700),
        ("assets/page.html", 0o640),
        ("app.py", 0o600),
    ],
)
def test_one_closed_file_or_folder_closes_the_app(folder: Path, path: str, mode: int) -> None:
    (folder / path).chmod(mode)

    assert not can_read(folder, with_parents=True)
    assert not can_read(folder, with_parents=False)


def test_a_closed_folder_above_counts_where_it_has_to_be_passed(folder: Path) -> None:
    folder.parent.chmod(0o700)

    assert not can_read(folder, with_parents=True)
    assert can_read(folder, with_parents=False)


def test_the_folders_above_are_those_of_the_real_path(folder: Path) -> None:
    closed = folder.parent / "closed"
    closed.mkdir(mode=0o700)
    real = folder.rename(closed / "app")
    link = folder.parent / "link"
    link.symlink_to(real)

    assert not can_read(link, with_parents=True)


def test_an_app_of_more_files_than_are_looked_through_is_not_said_to_be_readable(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = len([folder, *folder.rglob("*")])

    monkeypatch.setattr(keeps, "_MOST_FILES", files)
    assert can_read(folder, with_parents=True)
    monkeypatch.setattr(keeps, "_MOST_FILES", files - 1)
    assert not can_read(folder, with_parents=True)


@pytest.mark.parametrize("target", ["nowhere", "link"])
def test_a_link_that_leads_nowhere_is_nothing_that_could_be_read(folder: Path, target: str) -> None:
    """As editors leave them beside a file that is being edited."""
    (folder / "link").symlink_to(target)

    assert can_read(folder, with_parents=True)
