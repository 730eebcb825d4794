"""Power is lost at any moment of a store's life: all that was told is there afterwards, and nothing is half done."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from runtime_actors.store import files
from tests.storms import power, stories, vfs
from tests.storms.images import Disk, images, torn
from tests.storms.power import Found
from tests.storms.recorder import ROOT, Cut, Named, Recorder, Synced, Told, Wrote, recording
from tests.storms.stories import TALES, Tale

WANTED: Final = int(os.environ.get("LINEUP_POWER_IMAGES", "1200"))
"""Images over all stories."""
SEED: Final = int(os.environ.get("LINEUP_POWER_SEED", "1"))
_FEW: Final = 120


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    found = vfs.find_library()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture
def root() -> Iterator[Path]:
    with power.room() as folder:
        yield folder


def lost_power(library: ctypes.CDLL, root: Path, tale: Tale, wanted: int, durability: str = "power") -> Found:
    recorder = power.recorded(library, tale, root, durability)
    return power.lose_power(tale, recorder, wanted, SEED, durability)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("tale", TALES, ids=lambda tale: tale.play.__name__)
def test_whatever_power_leaves_is_opened_whole_and_holds_all_that_was_told(
    library: ctypes.CDLL, root: Path, tale: Tale, record_property: Callable[[str, object], None]
) -> None:
    found = lost_power(library, root, tale, WANTED // len(TALES))

    record_property("images", found.images)
    assert found.violations == []
    assert found.images >= min(WANTED // len(TALES), 100)  # a short story has no more states than that


def broken_by(
    library: ctypes.CDLL, root: Path, story: stories.Story, base: tuple[stories.Story, ...], durability: str = "power"
) -> str:
    found = lost_power(library, root, Tale(story, base), _FEW, durability)
    return "\n".join(found.violations)


def test_without_a_sync_at_each_commit_receipts_are_lost(library: ctypes.CDLL, root: Path) -> None:
    assert "lost: " in broken_by(library, root, stories.groups, (stories.first_creation,), "process")


def test_with_syncs_switched_off_receipts_are_lost(library: ctypes.CDLL, root: Path) -> None:
    broken = broken_by(library, root, stories.careless, (stories.first_creation,))

    assert "lost: " in broken or "refused: " in broken


def test_a_receipt_before_its_commit_is_found_to_be_lost(library: ctypes.CDLL, root: Path) -> None:
    assert "lost: " in broken_by(library, root, stories.hasty, (stories.first_creation,))


def nothing(*_: Any) -> None:  # noqa: ANN401 - stands for any function
    pass


@pytest.mark.parametrize(
    ("place", "name", "story", "base"),
    [
        (files.SideFile, "sync", stories.first_creation, ()),
        (files, "sync_folder", stories.first_creation, ()),
        (files, "sync_folder", stories.backup_and_restore, (stories.first_creation,)),
    ],
    ids=["side-file", "names-of-a-new-folder", "names-of-a-restore"],
)
def test_a_sync_that_is_left_out_is_noticed(  # noqa: PLR0917 - two fixtures and what is left out
    library: ctypes.CDLL, root: Path, place: object, name: str, story: stories.Story, base: tuple[stories.Story, ...]
) -> None:
    def spoiled(recorder: Recorder, durability: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(place, name, nothing)
            story(recorder, durability)

    assert broken_by(library, root, spoiled, base)


# --- the recorder and its disk ---


def test_a_recording_replays_to_the_very_files_that_were_left(library: ctypes.CDLL, root: Path) -> None:
    for tale in TALES:
        here = root / tale.play.__name__
        here.mkdir()
        recorder = power.recorded(library, tale, here)

        disk = Disk(recorder.folders)
        for event in recorder.events:
            disk.step(event)
        image = disk.image(len(recorder.events), "all", lambda change: (change,), lambda _named: True)

        real = {str(path.relative_to(here)): path.read_bytes() for path in here.rglob("*") if path.is_file()}
        real = {name: content for name, content in real.items() if not name.endswith(files.BALLAST)}
        assert dict(image.files) == real


def test_sqlite_is_as_before_when_the_recording_has_ended(library: ctypes.CDLL, root: Path) -> None:
    before = os.open, os.fsync, Path.open
    with recording(library, root) as recorder:
        files.open_database(root, "power").close()
    many = len(recorder.events)

    (root / "later").mkdir()
    files.open_database(root / "later", "power").close()

    assert many > 20
    assert len(recorder.events) == many
    assert (os.open, os.fsync, Path.open) == before


def test_what_was_synced_is_in_every_image_and_what_was_not_only_in_some() -> None:
    named, name_synced = Named(ROOT, (("f", 1),)), Synced(ROOT)
    events = (named, name_synced, Wrote(1, 0, b"old!"), Synced(1), Told("old"), Wrote(1, 0, b"new!"), Cut(1, 2))

    found = list(images(events, {ROOT}, 0, seed=1, wanted=60))

    after = [image for image in found if image.told]
    contents = {dict(image.files)["f"] for image in after}
    assert {b"old!", b"ne"} <= contents
    assert contents <= {b"old!", b"new!", b"ol", b"ne", b"ned!"}  # the last of them torn in the middle
    assert {image.files for image in found if not image.told} >= {(), (("f", b""),), (("f", b"old!"),)}


def test_a_torn_write_ends_within_a_sector() -> None:
    write = Wrote(1, 500, bytes(range(100)))

    whole, half, none = (torn(write, 512, share, lambda: True) for share in (1.0, 0.5, 0.0))

    assert [(one.offset, len(one.data)) for one in whole if isinstance(one, Wrote)] == [(500, 12), (512, 88)]
    assert [(one.offset, len(one.data)) for one in half if isinstance(one, Wrote)] == [(500, 12), (512, 44)]
    assert [(one.offset, len(one.data)) for one in none if isinstance(one, Wrote)] == [(500, 12)]


def test_the_same_seed_draws_the_same_images(library: ctypes.CDLL, root: Path) -> None:
    recorder = power.recorded(library, TALES[0], root)
    draw = partial(images, recorder.events, recorder.folders, recorder.begun, wanted=40)

    first, again, other = ([image.digest for image in draw(seed=seed)] for seed in (1, 1, 2))

    assert first == again
    assert first != other
