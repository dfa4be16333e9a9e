"""Traffic of simulated cores that share loops over prange, against counts derived by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numba import prange

from rooflab.loops import team_traffic
from rooflab.loops.static import dependence
from rooflab.loops.understanding import understand
from rooflab.types.simulation import Cache

CACHES = (Cache(1 << 10, 2, name="L1"), Cache(1 << 13, 4, name="L2"))
LINE = 64


def copied(a, b):
    for i in prange(a.shape[0]):
        b[i] = a[i]


def counted(hits, steps):
    for t in prange(hits.shape[0]):
        for _ in range(steps):
            hits[t] += 1


def found(fn, threads, *args, sharers=8):
    loop = understand(fn, args)
    return team_traffic.of(loop, dependence.parallel(loop).tree, threads, CACHES, sharers)


@pytest.mark.slow
def test_what_no_cache_keeps_crosses_once_however_many_cores_share_it():
    nbytes = 1 << 16
    traffic, why = found(copied, (1, 2, 4), np.ones(nbytes // 8), np.zeros(nbytes // 8))
    # a is read; each line of b is read before it is written, and written back
    assert [(each.threads, each.memory_bytes) for each in traffic] == [(2, 3 * nbytes), (4, 3 * nbytes)]
    # the cores' shares begin with lines: none is taken from another
    assert [each.between_bytes for each in traffic] == [0, 0]
    assert why == ""


@pytest.mark.slow
def test_counters_in_one_line_go_from_core_to_core():
    steps = 100
    (traffic,), _ = found(counted, (2,), np.zeros(2), steps)
    assert traffic.memory_bytes == 0
    # in turn, an access each: at most a line for each of a step's load and store on each core
    assert LINE * steps <= traffic.between_bytes <= LINE * 2 * 2 * steps
    # in lines of their own nothing is handed over
    (apart,), _ = found(counted, (2,), np.zeros((2, LINE // 8))[:, 0], steps)
    assert apart.between_bytes == 0


@pytest.mark.slow
def test_cores_that_do_not_share_the_last_cache_are_left_out_with_a_reason():
    traffic, why = found(copied, (1, 2, 4), np.ones(64), np.zeros(64), sharers=2)
    assert [each.threads for each in traffic] == [2]
    assert why == "memory traffic of more than 2 cores is not simulated: no more share one L2"


@pytest.mark.slow
def test_a_run_of_too_many_accesses_says_so(monkeypatch):
    monkeypatch.setattr(team_traffic, "MOST_ACCESSES", 100)
    traffic, why = found(copied, (1, 2), np.ones(64), np.zeros(64))
    assert traffic == ()
    assert why.startswith("memory traffic of more than 1 cores is not simulated: copied makes")
    assert "expected at most 100" in why
