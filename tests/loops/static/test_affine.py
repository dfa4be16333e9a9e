"""Formulas from the source alone against brute force, and against what the twin counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.loops import conflicts, understanding
from rooflab.loops.lowered import count as lowered_count
from rooflab.loops.static import affine
from rooflab.loops.static.polynomial import Polynomial
from rooflab.loops.twin import count
from rooflab.machines.cache_levels import given as chosen
from rooflab.types.simulation import Cache

N, M, X = (Polynomial.symbol(name) for name in "nmx")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (N * N * N * 2, "2·n³"),
        ((N - 1) * (M - 2) * 5, "5·m·n − 5·m − 10·n + 10"),
        (Polynomial({}), "0"),
        (N.summed("n", Polynomial.constant(0), M), "1/2·m² − 1/2·m"),
        (-N + 1234567, "−n + 1,234,567"),
    ],
)
def test_polynomials_are_written_as_people_do(value, text):
    assert str(value) == text


@pytest.mark.slow
@given(
    power=st.integers(0, 4),
    low=st.integers(-5, 5),
    length=st.integers(0, 9),
    slope=st.integers(-3, 3),
)
def test_a_sum_in_closed_form_is_the_sum(power, low, length, slope):
    each = X**power * slope + X * N
    made = each.summed("x", Polynomial.constant(low), Polynomial.constant(low + length)).at({"n": 7})
    assert made == sum(slope * x**power + 7 * x for x in range(low, low + length))


@given(a=st.integers(-9, 9), b=st.integers(-9, 9), n=st.integers(-9, 9), m=st.integers(-9, 9))
def test_arithmetic_agrees_with_numbers(a, b, n, m):
    made = (N * a + M) * (N - M * b) - N**2
    assert made.at({"n": n, "m": m}) == (n * a + m) * (n - m * b) - n**2
    assert made.put({"n": Polynomial.constant(n), "m": Polynomial.constant(m)}).number == made.at({"n": n, "m": m})


def static(kernels, name, caches, args=None):
    known = understanding.understand(getattr(kernels, name), kernels.made(name) if args is None else args)
    made = lowered_count.of_loop(known, chosen(caches), 60.0, warm=False)
    totals = (int(sum(each.count for each in count.flop(made))), made.simulation.accessed_bytes)
    return affine.analyze(known, caches, totals), made.simulation


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "flop", "accessed"),
    [
        ("triad", "2·a.shape[0]", "24·a.shape[0]"),  # 2 reads + 1 write of 8 bytes
        ("stencil", "5·m·n − 10·m − 10·n + 20", "48·m·n − 96·m − 96·n + 192"),  # 5 FLOP, 5 reads + 1 write
        ("matmul", "2·m·n·p", "16·m·n·p + 8·n·p"),  # the sum stays in a register
        ("transpose", "0", "16·m·n"),
        # Σ (i + 1) for i < n is n(n + 1)/2: 2 FLOP and 4 accesses each
        ("triangle", "a.shape[0]² + a.shape[0]", "16·a.shape[0]² + 16·a.shape[0]"),
        ("smoothed", "2·x.shape[0] − 2", "24·x.shape[0] − 24"),
        # n − 1, n − 3, … down to 0: ⌈n/2⌉ trips of 1 FLOP, 2 reads + 1 write
        ("counted_back", "⌈n/2⌉", "24·⌈n/2⌉"),
    ],
)
def test_formulas_equal_what_the_twin_counts(kernels, small, name, flop, accessed):
    made, _ = static(kernels, name, small)
    assert (made.flop, made.accessed_bytes) == (flop, accessed)
    assert made.agrees is True
    assert made.reason is None


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m", "p", "t"), [(12, 12, 12, 4), (13, 10, 7, 4), (9, 17, 5, 32)])
def test_blocked_loops_have_formulas_whether_the_tiles_fit_or_not(kernels, small, n, m, p, t):
    made, _ = static(kernels, "matmul_tiled", small, (np.ones((n, m)), np.ones((m, p)), np.zeros((n, p)), t))
    # 2 reads + 1 write for each product; a[i, k] is read anew for each tile of columns.
    assert (made.flop, made.accessed_bytes) == ("2·m·n·p", "24·m·n·p + 8·m·n·⌈p/t⌉")
    assert made.agrees is True
    made, _ = static(kernels, "transpose_tiled", small, (np.ones((n, m)), np.ones((m, n)), t))
    assert (made.flop, made.accessed_bytes, made.agrees) == ("0", "16·m·n", True)


@pytest.mark.parametrize(
    ("name", "args", "flop"),
    [
        # Tiles within tiles take each element once where the inner tiles end with the outer.
        ("tiles_of_tiles", (np.ones(30), 8, 4), "n"),
        ("tiles_of_tiles", (np.ones(30), 8, 3), "n"),
        # Σ (n − i) for i below h = ⌊n/2⌋ is h·n − h(h − 1)/2
        ("every_third", (np.ones(14), np.ones(14), 2.0), "n·⌊n/2⌋ − 1/2·⌊n/2⌋² + ⌈(n − 2)/3⌉ + 1/2·⌊n/2⌋"),
        ("every_third", (np.ones(15), np.ones(15), 2.0), "n·⌊n/2⌋ − 1/2·⌊n/2⌋² + ⌈(n − 2)/3⌉ + 1/2·⌊n/2⌋"),
    ],
)
def test_steps_are_counted_exactly(kernels, small, name, args, flop):
    made, _ = static(kernels, name, small, args)
    assert (made.flop.replace("a.shape[0]", "n"), made.agrees) == (flop, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("spmv", "start[i] is not affine in sizes and loop variables"),
        ("decided_by_data", "while is decided by data"),
        ("leaves_early", "if is decided by data"),
        ("change_places", "arrays change places"),
        ("histogram", "where[i] is not affine"),
    ],
)
def test_what_has_no_formula_says_why(kernels, small, name, said):
    made, _ = static(kernels, name, small)
    assert said in made.reason
    assert made.flop == ""


LEVELS = (Cache(32 << 10, 8, name="L1"), Cache(1 << 20, 8, name="L2"), Cache(8 << 20, 16, name="L3"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("triad", [(50_000,)] * 3),
        ("stencil", [(200, 200)] * 2),  # three rows fit in L1
        ("stencil", [(60, 2040)] * 2),  # they do not
        ("transpose", [(500, 300), (300, 500)]),
        ("matmul", [(200, 50), (50, 24), (200, 24)]),
        # Tiles of 24 × 24 fit in L1, and 500 columns of b or c do not; 24 divides neither 500 nor 300.
        ("transpose_tiled", [(500, 300), (300, 500)]),
        ("matmul_tiled", [(200, 200), (200, 200), (200, 200)]),
        # Several nests, each with a condition of its own: rows of 200 and of 1,300 numbers.
        ("two_sweeps", [(200, 200), (200, 200), (200, 200)]),
        ("two_sweeps", [(90, 1300), (90, 1300), (1300, 90)]),
    ],
)
def test_layer_conditions_give_the_simulated_traffic(kernels, name, shapes):
    more = {"triad": [2.0], "transpose_tiled": [24], "matmul_tiled": [24], "two_sweeps": [2]}
    args = [np.ones(shape) for shape in shapes] + more.get(name, [])
    made, simulation = static(kernels, name, LEVELS, tuple(args))
    for each in simulation.traffic:
        # Rows that begin in the middle of a line touch one more, and what barely fits meets in its sets.
        assert made.traffic_bytes[each.level] == pytest.approx(each.read_bytes + each.write_bytes, rel=0.06)


@pytest.mark.slow
def test_conditions_say_what_must_stay(kernels):
    made, _ = static(kernels, "stencil", LEVELS, (np.ones((60, 2040)), np.ones((60, 2040))))
    assert made.conditions[0].startswith("L1 (32 KiB): layer condition holds for j")
    assert made.conditions[1].startswith("L2 (1 MiB): layer condition holds for i (63.75 KiB)")
    assert made.conditions[2].startswith("L3 (8 MiB): everything fits")


@pytest.mark.slow
def test_more_misses_than_the_capacity_explains_are_called_conflicts(kernels):
    a = np.ones((256, 256))  # rows of 2 KiB: a column falls into two sets of 8 ways
    made, simulation = static(kernels, "matmul", LEVELS, (a, a.copy(), a.copy()))
    said = conflicts.sentences(made, simulation)
    assert len(said) == 1
    assert said[0].startswith("L1 misses 8.0 × what its capacity explains")
    assert math.isclose(made.traffic_bytes["L3"], simulation.traffic[1].nbytes, rel_tol=0.01)


@pytest.mark.parametrize(
    ("name", "shapes", "stride"),
    [
        ("triad", [(50,)] * 3, 0),
        ("transpose", [(64, 256), (256, 64)], 512),  # down a column of b: rows of 64 numbers
        ("transpose", [(50, 20), (20, 50)], 400),  # rows that begin at all places of a line
        ("matmul", [(8, 16), (16, 128), (8, 128)], 1024),
    ],
)
def test_the_stride_over_lines_is_told(kernels, small, name, shapes, stride):
    args = [np.ones(shape) for shape in shapes] + ([2.0] if name == "triad" else [])
    made, _ = static(kernels, name, small, tuple(args))
    assert made.stride_bytes == stride
