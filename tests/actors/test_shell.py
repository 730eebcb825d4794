"""What hosts are sent, in order and ahead of their acknowledgement, and how what they write is decided."""

from __future__ import annotations

from typing import Any, Final

import pytest

from runtime_actors.commands import hosts, screens
from runtime_actors.commands.follow_ups import Shown
from runtime_actors.contract import codec
from runtime_actors.contract import host as h
from runtime_actors.contract.base import WireModel
from runtime_actors.contract.rejection import Rejection
from runtime_actors.rules.delivery import WINDOW_BYTES
from runtime_actors.shell import messages as m
from runtime_actors.shell.actor import ShellActor
from runtime_actors.shell.feed import WINDOW
from runtime_actors.store.messages import Run
from tests.actor_fakes import SWEEP_S, Ear, Rig, an_instance
from tests.fakes import TALK

NONCE: Final = "0123456789abcdef"


@pytest.fixture
def shell(rig: Rig) -> ShellActor:
    actor = ShellActor(
        rig.care, store=rig.store, sockets=rig.socket_thread, me=rig.boxes["shell"], timers=rig.timers, sweep_s=SWEEP_S
    )
    rig.plug("shell", actor)
    return actor


def show(rig: Rig, count: int = 1, *, conversation_id: str = TALK, size: int = 1) -> None:
    for _ in range(count):
        rig.run(
            lambda tx, data: screens.show(tx, "text.agent", conversation_id, "s", data),
            {"text": "x" * size},
        )


def attach(
    rig: Rig,
    peer: int = 1,
    *,
    host: str = "screen",
    nonce: str = NONCE,
    conversations: frozenset[str] | None = None,
    after: int | None = None,
) -> Ear[object]:
    """As the gateway does."""
    asked = hosts.Attaching(peer, host, nonce, surfaces=True, on_screen=None, stream=None, after_number=None)
    there = rig.run(hosts.attach_host, asked)
    rig.tell("shell", m.Attach(peer, host, nonce, conversations, there.after if after is None else after))
    return Ear(rig.sockets, peer)


def numbers(ear: Ear[object]) -> list[int]:
    return [one.body["number"] for one in ear.hear()]


def ack(rig: Rig, number: int, peer: int = 1) -> None:
    rig.tell("shell", m.Acked(peer, number))


def reads(rig: Rig) -> int:
    return len([run for run in rig.boxes["store"].of(Run) if run.rule is hosts.read_events])


@pytest.mark.usefixtures("shell")
def test_a_host_gets_what_it_has_not_seen_and_then_what_comes(rig: Rig) -> None:
    show(rig, 3)

    ear = attach(rig, after=1)
    before = numbers(ear)
    show(rig, 2)

    assert (before, numbers(ear)) == ([2, 3], [4, 5])


@pytest.mark.usefixtures("shell")
def test_an_event_is_what_was_shown(rig: Rig) -> None:
    ear = attach(rig)

    show(rig)

    [told] = ear.hear()
    assert told.type == "lineup.v1.host.event"
    assert h.HostEvent.model_validate(told.body) == h.HostEvent(
        number=1, at="2026-01-01T12:00:00.000Z", conversation_id=TALK, kind="text.agent", data={"text": "x"}
    )


@pytest.mark.usefixtures("shell")
def test_every_host_gets_every_event(rig: Rig) -> None:
    first, second = attach(rig, 1), attach(rig, 2, host="other")

    show(rig, 2)

    assert (numbers(first), numbers(second)) == ([1, 2], [1, 2])


@pytest.mark.usefixtures("shell")
def test_at_most_the_window_is_ahead_and_each_acknowledgement_lets_as_many_through(rig: Rig) -> None:
    ear = attach(rig)
    show(rig, WINDOW + 3)
    assert numbers(ear) == list(range(1, WINDOW + 1))

    ack(rig, 1)
    one = numbers(ear)
    ack(rig, WINDOW)

    assert (one, numbers(ear)) == ([WINDOW + 1], [WINDOW + 2, WINDOW + 3])


@pytest.mark.usefixtures("shell")
def test_a_host_that_acknowledges_late_within_its_window_gets_all(rig: Rig) -> None:
    ear = attach(rig)

    for _ in range(WINDOW):
        show(rig)

    assert numbers(ear) == list(range(1, WINDOW + 1))


@pytest.mark.usefixtures("shell")
def test_large_events_are_bounded_in_bytes_as_well(rig: Rig) -> None:
    ear = attach(rig)
    size = 200_000
    show(rig, WINDOW_BYTES // size + 3, size=size)

    ahead = numbers(ear)

    assert WINDOW_BYTES // size <= len(ahead) <= WINDOW_BYTES // size + 1
    ack(rig, ahead[-1])
    assert numbers(ear) == list(range(ahead[-1] + 1, WINDOW_BYTES // size + 4))


@pytest.mark.usefixtures("shell")
def test_a_host_of_some_conversations_gets_only_theirs(rig: Rig) -> None:
    ear = attach(rig, conversations=frozenset({"b"}))

    for conversation_id in ("a", "b", "a", "b"):
        show(rig, conversation_id=conversation_id)

    assert numbers(ear) == [2, 4]


@pytest.mark.usefixtures("shell")
def test_a_word_that_got_lost_is_found_by_the_sweep(rig: Rig) -> None:
    ear = attach(rig)
    rig.lost = lambda one: isinstance(one, Shown)
    show(rig, 2)
    before = numbers(ear)

    rig.due(m.SweepDue)

    assert (before, numbers(ear)) == ([], [1, 2])


@pytest.mark.usefixtures("shell")
def test_a_quiet_sweep_reads_no_events(rig: Rig) -> None:
    attach(rig)
    show(rig)
    before = reads(rig)

    rig.due(m.SweepDue)

    assert reads(rig) == before


@pytest.mark.usefixtures("shell")
def test_a_peer_that_attaches_again_is_sent_what_it_has_not_taken_over(rig: Rig) -> None:
    attach(rig)
    show(rig, 2)

    again = attach(rig, 2, after=1)

    assert numbers(again) == [2]
    assert rig.sockets.closed == [1]  # the same host, on a connection that was not seen to end


def test_a_rebuild_keeps_who_is_attached_and_sends_again_what_is_not_acknowledged(rig: Rig, shell: ShellActor) -> None:
    ear = attach(rig)
    show(rig, 3)
    ack(rig, 1)
    numbers(ear)

    shell.rebuild()
    rig.settle()
    show(rig)

    assert (shell.attachments, numbers(ear)) == (1, [2, 3, 4])


def test_a_host_that_left_is_sent_nothing_and_the_rows_say_so(rig: Rig, shell: ShellActor) -> None:
    ear = attach(rig)

    rig.tell("shell", m.Detach(1))
    show(rig)

    assert (shell.attachments, numbers(ear)) == (0, [])
    assert rig.rows("select peer from hosts") == [(None,)]


@pytest.mark.usefixtures("shell")
def test_a_host_of_which_nobody_was_told_is_gone_at_the_second_sweep(rig: Rig) -> None:
    asked = hosts.Attaching(7, "lost", NONCE, surfaces=True, on_screen=None, stream=None, after_number=None)
    rig.run(hosts.attach_host, asked)

    rig.due(m.SweepDue)
    first = rig.rows("select peer from hosts")
    rig.due(m.SweepDue)

    assert (first, rig.rows("select peer from hosts")) == ([(7,)], [(None,)])


def test_a_host_that_is_so_far_behind_that_events_are_gone_is_closed(rig: Rig, shell: ShellActor) -> None:
    attach(rig)
    show(rig, WINDOW + 1)
    rig.sql.execute("update sqlite_sequence set seq = 20000 where name = 'host_events'")
    show(rig)
    rig.due(m.SweepDue)

    ack(rig, WINDOW)

    assert (shell.attachments, rig.sockets.closed) == (0, [1])


@pytest.mark.usefixtures("shell")
def test_a_store_that_cannot_be_read_now_is_asked_again(rig: Rig) -> None:
    ear = attach(rig)
    rig.tell("shell", m.PageRead(1, 1, Rejection.model_validate({"code": "store_unavailable", "detail": "full"})))

    show(rig)

    assert numbers(ear) == [1]


@pytest.mark.usefixtures("shell")
def test_what_a_host_shows_is_noted(rig: Rig) -> None:
    attach(rig)

    rig.tell("shell", m.Showing(1, TALK))

    assert rig.rows("select on_screen from hosts") == [(TALK,)]


# --- what it writes ---


def write(rig: Rig, body: WireModel, *, request_id: str = "q1", conversation_id: str | None = None) -> tuple[str, Any]:
    """And what it is answered."""
    answers: list[tuple[str, Any]] = []
    by = hosts.HostAsker("screen", NONCE, request_id, codec.digest(body.to_wire()))
    rig.tell("shell", m.Write(by, conversation_id, body, lambda kind, said: answers.append((kind, said))))
    [answer] = answers
    return answer


@pytest.mark.usefixtures("shell")
def test_what_a_host_writes_twice_is_done_once(rig: Rig) -> None:
    instance_id = an_instance(rig)
    wanted = h.HostAct(instance_id=instance_id, action="focus")

    first, second = write(rig, wanted), write(rig, wanted)

    assert first[0] == second[0] == "lineup.v1.host.done"
    assert (first[1].repeated, second[1].repeated) == (False, True)
    assert first[1].data == second[1].data == {"action_id": "act-1"}
    assert (first[1].request_id, first[1].audit.audit_seq > 0) == ("q1", True)


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (h.HostAct(instance_id="ins-9", action="close"), "app_instance_not_found"),
        (h.HostAnswer(interaction_id="int-9", approved=True), "interaction_not_found"),
        (h.HostDismiss(interaction_id="int-9"), "interaction_not_found"),
        (h.HostDraft(interaction_id="int-9", sequence=1, values={}), "interaction_not_found"),
        (h.HostPresented(interaction_id="int-9"), "interaction_not_found"),
        (h.HostSurface(surface_id="sur-9", op="submit"), "surface_not_found"),
        (h.HostText(text="hello"), "not_found"),
    ],
)
def test_whatever_a_host_writes_is_decided_by_its_command(rig: Rig, body: WireModel, code: str) -> None:
    kind, refused = write(rig, body, conversation_id=TALK)

    assert (kind, refused.code) == ("", code)
