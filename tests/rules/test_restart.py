"""Intensity and period, as an OTP supervisor counts them, with a backoff that spares the first restart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.rules.restart import GiveUp, RestartPolicy, StartAgain, after_end

POLICY = RestartPolicy(intensity=3, period_s=10.0, backoff_s=1.0, backoff_max_s=3.0)
MIDDLE = 0.5
"""The jitter that changes nothing."""


def test_a_single_end_costs_no_wait() -> None:
    assert after_end([1000.0], 1000.0, POLICY, MIDDLE) == StartAgain(0.0)


def test_an_end_that_does_not_count_costs_no_wait() -> None:
    assert after_end([], 1000.0, POLICY, MIDDLE) == StartAgain(0.0)


def test_the_wait_is_doubled_up_to_its_limit() -> None:
    policy = RestartPolicy(intensity=10, period_s=10.0, backoff_s=1.0, backoff_max_s=3.0)
    ends = [1000.0, 1000.1, 1000.2, 1000.3, 1000.4]

    waits = [after_end(ends[:count], 1000.5, policy, MIDDLE) for count in range(1, 6)]

    assert waits == [StartAgain(0.0), StartAgain(1.0), StartAgain(2.0), StartAgain(3.0), StartAgain(3.0)]


def test_jitter_spreads_the_wait_by_a_quarter_each_way() -> None:
    ends = [1000.0, 1000.1]

    assert after_end(ends, 1000.2, POLICY, 0.0) == StartAgain(0.75)
    assert after_end(ends, 1000.2, POLICY, 1.0) == StartAgain(1.25)


def test_as_many_ends_as_the_intensity_are_borne_and_one_more_is_not() -> None:
    ends = [1000.0, 1001.0, 1002.0, 1003.0]

    assert isinstance(after_end(ends[:3], 1002.0, POLICY, MIDDLE), StartAgain)
    assert after_end(ends, 1003.0, POLICY, MIDDLE) == GiveUp(4)


def test_ends_before_the_period_do_not_count() -> None:
    assert after_end([990.0, 991.0, 992.0, 1002.0], 1002.0, POLICY, MIDDLE) == StartAgain(0.0)


@given(st.lists(st.floats(min_value=3.4, max_value=100.0), min_size=1, max_size=50))
def test_slow_restarts_never_trip_the_limit(gaps: list[float]) -> None:
    """With 3 in 10 s, ends more than 10/3 s apart can go on for ever."""
    ends, now = [], 0.0
    for gap in gaps:
        now += gap
        ends.append(now)
        assert isinstance(after_end(ends, now, POLICY, MIDDLE), StartAgain)


@given(
    st.lists(st.floats(min_value=0.0, max_value=2.0), min_size=4, max_size=20), st.floats(min_value=0.0, max_value=1.0)
)
def test_a_storm_is_given_up_at_the_first_end_above_the_intensity(gaps: list[float], jitter: float) -> None:
    ends, now, decisions = [], 0.0, []
    for gap in gaps:
        now += gap
        ends.append(now)
        decisions.append(after_end(ends, now, POLICY, jitter))

    assert all(isinstance(one, StartAgain) for one in decisions[:3])
    assert isinstance(decisions[3], GiveUp)


@given(st.integers(min_value=0, max_value=200), st.floats(min_value=0.0, max_value=1.0))
def test_no_wait_is_longer_than_the_limit_and_its_jitter(count: int, jitter: float) -> None:
    policy = RestartPolicy(intensity=1000)

    decision = after_end([5.0] * count, 5.0, policy, jitter)

    assert isinstance(decision, StartAgain)
    assert 0.0 <= decision.after_s <= policy.backoff_max_s * 1.25
