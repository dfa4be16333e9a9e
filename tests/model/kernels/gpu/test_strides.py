"""What strides cost: sectors and bursts by hand, and times of strided kernels against contiguous ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.model.kernels.gpu.strides import Strides, aligned, contiguous, walk
from rooflab.types.work import TensorSpec
from support.model.one_op import seconds, tensor, timed


@pytest.mark.parametrize(
    ("spec", "out", "expected"),
    [
        (tensor(64, 32), tensor(64, 32), Strides(True)),
        (tensor(), tensor(64, 32), Strides(True)),  # a scalar travels with the arguments
        # Both transposed alike: PyTorch's iterator reorders the dimensions of all operands together.
        (tensor(64, 32, strides=(1, 64)), tensor(64, 32, strides=(1, 64)), Strides(True)),
        # A row added to each row: its addresses are found by division, along two dimensions.
        (tensor(32), tensor(64, 32), Strides(False, 0.0, 0.0, 2)),
        # Transposed fp32: each element in a sector of 32 bytes of its own; its neighbours are read later.
        (tensor(64, 32, strides=(1, 64)), tensor(64, 32), Strides(False, 64 * 32 * 32.0, 0.0, 2)),
        # Every second fp32: warps share sectors, and half of what memory delivers is never read.
        (tensor(64, strides=(2,)), tensor(64), Strides(False, 0.0, 64 * 4.0, 1)),
        # Every 16th: a sector of 32 and a burst of 64 bytes for 4.
        (tensor(64, strides=(16,)), tensor(64), Strides(False, 64 * 32.0, 64 * 60.0, 1)),
        # Heads before positions, bf16: rows of 64 stay whole, four dimensions stay apart.
        (
            tensor(2, 16, 128, 64, of="bf16", strides=(131072, 64, 1024, 1)),
            tensor(2, 16, 128, 64, of="bf16"),
            Strides(False, 0.0, 0.0, 4),
        ),
    ],
)
def test_an_operand_costs_the_sectors_and_bursts_that_its_strides_touch(
    spec: TensorSpec, out: TensorSpec, expected: Strides
) -> None:
    assert walk(spec, out) == expected


def test_strides_are_those_that_numpy_gives() -> None:
    assert contiguous((2, 3, 4)) == (12, 4, 1)
    assert contiguous(()) == ()
    assert aligned(tensor(3, 1), tensor(2, 3, 4)) == (0, 1, 0)


@given(
    rows=st.sampled_from([8, 1000, 8192]),
    columns=st.sampled_from([8, 1000, 8192]),
    of=st.sampled_from(["bf16", "fp32", "fp64"]),
)
def test_strided_is_never_faster_than_contiguous(rows: int, columns: int, of: str) -> None:
    plain = seconds("layout", (tensor(rows, columns, of=of),), (tensor(rows, columns, of=of),))
    crossed = tensor(rows, columns, of=of, strides=(1, rows))
    assert seconds("layout", (crossed,), (tensor(rows, columns, of=of),)) >= plain


def test_broadcasting_costs_addresses_not_bytes() -> None:
    x, row = tensor(8192, 8192, of="bf16"), tensor(8192, of="bf16")
    same = timed("pointwise", (x, x), (x,), {"function": "add"}).kernels
    spread = timed("pointwise", (x, row), (x,), {"function": "add"}).kernels
    assert spread.memory_s[0, 0] < same.memory_s[0, 0]
    assert spread.compute_s[0, 0] > 5 * same.compute_s[0, 0]
    assert spread.time_s[0, 0] > 1.5 * same.time_s[0, 0]


def test_a_transposed_copy_is_bound_by_the_last_cache() -> None:
    x = tensor(8192, 8192, strides=(1, 8192))
    found = timed("layout", (x,), (tensor(8192, 8192),)).kernels
    assert found.cache_s[0, 0] > found.memory_s[0, 0]
    assert found.cache_s[0, 0] > found.compute_s[0, 0]
