"""So much at once, and so much a second in the long run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.rules import rates
from runtime_actors.rules.rates import Rate, Rates


def test_a_burst_is_allowed_at_once_and_one_more_is_not() -> None:
    kept = Rates(Rate(burst=3, per_s=1))

    assert [kept.allows("a", 0.0) for _ in range(4)] == [True, True, True, False]


def test_after_a_pause_as_many_are_allowed_as_seconds_have_passed_and_never_more_than_a_burst() -> None:
    kept = Rates(Rate(burst=3, per_s=1))
    while kept.allows("a", 0.0):
        pass

    assert [kept.allows("a", 2.0) for _ in range(3)] == [True, True, False]
    assert [kept.allows("a", 1000.0) for _ in range(4)] == [True, True, True, False]


def test_nobody_pays_for_another() -> None:
    kept = Rates(Rate(burst=1, per_s=1))
    kept.allows("a", 0.0)

    assert kept.allows("b", 0.0)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=200), st.integers(1, 5), st.floats(0.5, 5))
def test_in_any_time_no_more_are_allowed_than_the_burst_and_the_rate_let_in(
    times: list[float], burst: int, per_s: float
) -> None:
    kept = Rates(Rate(burst, per_s))
    times.sort()

    allowed = [at for at in times if kept.allows("a", at)]

    for begin, first in enumerate(allowed):
        for end in range(begin, len(allowed)):
            assert end - begin + 1 <= burst + (allowed[end] - first) * per_s + 1e-6


def test_a_refusal_is_worth_a_word_once_in_ten_seconds() -> None:
    kept = Rates(Rate(burst=1, per_s=1))
    kept.allows("a", 0.0)

    assert [kept.is_news("a", at) for at in (0.0, 9.9, 10.0, 10.1)] == [True, False, True, False]
    assert not kept.is_news("nobody", 0.0)


def test_as_many_buckets_are_kept_as_there_may_be() -> None:
    kept = Rates(Rate(burst=1, per_s=1))
    for number in range(rates.MAX_NAMES + 10):
        kept.allows(str(number), 0.0)

    assert len(kept._buckets) == rates.MAX_NAMES
    assert not kept.allows(str(rates.MAX_NAMES + 9), 0.0)
