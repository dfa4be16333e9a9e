"""Plain functions counted from IR whose loops are over prange: spread over a team, by whatever name."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba import njit, prange
from numba import prange as spread

import rooflab
from rooflab.loops.compiled import runs
from rooflab.loops.lowered import again, over_prange
from rooflab.loops.read.source import read_whole
from rooflab.machines.bench.experiments import thread_teams
from rooflab.types.simulation import Cache

CACHES = (Cache(4096, 4, name="L1"), Cache(65536, 8, name="L2"))
two_threads = pytest.mark.skipif(thread_teams.most() < 2, reason="needs two CPUs: numba has one thread here")


def by_rows(x, length):
    s = 0.0
    for k in range(length):
        s += x[k]
    return s


def sums(x, lengths, out):
    for i in prange(len(lengths)):
        kept = np.zeros(4)
        for k in range(4):
            kept[k] = by_rows(x[i], lengths[i])
        out[i] = kept.max()


def numbered(x, out):
    k = 1
    for i in prange(len(x)):
        k *= 3
        out[i] = np.array([k % 7, x[i]]).sum()


def by_twos(x, out):
    for i in prange(0, len(x), 2):
        out[i] = np.array([x[i], 1.0]).sum()


def of_numba(x, out):
    for i in numba.prange(len(x)):
        out[i] = np.array([x[i], 1.0]).sum()


def by_another_name(x, out):
    for i in spread(len(x)):
        out[i] = np.array([x[i], 1.0]).sum()


def in_order(x, out):
    for i in range(len(x)):
        out[i] = np.array([x[i], 1.0]).sum()


@njit(parallel=True)
def doubled_by_a_team(x, out):
    for i in prange(len(x)):
        out[i] = 2.0 * x[i]


def helped(x, out):
    doubled_by_a_team(x, out)
    return np.array([out[0], out[1]]).sum()


def by_a_plain_helper(x, out):
    of_numba(x, out)
    return out.sum()


def names_of(fn):
    return over_prange.names(fn, read_whole(fn))


def test_prange_is_known_by_whatever_name():
    assert names_of(sums) == names_of(of_numba) == {"prange"}
    assert names_of(by_another_name) == {"spread"}
    assert names_of(in_order) == frozenset()


@two_threads
def test_a_plain_function_with_arrays_of_its_own_and_a_helper_runs_on_a_team():
    x, lengths = np.ones((64, 100)), np.arange(64)
    made = rooflab.loop(sums, x, lengths, np.zeros(64), levels=CACHES)
    assert made.parallel == "prange as written"
    assert {each.threads for each in made.runs} >= {1, 2}
    assert "prange gives the counted run's results" in made.checks
    (region,) = made.regions
    assert (region.trips, region.entries) == (64, 1)
    assert made.team_loops
    assert over_prange.why_not(by_a_plain_helper) == (
        "not tried: prange stands in of_numba, which it calls: decorate that with njit(parallel=True)"
    )
    on_one = rooflab.loop(in_order, x[0], np.zeros(100), levels=CACHES)
    assert on_one.parallel == "not tried: counted from its LLVM IR, on one core"


@two_threads
def test_a_helper_that_asks_for_a_team_runs_on_one_thread_and_on_several():
    assert [again.is_spread(each) for each in (helped, doubled_by_a_team, of_numba)] == [True, True, False]
    most = []
    timed = runs.on_one_core

    def noted(*given, **more):
        most.append(numba.get_num_threads())
        return timed(*given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "on_one_core", noted)
        made = rooflab.loop(helped, np.ones(20_000), np.zeros(20_000), levels=CACHES)
    assert made.parallel == "as decorated: parallel=True"
    assert {each.threads for each in made.runs} >= {1, 2}
    assert most == [1]


@two_threads
def test_options_of_its_own_that_spread_nothing_are_kept():
    made = rooflab.loop(njit(fastmath=True)(of_numba), np.ones(80), np.zeros(80), levels=CACHES)
    assert {each.threads for each in made.runs} == {1}


@two_threads
def test_what_needs_the_trip_before_is_left_out():
    made = rooflab.loop(numbered, np.ones(2_000), np.zeros(2_000), levels=CACHES)
    assert made.parallel == "left out: its result differs from that of one core"
    assert {each.threads for each in made.runs} == {1}
    assert any(each.startswith("prange: argument 2 differs") for each in made.warnings)


@two_threads
def test_what_numba_spreads_not_runs_on_one_core_and_says_why():
    made = rooflab.loop(by_twos, np.ones(200), np.zeros(200), levels=CACHES)
    assert made.parallel.startswith("left out: ")
    assert "step" in made.parallel
    assert {each.threads for each in made.runs} == {1}
