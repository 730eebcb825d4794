from __future__ import annotations

import sys
from pathlib import Path

import pytest

from miniapp_worker import landlock
from miniapp_worker.readable import Readable, by_every_worker
from runtime_actors.supervisor.zygote import Offers
from tests.isolation.places import ROOT


def test_a_tree_beneath_another_is_left_out_and_other_names_are_kept(tmp_path: Path) -> None:
    (tmp_path / "lib/python").mkdir(parents=True)
    (tmp_path / "lib64").symlink_to("lib")

    found = Readable.of([tmp_path / "lib64", tmp_path / "lib/python", tmp_path / "lib", tmp_path / "missing"])

    assert found.trees == (str(tmp_path / "lib"),)
    assert found.links == ((str(tmp_path / "lib64"), str(tmp_path / "lib")),)


def test_an_app_is_added_once(tmp_path: Path) -> None:
    for name in ("site/bundled", "own"):
        (tmp_path / name).mkdir(parents=True)
    libraries = Readable.of([tmp_path / "site"])

    assert libraries.with_app(tmp_path / "own").trees == (str(tmp_path / "site"), str(tmp_path / "own"))
    assert libraries.with_app(tmp_path / "site/bundled") == libraries


@pytest.mark.parametrize(("state", "exposed"), [("lib/state", True), (".", True), ("state", False), ("library", False)])
def test_a_state_folder_must_not_touch_what_workers_read(tmp_path: Path, state: str, *, exposed: bool) -> None:
    for name in ("lib/state", "state", "library"):
        (tmp_path / name).mkdir(parents=True)

    found = Offers(trees=tuple(map(Path, Readable.of([tmp_path / "lib"]).trees))).exposes(tmp_path / state)

    assert (found is not None) == exposed


def test_a_closed_folder_on_the_way_is_noticed_only_where_the_way_stays(tmp_path: Path) -> None:
    (tmp_path / "home/python").mkdir(parents=True)
    for path, mode in ((tmp_path / "home/python", 0o755), (tmp_path / "home", 0o700)):
        path.chmod(mode)
    found = Readable.of([tmp_path / "home/python"])

    assert found.is_open_to_strangers(with_parents=False)
    assert not found.is_open_to_strangers(with_parents=True)


def test_of_a_source_tree_only_the_workers_own_packages_are_readable() -> None:
    trees = tuple(map(Path, by_every_worker(ROOT).trees))
    found = Offers(trees=trees)

    assert ROOT / "miniapp_worker" in trees
    assert found.exposes(ROOT / "runtime_actors/contract") is not None
    assert found.exposes(ROOT / "runtime_actors/store") is None
    assert found.exposes(ROOT / "tests") is None
    assert found.exposes(Path(sys.base_prefix) / "lib") is not None


@pytest.mark.parametrize(
    ("abi", "handled"),
    [
        (1, (0x1FFF, 0, 0, 8)),
        (2, (0x3FFF, 0, 0, 8)),
        (3, (0x7FFF, 0, 0, 8)),
        (4, (0x7FFF, 3, 0, 16)),
        (5, (0xFFFF, 3, 0, 16)),
        (6, (0xFFFF, 3, 3, 24)),
        (8, (0xFFFF, 3, 3, 24)),
        (9, (0x1FFFF, 3, 3, 24)),
        (10, (0x1FFFF, 15, 3, 24)),
        (12, (0x1FFFF, 15, 3, 24)),
    ],
)
def test_each_abi_takes_what_the_kernel_of_its_time_knows(abi: int, handled: tuple[int, int, int, int]) -> None:
    found = landlock.handled_at(abi)

    assert (found.fs, found.net, found.scoped, found.attr_bytes) == handled
