"""Covers and gaps' causes asked many at once, against a count of ticks."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from rooflab.observe.timeline.intervals import Cover

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=12)


def cover(pairs):
    start = np.array([begin for begin, _ in pairs], float)
    return Cover(start, start + np.array([long for _, long in pairs], float))


@given(INTERVALS, st.lists(st.tuples(st.integers(0, 80), st.integers(0, 40)), min_size=1, max_size=5))
def test_what_is_covered_between_two_moments(pairs, asked):
    ticks = {tick for begin, long in pairs for tick in range(begin, begin + long)}
    begin = np.array([one for one, _ in asked], float)
    end = begin + np.array([long for _, long in asked], float)
    expected = [len(ticks & set(range(one, one + long))) for one, long in asked]
    assert cover(pairs).within(begin, end).tolist() == expected


@given(INTERVALS, st.integers(0, 90))
def test_a_moment_is_covered_with_the_ends(pairs, moment):
    expected = any(begin <= moment <= begin + long for begin, long in pairs)
    assert cover(pairs).at(np.array([moment], float)).tolist() == [expected]
