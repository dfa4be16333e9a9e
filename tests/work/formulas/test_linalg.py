"""Factorisations against loops that count each operation of the textbook algorithm: the leading term."""

from __future__ import annotations

import pytest

from rooflab.errors import UnknownNameError
from rooflab.types.work import TensorSpec
from rooflab.work.formulas import cost


def spec(*shape: int, dtype: str = "fp64", size: int = 8) -> TensorSpec:
    count = 1
    for length in shape:
        count *= length
    return TensorSpec(shape, dtype, count * size)


def cholesky(n: int, _: int) -> int:
    flop = 0
    for j in range(n):
        flop += 2 * j + 1  # l[j, j] = sqrt(a[j, j] − Σ l[j, k]²)
        flop += (n - j - 1) * (2 * j + 1)  # l[i, j] = (a[i, j] − Σ l[i, k]·l[j, k]) / l[j, j]
    return flop


def lu(m: int, n: int) -> int:
    return sum((m - k - 1) + 2 * (m - k - 1) * (n - k - 1) for k in range(min(m, n)))


def triangular_solve(n: int, sides: int) -> int:
    return sides * sum(2 * i + 1 for i in range(n))


def householder(m: int, n: int) -> int:
    # v of m − k elements; each later column: vᵀa, then a − v·(…)
    return sum(2 * (m - k) + 4 * (m - k) * (n - k - 1) for k in range(min(m, n)))


CASES = [
    ("cholesky", {}, (200, 200), (), cholesky),
    ("lu", {}, (200, 200), (), lu),
    ("lu", {}, (300, 150), (), lu),
    ("lu", {}, (150, 300), (), lu),
    ("triangular_solve", {}, (200, 200), (200, 7), triangular_solve),
    ("qr", {"parts": "r"}, (300, 150), (), householder),
    ("qr", {"parts": "r"}, (200, 200), (), householder),
]


@pytest.mark.parametrize("row", CASES, ids=[f"{row[0]} {row[2]}" for row in CASES])
def test_the_leading_term(row):
    kind, attrs, a, b, count = row
    inputs = (spec(*a), spec(*b)) if b else (spec(*a),)
    outputs = (spec(*(b or a)),)
    found = cost(kind, inputs, outputs, attrs)
    # what is left out is of lower order: 3/n at most
    assert found.total_flop == pytest.approx(count(a[0], (b or a)[1]), rel=3 / 150)
    assert found.compulsory.read_bytes == sum(one.nbytes for one in inputs)
    assert found.compulsory.write_bytes == outputs[0].nbytes


def test_batches_and_complex_numbers_multiply():
    one = cost("lu", (spec(30, 30),), (spec(30, 30),)).total_flop
    assert cost("lu", (spec(5, 30, 30),), (spec(5, 30, 30),)).total_flop == pytest.approx(5 * one)
    numbers = spec(300, 300, dtype="complex128", size=16)
    # a complex multiplication is 6 real operations and an addition 2: n³/3 of each
    real = cost("lu", (spec(300, 300),), (spec(300, 300),)).total_flop
    assert cost("lu", (numbers,), (numbers,)).total_flop == pytest.approx(4 * real, rel=0.01)


def test_q_and_r_are_twice_r_and_q_takes_its_own():
    a = spec(300, 150)
    r, q, both = (cost("qr", (a,), (a,), {"parts": part}).total_flop for part in ("r", "q", "qr"))
    assert both == pytest.approx(r + q)
    assert q == pytest.approx(r, rel=0.01)
    # 150 columns more of a complete Q: each reflector of 300 − j elements changes them, 4 FLOP an element
    complete = cost("qr", (a,), (a,), {"parts": "qr", "complete": True}).total_flop
    assert complete - both == pytest.approx(sum(4 * (300 - j) * 150 for j in range(150)), rel=0.01)


def test_lower_terms_are_there():
    # A = L·Lᵀ of 2 × 2: √a, b/√a, √(c − l²): 4 multiplications, divisions and roots, 1 addition
    assert cost("cholesky", (spec(2, 2),), (spec(2, 2),)).total_flop == pytest.approx(5)
    # P·A = L·U of 2 × 2: two reciprocals of pivots, one scaling, a multiplication and a subtraction
    assert cost("lu", (spec(2, 2),), (spec(2, 2),)).total_flop == pytest.approx(5)
    # and the product of its diagonal
    assert cost("lu", (spec(2, 2),), (spec(),), {"determinant": True}).total_flop == pytest.approx(6)
    # two triangles of 2 × 2 for 3 right sides: L has ones on its diagonal: (1 + 1) + (3 + 1) operations each
    assert cost("solve", (spec(2, 2), spec(2, 3)), (spec(2, 3),), {"factored": True}).total_flop == 3 * 6


def test_solves_are_their_factorisation_and_two_triangles():
    n, sides = 240, 5
    a, b = spec(7, n, n), spec(7, n, sides)
    lu_flop = cost("lu", (a,), (a,)).total_flop
    assert cost("solve", (a, b), (b,)).total_flop == pytest.approx(lu_flop + 7 * 2 * n * n * sides, rel=1e-3)
    # the inverse is solved for n right sides
    assert cost("solve", (a,), (a,)).total_flop == pytest.approx(lu_flop + 7 * 2 * n**3, rel=1e-2)
    assert cost("cholesky_solve", (b, a), (b,)).total_flop == pytest.approx(7 * 2 * n * n * sides, rel=1e-2)
    assert cost("cholesky_inverse", (a,), (a,)).total_flop == pytest.approx(7 * 2 / 3 * n**3, rel=1e-2)


def test_least_squares_are_a_qr_its_transpose_and_a_triangle():
    m, n, sides = 500, 200, 3
    found = cost("lstsq", (spec(m, n), spec(m, sides)), (spec(n, sides),), {"driver": "gels"})
    r = householder(m, n)
    applied = sum(4 * (m - k) * sides for k in range(n))
    assert found.total_flop == pytest.approx(r + applied + triangular_solve(n, sides), rel=0.02)
    with pytest.raises(UnknownNameError, match="unknown driver of lstsq 'gelx'; did you mean gels"):
        cost("lstsq", (spec(m, n), spec(m, sides)), (spec(n, sides),), {"driver": "gelx"})


def tridiagonal(n: int, _: int = 0) -> int:
    # each step: a symmetric product with a vector, then a rank-2 update of the half that is kept
    return sum(2 * (n - k - 1) ** 2 + 2 * (n - k - 1) ** 2 for k in range(n - 1))


EIGEN = [
    ("eigh", {"vectors": False}, (300, 300), tridiagonal(300)),
    ("eigh", {"vectors": True}, (300, 300), tridiagonal(300) + (4 / 3 + 2) * 300**3),
    ("eig", {"vectors": False}, (300, 300), 10 * 300**3),
    ("eig", {"vectors": True}, (300, 300), (25 + 4 / 3) * 300**3),
    ("svd", {"vectors": False}, (300, 200), 4 * 300 * 200**2 - 4 / 3 * 200**3),
    ("svd", {"vectors": False}, (200, 3000), 2 * 3000 * 200**2 + 2 * 200**3),  # a QR first
    ("svd", {"vectors": True}, (300, 300), 22 * 300**3),
    ("svd", {"vectors": True, "full": True}, (3000, 200), 4 * 3000**2 * 200 + 22 * 200**3),
]


@pytest.mark.parametrize(("kind", "attrs", "shape", "flop"), EIGEN)
def test_eigenvalues_and_singular_values_as_they_typically_go(kind, attrs, shape, flop):
    a = spec(*shape)
    found = cost(kind, (a,), (a, a), attrs)
    assert found.total_flop == pytest.approx(flop, rel=0.02)
    vector = sum(one.count for one in found.flop if one.engine == "vector")
    assert 0.1 < vector / found.total_flop < 1


@pytest.mark.parametrize("kind", ["eigh", "eig", "svd", "lu", "qr", "cholesky", "matrix_exp", "solve"])
@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 2), (3, 0, 0)])
def test_the_smallest_matrices_cost_nothing_negative(kind, shape):
    found = cost(kind, (spec(*shape),), (spec(*shape),))
    assert all(one.count >= 0 for one in found.flop)


def test_a_kernel_is_what_its_framework_counted():
    attrs = {"dtype": "fp32", "fma": 10, "vector": 7, "special": 3, "loaded": 400.0, "stored": 80.0}
    found = cost("kernel", (spec(10),), (spec(5),), attrs)
    assert [(one.engine, one.count) for one in found.flop] == [("matrix", 20), ("vector", 7), ("special", 3)]
    assert (found.compulsory.read_bytes, found.compulsory.write_bytes) == (80, 40)
    assert found.accessed is not None
    assert (found.accessed.read_bytes, found.accessed.write_bytes) == (400, 80)
    # integers alone: bytes
    assert cost("kernel", (spec(10),), (spec(5),), {"dtype": None}).flop == ()
