"""Shares of trips counted in a copy of the process: the same as here, nothing where it fails, and an end."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from numba import prange

from rooflab.loops.beside import Beside
from rooflab.loops.lowered import over_prange
from rooflab.loops.lowered.again import Given
from rooflab.loops.read.source import read_whole
from rooflab.machines.bench.experiments import thread_teams

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or thread_teams.most() < 2, reason="needs Linux and two CPUs"
)


def ragged(x, ends, out):
    for i in prange(len(ends)):
        for k in range(ends[i]):
            out[i] += x[k]


def even(x, ends, out):
    for i in prange(len(ends)):
        for k in range(len(x)):
            out[i] += x[k]


GIVEN = Given({"x": np.ones(100), "ends": np.array([0, 0, 10, 30]), "out": np.zeros(4)})


def test_what_data_decide_is_found_in_the_copy_as_here():
    source = read_whole(ragged)
    beside = over_prange.shares_beside(ragged, source, GIVEN)
    assert beside is not None
    found = over_prange.found_by(beside)
    assert found == over_prange.shares(ragged, source, GIVEN, None) == over_prange.found_by(beside)
    assert found is not None
    # of passes inside, the second of two threads has all
    (region,) = found
    assert region.share(2, region.line + 1) == 1.0
    beside.end()


def test_no_copy_is_made_where_trips_are_alike():
    assert over_prange.shares_beside(even, read_whole(even), GIVEN) is None


def test_a_copy_that_fails_has_found_nothing_and_one_that_goes_on_is_ended():
    failed = Beside({("shares",): lambda: tuple(1 // n for n in [0])})
    assert over_prange.found_by(failed) is None
    failed.end()
    begun = time.monotonic()
    Beside({("shares",): lambda: time.sleep(600) or ()}).end()
    assert time.monotonic() - begun < 300
