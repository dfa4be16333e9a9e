"""Timing with a clock that the test sets: calibration, the loop's own cost, spread."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.timing import Series, best_of, time_call, time_once


class FakeClock:
    """A clock that only moves when told: by each look at it, and by `work`."""

    def __init__(self, per_look_s: float = 0.0) -> None:
        self.now, self.per_look_s = 100.0, per_look_s

    def __call__(self) -> float:
        self.now += self.per_look_s
        return self.now

    def work(self, *costs_s: float):
        """A function that takes these seconds in turn, again and again, and counts its calls."""
        turns = itertools.cycle(costs_s)

        def call() -> None:
            call.calls += 1
            self.now += next(turns)

        call.calls = 0
        return call


@pytest.mark.slow
@pytest.mark.parametrize("cost", [1e-7, 3e-5, 1e-3, 0.5])
def test_a_call_takes_what_it_takes(cost):
    clock = FakeClock()
    timing = time_call(clock.work(cost), clock=clock)
    assert timing.best_s == pytest.approx(cost, rel=1e-4)
    assert timing.median_s == pytest.approx(cost, rel=1e-4)
    assert timing.spread == pytest.approx(0, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("cost", [1e-7, 3e-5, 1e-3])
def test_a_round_is_long_enough_and_not_much_longer(cost):
    clock = FakeClock()
    timing = time_call(clock.work(cost), run_s=0.02, clock=clock)
    assert 0.02 <= timing.calls * cost <= 0.02 * 2.5


def test_a_slow_call_is_not_repeated_within_a_round():
    clock = FakeClock()
    call = clock.work(0.5)
    assert time_call(call, rounds=3, run_s=0.02, clock=clock).calls == 1
    assert call.calls == 1 + 1 + 3  # warm-up, calibration, rounds


def test_the_first_call_is_not_timed():
    clock = FakeClock()
    costs = itertools.chain([10.0], itertools.repeat(1e-3))

    def compiles_first() -> None:
        clock.now += next(costs)

    assert time_call(compiles_first, clock=clock).best_s == pytest.approx(1e-3)


def test_the_clocks_own_cost_is_taken_off():
    # Each look costs 1 ms, as much as 10 calls: the empty loop shows it.
    clock = FakeClock(per_look_s=1e-3)
    assert time_call(clock.work(1e-4), run_s=0.02, clock=clock).best_s == pytest.approx(1e-4, rel=1e-6)


def test_a_call_that_costs_nothing_ends_and_is_not_negative():
    clock = FakeClock(per_look_s=1e-5)
    timing = time_call(lambda: None, run_s=1e-6, clock=clock)
    assert timing.best_s == timing.median_s == timing.spread == 0


def test_best_and_median_of_the_rounds_are_both_kept():
    clock = FakeClock()
    # Warm-up and calibration take one call each; then five rounds of one call.
    call = clock.work(0.1, 0.1, 0.1, 0.2, 0.1, 0.4, 0.2)
    timing = time_call(call, rounds=5, run_s=0.05, clock=clock)
    assert (timing.best_s, timing.median_s) == pytest.approx((0.1, 0.2))
    assert timing.spread == pytest.approx(0.5)  # (0.2 − 0.1) / 0.2
    assert (timing.runs, timing.calls) == (5, 1)


def test_a_series_keeps_the_best_and_says_how_far_below_a_typical_run_fell():
    series = Series((90.0, 100.0, 80.0))
    assert (series.best, series.median, series.spread, series.runs) == (100.0, 90.0, 0.1, 3)


@given(st.lists(st.floats(1e-9, 1e15), min_size=1, max_size=20))
def test_a_spread_lies_between_0_and_1(values):
    series = Series(tuple(values))
    assert 0 <= series.spread <= 1  # 1 only by rounding: the median is positive
    assert series.median <= series.best


def test_the_best_series_is_that_with_the_best_run():
    slow, quick = Series((5.0, 5.0, 5.0)), Series((1.0, 6.0, 1.0))
    assert best_of([slow, quick]) is quick


def test_rounds_go_on_until_a_second_one_comes_near_the_best():
    def timed(lengths, more):
        now, left = [0.0], list(lengths)

        def clock():
            return now[0]

        def call():
            now[0] += left.pop(0) if left else 1.0

        return time_call(call, rounds=2, run_s=0.5, more=more, clock=clock)

    # a first call, one that calibrates, then rounds of a call each
    assert timed([1, 1, 3, 2, 2.5, 2.03], 5).runs == 4
    assert timed([1, 1, 3, 2, 2.5, 2.03], 1).runs == 3
    assert timed([1, 1, 2, 2], 5).runs == 2
    assert timed([1, 1, 3, 2], 0).runs == 2


def test_of_many_rounds_a_tenth_must_be_alike():
    now, left = [0.0], [1.0] * 2 + [1.5] * 27 + [1.0] * 2 + [1.5] * 9 + [1.0] * 9

    def call():
        now[0] += left.pop(0)

    # a first call and one that calibrates; 2 of 30 rounds are short, 2 of 38, 3 of 39, and 4 of 40
    timing = time_call(call, rounds=30, run_s=0.5, more=60, clock=lambda: now[0])
    assert timing.best_s == 1.0
    assert timing.runs == 40
    assert timing.median_s == 1.5


def test_time_once_takes_the_cost_of_a_call_off():
    now = [0.0]

    def call():
        now[0] += 0.25

    # a clock on which only this call takes time
    assert time_once(call, 4, lambda: now[0]) == 0.25
