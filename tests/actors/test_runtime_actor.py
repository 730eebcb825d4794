"""Nothing escapes an actor. With real threads, for pykka's own way with exceptions is what is kept out."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pykka
import pytest

from runtime_actors.actor import MAX_REBUILDS, REBUILD_PERIOD_S, Beat, Care, Ref, RuntimeActor, SetAside
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.mailbox import Mailbox
from runtime_actors.router import messages as router
from runtime_actors.rules.calls import CallKey
from tests.actor_fakes import LIMIT_S, HandMonotonic, Rig, an_instance
from tests.fakes import a_key

KEY = a_key()


@dataclass
class Nurse:
    """What `boot` is for real actors."""

    aside: queue.Queue[SetAside] = field(default_factory=queue.Queue)
    gave_up: queue.Queue[str] = field(default_factory=queue.Queue)
    born: list[RuntimeActor] = field(default_factory=list)

    @property
    def care(self) -> Care:
        return Care(self.aside.put, lambda name, _: self.gave_up.put(name), self.born.append)


@dataclass(frozen=True)
class Fails:
    """Fails so many times, and then tells who handled it."""

    times: int
    done: Mailbox[tuple[int, int]]
    error: Callable[[], BaseException] = ValueError
    call_key: CallKey | None = None
    answer: Callable[[Rejection], None] | None = None


class Said:
    """A mailbox that another thread can wait for."""

    def __init__(self) -> None:
        self._told: queue.Queue[tuple[int, int]] = queue.Queue()

    def tell(self, message: tuple[int, int]) -> None:
        self._told.put(message)

    def wait(self) -> tuple[int, int]:
        """The thread that handled a message, and at which try."""
        return self._told.get(timeout=LIMIT_S)


class PatientActor(RuntimeActor):
    """Counts how often it tried a message."""

    def __init__(self, care: Care) -> None:
        super().__init__(care)
        self.tried: dict[int, int] = {}
        self.rebuild_fails = False

    def receive(self, message: object) -> None:
        assert isinstance(message, Fails)
        tried = self.tried[id(message)] = self.tried.get(id(message), 0) + 1
        if tried <= message.times:
            raise message.error()
        message.done.tell((threading.get_ident(), tried))

    def rebuild(self) -> None:
        if self.rebuild_fails:
            raise OSError("it cannot be rebuilt")


@pytest.fixture
def nurse() -> Nurse:
    return Nurse()


@pytest.fixture
def ref(nurse: Nurse) -> Iterator[pykka.ActorRef[PatientActor]]:
    started = PatientActor.start(nurse.care)
    yield started
    started.stop(timeout=LIMIT_S)


def the_actor(nurse: Nurse) -> PatientActor:
    [actor] = nurse.born
    assert isinstance(actor, PatientActor)
    return actor


def test_a_message_that_fails_once_is_tried_again_after_a_rebuild(
    nurse: Nurse, ref: pykka.ActorRef[PatientActor]
) -> None:
    said = Said()

    ref.tell(Fails(1, said))

    assert said.wait() == (said_thread(nurse), 2)
    assert the_actor(nurse).rebuilt == 1
    assert nurse.aside.empty()


def said_thread(nurse: Nurse) -> int:
    """The thread that the actor runs on, by its own word."""
    said = Said()
    the_actor(nurse).actor_ref.tell(Fails(0, said))
    return said.wait()[0]


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, RecursionError])
def test_a_message_that_fails_twice_is_set_aside_and_the_same_thread_goes_on(
    nurse: Nurse, ref: pykka.ActorRef[PatientActor], error: type[BaseException]
) -> None:
    before = said_thread(nurse)

    ref.tell(Fails(2, Said(), error, KEY))

    aside = nurse.aside.get(timeout=LIMIT_S)
    assert aside == SetAside("patient", "Fails", repr(error()), KEY)
    assert said_thread(nurse) == before
    assert ref.is_alive()


def test_a_rebuild_that_fails_sets_the_message_aside_and_the_actor_goes_on(
    nurse: Nurse, ref: pykka.ActorRef[PatientActor]
) -> None:
    the_actor(nurse).rebuild_fails = True

    ref.tell(Fails(1, Said()))

    assert "it cannot be rebuilt" in nurse.aside.get(timeout=LIMIT_S).error
    assert said_thread(nurse)


def test_an_actor_that_is_told_to_exit_stops_no_other(nurse: Nurse, ref: pykka.ActorRef[PatientActor]) -> None:
    other_nurse = Nurse()
    other = PatientActor.start(other_nurse.care)
    try:
        ref.tell(Fails(2, Said(), SystemExit))
        nurse.aside.get(timeout=LIMIT_S)

        assert said_thread(other_nurse)
        assert ref.is_alive()
    finally:
        other.stop(timeout=LIMIT_S)


def test_a_beat_is_answered_by_the_actors_own_thread(nurse: Nurse, ref: pykka.ActorRef[PatientActor]) -> None:
    answered: queue.Queue[tuple[str, int]] = queue.Queue()

    ref.tell(Beat(lambda name: answered.put((name, threading.get_ident()))))

    assert answered.get(timeout=LIMIT_S) == ("patient", said_thread(nurse))


# --- limits, on the test's own thread ---


def test_more_rebuilds_than_allowed_within_the_period_give_up(nurse: Nurse, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HandMonotonic()
    monkeypatch.setattr("runtime_actors.actor.time", clock)
    actor = PatientActor(nurse.care)
    for _ in range(MAX_REBUILDS):
        actor.on_receive(Fails(1, Said()))
        clock.now_s += REBUILD_PERIOD_S / MAX_REBUILDS / 2
    assert nurse.gave_up.empty()

    actor.on_receive(Fails(1, Said()))

    assert nurse.gave_up.get_nowait() == "patient"
    assert actor.rebuilt == MAX_REBUILDS


def test_rebuilds_that_are_spread_over_more_than_the_period_do_not_give_up(
    nurse: Nurse, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HandMonotonic()
    monkeypatch.setattr("runtime_actors.actor.time", clock)
    actor = PatientActor(nurse.care)

    for _ in range(MAX_REBUILDS * 3):
        actor.on_receive(Fails(1, Said()))
        clock.now_s += REBUILD_PERIOD_S / MAX_REBUILDS

    assert nurse.gave_up.empty()
    assert actor.rebuilt == MAX_REBUILDS * 3


# --- what is set aside is in the rows ---


def test_a_call_whose_message_fails_twice_ends_with_internal_error(rig: Rig) -> None:
    an_instance(rig, call_id="c1")
    actor = PatientActor(rig.care)

    actor.on_receive(Fails(2, Said(), lambda: ValueError("the planted fault"), KEY))
    rig.settle()

    [(who, what, error)] = rig.rows("select actor, message, error from set_aside")
    assert (who, what) == ("patient", "Fails")
    assert "planted" in error
    assert rig.rows("select status, error_code from calls where call_id = 'c1'") == [("failed", "internal_error")]
    assert "message.set_aside" in rig.events()


def test_the_agent_that_waits_for_a_message_that_was_set_aside_is_answered() -> None:
    answers: queue.Queue[Rejection] = queue.Queue()
    nurse = Nurse()
    ref = PatientActor.start(nurse.care)

    ref.tell(Fails(2, Said(), call_key=KEY, answer=answers.put))

    assert answers.get(timeout=LIMIT_S).code is RejectionCode.INTERNAL_ERROR
    ref.stop(timeout=LIMIT_S)


def test_what_is_set_aside_names_no_payload(rig: Rig) -> None:
    secret = Fails(2, Said(), lambda: ValueError("the planted fault" + "x" * 10_000))

    PatientActor(rig.care).on_receive(secret)
    rig.settle()

    [aside] = rig.aside
    assert aside.message == "Fails"
    assert len(aside.error) == 500


def test_requests_about_a_call_name_it_for_the_case_that_they_fail() -> None:
    for message in (router.CancelCall(KEY, None, print), router.GetCall(KEY, print)):
        assert message.call_key == KEY


# --- mailboxes before and after the actor ---


def test_what_is_told_before_the_actor_is_started_is_handled_first_and_in_order(nurse: Nurse) -> None:
    ref, said = Ref("patient"), Said()
    early = [Fails(number, said) for number in (0, 1, 0)]
    for message in early:
        ref.tell(message)
    assert (ref.backlog(), ref.is_filled) == (3, False)

    started = PatientActor.start(nurse.care)
    ref.fill(started)
    ref.tell(Fails(0, said))

    assert [said.wait()[1] for _ in range(4)] == [1, 2, 1, 1]
    assert ref.is_filled
    ref.stop(LIMIT_S)


def test_what_is_told_to_a_stopped_actor_is_dropped_without_a_word(nurse: Nurse) -> None:
    ref = Ref("patient")
    ref.fill(PatientActor.start(nurse.care))
    ref.stop(LIMIT_S)

    ref.tell(Fails(0, Said()))
    ref.stop(LIMIT_S)

    assert nurse.aside.empty()


def test_an_actor_handles_what_is_in_its_mailbox_before_it_stops(nurse: Nurse) -> None:
    ref, said = Ref("patient"), Said()
    ref.fill(PatientActor.start(nurse.care))
    for _ in range(100):
        ref.tell(Fails(0, said))

    ref.stop(LIMIT_S)

    for _ in range(100):
        said.wait()


def test_a_stuck_actor_does_not_hold_up_whoever_stops_it(nurse: Nurse) -> None:
    ref, stuck, free = Ref("patient"), threading.Event(), threading.Event()
    ref.fill(PatientActor.start(nurse.care))

    def wait(_name: str) -> None:
        stuck.set()
        free.wait(LIMIT_S)

    ref.tell(Beat(wait))
    assert stuck.wait(LIMIT_S)
    ref.tell(Fails(0, Said()))
    assert ref.backlog() == 1

    ref.stop(0.01)

    free.set()


def test_telling_from_many_threads_while_the_actor_is_started_loses_nothing(nurse: Nurse) -> None:
    ref, said, begin = Ref("patient"), Said(), threading.Barrier(5)

    def tell() -> None:
        begin.wait(LIMIT_S)
        for _ in range(200):
            ref.tell(Fails(0, said))

    tellers = [threading.Thread(target=tell) for _ in range(4)]
    for teller in tellers:
        teller.start()
    begin.wait(LIMIT_S)
    ref.fill(PatientActor.start(nurse.care))
    for teller in tellers:
        teller.join(LIMIT_S)

    for _ in range(800):
        said.wait()
    ref.stop(LIMIT_S)
