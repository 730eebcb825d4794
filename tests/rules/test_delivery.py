"""A feed against a model of what drives it: a store that decides in order, and a mailbox that may lose offers.

Pages, offers and settlements are told in the order in which the store decided them; an offer may be lost (its
receiver was rebuilt), a page may be answered with a refusal, and a session may begin anew, upon which its outstanding
page is not looked at. An owner may also settle before the store has (the outbox does): a page that was read before may
then repeat the entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime_actors.rules.delivery import Feed

WINDOW: Final = 4
WINDOW_BYTES: Final = 40
PAGE: Final = 4


@dataclass
class Log:
    """Numbered entries of which some are settled."""

    unsettled: dict[int, int] = field(default_factory=dict)
    last: int = 0

    def commit(self, size: int) -> int:
        self.last += 1
        self.unsettled[self.last] = size
        return self.last


@dataclass(frozen=True)
class Offer:
    number: int
    size: int


@dataclass(frozen=True)
class Settled:
    number: int


@dataclass(frozen=True)
class Page:
    asked: frozenset[int]
    still: frozenset[int]
    entries: tuple[tuple[int, int], ...]
    through: int
    complete: bool
    session: int


class FeedMachine(RuleBasedStateMachine):
    """One peer of one log."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.feed = Feed(window=WINDOW, window_bytes=WINDOW_BYTES)
        self.mailbox: list[Offer | Settled | Page] = []
        self.ever_sent: set[int] = set()
        self.sent_in_session: list[int] = []
        self.settled_early: set[int] = set()
        self.session = 0
        self.others: set[int] = set()
        """Entries that are not for this peer."""
        self.read()

    # --- what the store does ---

    @rule(size=st.integers(1, WINDOW_BYTES // 2), lost=st.booleans())
    def commit(self, size: int, *, lost: bool) -> None:
        number = self.log.commit(size)
        if not lost:
            self.mailbox.append(Offer(number, size))

    @rule()
    def commit_for_somebody_else(self) -> None:
        number = self.log.commit(1)
        del self.log.unsettled[number]
        self.others.add(number)
        self.mailbox.append(Offer(number, 1))

    def read(self) -> None:
        """As the actors read: without what is in flight, up to a page."""
        self.feed.reading = True
        asked = frozenset(self.feed.in_flight)
        found = [(number, size) for number, size in sorted(self.log.unsettled.items()) if number not in asked]
        complete = len(found) <= PAGE
        still = asked & set(self.log.unsettled) if complete else asked
        self.mailbox.append(Page(asked, still, tuple(found[:PAGE]), self.log.last, complete, self.session))

    # --- what the peer does ---

    @precondition(lambda self: self.feed.in_flight)
    @rule(choice=st.data())
    def settle(self, choice: st.DataObject) -> None:
        number = choice.draw(st.sampled_from(sorted(self.feed.in_flight)))
        self.log.unsettled.pop(number, None)
        self.mailbox.append(Settled(number))

    @precondition(lambda self: self.feed.in_flight)
    @rule(choice=st.data())
    def settle_early(self, choice: st.DataObject) -> None:
        """In the view of the feed's owner first: the store's word of it comes later."""
        number = choice.draw(st.sampled_from(sorted(self.feed.in_flight)))
        self.settled_early.add(number)
        self.log.unsettled.pop(number, None)
        self.handle_settled(number)

    @precondition(lambda self: self.feed.in_flight)
    @rule(choice=st.data())
    def settle_without_word_of_it(self, choice: st.DataObject) -> None:
        """Settled by another attachment, or its word got lost: the next page shows it."""
        self.log.unsettled.pop(choice.draw(st.sampled_from(sorted(self.feed.in_flight))), None)

    @rule()
    def begin_a_new_session(self) -> None:
        self.session += 1
        self.sent_in_session = []
        self.feed.restart()
        self.read()

    # --- what the feed's owner does ---

    @precondition(lambda self: self.mailbox)
    @rule()
    def handle_one(self) -> None:
        told = self.mailbox.pop(0)
        if isinstance(told, Offer):
            self.handle_offer(told)
        elif isinstance(told, Settled):
            self.handle_settled(told.number)
        elif told.session == self.session:
            self.handle_page(told)

    @precondition(
        lambda self: self.mailbox and isinstance(self.mailbox[0], Page) and self.mailbox[0].session == self.session
    )
    @rule()
    def a_page_is_refused(self) -> None:
        self.mailbox.pop(0)
        self.feed.reading = False

    @precondition(lambda self: not self.feed.reading)
    @rule()
    def sweep(self) -> None:
        self.read()

    def handle_offer(self, offer: Offer) -> None:
        if offer.number in self.others:
            self.feed.skip(offer.number)
        elif self.feed.offer(offer.number, offer.size):
            self.send(offer.number)
        else:
            self.read_if_wanted()

    def handle_settled(self, number: int) -> None:
        self.feed.settle(number)
        self.read_if_wanted()

    def handle_page(self, page: Page) -> None:
        self.feed.keep(page.still, page.asked)
        chosen = self.feed.take(page.entries, page.through, complete=page.complete)
        for number in chosen:
            self.send(number)
        if any(number not in self.feed.in_flight for number, _ in page.entries) and not chosen:
            # Reading the same page again at once would turn in a circle until the peer settles something.
            assert not self.feed.wants_page()
        self.read_if_wanted()

    def read_if_wanted(self) -> None:
        if self.feed.wants_page():
            self.read()

    def send(self, number: int) -> None:
        if self.sent_in_session and number not in self.settled_early:
            assert number > max(self.sent_in_session)
        self.sent_in_session.append(number)
        self.ever_sent.add(number)

    # --- what must hold ---

    @invariant()
    def the_window_is_never_exceeded(self) -> None:
        assert len(self.feed.in_flight) <= WINDOW
        assert self.feed.bytes_in_flight == sum(self.feed.in_flight.values())
        assert self.feed.bytes_in_flight <= WINDOW_BYTES

    @invariant()
    def nothing_is_passed_over(self) -> None:
        """What a feed that is not behind counts as sent was sent in this session, or was settled."""
        for number in self.log.unsettled:
            assert self.feed.behind or number > self.feed.through or number in self.sent_in_session

    def teardown(self) -> None:
        """The faults stop: everything arrives, in bounded time, once the peer settles what it gets."""
        for _ in range(10 * (len(self.log.unsettled) + len(self.mailbox) + 10)):
            if self.mailbox:
                self.handle_one()
            elif self.feed.in_flight:
                number = min(self.feed.in_flight)
                self.log.unsettled.pop(number, None)
                self.handle_settled(number)
            elif self.log.unsettled:
                self.feed.reading = False
                self.read()
            else:
                break
        assert not self.log.unsettled
        assert not self.mailbox
        assert self.ever_sent == set(range(1, self.log.last + 1)) - self.others


TestFeed = FeedMachine.TestCase
TestFeed.settings = settings(max_examples=200, stateful_step_count=40)


def test_an_entry_larger_than_the_window_is_sent_when_nothing_else_is_in_flight() -> None:
    feed = Feed(window=4, window_bytes=40)

    assert feed.take([(1, 100), (2, 1)], 2, complete=True) == [1]
    feed.settle(1)
    assert feed.take([(2, 1)], 2, complete=True) == [2]


def test_a_window_full_of_few_large_entries_wants_no_page_until_half_of_it_is_free() -> None:
    """It would read the same page again and again, as fast as it can."""
    feed = Feed(window=64, window_bytes=40)
    feed.take([(1, 20), (2, 20), (3, 20)], 3, complete=True)

    assert not feed.wants_page()
    feed.settle(1)
    assert feed.wants_page()


def test_a_number_that_a_page_had_is_not_sent_again_when_its_offer_comes() -> None:
    feed = Feed()
    feed.take([(1, 1), (2, 1)], 2, complete=True)

    assert not feed.offer(2, 1)
    assert feed.offer(3, 1)


def test_an_offer_that_does_not_follow_the_last_one_puts_the_feed_behind() -> None:
    feed = Feed()
    feed.take([], 4, complete=True)

    assert not feed.offer(6, 1)
    assert feed.wants_page()


def test_a_page_that_is_not_all_leaves_the_feed_behind() -> None:
    feed = Feed()

    assert feed.take([(1, 1), (2, 1)], 9, complete=False) == [1, 2]
    assert feed.wants_page()
