"""Convolutions on GPUs: bounds and order for any shape; counts by hand; measured times where they are at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rooflab
from rooflab.model.device.device import device_of
from rooflab.model.kernels.common import KernelTimes
from rooflab.model.kernels.gpu import conv
from rooflab.model.program import op_times
from rooflab.types.report import Report
from rooflab.types.work import Cost, Op, TensorSpec, Traffic
from support.model.measured import measured, operator

torch = pytest.importorskip("torch")

DEVICE = device_of(rooflab.machine("h200-sxm"))


def convolve(
    shape: tuple[int, ...],
    results: int,
    kernel: int,
    *,
    dtype: Any = torch.bfloat16,
    last: bool = False,
    groups: int = 1,
    backward: bool = False,
) -> Report:
    layout = torch.channels_last if last else torch.contiguous_format
    x = torch.empty(shape, dtype=dtype, device="meta", requires_grad=backward).to(memory_format=layout)
    w = torch.empty(
        results, shape[1] // groups, kernel, kernel, dtype=dtype, device="meta", requires_grad=backward
    )
    w = w.to(memory_format=layout)
    return rooflab.analyze(
        lambda: torch.nn.functional.conv2d(x, w, padding=kernel // 2, groups=groups), backward=backward
    )


def kernels(report: Report, kind: str = "conv") -> KernelTimes:
    work = op_times.prepare(report.graph, report.rows)
    found = op_times.predict_times(work, DEVICE)
    chosen = [number for number, row in enumerate(work.rows) if row.op.kind == kind]
    assert np.all(found.kernels.time_s >= found.floor_s * (1 - 1e-9))
    return KernelTimes(*(each[chosen] for each in found.kernels))


@pytest.mark.slow
@given(
    images=st.sampled_from([1, 8, 64]),
    channels=st.sampled_from([1, 3, 8, 64, 200]),
    size=st.sampled_from([7, 14, 56, 65]),
    results=st.sampled_from([1, 16, 64, 256]),
    kernel=st.sampled_from([1, 3, 7]),
)
def test_halves_are_never_faster_channels_first(
    images: int, channels: int, size: int, results: int, kernel: int
) -> None:
    shape = (images, channels, size, size)
    first, last = (kernels(convolve(shape, results, kernel, last=each)) for each in (False, True))
    if kernel > 1 and channels >= 8:
        assert first.time_s[0, 0] >= last.time_s[0, 0]
        # x, w and the result change layout; a result of one channel has but one.
        assert first.kernels[0, 0] == last.kernels[0, 0] + (3 if results > 1 else 2)
    for each in (*first, *last):
        assert np.all(np.isfinite(each))
        assert np.all(each >= 0)


@pytest.mark.parametrize(
    ("size", "transposes"),
    [
        (56, 0),  # planes of 6,272 bytes: a product reads them as they lie
        (14, 0),  # 392 bytes, 8 more than a multiple of 16: two elements at a time
        (7, 2),  # 98 bytes: no kernel reads single halves, so x and the result are transposed; w is one pixel
    ],
)
def test_which_planes_a_product_reads_as_they_lie(size: int, transposes: int) -> None:
    assert kernels(convolve((32, 64, size, size), 64, 1)).kernels[0, 0] == 1 + transposes


def test_few_channels_are_padded_and_bound_by_their_loads() -> None:
    three, eight = (kernels(convolve((32, each, 224, 224), 64, 7, last=True)) for each in (3, 8))
    assert three.kernels[0, 0] == 2  # padding to 8 channels, then the convolution
    assert three.time_s[0, 0] > 3 * eight.time_s[0, 0]


def test_a_depthwise_convolution_is_much_slower_channels_first() -> None:
    first, last = (kernels(convolve((32, 144, 56, 56), 144, 3, groups=144, last=each)) for each in (False, True))
    assert first.time_s[0, 0] > 3 * last.time_s[0, 0]
    assert first.kernels[0, 0] == last.kernels[0, 0] == 1


def test_one_pixel_lies_the_same_way_in_both_layouts() -> None:
    # As in squeeze-and-excitation: one kernel, no transposes, whichever layout the strides say.
    first, last = (kernels(convolve((64, 240, 1, 1), 64, 1, last=each)) for each in (False, True))
    assert first.kernels[0, 0] == last.kernels[0, 0] == 1


def test_few_channels_and_taps_are_convolved_without_matrix_units() -> None:
    # 64 × 112² × 9 · 3 taps × 32 results (24 in a tile of 32): 0.69 G multiply-adds at a fifth of 33.5 T/s are
    # 100 µs. Three channels of 7 × 7 taps and 64 results are ten times that, and go to matrix units.
    few = kernels(convolve((64, 3, 112, 112), 24, 3))
    assert few.kernels[0, 0] == 1
    assert few.time_s[0, 0] == pytest.approx(100e-6, rel=0.15)
    assert kernels(convolve((64, 3, 112, 112), 64, 7)).kernels[0, 0] > 1


def test_a_depthwise_result_costs_its_place_beside_its_taps() -> None:
    # Instructions of a result, channels first: 134 + 11.6 for each tap: 238 for 3 × 3, 424 for 5 × 5, not 25 / 9.
    three, five = (kernels(convolve((64, 240, 28, 28), 240, each, groups=240)) for each in (3, 5))
    assert five.time_s[0, 0] / three.time_s[0, 0] == pytest.approx(424 / 238, rel=0.03)


def test_a_bias_is_added_by_a_kernel_that_finds_each_elements_channel() -> None:
    x = torch.empty(32, 64, 56, 56, device="meta", dtype=torch.bfloat16)
    w, b = (torch.empty(size, device="meta", dtype=torch.bfloat16) for size in ((256, 64, 1, 1), (256,)))
    without, added = (kernels(rooflab.analyze(torch.nn.functional.conv2d, x, w, each)) for each in (None, b))
    assert added.kernels[0, 0] == without.kernels[0, 0] + 1
    # 25.7 M results, 46 + 3 · 6 instructions each, 96 of which an SM does in a clock: 132 × 1.98 GHz.
    assert added.time_s[0, 0] - without.time_s[0, 0] == pytest.approx(25.7e6 * 64 / (96 * 132 * 1.98e9), rel=0.2)


def test_backward_is_two_convolutions() -> None:
    report = convolve((64, 64, 56, 56), 64, 3, last=True, backward=True)
    forward, backward = (kernels(report, kind) for kind in ("conv", "conv_backward"))
    assert backward.kernels[0, 0] == 2 * forward.kernels[0, 0]
    assert 1.5 < backward.time_s[0, 0] / forward.time_s[0, 0] < 3


def test_without_multiply_adds_it_is_no_product() -> None:
    spec = TensorSpec(shape=(0, 8, 4, 4), dtype="bf16", nbytes=0.0)
    weight = TensorSpec(shape=(8, 8, 3, 3), dtype="bf16", nbytes=1152.0)
    cost = Cost(compulsory=Traffic(level="memory", read_bytes=0.0, write_bytes=0.0, basis="compulsory"))
    assert conv.features(Op(name="conv", kind="conv"), (spec, weight), (spec,), cost) is None


@pytest.mark.parametrize("case", [case for case in measured("operators") if case["op"] == "conv2d"])
def test_convolutions_take_what_was_measured(case: dict[str, Any]) -> None:
    predicted_s = kernels(operator(case)).time_s[0, 0]
    assert predicted_s == pytest.approx(case["graph_ms"] / 1e3, rel=0.25)
