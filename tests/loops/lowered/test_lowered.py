"""Functions counted as numba lowers them: equal to the source twin where both count, to a hand count elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops.lowered import examine as lowered
from rooflab.loops.lowered import lower
from rooflab.loops.read import decorated

TABLE = np.array([1.0, 2.0, 4.0])
RECORD = np.dtype([("x", "f8"), ("v", "f8"), ("id", "i4")])


def plain(x, factor):
    return factor * x + 1.0


@njit
def compiled_already(x):
    return x * x


def helpers(a, b):
    for i in range(len(a)):
        b[i] = plain(a[i], 2.0) + compiled_already(a[i])


def zipped(a, b):
    total = 0.0
    for i, (x, y) in enumerate(zip(a, b)):  # noqa: B905
        if i > 0:
            total += x * y
    return total


def sliced(a, b):
    b[1:-1] = a[:-2] + a[2:]


def row_sums(a, b):
    for i in range(a.shape[0]):
        b[i] = a[i, :].sum()


def local(a, b):
    held = np.zeros(len(a))
    for i in range(len(a)):
        held[i] = a[i]
    for i in range(len(a)):
        b[i] = held[i]


def records(p, dt):
    for i in range(len(p)):
        p[i]["x"] += dt * p[i]["v"]


def tabled(a, b):
    for i in range(len(a)):
        b[i] = a[i] * TABLE[i % 3]


def paired(pair, b):
    first, second = pair
    for i in range(len(b)):
        b[i] = first[i] + second[i]


def powers(a, b):
    for i in range(len(a)):
        b[i] = a[i] ** 2 + math.exp(a[i : i + 1][0])


N = 100


def counted(fn, *args, **more):
    return rooflab.loop(fn, *args, advise=False, **more)


@pytest.mark.parametrize(
    ("fn", "args", "accesses", "flop", "memory_read"),
    [
        # 1 load, 1 store; 2 + 1 (helpers) + 1 FLOP; both arrays read, a line of 64 bytes each (stores read first)
        (helpers, (np.ones(N), np.zeros(N)), 3 * N, 4 * N, 2 * 832),
        # 2 loads a trip; 2 FLOP in all but the first
        (zipped, (np.ones(N), np.ones(N)), 2 * N, 2 * (N - 1), 2 * 832),
        # numba adds into a temporary (2 loads, 1 store) and copies it (1 load, 1 store): 98 elements
        (sliced, (np.ones(N), np.zeros(N)), 5 * (N - 2), N - 2, 3 * 832),
        # a row is added up element by element: N² loads, N stores, N² additions
        (row_sums, (np.ones((N, N)), np.zeros(N)), N * N + N, N * N, 8 * N * N + 832),
        # zeros: N elements set; then 2 loads and 2 stores
        (local, (np.ones(N), np.zeros(N)), N + 4 * N, 0, 3 * 832),
        # x and v are loaded, x is stored; records of 20 bytes lie behind each other: 2,000 bytes on 32 lines
        (records, (np.zeros(N, RECORD), 0.5), 3 * N, 2 * N, 32 * 64),
        # the module's array is a constant of the function: it is read too, one line
        (tabled, (np.ones(N), np.zeros(N)), 3 * N, N, 2 * 832 + 64),
        (paired, ((np.ones(N), np.ones(N)), np.zeros(N)), 3 * N, N, 3 * 832),
        # a square is one product, whatever numba makes of it; exp is special; 1 addition
        (powers, (np.ones(N), np.zeros(N)), 3 * N, 3 * N, 2 * 832),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_the_source_alone_does_not_say(fn, args, accesses, flop, memory_read):
    report = counted(fn, *args, timed=fn is helpers)
    assert (report.accesses, report.flop) == (accesses, flop)
    assert report.simulation.memory_read_bytes == memory_read
    assert "LLVM IR" in report.static.reason
    if fn is helpers:
        assert report.checks == (
            "the compiled function gives the counted run's results",
            "plain Python gives the counted run's results",
        )
        assert report.run().median_s > 0


def named_alone(x, shift=3, *, scale=2.0):
    for i in range(shift, len(x)):
        x[i] = x[i - shift] * scale


def test_plain_python_is_given_what_must_be_named_by_name():
    report = counted(named_alone, np.ones(N), timed=True)
    assert report.flop == N - 3
    assert "plain Python gives the counted run's results" in report.checks


def not_used(a, b):
    for i in range(len(b)):
        _t = a[i] * 3.0
        a[i]
        b[i] = 1.0


def test_what_is_loaded_for_nobody_is_counted_too(small):
    # 2 loads, 1 store; the product that nobody asks for is not computed
    report = counted(not_used, np.ones(N), np.zeros(N), levels=small, timed=False)
    assert (report.accesses, report.flop) == (3 * N, 0)


def square_roots(a):
    for i in range(len(a)):
        a[i] = np.sqrt(a[i])


def test_loops_are_those_of_the_source(kernels, small):
    # NumPy's function of one number is a loop of one trip in numba; a while is tested before and behind its body
    assert [(each.variable, each.trips) for each in counted(square_roots, np.ones(N), timed=False).loops] == [
        ("i", N)
    ]
    report = counted(kernels.decided_by_data, *kernels.made("decided_by_data"), levels=small, timed=False)
    assert [(each.variable, each.depth) for each in report.loops] == [("", 0)]


def test_names_are_those_of_the_source():
    report = counted(local, np.ones(N), np.zeros(N), timed=False)
    arrays = {each.array for each in report.simulation.levels[0].references}
    assert arrays == {"a", "b", "held"}
    assert [each.variable for each in report.loops] == ["i", "i"]
    assert [each.trips for each in report.loops] == [N, N]
    zipping = counted(zipped, np.ones(N), np.ones(N), timed=False)
    assert [each.array for each in zipping.simulation.levels[0].references] == ["a", "b"]


@njit(fastmath=True)
def quick_sum(a):
    total = 0.0
    for i in range(len(a)):
        total += a[i]
    return total


def test_options_are_kept():
    assert decorated.has_options(quick_sum)
    assert not decorated.has_options(njit(cache=False, nogil=True)(plain))
    assert lowered.compiled(quick_sum) is quick_sum
    report = counted(quick_sum, np.ones(N))
    assert report.accesses == report.flop == N
    assert "options of its own" in report.static.reason


def past_the_end(a):
    total = 0.0
    for x in enumerate(a):
        total += a[x[0] + 1]
    return total


def text_in_it(a):
    for i, x in enumerate(a):
        a[i] = dict(x)


def endless(a):
    for x in a:
        while x > 0.0:
            a[0] += 1.0


@pytest.mark.parametrize(
    ("fn", "args", "said"),
    [
        (past_the_end, (np.ones(4),), "past_the_end: a[x[0] + 1] is out of bounds at trip 4 of for x (line "),
        (past_the_end, (np.ones(4),), "): index 4 of axis 0 of a, which has 4 elements there (0 to 3)"),
        (text_in_it, (np.ones(4),), "text_in_it: numba cannot compile it at 'a[i] = dict(x)'"),
        (zipped, (np.ones(4), ["a", 1]), "argument b is a list"),
        (zipped, (np.ones(4), np.ones(0)), "argument b has no element"),
        (zipped, (np.ones(4), np.array([object()])), "argument b is an array of Python objects"),
        (zipped, (np.ones(4),), "missing a required argument: 'b'"),
    ],
)
def test_bad_input_is_one_line(fn, args, said):
    with pytest.raises(RooflabError) as caught:
        counted(fn, *args, timed=False)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_run_that_does_not_end_is_stopped():
    report = counted(endless, np.ones(4), time_limit_s=0.3)
    assert not report.complete
    assert report.stopped_at.startswith("trip ")
    assert report.parallel == "not run: the count did not end"


def short_row(a):
    a[1:] = a[:3]


def test_numbas_own_error_of_shapes_that_differ_is_there_again():
    with pytest.raises(RooflabError, match="short_row stops with ValueError: shapes differ"):
        counted(short_row, np.ones(6), timed=False)
    # its text takes seconds to compile
    with pytest.raises(ValueError, match=r"cannot assign slice of shape \(5,\) from input of shape \(3,\)"):
        njit(short_row)(np.ones(6))


def test_lowering_leaves_numba_as_it_was():
    from numba.core import codegen

    before = codegen.JITCodeLibrary._optimize_final_module
    with pytest.raises(Exception, match=r"dict"):
        lower.lower(text_in_it, (lower.numba.typeof(np.ones(3)),))
    assert codegen.JITCodeLibrary._optimize_final_module is before
    # a helper of NumPy's that was lowered for a twin works when compiled code calls it
    assert njit(lambda a: a[0, :].sum())(np.ones((2, 5))) == 5.0


def zeros_and_ones(a, b):
    none, one = np.zeros(len(a)), np.ones(len(a))
    for i in range(len(a)):
        b[i] = none[i] + 2.0 * one[i]


def ones_and_empty(a, b):
    one, some = np.ones(len(a)), np.empty(len(a))
    for i in range(len(a)):
        some[i] = 3.0
        b[i] = one[i] + some[i]


def test_functions_of_one_signature_are_told_apart():
    # numpy.zeros, ones and empty are compiled for (int64, float64); numba goes by what stands for their code
    for fn, each in ((zeros_and_ones, 2.0), (ones_and_empty, 4.0), (zeros_and_ones, 2.0)):
        out = np.zeros(N)
        counted(fn, np.ones(N), out, timed=False)
        after = np.zeros(N)
        njit(fn)(np.ones(N), after)
        assert (after == each).all()
