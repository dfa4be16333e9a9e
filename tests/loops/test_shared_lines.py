"""Lines that threads take from one another: small runs by hand."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from numba import prange

from rooflab.cachesim.coherence.layout import READS, WRITES
from rooflab.errors import RooflabError
from rooflab.loops import parallel, prange_lines, shared_lines
from rooflab.loops.understanding import understand
from rooflab.types.loop import Region
from rooflab.types.simulation import Cache, LevelCounts, Simulation


def taken(*accesses):
    """What is taken of (thread, phase, operation, address), of each thread in order; 4,096 bytes are an array."""
    threads, phases, operations, addresses = (np.array(each, np.int64) for each in zip(*accesses, strict=True))
    records = addresses << 16 | 8 << 4 | operations
    refs = np.where(operations == WRITES, 1, 0)
    recorded = shared_lines.Recorded(records, refs, threads, phases)
    names = shared_lines.of(recorded, int(threads.max()) + 1, 64, (7, 8), lambda address: "ab"[address // 4096])
    return [(each.line, each.array, each.cache_lines, each.taken, each.falsely, each.in_turn) for each in names]


def stores(thread, address, count, phase=0):
    return [(thread, phase, WRITES, address)] * count


def test_two_threads_that_write_neighbours_take_the_line_once_a_store_queue():
    count = 40 * shared_lines.STORE_QUEUE
    # 40 visits each, of which the very first takes nothing; all of one line, one after the other
    assert taken(*stores(0, 0, count), *stores(1, 8, count)) == [(8, "a", 1, 79, 79, 79)]


def test_lines_of_their_own_are_not_taken():
    count = 40 * shared_lines.STORE_QUEUE
    assert taken(*stores(0, 0, count), *stores(1, 64, count)) == []


def test_what_the_other_wrote_is_no_false_sharing():
    # thread 0 writes lines in one phase, thread 1 reads the same elements in the next
    lines = [4096 + 64 * n for n in range(30)]
    accesses = [(0, 0, WRITES, each) for each in lines] + [(1, 1, READS, each) for each in lines]
    assert taken(*accesses) == [(7, "b", 30, 30, 0, 1)]
    # others of the same lines
    accesses = [(0, 0, WRITES, each) for each in lines] + [(1, 1, READS, each + 8) for each in lines]
    assert taken(*accesses) == [(7, "b", 30, 30, 30, 1)]


def test_what_is_only_read_is_not_taken():
    assert taken(*[(thread, 0, READS, 64 * n) for thread in (0, 1) for n in range(50)]) == []


def test_elements_in_turns_have_each_thread_take_each_line_in_each_phase():
    accesses = [
        (thread, phase, operation, 64 * line + 8 * element)
        for thread in (0, 1)
        for phase in range(3)
        for line in range(10)
        for element in range(thread, 8, 2)
        for operation in (READS, WRITES)
    ]
    # 2 threads × 3 phases × 10 lines: both have loaded before the first stores, which takes it from the other
    found = taken(*accesses)
    assert sum(each[3] for each in found) == 2 * 3 * 10
    # of each line in each phase by both; the lines beside one another
    assert sum(each[5] for each in found) == 2 * 3


def tally(x, counts):
    n = x.shape[0] // counts.shape[0]
    for t in prange(counts.shape[0]):
        for i in range(t * n, (t + 1) * n):
            counts[t, x[i]] += 1


def halves(x, counts):
    for i in prange(x.shape[0]):
        counts[i, x[i]] = 1


@pytest.mark.parametrize(("row", "falsely"), [(3, 2 * 782), (8, 0)])
def test_threads_of_prange_take_lines_that_hold_rows_of_several(row, falsely):
    x, counts = np.arange(100_000) % 3, np.zeros((2, row), np.int64)
    loop = understand(tally, (x, counts))
    regions = (Region(line=0, last_line=0, variable="t", entries=1, trips=2),)
    found = prange_lines.of(loop, loop.source.tree, regions, 2, simulated(3e5))
    if not falsely:
        # rows of a whole line
        assert found == ()
        return
    (taken,) = found
    # 50,000 stores a thread, one visit for as many as the store queue holds: 781.25; the first takes nothing
    assert (taken.array, taken.cache_lines, taken.falsely) == ("counts", 1, taken.taken)
    assert falsely - 2 <= taken.taken <= falsely
    assert taken.line == tally.__code__.co_firstlineno + 4


def test_threads_with_many_trips_are_not_looked_at():
    x, counts = np.zeros(4000, np.int64), np.zeros((4000, 1), np.int64)
    loop = understand(halves, (x, counts))
    regions = (Region(line=0, last_line=0, variable="i", entries=1, trips=4000),)
    assert not prange_lines.may_matter(regions, 2, 12_000)
    assert prange_lines.may_matter(regions, 64, 12_000)
    assert prange_lines.of(loop, loop.source.tree, regions, 2, simulated(12_000)) == ()


def rows(x, out):
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = x[i] + j


def columns(x, out):
    for i in prange(out.shape[1]):
        for j in range(out.shape[0]):
            out[j, i] = x[i] + j


@pytest.mark.parametrize(
    ("fn", "shape", "recorded"),
    [
        # 8 trips a thread of 64 bytes: 512
        (rows, (16, 8), False),
        (rows, (16, 7), True),
        (rows, (14, 8), True),
        # rows are written by all
        (columns, (8, 16), True),
    ],
)
def test_threads_that_write_many_lines_of_rows_of_their_own_are_not_looked_at(fn, shape, recorded, monkeypatch):
    seen = []

    def noted(*given):
        seen.append(given)
        raise RooflabError("enough")

    monkeypatch.setattr(parallel, "recorded", noted)
    trips = shape[0] if fn is rows else shape[1]
    loop = understand(fn, (np.ones(trips), np.zeros(shape)))
    line = next(each.lineno for each in loop.source.tree.body if isinstance(each, ast.For))
    regions = (Region(line=line, last_line=line, variable="i", entries=1, trips=trips),)
    assert prange_lines.may_matter(regions, 2, 1000)
    assert prange_lines.of(loop, loop.source.tree, regions, 2, simulated(1000)) == ()
    assert bool(seen) == recorded


def simulated(accesses):
    level = LevelCounts(
        name="L1",
        cache=Cache(1 << 15, 8),
        hits=0,
        misses=0,
        evictions=0,
        writebacks=0,
        read_bytes=0,
        write_bytes=0,
    )
    return Simulation(name="t", levels=(level,), accesses=int(accesses))
