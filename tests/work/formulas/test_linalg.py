"""Factorisations against loops that count each operation of the textbook algorithm: the leading term."""

from __future__ import annotations

import pytest

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
    numbers = spec(30, 30, dtype="complex128", size=16)
    # 8 real FLOP a multiply-add instead of 2
    assert cost("lu", (numbers,), (numbers,)).total_flop == pytest.approx(4 * one)


def test_q_and_r_are_twice_r_and_q_takes_its_own():
    a = spec(300, 150)
    r, q = (cost("qr", (a,), (a,), {"parts": part}).total_flop for part in ("r", "q"))
    assert cost("qr", (a,), (a,)).total_flop == pytest.approx(2 * r)
    assert q == pytest.approx(r)


def test_a_kernel_is_what_its_framework_counted():
    attrs = {"dtype": "fp32", "fma": 10, "vector": 7, "special": 3, "loaded": 400.0, "stored": 80.0}
    found = cost("kernel", (spec(10),), (spec(5),), attrs)
    assert [(one.engine, one.count) for one in found.flop] == [("matrix", 20), ("vector", 7), ("special", 3)]
    assert (found.compulsory.read_bytes, found.compulsory.write_bytes) == (80, 40)
    assert found.accessed is not None
    assert (found.accessed.read_bytes, found.accessed.write_bytes) == (400, 80)
    # integers alone: bytes
    assert cost("kernel", (spec(10),), (spec(5),), {"dtype": None}).flop == ()
