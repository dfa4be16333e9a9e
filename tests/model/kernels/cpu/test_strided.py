"""Operands that are stepped through over lines: which lines, by hand, and what waiting for them takes."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import rooflab
from rooflab.model.device.device import device_of
from rooflab.model.kernels.cpu.strided import NOTHING, Strided, mirrored, strided
from rooflab.types.work import Op, TensorSpec
from support.model.one_op import seconds, tensor

ZEN4 = device_of(rooflab.machine("examples/zen4-guest.toml"))


def of(kind: str, *operands: TensorSpec) -> Strided:
    return strided(Op(name=f"numpy.{kind}", kind=kind, inputs=(), outputs=()), operands[:-1], operands[-1:])


def turned(rows: int, columns: int) -> TensorSpec:
    """A view of `columns` × `rows` doubles, transposed."""
    return tensor(rows, columns, of="fp64", strides=(1, rows))


PLAIN = tensor(3000, 3000, of="fp64")


def test_a_transposed_operand_touches_each_line_once_from_afar_and_seven_times_again() -> None:
    # 9e6 doubles, 8 a line; a column of 3000 steps of 24,000 B, and as many lines that are written.
    # 24,000 B = 375 lines, an odd number: all sets of a cache are used.
    expected = Strided(again=7 / 8 * 9e6, first=9e6 / 8, column_bytes=2 * 3000 * 64, sets=1)
    assert of("copy", turned(3000, 3000), PLAIN) == expected
    assert of("pointwise", PLAIN, turned(3000, 3000), PLAIN) == expected
    assert of("layout", turned(3000, 3000), tensor(9_000_000, of="fp64")) == expected


def test_operands_that_are_all_transposed_are_walked_as_they_lie() -> None:
    x = turned(3000, 3000)
    assert of("pointwise", x, x, x) == of("cast", x, x) == of("copy", PLAIN, PLAIN) == NOTHING


def test_steps_of_a_power_of_two_of_lines_use_few_sets() -> None:
    x = turned(2048, 2048)  # 16 KiB = 256 lines
    assert of("copy", x, tensor(2048, 2048, of="fp64")).sets == 256


def test_a_step_within_a_page_is_foreseen_but_for_the_page() -> None:
    # 100 doubles a row are 800 B; a prefetcher starts anew each 4 KiB. 1e5 doubles are 12,500 lines.
    found = of("copy", tensor(100, 1000, of="fp64", strides=(1, 100)), tensor(100, 1000, of="fp64"))
    assert found.first == pytest.approx(12_500 * 800 / 4096)


def test_one_column_touches_a_line_for_each_number() -> None:
    found = of("copy", tensor(3000, of="fp64", strides=(3000,)), tensor(3000, of="fp64"))
    assert (found.again, found.first) == (0, 3000)


def test_a_transposed_copy_waits_for_its_lines() -> None:
    # 4000 doubles down a column of 32,000 B steps: 16e6 / 8 = 2e6 lines from DRAM at 109 ns, 9 under way: 24 ms,
    # where a plain copy of 128 MB each way at 20 to 40 GB/s takes under 13 ms.
    turned_s = seconds("copy", (turned(4000, 4000),), (tensor(4000, 4000, of="fp64"),), device=ZEN4)
    plain_s = seconds("copy", (tensor(4000, 4000, of="fp64"),), (tensor(4000, 4000, of="fp64"),), device=ZEN4)
    assert plain_s < 13e-3 < 24e-3 < turned_s


@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_a_reduction_of_a_transposed_array_takes_the_time_of_that_which_it_views(dims: tuple[int, ...]) -> None:
    other = (1 - dims[0],)
    x, whole = tensor(3000, 2000, of="fp64", strides=(1, 3000)), tensor(2000, 3000, of="fp64")
    out = tensor(3000 if dims == (1,) else 2000, of="fp64")
    attrs = {"function": "sum"}
    viewed = seconds("reduction", (x,), (out,), {**attrs, "dims": dims}, ZEN4)
    assert viewed == pytest.approx(seconds("reduction", (whole,), (out,), {**attrs, "dims": other}, ZEN4))


def test_no_line_is_waited_for_in_an_empty_array() -> None:
    x = tensor(0, 5, of="fp64", strides=(1, 1))
    assert of("copy", x, x) == NOTHING


def test_the_triangle_of_a_matrix_times_its_own_transpose_is_copied_down_columns() -> None:
    # 2000 × 100: 2000·2001/2 sums of 100 products; the triangle without its diagonal is copied, 8 numbers a line
    out = (tensor(2000, 2000, of="fp64"),)
    triangle = 2000 * 1999 // 2
    attrs = {"k": 100, "fma": 100 * 2000 * 2001 // 2}
    op = Op(name="numpy.matmul", kind="matmul", inputs=(), outputs=(), attrs=attrs)
    # 16,000 B = 250 lines: every second set
    assert mirrored(op, out) == Strided(triangle * 7 / 8, triangle / 8, 2000 * 64, 2)
    assert mirrored(replace(op, attrs={"k": 100}), out) == NOTHING
    assert mirrored(replace(op, name="aten.mm"), out) == NOTHING


def test_a_compiled_loop_steps_down_the_same_columns() -> None:
    x = np.ones((4000, 4000))
    turned_s, plain_s = (
        rooflab.analyze(fn, x, x + 1, machine="examples/zen4-guest.toml", mode="compiled").time_s
        for fn in (lambda x, y: x + y.T, lambda x, y: x + y)
    )
    # 2e6 lines from DRAM at 109 ns, 9 under way on one core; two cores read 36.1 of 32.1 GB/s together: 21.5 ms
    assert turned_s is not None
    assert plain_s is not None
    assert turned_s > 21.5e-3 > plain_s
