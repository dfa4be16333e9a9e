"""What each core accesses of a loop over prange, against the same trips dealt out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numba import prange

import rooflab
from rooflab.cachesim.coherence.stream import NAMES
from rooflab.errors import RooflabError
from rooflab.loops import parallel
from rooflab.types.simulation import Cache

LEVELS = [Cache(512, 2), Cache(4096, 4)]


def sweep(a, b):
    n = a.shape[0]
    for _t in range(2):
        for i in prange(1, n - 1):
            b[i] = a[i - 1] + a[i + 1]
        a[0] = b[1]


def nested(a, c):
    for i in prange(a.shape[0]):
        for j in prange(a.shape[1]):
            c[i] += a[i, j]


def in_a_branch(a, b):
    if a[0] > 0.0:
        for i in prange(2):
            b[i] = a[i]


def alone(a):
    for i in range(a.shape[0]):
        a[i] = 1.0


def read(streams):
    """The operations of each core as they are written out for `rooflab.simulate_cores`."""
    made = []
    for start in streams.cores:
        records = np.concatenate([*start(), np.zeros(0, np.int64)])
        made.append([entry(streams, int(record)) for record in records])
    return made


def entry(streams, record):
    operation, address = NAMES[record & 15], record >> 16
    if operation == "barrier":
        return ("barrier",)
    array = next(each for each in streams.arrays if each.base <= address < each.end)
    return (operation, array.name, array.index(address))


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2, 3, 5])
def test_trips_are_dealt_out_in_blocks_with_barriers_around(cores):
    n = 9
    wanted = [[] for _ in range(cores)]
    for _ in range(2):
        for core, mine in enumerate(wanted):
            mine.append(("barrier",))
            # 7 inner points: core k takes those from 7 k ÷ cores on
            for i in range(1 + core * 7 // cores, 1 + (core + 1) * 7 // cores):
                mine += [("load", "a", i - 1), ("load", "a", i + 1), ("store", "b", i)]
            mine.append(("barrier",))
        wanted[0] += [("load", "b", 1), ("store", "a", 0)]
    assert read(parallel.streams(sweep, (np.ones(n), np.ones(n)), cores)) == wanted


@pytest.mark.slow
def test_of_nested_loops_the_outer_one_is_shared():
    first, second = read(parallel.streams(nested, (np.ones((2, 3)), np.zeros(2)), 2))
    # The row of a core: its counter loaded, an element, its counter stored
    assert [each for each in second if each[0] == "store"] == [("store", "c", 1)] * 3
    assert {each[2] for each in first if each[:2] == ("load", "a")} == {0, 1, 2}


def test_values_steer_what_is_run():
    # Without the branch nothing is shared: the test of a[0] alone, by core 0
    assert read(parallel.streams(in_a_branch, (np.zeros(2), np.zeros(2)), 2)) == [[("load", "a", 0)], []]
    first, second = read(parallel.streams(in_a_branch, (np.ones(2), np.zeros(2)), 2))
    assert first[1:] == [("barrier",), ("load", "a", 0), ("store", "b", 0), ("barrier",)]
    assert second == [("barrier",), ("load", "a", 1), ("store", "b", 1), ("barrier",)]


def test_arguments_are_left_alone_and_races_are_found_where_trips_meet():
    a, b = np.ones(16), np.zeros(16)
    quiet = rooflab.simulate_cores(sweep, a, b, cores=2, levels=LEVELS)
    assert quiet.racing == 0
    assert b.sum() == 0.0

    def shifted(a):
        for i in prange(a.shape[0] - 1):
            a[i] = a[i + 1]

    loud = rooflab.simulate_cores(shifted, np.ones(16), cores=2, levels=LEVELS)
    # 15 trips: core 1 begins at trip 7, whose element the last trip of core 0 loads
    assert {(race.array, race.index) for race in loud.races} == {("a", 7)}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: rooflab.simulate_cores(alone, np.ones(4), levels=LEVELS), "alone has no loop over prange"),
        (lambda: rooflab.simulate_cores(sweep, np.ones(4), levels=LEVELS), "missing a required argument: 'b'"),
        (lambda: rooflab.simulate_cores(sweep, np.ones(4), np.ones(1), levels=LEVELS), "is out of bounds at"),
        (lambda: rooflab.simulate_cores(sweep, np.ones(4), np.ones(4), cores=0), "0 cores, expected 1 to 64"),
        (lambda: rooflab.simulate_cores([[]], cores=2), "arguments and cores= go with a function"),
    ],
)
def test_bad_input_is_one_clear_line(call, said):
    with pytest.raises(RooflabError) as error:
        call()
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_too_many_accesses_are_refused():
    with pytest.raises(
        RooflabError, match=r"sweep makes \d+ accesses, expected at most 20: give smaller arguments"
    ):
        parallel.streams(sweep, (np.ones(9), np.ones(9)), 2, most_accesses=20)
