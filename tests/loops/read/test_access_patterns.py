"""Which accesses of a loop data decide, as its source says."""

from __future__ import annotations

import numpy as np
import pytest

import rooflab


def by_numbers(table, x, out):
    for i in range(len(x)):
        place = x[i] * 4000
        a = int(place)
        out[i] = table[a] * (place - a)


def by_count(table, x, out):
    for i in range(len(x)):
        place = i * 0.5
        a = int(place)
        out[i] = table[a] * x[i]


@pytest.mark.parametrize(("fn", "picked"), [(by_numbers, True), (by_count, False)])
def test_a_place_that_a_loaded_number_decides_is_gathered(fn, picked):
    n = 10_000
    given = np.random.default_rng(0).random(n)
    report = rooflab.loop(fn, np.ones(n), given, np.zeros(n), advise=False)
    # 4000 places of 8 bytes are just L1's 32 KiB, beside what goes by
    assert (report.gathered["L1"] > n / 10) == picked
