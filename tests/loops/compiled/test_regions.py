"""How the trips of loops over prange divide, against shares derived by hand."""

from __future__ import annotations

import ast
import inspect
import textwrap

import numpy as np
import pytest
from numba import prange

from rooflab.loops.compiled import regions


def triangle(a, b):
    for _ in range(2):
        for i in prange(a.shape[0]):
            for j in range(i):
                b[i] += a[j]
    for i in prange(3):
        b[i] = 1.0


def until(limits, b):
    total = 0.0
    for i in prange(limits.shape[0]):
        n = 0
        while n < limits[i]:
            n += 1
        b[i] = n
        total += n
    return total


def found(fn, *values, trips=None):
    tree = ast.parse(textwrap.dedent(inspect.getsource(fn))).body[0]
    return regions.of_tree(tree, regions.scope_of(fn), lambda: values, trips=trips)


@pytest.mark.slow
def test_a_triangle_leaves_most_to_the_last_thread():
    rows, equal = found(triangle, np.ones(8), np.zeros(8))
    assert (rows.entries, rows.trips, rows.variable) == (2, 16, "i")
    # A pass counts 1, and its operations: of the inner loop b[i] (one place in the source) and a[j], so 3. Of rows
    # 0 to 7 the work is 1 + 3 i: 8 + 3 · 28 in all, and rows 4 to 7 have 4 + 3 · 22.
    assert rows.share(2) == pytest.approx((4 + 66) / (8 + 84))
    # numba deals 8 trips to 3 threads as 2, 3, 3: rows 5, 6, 7 are 3 + 3 · 18
    assert rows.share(3) == pytest.approx((3 + 54) / 92)
    # more threads than trips: the last row alone
    assert rows.share(16) == pytest.approx((1 + 21) / 92)
    # Whatever a pass of the loop inside takes: it has 28 of them, rows 4 to 7 22, 5 to 7 18. The row's own line is
    # in no loop inside.
    inside = rows.line + 2
    assert [rows.share(n, inside) for n in (1, 2, 3)] == pytest.approx([1, 22 / 28, 18 / 28])
    assert rows.share(2, rows.line) == rows.share(2)
    assert equal.entries == 1
    assert [equal.share(n) for n in (1, 2, 3, 64)] == pytest.approx([1, 2 / 3, 1 / 3, 1 / 3])


def middle(lengths, b):
    for i in prange(lengths.shape[0]):
        for j in range(lengths[i]):
            b[i] += j


@pytest.mark.slow
def test_two_threads_may_share_evenly_what_three_do_not():
    # whatever a pass counts: rows 2 and 3 have all of them, on both sides of a cut in two, in one block of three
    (region,) = found(middle, np.array([0, 0, 900, 900, 0, 0]), np.zeros(6))
    assert region.share(2) == pytest.approx(0.5)
    assert region.share(3) == pytest.approx(1.0, abs=0.01)
    # between numbers that were counted a trip that takes long is not divided
    assert region.share(5) >= region.share(6) == pytest.approx(0.5, abs=0.01)


@pytest.mark.slow
def test_trips_that_data_decide():
    # Passes of while by trip: 30, 0, 0, 0, each counts 1; a trip counts 1, and b[i]. All: 30 + 4 · 2.
    (region,) = found(until, np.array([30, 0, 0, 0]), np.zeros(4))
    assert region.share(2) == pytest.approx(34 / 38)
    assert region.share(4) == pytest.approx(32 / 38)
    # all passes of while are the first thread's
    assert region.share(2, region.line + 3) == 1.0


def nested(escape, b):
    for y in prange(b.shape[0]):
        for x in range(b.shape[1]):
            k = 0
            while k < escape[y]:
                k += 1
            b[y, x] = k


@pytest.mark.slow
def test_each_loop_inside_divides_by_its_own_passes():
    (region,) = found(nested, np.array([30, 6]), np.zeros((2, 5)))
    tries, pixel = region.line + 3, region.line + 5
    assert region.share(2, pixel) == pytest.approx(1 / 2)
    assert region.share(2, tries) == pytest.approx(30 / 36)


def test_without_prange_there_is_nothing():
    def plain(a):
        for i in range(a.size):
            a[i] = 0.0

    assert found(plain, np.ones(3)) == ()


def alike(a, b):
    for _ in range(5):
        for i in prange(a.shape[0]):
            for j in range(a.shape[1]):
                b[i] += a[i, j]


@pytest.mark.slow
def test_trips_that_are_alike_need_no_run():
    counted = found(alike, np.ones((6, 4)), np.zeros(6))
    followed = found(alike, None, None, trips={2: 5, 3: 30, 4: 120})
    assert followed == counted
    assert followed[0].share(4) == pytest.approx(2 / 6)
    # of a triangle it does not follow: the run is made
    ran = found(triangle, np.ones(8), np.zeros(8), trips={2: 2, 3: 16, 4: 56, 6: 3})
    assert ran == found(triangle, np.ones(8), np.zeros(8))


@pytest.mark.slow
def test_what_sums_shares_up_is_compiled_once_for_all_loops():
    # none, one and two loops inside: numba would take each number for a constant
    found(triangle, np.ones(8), np.zeros(8))
    found(until, np.arange(6), np.zeros(6))
    room, close = regions._helpers()
    assert len(room.signatures) == len(close.signatures) == 1
