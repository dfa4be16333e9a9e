"""Products of matrices against loops that count."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.work.formulas import cost

size = st.integers(1, 5)


@settings(max_examples=30)
@given(size, size, size, size, st.booleans())
def test_matmul_is_what_three_loops_count(by_hand, batch, m, k, n, bias):
    tally = by_hand.Tally()
    a, b, c = tally.array(batch, m, k), tally.array(batch, k, n), tally.array(batch, m, n)
    added = tally.array(n)
    for i, row, column in by_hand.every(batch, m, n):
        total = tally.number()  # 0
        for inner in range(k):
            total = total + a[i, row, inner] * b[i, inner, column]
        if bias:
            total = total + added[column]
        c[i, row, column] = total
    spec = by_hand.spec
    inputs = (spec(batch, m, k), spec(batch, k, n), *((spec(n),) if bias else ()))
    found = cost("matmul", inputs, (spec(batch, m, n),), {"k": k, "bias": bias})
    assert found.total_flop == tally.vector
    assert by_hand.flop(found, "matrix") == 2 * batch * m * n * k
    assert found.accessed.read_bytes == 4 * (a.loads + b.loads + added.loads)
    assert found.accessed.write_bytes == 4 * c.stores
    assert found.compulsory.read_bytes == 4 * (len(a.read) + len(b.read) + len(added.read))
    assert found.compulsory.write_bytes == 4 * len(c.written)


@given(size, size, size)
def test_a_complex_multiply_add_is_eight_real_operations(by_hand, m, k, n):
    tally = by_hand.Tally()
    for _ in by_hand.every(m, n, k):
        ar, ai, br, bi, real, imag = (tally.number() for _ in range(6))
        real = real + (ar * br - ai * bi)
        imag = imag + (ar * bi + ai * br)
    spec = by_hand.spec
    a, b, c = (spec(*shape, dtype="complex64") for shape in ((m, k), (k, n), (m, n)))
    found = cost("matmul", (a, b), (c,), {"k": k})
    assert found.total_flop == tally.vector == 8 * m * n * k
    assert found.flop[0].dtype == "fp32"  # the format that the real operations run in
    assert found.compulsory.nbytes == 8 * (m * k + k * n + m * n)


def test_a_complex_bias_is_two_additions_per_output(by_hand):
    spec = by_hand.spec
    a, b, bias, c = (spec(*shape, dtype="complex64") for shape in ((2, 3), (3, 4), (4,), (2, 4)))
    found = cost("matmul", (a, b, bias), (c,), {"k": 3, "bias": True})
    assert by_hand.flop(found, "vector") == 2 * 8


@given(size, size, size, size)
def test_flop_add_up_over_the_batch(by_hand, batch, m, k, n):
    spec = by_hand.spec
    one = cost("matmul", (spec(m, k), spec(k, n)), (spec(m, n),), {"k": k})
    many = cost("matmul", (spec(batch, m, k), spec(batch, k, n)), (spec(batch, m, n),), {"k": k})
    assert many.total_flop == batch * one.total_flop
    assert many.compulsory.nbytes == batch * one.compulsory.nbytes


def test_int4_weights_cost_their_packed_bytes_and_multiply_in_the_activations_format(by_hand):
    spec = by_hand.spec
    k, n, m, group = 64, 64, 128, 32
    weight = spec(n, k // 2, dtype="int8")  # two to a byte
    scales = spec(n, k // group, dtype="fp16")
    inputs = (spec(m, k, dtype="fp16"), weight, scales)
    found = cost("matmul", inputs, (spec(m, n, dtype="fp16"),), {"k": k, "weight_bits": 4})
    assert found.total_flop == 2 * m * n * k
    assert (found.flop[0].engine, found.flop[0].dtype, found.flop[0].accumulate) == ("matrix", "fp16", "fp32")
    # activations, half a byte per weight, a scale per group
    assert found.compulsory.read_bytes == m * k * 2 + n * k / 2 + n * (k // group) * 2
    # per multiply-add 2 bytes of activation and half a byte of weight; scales once
    assert found.accessed.read_bytes == m * n * k * 2.5 + n * (k // group) * 2


@pytest.mark.parametrize(
    ("dtype", "out", "accumulate"),
    [("int8", "int32", "int32"), ("fp8", "bf16", "fp32"), ("bf16", "bf16", "fp32"), ("fp64", "fp64", None)],
)
def test_products_are_counted_in_their_own_format(by_hand, dtype, out, accumulate):
    spec = by_hand.spec
    inputs = (spec(4, 8, dtype=dtype), spec(8, 2, dtype=dtype))
    found = cost("matmul", inputs, (spec(4, 2, dtype=out),), {"k": 8})
    (only,) = found.flop
    assert (only.dtype, only.accumulate, only.count) == (dtype, accumulate, 128)


def test_the_format_of_the_products_may_be_another_than_that_of_the_storage(by_hand):
    spec = by_hand.spec
    found = cost("matmul", (spec(4, 8), spec(8, 2)), (spec(4, 2),), {"k": 8, "compute": "tf32"})
    assert found.flop[0].dtype == "tf32"
    assert found.compulsory.nbytes == 4 * (32 + 16 + 8)


def test_multiply_adds_given_override_the_contracted_size(by_hand):
    spec = by_hand.spec
    assert cost("matmul", (spec(4, 8), spec(8, 2)), (spec(4, 2),), {"fma": 10}).total_flop == 20


def test_a_product_without_its_contracted_size_is_an_error_not_zero(by_hand):
    spec = by_hand.spec
    with pytest.raises(KeyError, match="'k'"):
        cost("matmul", (spec(4, 8), spec(8, 2)), (spec(4, 2),), {})


def test_the_same_tensor_given_twice_crosses_once(by_hand):
    x = by_hand.spec(8, 8, storage=3)
    y = by_hand.spec(8, 8, storage=3)  # another part of the same storage
    out = by_hand.spec(8, 8)
    assert cost("matmul", (x, x), (out,), {"k": 8}).compulsory.read_bytes == 256
    assert cost("matmul", (x, y), (out,), {"k": 8}).compulsory.read_bytes == 512


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), size, size)
def test_each_row_of_a_grouped_product_meets_one_matrix(by_hand, groups, k, n):
    tally = by_hand.Tally()
    rows = sum(groups)
    a, b, c = tally.array(rows, k), tally.array(len(groups), k, n), tally.array(rows, n)
    first = 0
    for group, height in enumerate(groups):
        for row, column in by_hand.every(height, n):
            total = tally.number()
            for inner in range(k):
                total = total + a[first + row, inner] * b[group, inner, column]
            c[first + row, column] = total
        first += height
    spec = by_hand.spec
    inputs = (spec(rows, k), spec(len(groups), k, n))
    found = cost("grouped_matmul", inputs, (spec(rows, n),), {"active": sum(height > 0 for height in groups)})
    assert found.total_flop == tally.vector
    assert found.accessed.read_bytes == 4 * (a.loads + b.loads)
    assert found.compulsory.read_bytes == pytest.approx(4 * (len(a.read) + len(b.read)))


def test_fewer_rows_than_experts_read_one_matrix_each_at_most(by_hand):
    spec = by_hand.spec
    found = cost("grouped_matmul", (spec(2, 8), spec(16, 8, 4)), (spec(2, 4),))
    assert found.compulsory.read_bytes == 4 * (2 * 8 + 2 * 8 * 4)


@given(st.lists(st.lists(st.integers(0, 4), max_size=5, unique=True), min_size=1, max_size=4), size)
def test_a_sparse_product_multiplies_stored_elements_only(by_hand, rows, n):
    tally = by_hand.Tally()
    nnz = sum(map(len, rows))
    values, columns, dense, out = tally.array(nnz), tally.array(nnz), tally.array(5, n), tally.array(len(rows), n)
    stored = 0
    for row, present in enumerate(rows):
        for column in range(n):
            total = tally.number()
            for place, at in enumerate(present):
                columns[stored + place]
                total = total + values[stored + place] * dense[at, column]
            out[row, column] = total
        stored += len(present)
    spec = by_hand.spec
    pointers = spec(len(rows) + 1, dtype="int32")
    inputs = (spec(nnz, dtype="fp64"), pointers, spec(nnz, dtype="int32"), spec(5, n, dtype="fp64"))
    found = cost("sparse_matmul", inputs, (spec(len(rows), n, dtype="fp64"),), {"nnz": nnz, "n": n})
    assert found.total_flop == tally.vector == 2 * nnz * n
    # the operands between are pointers and columns: pointers once, columns per multiply-add
    index_bytes = found.accessed.read_bytes - 8 * (values.loads + dense.loads)
    assert index_bytes == pointers.nbytes + 4 * columns.loads
    assert found.accessed.write_bytes == 8 * out.stores
