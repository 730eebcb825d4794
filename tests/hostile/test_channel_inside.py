"""A MiniApp that attacks its own channel with raw bytes: its process ends, and nothing else happens to anybody.

How long others wait meanwhile is measured by `scripts/measure_channel`: a busy machine must not fail a test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.e2e.daemon import short_folder, wait_until
from tests.hostile.assault import MAX_GROWTH, Scene, Watch

pytestmark = pytest.mark.xdist_group("hostile-channel")

ENDED_AT_ONCE: Final = {
    "endless_more": "protocol_error",
    "huge_length": "protocol_error",
    "greets_again": "protocol_error",
    "random_bytes": "protocol_error",
    "skipped_frames": "protocol_error",
    "endless_commands": "protocol_error",
    "unread_heartbeats": "protocol_error",
    "garbage": "protocol_error",
    "large_garbage": "protocol_error",
    "one_request_again": "protocol_error",
    "pongs": "protocol_error",
    "garbage_after_bye": "protocol_error",
    "hello_again": "attach_denied",
    "above_credit": "credit_exceeded",
    "large_requests": "credit_exceeded",
    "after_bye": "credit_exceeded",
}
MISSES_ITS_BEATS: Final = ("half_frame", "drops_of_a_frame")
LARGE_TEXT: Final = "x" * 60_000


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with short_folder() as folder, Scene(folder / "s") as made:
        made.innocent.calls(50)  # what a daemon keeps once it has worked is no growth
        yield made


@pytest.mark.parametrize("kind", ENDED_AT_ONCE)
def test_an_attack_on_the_channel_ends_the_attempt_that_made_it_and_nothing_else(scene: Scene, kind: str) -> None:
    conversation = kind.replace("_", "-")
    guilty = scene.prepare_inside(conversation)
    before, descriptors = scene.ends(), scene.descriptors()

    with Watch(scene.daemon.pid) as watch:
        call = scene.attack_inside(kind, conversation)
        scene.innocent.calls_until(lambda: guilty in scene.ends())

    # Given to the next process, which is told that it was begun before.
    assert scene.agent.final(call)["status"] == "completed"
    assert scene.ends() == before | {guilty: [ENDED_AT_ONCE[kind]]}
    assert watch.growth < MAX_GROWTH
    scene.wait_descriptors(descriptors)


def test_a_frame_that_never_comes_whole_ends_its_attempt_with_the_beats_it_misses(scene: Scene) -> None:
    guilty = {kind: scene.prepare_inside(kind.replace("_", "-")) for kind in MISSES_ITS_BEATS}
    before, descriptors = scene.ends(), scene.descriptors()

    with Watch(scene.daemon.pid) as watch:
        calls = [scene.attack_inside(kind, kind.replace("_", "-")) for kind in MISSES_ITS_BEATS]
        scene.innocent.calls_until(lambda: set(guilty.values()) <= set(scene.ends()))

    assert {scene.agent.final(call)["status"] for call in calls} == {"completed"}
    assert scene.ends() == before | {one: ["not_responding"] for one in guilty.values()}
    assert watch.growth < MAX_GROWTH
    scene.wait_descriptors(descriptors)


def test_what_a_worker_never_reads_waits_in_the_store_and_not_in_memory(scene: Scene) -> None:
    guilty = scene.prepare_inside("deaf")
    before, descriptors = scene.ends(), scene.descriptors()

    with Watch(scene.daemon.pid) as watch:
        call = scene.attack_inside("late_pongs", "deaf")
        for _ in range(400):
            kind, _ = scene.agent.say(LARGE_TEXT, conversation="deaf", to="channel")
            assert kind == "message.receipt"
        scene.innocent.calls(20)
        scene.daemon.control("kill", {"instance_id": guilty, "signal": "SIGKILL"})
        scene.innocent.calls_until(lambda: guilty in scene.ends())

    assert scene.agent.final(call)["status"] == "completed"
    assert scene.ends().keys() == before.keys() | {guilty}
    assert watch.growth < MAX_GROWTH
    scene.wait_descriptors(descriptors)


def test_a_worker_that_is_busy_within_its_credit_is_served_like_everybody(scene: Scene) -> None:
    guilty = scene.prepare_inside("busy")
    before = scene.ends()

    with Watch(scene.daemon.pid) as watch:
        scene.attack_inside("within_credit", "busy")
        scene.innocent.calls(50)

    assert scene.ends() == before
    assert watch.growth < MAX_GROWTH
    scene.daemon.control("kill", {"instance_id": guilty, "signal": "SIGKILL"})
    wait_until("its end", lambda: guilty in scene.ends())
