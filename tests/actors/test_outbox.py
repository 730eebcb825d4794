"""What was committed for agents is sent until it is acknowledged."""

from __future__ import annotations

import pytest

from runtime_actors.commands import agents, calls
from runtime_actors.commands.follow_ups import Post
from runtime_actors.contract import codec
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.tools import CallStatus
from runtime_actors.outbox import messages as m
from runtime_actors.outbox.actor import OutboxActor
from runtime_actors.rules.delivery import AGENT_WINDOW, WINDOW_BYTES
from runtime_actors.store.messages import Run
from tests.actor_fakes import SWEEP_S, Ear, Rig, an_instance
from tests.fakes import AGENT, TALK


@pytest.fixture
def outbox(rig: Rig) -> OutboxActor:
    actor = OutboxActor(
        rig.care,
        store=rig.store,
        sockets=rig.socket_thread,
        me=rig.boxes["outbox"],
        timers=rig.timers,
        sweep_s=SWEEP_S,
    )
    rig.plug("outbox", actor)
    return actor


def post(rig: Rig, count: int = 1, *, conversation_id: str = TALK, agent_id: str = AGENT) -> None:
    """So many calls end, each with a delivery."""
    for _ in range(count):
        [(before,)] = rig.rows("select count(*) from calls")
        call_id = f"c{before + 1}"
        instance_id = an_instance(rig, call_id=call_id, conversation_id=conversation_id, agent_id=agent_id)
        by = calls.Reporter(instance_id, "att-1", "q", call_id)
        failure = codec.encode({"code": "app.done", "message": "", "retryable": False})
        outcome = rig.run(calls.finish, calls.FinalReport(by, CallStatus.FAILED, failure, code="app.done"))
        assert isinstance(outcome, calls.Reported), outcome


def attach(rig: Rig, peer: int = 1, *, agent_id: str = AGENT, conversations: set[str] | None = None) -> Ear[object]:
    rig.tell("outbox", m.Attach(peer, agent_id, None if conversations is None else frozenset(conversations)))
    return Ear(rig.sockets, peer)


def ack(rig: Rig, *numbers: int, agent_id: str = AGENT) -> None:
    """And wait until it is told to the store."""
    rig.tell("outbox", m.Acked(agent_id, numbers))
    if rig.timers.of(m.SettleDue):
        rig.due(m.SettleDue)


def numbers(ear: Ear[object]) -> list[int]:
    return [one.body["number"] for one in ear.hear()]


def left(rig: Rig, agent_id: str = AGENT) -> list[int]:
    """Numbers that are not settled."""
    return [number for (number,) in rig.rows("select number from outbox where agent_id = ? order by number", agent_id)]


def reads(rig: Rig) -> int:
    return len([run for run in rig.boxes["store"].of(Run) if run.rule is agents.read_deliveries])


@pytest.mark.usefixtures("outbox")
def test_an_attachment_gets_what_is_unsettled_and_then_what_comes(rig: Rig) -> None:
    post(rig, 3)

    ear = attach(rig)
    before = numbers(ear)
    post(rig, 2)

    assert (before, numbers(ear)) == ([1, 2, 3], [4, 5])
    assert left(rig) == [1, 2, 3, 4, 5]


@pytest.mark.usefixtures("outbox")
def test_all_copies_of_a_number_are_byte_for_byte_the_same(rig: Rig) -> None:
    attach(rig, 1)
    post(rig)
    attach(rig, 2)
    attach(rig, 1)

    frames = [frame for _, frame in rig.sockets.sent]
    assert len(frames) == 3
    assert len(set(frames)) == 1


@pytest.mark.usefixtures("outbox")
def test_what_is_acknowledged_is_settled_and_not_sent_again(rig: Rig) -> None:
    ear = attach(rig)
    post(rig, 3)
    numbers(ear)

    ack(rig, 2, 77)
    again = attach(rig, 2)

    assert left(rig) == [1, 3]
    assert numbers(again) == [1, 3]


@pytest.mark.usefixtures("outbox")
def test_another_agents_acknowledgement_settles_nothing(rig: Rig) -> None:
    attach(rig)
    other = attach(rig, 2, agent_id="other")
    post(rig)
    post(rig, agent_id="other", conversation_id="elsewhere")

    ack(rig, 1, agent_id="other")

    assert (left(rig), left(rig, "other")) == ([1], [])
    assert numbers(other) == [1]


@pytest.mark.usefixtures("outbox")
def test_acknowledgements_that_come_together_are_recorded_together(rig: Rig) -> None:
    attach(rig)
    post(rig, 3)

    for number in (1, 2, 3):
        rig.tell("outbox", m.Acked(AGENT, (number,)))

    assert left(rig) == [1, 2, 3]
    rig.due(m.SettleDue)
    assert left(rig) == []
    [(noted,)] = rig.rows("select count(*) from audit where event = 'delivery.settled'")
    assert noted == 1


def test_what_was_acknowledged_is_recorded_before_the_end(rig: Rig, outbox: OutboxActor) -> None:
    attach(rig)
    post(rig)
    rig.tell("outbox", m.Acked(AGENT, (1,)))

    outbox.on_stop()
    rig.settle()

    assert left(rig) == []


@pytest.mark.usefixtures("outbox")
def test_what_was_acknowledged_is_not_read_and_sent_again(rig: Rig) -> None:
    ear = attach(rig)
    post(rig)
    assert numbers(ear) == [1]
    rig.tell("outbox", m.Acked(AGENT, (1,)))

    rig.due(m.SweepDue)

    assert numbers(ear) == []


@pytest.mark.usefixtures("outbox")
def test_at_most_the_window_is_in_flight_and_the_rest_follows_as_it_opens(rig: Rig) -> None:
    ear = attach(rig)
    post(rig, AGENT_WINDOW + 20)
    assert numbers(ear) == list(range(1, AGENT_WINDOW + 1))

    ack(rig, *range(1, AGENT_WINDOW // 2))
    early = numbers(ear)
    ack(rig, AGENT_WINDOW // 2)

    assert early == []  # a page is worth it once half of the window is free
    assert numbers(ear) == list(range(AGENT_WINDOW + 1, AGENT_WINDOW + 21))


@pytest.mark.usefixtures("outbox")
def test_each_attachment_has_a_window_of_its_own_and_the_first_ack_settles_for_all(rig: Rig) -> None:
    first, second = attach(rig, 1), attach(rig, 2)
    post(rig, AGENT_WINDOW + 10)
    late = attach(rig, 3)
    assert [len(numbers(one)) for one in (first, second, late)] == [AGENT_WINDOW] * 3

    ack(rig, *range(1, AGENT_WINDOW + 1))

    expected = list(range(AGENT_WINDOW + 1, AGENT_WINDOW + 11))
    assert [numbers(one) for one in (first, second, late)] == [expected] * 3
    assert left(rig) == expected


@pytest.mark.usefixtures("outbox")
def test_an_attachment_to_some_conversations_gets_only_theirs_and_keeps_up(rig: Rig) -> None:
    some, every = attach(rig, 1, conversations={"b"}), attach(rig, 2)
    before = reads(rig)

    for conversation_id in ("a", "b", "a", "b"):
        post(rig, conversation_id=conversation_id)

    assert numbers(some) == [2, 4]
    assert numbers(every) == [1, 2, 3, 4]
    assert reads(rig) == before


@pytest.mark.usefixtures("outbox")
def test_attaching_again_starts_over_with_the_new_conversations(rig: Rig) -> None:
    ear = attach(rig, 1, conversations={"a"})
    post(rig, conversation_id="a")
    post(rig, conversation_id="b")
    assert numbers(ear) == [1]

    rig.tell("outbox", m.Attach(1, AGENT, frozenset({"b"})))

    assert numbers(ear) == [2]


@pytest.mark.usefixtures("outbox")
def test_attaching_again_as_another_agent_ends_what_the_first_one_gets(rig: Rig) -> None:
    ear = attach(rig, 1)

    rig.tell("outbox", m.Attach(1, "other", None))
    post(rig, 2)
    post(rig, 1, agent_id="other", conversation_id="elsewhere")

    assert [one.body["number"] for one in ear.hear()] == [1]
    assert [agent_id for agent_id, _ in rig.rows("select agent_id, number from outbox order by agent_id")] == [
        "local",
        "local",
        "other",
    ]


@pytest.mark.usefixtures("outbox")
def test_a_page_of_an_earlier_attachment_of_the_peer_is_not_sent(rig: Rig) -> None:
    post(rig, conversation_id="a")
    rig.hold("store")
    ear = attach(rig, 1, conversations={"a"})

    attach(rig, 1, conversations={"b"})
    rig.let_go("store")

    assert numbers(ear) == []


def test_a_peer_that_is_gone_is_sent_nothing(rig: Rig, outbox: OutboxActor) -> None:
    ear = attach(rig)
    rig.hold("store")
    attach(rig, 2)
    rig.tell("outbox", m.Detach(1), m.Detach(2), m.Detach(99))
    rig.let_go("store")

    post(rig)

    assert numbers(ear) == []
    assert (rig.sockets.sent, outbox.attachments) == ([], 0)


@pytest.mark.usefixtures("outbox")
def test_a_dropped_post_is_found_by_the_sweep(rig: Rig) -> None:
    ear = attach(rig)
    rig.lost = lambda told: isinstance(told, Post)
    post(rig)
    assert numbers(ear) == []

    rig.due(m.SweepDue)

    assert numbers(ear) == [1]


@pytest.mark.usefixtures("outbox")
def test_a_dropped_post_is_noticed_by_the_next_one_and_nothing_overtakes(rig: Rig) -> None:
    ear = attach(rig)
    rig.lost = lambda told: isinstance(told, Post)
    post(rig)
    rig.lost = lambda _: False

    post(rig)

    assert numbers(ear) == [1, 2]


@pytest.mark.usefixtures("outbox")
def test_the_sweep_sends_nothing_twice(rig: Rig) -> None:
    ear = attach(rig)
    post(rig, 5)
    numbers(ear)

    rig.due(m.SweepDue)
    rig.due(m.SweepDue)

    assert numbers(ear) == []


@pytest.mark.usefixtures("outbox")
def test_what_is_posted_while_a_page_is_read_is_sent_once_and_in_order(rig: Rig) -> None:
    post(rig, 2)
    rig.hold("store")
    ear = attach(rig)
    rig.held.clear()

    post(rig, 2)

    assert numbers(ear) == [1, 2, 3, 4]


@pytest.mark.usefixtures("outbox")
def test_a_page_that_the_store_could_not_read_is_asked_for_by_the_sweep(rig: Rig) -> None:
    post(rig)
    rig.hold("store")
    ear = attach(rig)
    rig.boxes["store"].waiting.clear()
    rig.let_go("store")
    no_space = Rejection(code=RejectionCode.STORE_UNAVAILABLE, detail="no space")
    rig.tell("outbox", m.PageRead(1, 1, frozenset(), no_space))

    rig.due(m.SweepDue)

    assert numbers(ear) == [1]


@pytest.mark.usefixtures("outbox")
def test_an_acknowledgement_that_was_not_recorded_is_sent_for_again_by_the_sweep(rig: Rig) -> None:
    ear = attach(rig)
    post(rig)
    numbers(ear)
    rig.hold("store")
    ack(rig, 1)
    rig.boxes["store"].waiting.clear()
    rig.let_go("store")

    rig.due(m.SweepDue)

    assert numbers(ear) == [1]


def test_a_rebuild_keeps_who_is_attached_and_sends_again_what_is_unsettled(rig: Rig, outbox: OutboxActor) -> None:
    first, second = attach(rig, 1), attach(rig, 2, conversations={"b"})
    post(rig, 2, conversation_id="a")
    post(rig, 1, conversation_id="b")
    ack(rig, 1)
    numbers(first)
    numbers(second)

    outbox.rebuild()
    rig.settle()

    assert (numbers(first), numbers(second)) == ([2, 3], [3])


@pytest.mark.usefixtures("outbox")
def test_large_deliveries_are_bounded_by_their_bytes(rig: Rig) -> None:
    post(rig, 3)
    rig.sql.execute("update outbox set frame = ?", (b"x" * (WINDOW_BYTES - 1000),))

    attach(rig)
    sent = [len(rig.sockets.sent)]
    for number in (1, 2):
        ack(rig, number)
        sent.append(len(rig.sockets.sent))

    assert sent == [1, 2, 3]
