"""Calls of BLAS and LAPACK: counted by LAPACK's own formulas, named where they have none."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops.lowered import blas, examine
from rooflab.types.simulation import Cache
from rooflab.views.loop.tables import facts
from rooflab.work.formulas import linalg

CACHES = (Cache(4096, 4, name="L1"), Cache(65536, 8, name="L2"))
# How the call of a routine reads in LLVM IR: its operands up to the last that is asked for.
GETRF = "call i32 @numba_xxgetrf(i8 {kind}, i64 {n}, i64 {n}, ptr %a, i64 {n}, ptr %p)"
GESV = "call i32 @numba_xgesv(i8 {kind}, i64 {n}, i64 {sides}, ptr %a, i64 {n}, ptr %p, ptr %b, i64 {n})"
GETRI = "call i32 @numba_ez_xxgetri(i8 {kind}, i64 {n}, ptr %a, i64 {n}, ptr %p)"
POTRF = "call i32 @numba_xxpotrf(i8 {kind}, i8 76, i64 {n}, ptr %a, i64 {n})"


def flop(text, **numbers):
    """FLOP that the terms of the call in `text` add up to."""
    text = text.format(**numbers)
    found = blas.product(text[text.index("@") + 1 : text.index("(")], text)
    total = sum(each * int(np.prod([int(factor) for factor in factors])) for factors, _, each in found.work)
    assert total.denominator == 1
    return int(total)


def real(count):
    return round(count.multiplies + count.adds)


def cplx(count):
    return round(6 * count.multiplies + 2 * count.adds)


@pytest.mark.parametrize("n", [1, 2, 7, 100, 513])
@pytest.mark.parametrize(("kind", "of"), [(100, real), (115, real), (122, cplx), (99, cplx)])
def test_terms_are_those_of_the_formulas(n, kind, of):
    """getri: 2n³/3 + n²/2 + 5n/6 multiplications, 2n³/3 − 3n²/2 + 5n/6 additions (LAPACK Working Note 41)."""
    square, inverse = (
        linalg.getrf(n, n),
        linalg.Count((4 * n**3 + 3 * n**2 + 5 * n) / 6, (4 * n**3 - 9 * n**2 + 5 * n) / 6),
    )
    assert flop(GETRF, kind=kind, n=n) == of(square)
    assert flop(GESV, kind=kind, n=n, sides=3) == of(square.plus(linalg.getrs(n, 3)))
    assert flop(GETRI, kind=kind, n=n) == of(inverse)
    assert flop(POTRF, kind=kind, n=n) == of(linalg.potrf(n))


def solved(a, b):
    return np.linalg.solve(a, b)


def inverted(a):
    return np.linalg.inv(a)


def rooted(a):
    return np.linalg.cholesky(a)


def length(a):
    return np.linalg.norm(a)


def factored(a):
    return np.linalg.qr(a)[1]


def raised(a, b):
    return (a**b).sum()


def square(n, dtype=float):
    return (np.random.default_rng(0).random((n, n)) + n * np.eye(n)).astype(dtype)


def test_solving_and_inverting_have_the_operations_of_lapack():
    """n = 30: getrf 2n³/3 − n²/2 + 5n/6 = 17,575; two triangles 2n² − n = 1,770; getri 4n³/3 − n² + 5n/3 = 35,150.

    Numba itself looks at each element of the operands for what is not finite: a difference and a comparison.
    """
    n = 30
    a = square(n)
    assert rooflab.loop(solved, a, a[0], levels=CACHES).flop == 17_575 + 1_770 + 2 * (n * n + n) + 1
    assert rooflab.loop(inverted, a, levels=CACHES).flop == 17_575 + 35_150 + 2 * n * n
    # n³/3 + n²/2 + n/6
    found = rooflab.loop(rooted, a @ a.T, levels=CACHES)
    assert found.flop_by[0].count == 9_000 + 450 + 5
    assert found.is_whole


def test_a_norm_reads_its_vector_once_and_squares_and_adds():
    found = rooflab.loop(length, np.ones(100), levels=CACHES)
    assert found.flop_by[0].count == 200
    assert found.is_whole
    # complex numbers: both parts of each
    assert rooflab.loop(length, np.ones(100, complex), levels=CACHES).flop_by[0].count == 400


def gammas(a, b):
    for i in range(len(a)):
        b[i] = math.gamma(a[i]) * math.lgamma(a[i])


@pytest.mark.parametrize(("dtype", "name"), [(np.float64, "fp64"), (np.float32, "fp32")])
def test_functions_of_mathematics_that_numba_brings_itself_are_counted(dtype, name):
    found = rooflab.loop(gammas, np.ones(20, dtype), np.zeros(20, dtype), levels=CACHES, timed=False)
    assert {(each.engine, each.dtype): each.count for each in found.flop_by} == {
        ("special", name): 40,
        ("vector", name): 20,
    }


@pytest.mark.parametrize(
    ("function", "args", "names"),
    [
        (factored, (square(12),), ("numba_ez_geqrf", "numba_ez_xxgqr")),
        (raised, (np.ones(8, complex), np.ones(8, complex)), ("numba_cpow",)),
    ],
)
def test_what_has_no_formula_is_named_and_nothing_is_shown_as_whole(function, args, names):
    found = rooflab.loop(function, *args, levels=CACHES)
    assert found.unseen == names
    assert not found.is_whole
    assert any(", ".join(names) in each for each in found.warnings)
    assert dict(facts(found))["Work"].startswith("more than ")


def test_a_time_that_is_not_explained_names_what_cannot_be_seen(root):
    """A factorisation of 60 × 60 takes many times what numba does around it."""
    found = rooflab.loop(factored, square(60), machine=root / "examples" / "zen4-guest.toml", advise=False)
    said = next(each for each in found.warnings if "takes the rest" in each)
    assert "numba_ez_geqrf, numba_ez_xxgqr, which cannot be seen" in said
    assert dict(facts(found))["Predicted"].startswith("what can be seen, one core")


def test_without_scipy_one_line_says_what_to_install(monkeypatch):
    def missing(*args, **options):
        raise ImportError("scipy 0.16+ is required for linear algebra")

    monkeypatch.setattr(examine.count, "count", missing)
    with pytest.raises(RooflabError, match=r"solved: numba compiles .* with SciPy.*python -m pip install scipy$"):
        rooflab.loop(solved, square(5), square(5)[0], levels=CACHES)
