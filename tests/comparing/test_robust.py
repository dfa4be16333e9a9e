"""Robust scale and its limits: by hand, against the literature, and simulated again."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from rooflab.comparing import robust


def plain_qn(values):
    """Rousseeuw and Croux (1993), as it is written: the k-th smallest of the distances, k = h(h − 1)/2."""
    distances = sorted(abs(a - b) for a, b in itertools.combinations(values, 2))
    half = len(values) // 2 + 1
    return distances[half * (half - 1) // 2 - 1]


def test_the_scale_of_five_by_hand():
    # h = 3, k = 3: distances of 0, 1, 2, 4, 100 in order are 1, 1, 2, … ; times 2.2191 and 0.844.
    assert robust.scale([0.0, 1.0, 2.0, 4.0, 100.0]) == pytest.approx(2 * 2.2191 * 0.844)


@pytest.mark.parametrize("count", [5, 8, 9, 10, 11, 40])
def test_the_scale_is_that_of_the_paper_and_nearly_unbiased(count):
    rng = np.random.default_rng(count)
    values = rng.normal(7.0, 2.0, count)
    ratio = robust.scale(values) / plain_qn(values)
    assert ratio == pytest.approx(robust.scale(3 * values + 1) / plain_qn(3 * values + 1))
    many = [robust.scale(rng.normal(0.0, 2.0, count)) for _ in range(2000)]
    assert np.mean(many) == pytest.approx(2.0, rel=0.04)


def test_strays_do_not_move_the_scale_much():
    values = np.random.default_rng(1).normal(0.0, 1.0, 20)
    assert robust.scale([*values, 1e6, -1e6]) < 1.5 * robust.scale(values)


@pytest.mark.parametrize("count", [5, 6, 16])
def test_limits_are_those_of_a_simulation(count):
    assert robust.simulated_cutoff(count, samples=60_000, seed=7) == pytest.approx(robust.CUTOFFS[count], rel=0.06)


def test_between_sizes_the_larger_limit_holds_and_large_samples_have_the_normal_one():
    assert robust.cutoff(20) == max(robust.CUTOFFS[17], robust.CUTOFFS[24])
    assert robust.cutoff(5) == robust.CUTOFFS[5]
    # Of ten thousand independent normal numbers the largest stays below z in 99 of 100 samples: Φ(z)^10000 = 0.99.
    limit = robust.cutoff(10_000)
    assert (0.5 * math.erfc(-limit / math.sqrt(2))) ** 10_000 == pytest.approx(0.99, abs=1e-4)
    with pytest.raises(ValueError, match="4 numbers, expected 5 at least"):
        robust.cutoff(4)
