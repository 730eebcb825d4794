"""Messages for later, with the real thread."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator

import pytest

from runtime_actors.timers import TimerThread
from tests.actor_fakes import LIMIT_S
from tests.fakes import Recorder

FAR_S = 3600.0


class Said:
    def __init__(self) -> None:
        self.told: queue.Queue[object] = queue.Queue()

    def tell(self, message: object) -> None:
        self.told.put(message)

    def wait(self) -> object:
        return self.told.get(timeout=LIMIT_S)


class Broken:
    def tell(self, message: object) -> None:
        raise ValueError(f"no room for {message}")


@pytest.fixture
def crashes() -> queue.Queue[str]:
    return queue.Queue()


@pytest.fixture
def timers(crashes: queue.Queue[str]) -> Iterator[TimerThread]:
    thread = TimerThread(lambda name, _: crashes.put(name))
    thread.start()
    yield thread
    thread.stop()
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def test_messages_are_told_in_the_order_in_which_they_are_due(timers: TimerThread) -> None:
    said = Said()

    for after_s in (0.06, 0.02, 0.04):
        timers.tell_after(after_s, said, after_s)

    assert [said.wait() for _ in range(3)] == [0.02, 0.04, 0.06]


def test_messages_that_are_due_at_once_keep_the_order_in_which_they_were_asked_for(timers: TimerThread) -> None:
    said = Said()

    for number in range(50):
        timers.tell_after(-1.0 if number % 2 else 0.0, said, number)

    told = [said.wait() for _ in range(50)]
    assert [one for one in told if int(str(one)) % 2] == list(range(1, 50, 2))
    assert [one for one in told if not int(str(one)) % 2] == list(range(0, 50, 2))


def test_nothing_is_told_before_its_time(timers: TimerThread) -> None:
    said, begun = Said(), time.monotonic()

    timers.tell_after(0.05, said, "later")

    assert said.wait() == "later"
    assert time.monotonic() - begun >= 0.05


def test_an_earlier_deadline_wakes_a_thread_that_waits_for_a_later_one(timers: TimerThread) -> None:
    said = Said()
    timers.tell_after(FAR_S, said, "far")

    timers.tell_after(0.01, said, "near")

    assert said.wait() == "near"
    assert said.told.empty()


def test_many_threads_may_ask(timers: TimerThread) -> None:
    said = Said()

    def ask(number: int) -> None:
        for _ in range(100):
            timers.tell_after(0.001, said, number)

    asking = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(LIMIT_S)

    assert sorted(int(str(said.wait())) for _ in range(400)) == [number for number in range(4) for _ in range(100)]


def test_after_a_stop_nothing_is_told(crashes: queue.Queue[str]) -> None:
    recorder: Recorder[str] = Recorder()
    thread = TimerThread(lambda name, _: crashes.put(name))
    thread.tell_after(0.0, recorder, "due")
    thread.stop()

    thread.start()
    thread.join(LIMIT_S)

    assert not thread.is_alive()
    assert recorder.messages == []
    assert crashes.empty()


def test_a_thread_that_waits_for_something_far_away_stops_at_once(crashes: queue.Queue[str]) -> None:
    thread = TimerThread(lambda name, _: crashes.put(name))
    thread.tell_after(FAR_S, Said(), "far")
    thread.start()

    thread.stop()
    thread.join(LIMIT_S)

    assert not thread.is_alive()


def test_a_crash_of_the_thread_is_told_for_without_it_nothing_expires(crashes: queue.Queue[str]) -> None:
    thread = TimerThread(lambda name, _: crashes.put(name))
    thread.start()

    thread.tell_after(0.0, Broken(), "anything")

    assert crashes.get(timeout=LIMIT_S) == "timers"
    thread.join(LIMIT_S)
