"""How NumPy's iterator walks operands: held against NumPy's own iterator, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.model.kernels.cpu.walk import Walk, axis_order, innermost, loops, strides_of, walk
from rooflab.types.work import TensorSpec


def spec(array: np.ndarray) -> TensorSpec:
    """The tensor of an array as a capture writes it down."""
    strides = tuple(step // array.itemsize for step in array.strides)
    return TensorSpec(
        array.shape, "fp64", float(array.nbytes), strides=None if array.flags.c_contiguous else strides
    )


@st.composite
def operands(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two arrays that broadcast to a third, parts of larger ones, some with axes the other way round."""
    shape = tuple(draw(st.lists(st.integers(2, 5), min_size=1, max_size=4)))
    made = []
    for _ in range(2):
        own = tuple(size if draw(st.booleans()) else 1 for size in shape)
        if draw(st.booleans()):  # a part of a larger array
            whole = np.zeros(tuple(size + draw(st.integers(0, 1)) for size in own))
            made.append(whole[tuple(slice(0, size) for size in own)])
        else:
            made.append(np.zeros(own))
    if draw(st.booleans()):  # one of them transposed, the other not: their orders disagree
        made[0] = np.zeros(made[0].shape[::-1]).T
    return made[0], made[1], np.zeros(shape)


@settings(max_examples=300, deadline=None)
@given(operands())
def test_the_inner_loops_are_those_of_numpys_own_iterator(
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    a, b, out = arrays
    iterator = np.nditer(
        [a, b, out], flags=["external_loop"], op_flags=[["readonly"], ["readonly"], ["readwrite"]], order="K"
    )
    out.flat = range(out.size)
    found = loops((spec(a), spec(b), spec(out)), out.shape)
    with iterator:
        visits = [chunk[2].astype(int).tolist() for chunk in iterator]
    lengths = [len(visit) for visit in visits]
    assert found[-1] == lengths[0]
    assert np.prod(found[:-1], initial=1) == len(lengths)
    assert [each for visit in visits for each in visit] == _order_of_loops((a, b, out), out.shape)


def _order_of_loops(arrays: tuple[np.ndarray, ...], shape: tuple[int, ...]) -> list[int]:
    """Elements of the last array in the order of loops over `axis_order`, outermost first."""
    axes = axis_order(shape, [strides_of(spec(each), shape) for each in arrays if each.size > 1])
    whole = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    return whole.transpose([*rest, *axes]).ravel().tolist()


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (((30, 7), (30, 7)), Walk(0, 0)),  # one run
        (((30, 7), (7,)), Walk(30, 210 * 8)),  # the row is copied once for each of 30
        (((30, 7), (30, 1)), Walk(30, 210 * 8)),
        (((30, 1), (1, 7)), Walk(60, 420 * 8)),  # both
        (((4, 5, 6), (6,)), Walk(20, 120 * 8)),
        (((4, 5, 6), (5, 6)), Walk(4, 120 * 8)),  # its rows of 30 lie in one run
        (((40, 9000), (40, 1)), Walk(0, 0)),  # rows longer than the buffer are walked where they lie
    ],
)
def test_operands_that_are_no_single_run_are_copied_row_by_row(
    shapes: tuple[tuple[int, ...], ...], expected: Walk
) -> None:
    arrays = [np.zeros(shape) for shape in shapes]
    out = np.broadcast_shapes(*shapes)
    assert walk((*map(spec, arrays), spec(np.zeros(out))), out) == expected


def test_elements_that_lie_apart_count_as_copied() -> None:
    x = np.zeros((20, 10))[:, ::2]
    assert walk((spec(x), spec(np.zeros((20, 5)))), (20, 5)) == Walk(0, 100 * 8)  # one run of step 2


def test_a_transposed_array_is_read_down_its_columns() -> None:
    x = np.zeros((20, 30))
    assert innermost(spec(x)) == (600, 8)
    assert innermost(spec(x.T)) == (20, 240)
    assert innermost(spec(x[:, :10])) == (10, 8)
