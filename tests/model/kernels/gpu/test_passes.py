"""Memory-bound kernels: bounds, monotony and knobs for any of them; measured times where they are at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rooflab
from rooflab.model.device.device import device_of
from rooflab.model.kernels import MECHANISMS
from rooflab.model.kernels.gpu import passes
from rooflab.model.program import op_times
from rooflab.types.work import TensorSpec
from support.model.measured import measured, operator
from support.model.one_op import COLD, H200, WARM, seconds, tensor, timed

# By (kind, function), operands of about so many elements: rows × columns.
Case = tuple[str, tuple[TensorSpec, ...], tuple[TensorSpec, ...], dict[str, Any]]


def cases(rows: int, columns: int, of: str) -> list[Case]:
    """One operation of every memory-bound kind."""
    x, y = tensor(rows, columns, of=of), tensor(rows, columns, of=of)
    w, column, index = tensor(columns, of=of), tensor(rows, of=of), tensor(rows, of="int64")
    image, small = tensor(rows, 8, 16, columns, of=of), tensor(rows, 8, 8, max(columns // 2, 1), of=of)
    return [
        ("pointwise", (x, y), (x,), {"function": "add"}),
        ("pointwise", (x,), (y,), {"function": "gelu"}),
        ("cast", (x,), (tensor(rows, columns, of="fp64"),), {}),
        ("copy", (x, y), (tensor(2 * rows, columns, of=of),), {}),
        ("layout", (tensor(columns, rows, of=of, strides=(1, columns)),), (tensor(columns, rows, of=of),), {}),
        ("create", (), (x,), {"function": "zeros"}),
        ("random", (), (x,), {}),
        ("dropout", (x,), (y, tensor(rows, columns, of="bool")), {"p": 0.1}),
        ("reduction", (x,), (column,), {"function": "sum"}),
        ("reduction", (x,), (w,), {"function": "sum"}),
        ("reduction", (x,), (tensor(of=of),), {"function": "sum"}),
        ("reduction", (x,), (index,), {"function": "argmax"}),
        ("reduction", (x,), (column,), {"function": "logsumexp"}),
        ("scan", (x,), (y,), {"function": "cumsum"}),
        ("softmax", (x,), (y,), {}),
        ("softmax_backward", (x, y), (x,), {}),
        ("norm", (x, w, w), (y, column, column), {"function": "layer"}),
        ("norm", (x, w), (y, column), {"function": "rms", "bias": False}),
        ("norm", (image, w), (image,), {"function": "group", "groups": 4}),
        ("norm", (image,), (image,), {"function": "batch", "training": False}),
        ("norm", (image,), (image,), {"function": "batch"}),
        ("norm_backward", (x, x, column, column, w), (y, w, w), {"function": "layer"}),
        ("norm_backward", (image, image), (image,), {"function": "batch"}),
        ("gather", (x, index), (y,), {}),
        ("gather", (tensor(rows * columns, of=of), index), (column,), {}),
        ("scatter", (x, index, x), (y,), {"accumulate": True}),
        ("pool", (image,), (small,), {"function": "max", "window": 4}),
        ("pool_backward", (small, image), (image,), {"function": "avg", "window": 4}),
        ("interpolate", (small,), (image,), {"mode": "bilinear"}),
        ("sort", (x,), (x, tensor(rows, columns, of="int64")), {"function": "sort", "n": columns}),
        ("sort", (x,), (column, index), {"function": "topk", "n": columns, "k": 1}),
        ("optimizer", (x, y, x, x), (x, y, x), {"function": "adam"}),
        ("loss", (x, index), (tensor(of=of), tensor(of=of)), {"function": "nll"}),
        ("loss", (x, x), (tensor(of=of),), {"function": "mse"}),
        (
            "fft",
            (tensor(rows, columns, of="complex64"),),
            (tensor(rows, columns, of="complex64"),),
            {"n": columns},
        ),
    ]


KINDS = len(cases(1, 1, "fp32"))
sizes = st.sampled_from([1, 7, 64, 768, 1000, 2049, 9217, 50257])
one_of = st.integers(0, KINDS - 1)
dtypes = st.sampled_from(["fp32", "bf16", "fp64"])


@given(number=one_of, rows=sizes, columns=sizes, of=dtypes)
def test_time_is_finite_and_never_below_the_floor(number: int, rows: int, columns: int, of: str) -> None:
    for device in (WARM, COLD):
        found = timed(*cases(rows, columns, of)[number], device=device)
        assert np.isfinite(found.kernels.time_s).all()
        assert (found.kernels.time_s >= found.floor_s).all()
        assert (found.kernels.time_s > 0).all()
        assert (found.kernels.overhead_s <= found.kernels.time_s * (1 + 1e-9)).all()


@pytest.mark.slow
@given(number=one_of, rows=sizes, columns=sizes, of=dtypes)
def test_a_warm_cache_is_never_slower(number: int, rows: int, columns: int, of: str) -> None:
    case = cases(rows, columns, of)[number]
    assert seconds(*case) <= seconds(*case, device=COLD) * (1 + 1e-9)


# From 64 rows on: of a few rows PyTorch shares each between blocks, by other kernels.
@pytest.mark.slow
@given(number=one_of, rows=st.sampled_from([64, 768, 1000, 2049, 9217]), columns=sizes, of=dtypes)
def test_more_rows_take_no_less(number: int, rows: int, columns: int, of: str) -> None:
    for device in (WARM, COLD):
        few, many = cases(rows, columns, of)[number], cases(4 * rows, columns, of)[number]
        assert seconds(*few, device=device) <= seconds(*many, device=device) * (1 + 1e-9)


@pytest.mark.slow
@given(
    number=one_of,
    rows=sizes,
    columns=sizes,
    knob=st.sampled_from(["bandwidth", "clock", "units", "cache_capacity", "cache_bandwidth"]),
)
def test_a_better_machine_is_never_slower(number: int, rows: int, columns: int, knob: str) -> None:
    better = device_of(H200, knobs={knob: np.array([1.0, 1.5, 3.0])})
    time = timed(*cases(rows, columns, "fp32")[number], device=better).kernels.time_s[0]
    assert (np.diff(time) <= time[:-1] * 1e-9).all()


@pytest.mark.parametrize("number", range(KINDS))
def test_every_memory_bound_kind_has_a_model(number: int) -> None:
    case = cases(64, 768, "fp32")[number]
    names = [each.name for each in MECHANISMS if case[0] in each.kinds and "gpu" in each.machines]
    assert names, f"only the generic model takes {case[0]}"


def test_bandwidth_scales_what_memory_binds_and_nothing_else() -> None:
    device = device_of(H200, knobs={"bandwidth": np.array([0.5, 1.0])})
    big, tiny = (tensor(1 << 28), tensor(64))
    once, twice = timed("pointwise", (big,), (big,), {"function": "relu"}, device).kernels.time_s[0]
    assert once / twice == pytest.approx(2.0, rel=0.01)
    once, twice = timed("pointwise", (tiny,), (tiny,), {"function": "relu"}, device).kernels.time_s[0]
    assert once == pytest.approx(twice)


def test_settings_and_single_evaluations_agree() -> None:
    x = tensor(4096, 4096)
    bandwidths = np.array([0.5, 1.0, 2.0])
    swept = timed("softmax", (x,), (x,), {}, device_of(H200, knobs={"bandwidth": bandwidths})).kernels.time_s[0]
    each = [
        seconds("softmax", (x,), (x,), {}, device_of(H200, knobs={"bandwidth": float(factor)}))
        for factor in bandwidths
    ]
    assert swept == pytest.approx(each)


def test_every_code_has_constants_in_hopper() -> None:
    constants = WARM.constants
    for name in passes.CODES:
        assert len(constants.many(f"kernel.{name}")) == 5, name


OTHERS = ("matmul", "conv2d", "sdpa", "bmm", "linear_bias", "attention_naive")


def test_memory_bound_operators_take_what_was_measured() -> None:
    """Median error within 3 %, each within 10 % warm; cold, where the events' own 2 µs are no matter, 15 %."""
    pytest.importorskip("torch")
    warm, cold = [], []
    for case in measured("operators"):
        if case["op"] not in OTHERS:
            report = operator(case)
            work = op_times.prepare(report.graph, report.rows)
            warm.append(op_times.predict_times(work, WARM).kernels.time_s.sum() / (case["graph_ms"] / 1e3))
            if case["cold_ms"] > 50e-3:
                cold.append(op_times.predict_times(work, COLD).kernels.time_s.sum() / (case["cold_ms"] / 1e3))
    assert len(warm) > 20
    assert np.median(np.abs(np.array(warm) - 1)) <= 0.03
    assert warm == pytest.approx([1.0] * len(warm), rel=0.1)
    assert cold == pytest.approx([1.0] * len(cold), rel=0.15)


def _layer_norm_s(rows: int, width: int) -> float:
    w, x = tensor(width, of="bf16"), tensor(rows, width, of="bf16")
    moments = tensor(rows, of="fp32")
    return seconds("norm", (x, w, w), (x, moments, moments), {"function": "layer"}, WARM)


def test_warps_that_have_nothing_of_a_short_row_do_not_work_for_it():
    # A block of 4 warps takes a row, 128 elements a warp: what all four do for it (the tree of their moments) is
    # most of a row of 32 to 128, and another warp adds its loop.
    many = 1 << 18
    one, two, four = (_layer_norm_s(many, width) for width in (96, 192, 384))
    assert _layer_norm_s(many, 32) == pytest.approx(one, rel=0.05)
    assert 1.05 * one < two < 1.3 * one
    assert two < four < 1.8 * one
    # One H100, PyTorch 2.11: 30 norms of SegFormer, most of 32 and 64, took 1212 µs, where bytes alone take 215.
    # An H200 has the same units and clock.
    assert 131072 * 0.9e-9 < _layer_norm_s(131072, 32) < 131072 * 1.7e-9


def _batch_norm_s(planes: int, size: int) -> float:
    image = tensor(planes, 1, size, size, of="bf16")
    channel = tensor(1, of="bf16")
    attrs = {"function": "batch", "training": False}
    return seconds("norm", (image, *[channel] * 4), (image,), attrs, WARM)


def test_small_planes_leave_threads_of_a_batch_norm_idle() -> None:
    # 25.7 M elements both: in planes of 112 × 112 each of 512 threads takes 24.5, in planes of 7 × 7 49 of 64
    # threads take one, and each finds its channel's numbers first.
    large, small = _batch_norm_s(2048, 112), _batch_norm_s(2048 * 256, 7)
    assert small > 3 * large


def test_an_image_resampled_to_its_own_size_is_copied() -> None:
    image, half = (tensor(8, 64, size, size, of="bf16", strides=None) for size in (128, 64))
    kept = seconds("interpolate", (image,), (image,), {"mode": "bilinear"}, COLD)
    assert kept == pytest.approx(seconds("layout", (image,), (image,), {}, COLD), rel=0.05)
    assert seconds("interpolate", (half,), (image,), {"mode": "bilinear"}, COLD) > 2 * kept


def test_concatenating_channels_last_divides_each_elements_place() -> None:
    # Both move the same bytes; alike laid operands are no strided ones, and 3 divisions an element bind.
    def cat(strides: bool) -> float:
        shape, whole = (16, 96, 64, 64), (16, 192, 64, 64)
        last = [(size[1] * 4096, 1, size[1] * 64, size[1]) if strides else None for size in (shape, whole)]
        one = tensor(*shape, of="bf16", strides=last[0])
        return seconds("copy", (one, one), (tensor(*whole, of="bf16", strides=last[1]),), {}, COLD)

    assert 1.2 * cat(False) < cat(True) < 4 * cat(False)


def _predicted_s(program: Any, *inputs: Any) -> float:
    """Seconds of a PyTorch program on an H200, warm, without a host."""
    report = rooflab.analyze(program, *inputs)
    work = op_times.prepare(report.graph, report.rows)
    return float(op_times.predict_times(work, WARM).kernels.time_s.sum())


def test_masked_fill_copies_its_operand_first_where_it_is_not_in_place() -> None:
    torch = pytest.importorskip("torch")
    x = torch.empty(8192, 8192, dtype=torch.bfloat16, device="meta")
    mask = torch.empty(8192, 1, dtype=torch.bool, device="meta")
    apart = _predicted_s(lambda x: x.masked_fill(mask, 0), x)
    in_place = _predicted_s(lambda x: x.masked_fill_(mask, 0), x)
    assert apart - in_place == pytest.approx(_predicted_s(lambda x: x.clone(), x), rel=0.1)


def test_a_roll_goes_through_its_dimensions_one_by_one_and_divides_64_bit_numbers() -> None:
    torch = pytest.importorskip("torch")
    x = torch.empty(32, 40, 40, 256, dtype=torch.bfloat16, device="meta")
    one, two = (_predicted_s(lambda x, d=d: x.roll((3,) * len(d), d), x) for d in ((1,), (1, 2)))
    assert two == pytest.approx(2 * one, rel=0.1)
    # 13.1 M elements, 95 instructions, 96 of which 132 SMs each do in a clock of 1.98 GHz: 50 µs; bytes 12.
    assert one == pytest.approx(13.1e6 * 95 / (96 * 132 * 1.98e9), rel=0.15)


def test_short_rows_are_sorted_and_selected_from_by_small_blocks() -> None:
    keys = tensor(3000, of="int64")
    places = (tensor(3000, of="int64"),)
    one = seconds("sort", (keys,), (keys, *places), {"function": "sort", "n": 3000}, WARM)
    # 16 steps of 4 bits of 3000 of 4096 keys, 1.7 µs each: 20 µs, and what starts them; not 8 passes of 9 kernels.
    assert 20e-6 < one < 40e-6
    gate, best = tensor(4096, 64, of="fp32"), tensor(4096, 2, of="fp32")
    index = tensor(4096, 2, of="int64")
    routed = seconds("sort", (gate,), (best, index), {"function": "topk", "n": 64, "k": 2}, WARM)
    assert routed < 25e-6  # all rows at once, a warp or two each
