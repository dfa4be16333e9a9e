"""vectorize and guvectorize as the loops that NumPy runs them in, beside sums by hand; NumPy without loops."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.types.simulation import Cache

CACHES = (Cache(4096, 4, name="L1"), Cache(65536, 8, name="L2"))


@numba.vectorize
def axpy(x, y):
    return 2.0 * x + y


@numba.vectorize(["float64(float64)"])
def clipped(x):
    """Two ways out."""
    if x < 0.5:
        return 0.0
    return x * 2.0


@numba.vectorize
def steps(x):
    n = 0
    while n < 100:
        if x > 4.0:
            return n
        x = x * x + 1.0
        n += 1
    return n


@numba.guvectorize(["void(float64[:], float64[:], float64[:])"], "(n),(n)->()")
def dot(x, y, out):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    out[0] = total


@numba.guvectorize("(n),()->(n)")
def shifted(x, by, out):
    for i in range(x.shape[0]):
        out[i] = x[i] + by


def real(*shape):
    return np.random.default_rng(0).random(shape)


# FLOP and accesses by hand: an axpy is 2 of 3; a number given as such is not loaded
@pytest.mark.parametrize(
    ("fn", "args", "flop", "accesses"),
    [
        (axpy, (real(100), real(100)), 200, 300),
        (axpy, (real(5, 20), real(20)), 200, 300),  # y read again for each row
        (axpy, (real(5, 20), 3.0), 200, 200),
        (axpy, (real(100)[::2], real(50)), 100, 150),
        (clipped, (np.repeat([0.0, 1.0], 50),), 100 + 50, 200),
        (steps, (np.full(10, 5.0),), 10, 20),
        (dot, (real(7, 30), real(7, 30)), 420, 427),
        (dot, (real(7, 30), real(30)), 420, 427),
        (dot, (real(30), real(30)), 60, 61),
        (shifted, (real(7, 30), real(7), np.zeros((7, 30))), 210, 427),
    ],
)
def test_a_ufunc_is_the_loop_that_numpy_runs(fn, args, flop, accesses):
    report = rooflab.loop(fn, *args, levels=CACHES)
    assert (report.flop, report.accesses) == (flop, accesses)
    # the ufunc itself, as NumPy calls it
    assert report.checks == ("the compiled function gives the counted run's results",)
    assert report.runs


def test_lines_are_those_of_the_users_body():
    report = rooflab.loop(clipped, np.repeat([0.0, 1.0], 50), levels=CACHES, timed=False)
    text = dict(report.source)
    stored = {text[each.line].strip() for each in report.lines if each.accesses}
    assert {"return 0.0", "return x * 2.0"} <= stored


@pytest.mark.parametrize(
    ("fn", "args", "said"),
    [
        (np.add, (real(3), real(3)), "add is compiled without its Python function"),
        (axpy, (real(3),), r"axpy: got 1 arguments, expected 2, or 3 with its results: axpy\(x, y, out\)"),
        (axpy, (real(3), [1, 2, 3]), "argument y is a list, expected an array or a number"),
        (axpy, (real(3), real(4)), "could not be broadcast together"),
        (clipped, (real(3).astype("f4"),), r"it is compiled for float64: .* \.astype\(np\.float64\)"),
    ],
)
def test_what_is_refused(fn, args, said):
    with pytest.raises(RooflabError, match=said):
        rooflab.loop(fn, *args, levels=CACHES)


def norm(a, b):
    return np.sqrt(a * a + b * b)


def factored(a):
    return np.linalg.qr(a, mode="complete")


def test_without_loops_numpys_own_bytes_are_said():
    report = rooflab.loop(norm, real(1000), real(1000), levels=CACHES, timed=False)
    # read and written by four calls: 16, 16, 24, 16 kB; by one loop 24 kB
    assert any(
        "4 calls take: 72.0 kB with their temporaries, 3.0 × the 24.0 kB" in each for each in report.warnings
    )


def test_what_numba_refuses_without_loops_goes_to_analyze():
    with pytest.raises(RooflabError, match=r"it has no loops: rooflab\.analyze\(factored, …\)"):
        rooflab.loop(factored, real(4, 4), levels=CACHES)
