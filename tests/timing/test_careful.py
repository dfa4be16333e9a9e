"""Careful timing with a clock that the test sets: warm-up, blocks, interval, drift."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.timing import careful


class Clock:
    """A clock that moves by what `work` costs, and a little with each look."""

    def __init__(self, look_s: float = 1e-9) -> None:
        self.now, self.look_s = 10.0, look_s

    def __call__(self) -> float:
        self.now += self.look_s
        return self.now

    def work(self, costs):
        """A function that takes these seconds in turn."""
        turns = iter(costs)

        def call() -> None:
            self.now += next(turns)

        return call

    def sample(self, costs):
        return careful.sampler(self.work(costs), clock=self)


def test_a_steady_call_is_warm_after_three_blocks_and_takes_what_it_takes():
    clock = Clock()
    sample = clock.sample(itertools.repeat(1e-3))
    warm = careful.warm_up(sample, clock=clock)
    assert warm.stable
    assert warm.per_sample == 1
    # one call to find out how long it is, two blocks of 30 calls
    assert warm.calls == pytest.approx(61, abs=2)
    found = careful.blocks(sample, warm.per_sample, clock=clock)
    assert len(found.blocks) == careful.BLOCKS
    assert found.median_s == pytest.approx(1e-3, rel=1e-4)
    assert found.drift is None


def test_short_calls_are_timed_together():
    clock = Clock(1e-8)
    sample = clock.sample(itertools.repeat(1e-7))
    warm = careful.warm_up(sample, clock=clock)
    # 2 looks of 10 ns are a ten-thousandth of 200 µs
    assert warm.per_sample * 1e-7 >= careful.SAMPLE_S
    found = careful.blocks(sample, warm.per_sample, count=3, block_s=0.01, clock=clock)
    assert found.median_s == pytest.approx(1e-7, rel=1e-3)


def test_a_call_that_gets_quicker_is_warmed_up_until_it_does_not():
    clock = Clock()
    costs = itertools.chain([0.5], (1e-2 * 0.99**n for n in range(200)), itertools.repeat(1e-2 * 0.99**200))
    sample = clock.sample(costs)
    sample(1)  # the first call of all
    warm = careful.warm_up(sample, most_s=10.0, clock=clock)
    assert warm.stable
    assert warm.last_s[-1] == pytest.approx(1e-2 * 0.99**200, rel=0.05)


def test_one_that_never_settles_is_said_to():
    clock = Clock()
    sample = clock.sample(1e-2 * (1.1**n) for n in itertools.count())
    warm = careful.warm_up(sample, most_s=1.0, clock=clock)
    assert warm.stable is False
    assert max(warm.last_s) > 1.03 * min(warm.last_s)


def test_of_long_calls_there_are_five_where_the_limit_allows_them_and_fewer_where_not():
    clock = Clock()
    assert careful.warm_up(clock.sample(itertools.repeat(1.0)), most_s=0.5, clock=clock).stable is None
    assert len(careful.blocks(clock.sample(itertools.repeat(1.0)), 1, limit_s=60, clock=clock).blocks) == 5
    few = careful.blocks(clock.sample(itertools.repeat(1.0)), 1, limit_s=2.5, clock=clock)
    assert len(few.blocks) == 2
    assert few.interval_s is None
    assert len(careful.blocks(clock.sample(itertools.repeat(9.0)), 1, limit_s=0.1, clock=clock).blocks) == 1


def test_the_median_is_that_of_the_blocks_and_the_interval_goes_from_the_least_to_the_largest_and_1_percent_on():
    blocks = careful.Blocks(tuple(careful.Block(median, median / 2, 7) for median in (3.0, 1.0, 2.0, 9.0)))
    assert blocks.median_s == 2.5
    assert blocks.interval_s == pytest.approx((0.99, 9.09))
    assert blocks.best_s == 0.5
    assert blocks.calls == 28


def test_single_calls_are_grouped_by_ten_where_that_makes_five_groups():
    assert [block.calls for block in careful.grouped([1.0] * 57).blocks] == [10] * 5
    assert [block.calls for block in careful.grouped([1.0] * 49).blocks] == [1] * 49


def test_a_call_that_takes_longer_and_longer_drifts_and_noise_does_not():
    assert careful.drift([1.0 + 0.05 * n for n in range(20)]) == pytest.approx(1.85 / 1.15 - 1, rel=0.05)
    falls = careful.drift([1.0 - 0.02 * n for n in range(20)])
    assert falls is not None
    assert falls < -0.1
    assert careful.drift([1.0, 1.5] * 10) is None
    assert careful.drift([1.0 + 0.001 * n for n in range(20)]) is None  # 2 % is none worth a word
    assert careful.drift([1.0, 2.0, 3.0]) is None  # too few to tell


@given(st.lists(st.floats(1e-9, 1e3), min_size=3, max_size=30))
def test_the_median_lies_in_the_interval(medians):
    blocks = careful.Blocks(tuple(careful.Block(one, one, 1) for one in medians))
    assert blocks.interval_s is not None
    low, high = blocks.interval_s
    assert low <= blocks.median_s <= high


def test_results_are_waited_for_and_keywords_handed_over():
    waited = []
    sample = careful.sampler(lambda x, y=0: x + y, (1,), {"y": 2}, waited.append)
    sample(3)
    assert waited == [3, 3, 3]
    seen = []
    careful.sampler(lambda x, y=0: seen.append(y), (1,), {"y": 2})(2)
    assert seen == [2, 2]


def test_before_each_block_things_are_moved_and_what_that_gave_is_kept_for_the_block():
    told, alive = [], weakref.WeakSet()

    class Kept:
        pass

    def move():
        told.append("move")
        kept = Kept()
        alive.add(kept)
        return kept

    sample = careful.sampler(lambda: told.append(len(alive)))
    careful.blocks(sample, 1, count=2, block_s=0.0, move=move)
    assert told == ["move", 1, "move", 1]
    assert not alive


def test_garbage_is_collected_between_blocks_and_as_before_afterwards():
    assert gc.isenabled()
    during = []
    careful.blocks(careful.sampler(lambda: during.append(gc.isenabled())), 1, count=1, block_s=0.0)
    assert during == [False]
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
