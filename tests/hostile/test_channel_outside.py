"""A process that attacks the doors: its connections are closed, and everybody else is served."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.daemon import short_folder
from tests.hostile.assault import MAX_GROWTH, Innocent, Scene, Watch
from tests.hostile.from_outside import KINDS

pytestmark = pytest.mark.xdist_group("hostile-doors")

ATTACKED_S: Final = 1.0
DOORS: Final = ("agent", "host", "control")
ON_EVERY_DOOR: Final = ("connects", "half_greetings", "garbage")


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with short_folder() as folder, Scene(folder / "s") as made:
        made.innocent.calls(50)
        yield made


def assert_harmless(scene: Scene, kind: str, *paths: Path) -> None:
    assert scene.ends() == {}
    descriptors = scene.descriptors()

    with Watch(scene.daemon.pid) as watch, contextlib.ExitStack() as attacks:
        for path in paths:
            attacks.enter_context(scene.attacked_outside(kind, path))
        scene.innocent.calls_for(ATTACKED_S)
        with Innocent(scene.daemon.state) as newcomer:
            newcomer.calls(1)

    assert scene.ends() == {}
    assert watch.growth < MAX_GROWTH
    scene.wait_descriptors(descriptors)


@pytest.mark.parametrize("kind", KINDS)
def test_an_attack_on_the_agents_door_hurts_nobody(scene: Scene, kind: str) -> None:
    assert_harmless(scene, kind, scene.door("agent"))


@pytest.mark.parametrize("kind", ON_EVERY_DOOR)
def test_an_attack_on_the_other_doors_hurts_nobody(scene: Scene, kind: str) -> None:
    assert_harmless(scene, kind, scene.door("host"), scene.door("control"))


def test_whoever_rushes_to_the_sockets_of_attempts_keeps_no_process_from_its_own(scene: Scene) -> None:
    with Watch(scene.daemon.pid) as watch, scene.attacked_outside("intrudes", scene.door("agent").parent / "w"):
        started = {scene.prepare_inside(f"rushed-{number}") for number in range(5)}
        scene.innocent.calls_for(ATTACKED_S)

    assert len(started) == 5
    assert scene.ends() == {}
    assert watch.growth < MAX_GROWTH
