"""Hosts: who is there, what each wrote already, and the events they are sent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from runtime_actors.commands import action_messages, actions, calls, hosts, recovery, screens, states, views
from runtime_actors.commands.follow_ups import Shown
from runtime_actors.contract.rejection import Rejection, RejectionCode
from tests.commands.people import acted, shown, states_of
from tests.fakes import TALK, a_result, by, refused, running

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction
    from tests.fakes import Records

NONCE: Final = "0123456789abcdef"
SCREEN: Final = hosts.Attaching(
    peer=1, host="screen", nonce=NONCE, surfaces=True, on_screen=TALK, stream=None, after_number=None
)


def there(records: Records, asked: hosts.Attaching = SCREEN) -> hosts.HostThere:
    return records.run(hosts.attach_host, asked)


def can_show(records: Records) -> tuple[bool, bool]:
    """A surface, and the conversation."""
    tx = records.transaction()
    return hosts.capable_host(tx), hosts.is_on_screen(tx, TALK)


def show(records: Records, count: int = 1, *, kind: str = "text.agent", conversation_id: str = TALK) -> None:
    for number in range(count):
        records.run(
            lambda tx, n: screens.show(tx, kind, conversation_id, "s1", {"n": n}),  # type: ignore[arg-type]
            number,
        )


def page(
    records: Records, after: int = 0, *, most: int = 64, conversations: frozenset[str] | None = None, room: int = 10**6
) -> hosts.EventPage:
    return hosts.read_events(records.transaction(), hosts.EventsOf(after, conversations, most, room))


def numbers(found: hosts.EventPage) -> list[int]:
    return [event.number for event in found.events]


# --- who is there ---


def test_a_host_counts_as_there_until_fifteen_seconds_after_it_left(records: Records) -> None:
    before = can_show(records)
    there(records)

    present = can_show(records)
    records.run(hosts.detach_host, 1)
    records.clock.move(14.9)
    lingering = can_show(records)
    records.clock.move(0.2)

    assert (before, present, lingering, can_show(records)) == (
        (False, False), (True, True), (True, True), (False, False),
    )  # fmt: skip


def test_a_host_of_an_ended_daemon_counts_from_the_boot_on(records: Records) -> None:
    there(records)
    records.clock.move(3600)

    records.run(recovery.recover, None)

    assert can_show(records) == (True, True)
    assert records.run(hosts.read_there, None).peers == frozenset()
    records.clock.move(15.1)
    assert can_show(records) == (False, False)


def test_a_clock_that_was_set_back_does_not_keep_a_host_there_for_ever(records: Records) -> None:
    there(records)
    records.run(hosts.detach_host, 1)

    records.clock.move(-3600)

    assert can_show(records) == (False, False)


def test_a_host_that_attaches_again_is_one_host_however_its_old_connection_ends(records: Records) -> None:
    there(records)
    there(records, replace(SCREEN, peer=2, on_screen="other"))

    records.run(hosts.detach_host, 1)

    assert can_show(records) == (True, False)
    assert records.run(hosts.read_there, None).peers == {2}


def test_a_connection_stands_for_one_host(records: Records) -> None:
    there(records)

    there(records, replace(SCREEN, host="other", surfaces=False, on_screen=None))

    assert can_show(records) == (False, False)
    assert records.sql.execute("select host, peer from hosts").fetchall() == [("other", 1)]


def test_what_is_on_the_screen_is_what_was_shown_last(records: Records) -> None:
    there(records)

    records.run(hosts.show_on_screen, hosts.Showing(1, None))
    hidden = can_show(records)
    records.run(hosts.show_on_screen, hosts.Showing(1, TALK))
    records.run(hosts.show_on_screen, hosts.Showing(77, None))

    assert (hidden, can_show(records)) == ((True, False), (True, True))


def test_a_host_that_left_is_forgotten_when_it_no_longer_counts(records: Records) -> None:
    there(records)
    records.run(hosts.detach_host, 1)
    early = records.run(hosts.forget_hosts, None)
    records.clock.move(16)

    late = records.run(hosts.forget_hosts, None)

    assert (early, late, records.sql.execute("select * from hosts").fetchall()) == (0, 1, [])


# --- where it goes on ---


def test_a_new_host_begins_with_what_is_to_come(records: Records) -> None:
    show(records, 3)

    told = there(records)

    assert (told.last_number, told.after, told.complete) == (3, 3, True)


def test_a_host_goes_on_behind_what_it_has_seen(records: Records) -> None:
    show(records, 3)
    stream = there(records).stream

    told = there(records, replace(SCREEN, stream=stream, after_number=1))

    assert (told.after, told.complete) == (1, True)
    assert numbers(page(records, told.after)) == [2, 3]


@pytest.mark.parametrize("changes", [{"stream": "other"}, {"stream": None}, {"after_number": 4}])
def test_a_host_that_saw_other_events_is_told_to_read_the_listings(
    records: Records, changes: dict[str, str | int | None]
) -> None:
    show(records, 3)
    seen = {"stream": there(records).stream, "after_number": 1} | changes

    told = there(records, replace(SCREEN, **seen))  # type: ignore[arg-type]

    assert (told.after, told.complete) == (3, False)


def test_a_host_that_asks_for_events_that_are_gone_is_told_so(records: Records) -> None:
    stream = there(records).stream
    show(records)
    number = screens.KEPT + 5
    records.sql.execute("update sqlite_sequence set seq = ? where name = 'host_events'", (number,))
    show(records)

    last = records.run(hosts.read_there, None).last_event
    dropped = records.run(screens.drop_old_events, None)
    gone = there(records, replace(SCREEN, stream=stream, after_number=last - screens.KEPT - 1))
    kept = there(records, replace(SCREEN, stream=stream, after_number=last - screens.KEPT))

    assert (last, dropped) == (number + 1, 1)
    assert (gone.complete, gone.after) == (False, last)
    assert (kept.complete, kept.after) == (True, last - screens.KEPT)
    assert page(records, 0).lost
    assert not page(records, last - screens.KEPT).lost


# --- listings ---


def test_the_timeline_is_the_newest_events_or_those_behind_a_place(records: Records) -> None:
    show(records, 3)
    show(records, 1, conversation_id="other")

    newest = views.view_timeline(records.transaction(), views.View({}, None, 2))
    of_one = views.view_timeline(records.transaction(), views.View({"conversation_id": TALK}, None, 2))
    behind = views.view_timeline(records.transaction(), views.View({}, "1", 2))

    assert [row["number"] for row in newest.rows] == [3, 4]
    assert [row["number"] for row in of_one.rows] == [2, 3]
    assert ([row["number"] for row in behind.rows], behind.next) == ([2, 3], "3")
    assert newest.rows[0] == {
        "number": 3, "at": "2026-01-01T12:00:00.000Z", "conversation_id": TALK, "kind": "text.agent", "data": {"n": 2},
    }  # fmt: skip


def test_a_host_that_comes_later_reads_who_hangs(records: Records) -> None:
    running(records)
    acted(records, "ins-1", "close")
    records.clock.move(60)
    records.run(action_messages.note_hanging, None)

    (row,) = views.view_instances(records.transaction(), views.View({}, None, 10)).rows

    assert (row["app_title"], row["hanging"]) == (
        states.shown_app(records.transaction(), records.instance("ins-1"))["app_title"],
        True,
    )


# --- pages ---


def test_a_page_holds_what_fits_and_says_how_far_it_reaches(records: Records) -> None:
    show(records, 5)

    first, rest = page(records, most=2), page(records, 2)

    assert (numbers(first), first.through, first.last) == ([1, 2], 2, 5)
    assert (numbers(rest), rest.through) == ([3, 4, 5], 5)
    assert numbers(page(records, room=1)) == [1]


def test_events_of_other_conversations_are_left_out_and_passed_over(records: Records) -> None:
    show(records, 2)
    show(records, 2, conversation_id="other")
    show(records, 1)

    found = page(records, conversations=frozenset({"other"}))

    assert (numbers(found), found.through) == ([3, 4], 5)


def test_of_the_changes_of_a_surface_only_the_newest_is_kept(records: Records) -> None:
    show(records, 3, kind="surface.changed")
    show(records, 1)

    assert numbers(page(records)) == [3, 4]


def test_a_lost_word_about_an_event_is_found_by_the_next_look(records: Records) -> None:
    show(records)

    (told,) = records.told(Shown)

    assert hosts.read_there(records.transaction(), None).last_event == told.number


# --- what it writes counts once ---

act_once = hosts.once(actions.act, lambda acted: {"action_id": acted.action_id})
BY: Final = hosts.HostAsker("screen", NONCE, "q1", b"digest")


def close_once(
    records: Records, by: hosts.HostAsker = BY, instance_id: str = "ins-1"
) -> hosts.HostAnswered | Rejection:
    return records.run(act_once, hosts.Written(by, actions.Act(instance_id, "close")))


def test_what_a_host_wrote_is_done_once_and_answered_as_before(records: Records) -> None:
    running(records)
    first = close_once(records)
    before = records.everything()

    second = close_once(records)

    assert isinstance(first, hosts.HostAnswered)
    assert isinstance(second, hosts.HostAnswered)
    assert (first.data, first.repeated) == ({"action_id": "act-1"}, False)
    assert (second.data, second.repeated) == ({"action_id": "act-1"}, True)
    assert records.everything() == before


def test_the_same_request_with_another_body_is_a_conflict(records: Records) -> None:
    running(records)
    close_once(records)
    before = records.everything()

    outcome = close_once(records, replace(BY, digest=b"other"))

    assert refused(outcome) == RejectionCode.MESSAGE_ID_CONFLICT
    assert records.everything() == before


@pytest.mark.parametrize("changes", [{"request_id": "q2"}, {"nonce": "f" * 16}, {"host": "other"}])
def test_another_host_or_request_is_another_one(records: Records, changes: dict[str, str]) -> None:
    running(records)
    close_once(records)

    close_once(records, replace(BY, **changes))  # type: ignore[arg-type]

    assert states_of(records) == {"act-1": "waiting", "act-2": "waiting"}


def test_a_refusal_is_not_kept_for_nothing_was_done(records: Records) -> None:
    early = close_once(records)
    running(records)

    late = close_once(records)

    assert refused(early) == RejectionCode.APP_INSTANCE_NOT_FOUND
    assert isinstance(late, hosts.HostAnswered)
    assert not late.repeated


def test_what_a_host_wrote_is_known_for_a_day(records: Records) -> None:
    running(records)
    close_once(records)
    records.clock.move(hosts.KNOWN_S - 1)
    early = records.run(hosts.forget_hosts, None)
    records.clock.move(2)

    late = records.run(hosts.forget_hosts, None)

    assert (early, late) == (0, 1)


def test_of_too_many_requests_the_oldest_are_forgotten_first(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "KEPT_REQUESTS", 2)
    running(records)
    for number in range(4):
        close_once(records, replace(BY, request_id=f"q{number}"))
        records.clock.move(1)

    records.run(hosts.forget_hosts, None)

    assert records.sql.execute("select request_id from host_requests order by 1").fetchall() == [
        ("q2",),
        ("q3",),
    ]


def test_a_command_of_a_host_goes_by_its_own_name() -> None:
    def some_rule(tx: Transaction, argument: str) -> str:
        return f"{tx.at} {argument}"

    assert hosts.once(some_rule, lambda said: {"said": said}).__name__ == "some_rule"


def test_an_ordinary_call_shows_hosts_nothing(records: Records) -> None:
    running(records)
    running(records, "board.open", "c0")
    before = len(shown(records))

    records.run(calls.finish, a_result(by(running(records, call_id="c2"))))
    records.run(calls.finish, a_result(by(running(records, "board.update", "c3"))))

    assert len(shown(records)) == before
    acted(records, "ins-1", "app", name="tick")
    assert len(shown(records)) == before
