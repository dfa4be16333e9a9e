"""Tests of the simulated predictor: what it learns by heart of branches that come round, and what it cannot."""

import numba
import numpy as np
import pytest

from rooflab.loops.lowered import predictor

branch = numba.njit(predictor._branch)


@numba.njit
def ask(state, rows, taken):
    for number in range(len(taken)):
        branch(state, rows, number % 4, 1 if taken[number] else 0)


def missed(taken, runs):
    """Of each run on the same branches, four in turn: how many are missed."""
    state, found = predictor.fresh(), []
    for _ in range(runs):
        rows = np.zeros((4, predictor.BRANCH_WORDS), np.int64)
        state[predictor.ASKED] = 0
        ask(state.ctypes.data, rows.ctypes.data, taken)
        assert rows[:, predictor.SIMULATED].sum() == len(taken)
        assert rows[:, predictor.TAKEN].sum() == np.count_nonzero(taken)
        found.append(rows[:, predictor.MISSED].sum())
    return found


@pytest.mark.parametrize("one_in", [2, 8])
def test_what_comes_at_random_is_missed_hardly_oftener_than_the_seldomer_way_comes(one_in):
    taken = np.random.default_rng(0).integers(0, one_in, 1 << 17) == 0
    # no predictor misses less; what was allotted for nothing misses some more
    assert 0.98 < missed(taken, 1)[0] / np.count_nonzero(taken) < 1.1


@pytest.mark.parametrize(("one_in", "bits"), [(2, 15), (8, 16), (32, 16)])
def test_what_the_tables_hold_is_learnt_by_heart(one_in, bits):
    taken = np.random.default_rng(0).integers(0, one_in, 1 << bits) == 0
    first, *_, last = missed(taken, 1 + predictor.AGAIN)
    assert last < 0.1 * first


def test_of_more_than_the_tables_hold_hardly_any_is_learnt():
    # 262,144, of which one in four is taken: 64 thousand misses each of which allots two of 80 thousand entries
    taken = np.random.default_rng(0).integers(0, 4, 1 << 18) == 0
    first, *_, last = missed(taken, 1 + predictor.AGAIN)
    assert last > 0.75 * first


def test_a_pattern_as_long_as_the_longest_history_is_foretold_at_once():
    # one of 200 is taken: that it is due is seen from what lies 200 branches back
    taken = np.arange(40_000) % 200 == 0
    assert missed(taken, 1)[0] < 30


@pytest.mark.parametrize(
    ("runs", "more"),
    [
        ([0], False),
        ([5], True),
        ([predictor.MOST_MISSED + 1], False),
        ([100, 100], True),
        ([100, 100, 99.5], False),
        ([100, 99, 80], True),
        ([100, 50, 0], False),
        ([100] + [2.0**-n for n in range(predictor.AGAIN)], False),
    ],
)
def test_runs_are_asked_about_until_little_more_is_learnt(runs, more):
    assert predictor.learns_more(runs) is more


def test_what_is_half_learnt_is_half_forgotten():
    # a share r of the first run's misses is r + 0.6 r (1 - r) in a later one, from a fifth on
    first, again = np.array([100, 100, 100, 100, 0]), np.array([50, 10, 100, 120, 0])
    assert predictor.kept_in_mind(first, again).tolist() == [65, 10, 100, 120, 0]
