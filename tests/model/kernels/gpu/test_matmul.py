"""Products of matrices on GPUs: bounds and monotony for any shape; mechanisms one by one; measured times."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rooflab
from rooflab.model.device.constants import APART, family_names, load_family
from rooflab.model.device.device import Device, device_of
from rooflab.model.kernels.gpu import matmul
from rooflab.model.program.op_times import OpTimes
from rooflab.model.serving import kernels, timing
from rooflab.types.work import Op, TensorSpec
from rooflab.work.formulas import cost
from rooflab.work.llm.formats import weight_format
from support.model.measured import measured
from support.model.one_op import COLD, H200, WARM, tensor
from support.model.one_op import timed as timed_op

CARDS = st.sampled_from(["h200", "h100-sxm", "a100-sxm-80gb", "l40s", "b200", "mi300x", "rtx-4090"])
SIZES = st.sampled_from([1, 2, 7, 16, 31, 64, 128, 1000, 1024, 4096, 4097, 8192, 50257])
FORMATS = st.sampled_from(["bf16", "fp16", "fp32", "fp64", "int8"])


def operands(
    m: int, n: int, k: int, batch: int = 1, of: str = "bf16"
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    lead = (batch,) if batch > 1 else ()
    return tensor(*lead, m, k, of=of), tensor(*lead, k, n, of=of), tensor(*lead, m, n, of=of)


def timed(m: int, n: int, k: int, batch: int = 1, *, of: str = "bf16", device: Device = WARM) -> OpTimes:
    a, b, out = operands(m, n, k, batch, of)
    return timed_op("matmul", (a, b), (out,), {"k": k}, device)


def seconds(m: int, n: int, k: int, batch: int = 1, *, of: str = "bf16", device: Device = WARM) -> float:
    return float(timed(m, n, k, batch, of=of, device=device).kernels.time_s[0, 0])


# ── any shape ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@given(m=SIZES, n=SIZES, k=SIZES, batch=st.sampled_from([1, 3, 64]), of=FORMATS, card=CARDS, cold=st.booleans())
def test_never_beats_the_floor(m: int, n: int, k: int, batch: int, of: str, card: str, cold: bool) -> None:
    device = device_of(rooflab.machine(card), cache="cold" if cold else "warm")
    found = timed(m, n, k, batch, of=of, device=device)
    kernels = found.kernels
    assert np.isfinite(np.array(kernels)).all()
    assert (kernels.time_s >= found.floor_s).all()
    assert kernels.time_s[0, 0] > 0
    for term in (kernels.compute_s, kernels.cache_s, kernels.memory_s, kernels.overhead_s, kernels.spread):
        assert term[0, 0] >= 0


# More of anything takes no longer. Where k is split jumps with the rates, and so does the number of waves
# with the units: a few per cent.
SLACK = {
    "bandwidth": 0,
    "cache_bandwidth": 0.03,
    "compute": 0.03,
    "clock": 0.03,
    "cache_capacity": 0,
    "units": 0.15,
}


@pytest.mark.slow
@given(m=SIZES, n=SIZES, k=SIZES, of=FORMATS, card=CARDS, knob=st.sampled_from(sorted(SLACK)))
def test_more_takes_no_longer(m: int, n: int, k: int, of: str, card: str, knob: str) -> None:
    device = device_of(rooflab.machine(card), knobs={knob: np.array([1.0, 1.5, 2.0, 4.0])})
    times = timed(m, n, k, of=of, device=device).kernels.time_s[0] * np.ones(4)
    assert (np.diff(times) <= times[:-1] * SLACK[knob] + 1e-15).all(), times


@pytest.mark.slow
@given(m=SIZES, n=SIZES, k=SIZES, batch=st.integers(2, 40))
def test_a_batch_takes_no_more_waves_than_one_by_one(m: int, n: int, k: int, batch: int) -> None:
    # All cold, so that nothing one leaves in the cache helps the next; power, which grows on a longer kernel,
    # left out. A whole number of blocks for each tile may leave up to half of a wave idle:
    # floor(units / tiles) * tiles > units / 2.
    device = device_of(msgspec.structs.replace(H200, tdp_w=None), cache="cold")
    assert seconds(m, n, k, batch, device=device) <= batch * seconds(m, n, k, device=device) * 2


@pytest.mark.slow
@given(m=SIZES, n=SIZES, k=SIZES, of=FORMATS)
def test_settings_are_one_evaluation(m: int, n: int, k: int, of: str) -> None:
    factors = np.array([0.5, 1.0, 3.0])
    together = timed(m, n, k, of=of, device=device_of(H200, knobs={"clock": factors, "units": factors}))
    for place, factor in enumerate(factors):
        alone = device_of(H200, knobs={"clock": float(factor), "units": float(factor)})
        assert together.kernels.time_s[0, place] == pytest.approx(seconds(m, n, k, of=of, device=alone), rel=1e-12)


# ── one mechanism at a time ─────────────────────────────────────────────────────────────────────────────────


def test_time_rises_in_waves() -> None:
    # 132 SMs: 11 × 12 tiles of 128 × 128 fill one wave. Another row of them (144) starts a second; a further
    # one (156) fits into it: in tiles of 64 × 64, 4 waves of 132, then 4.4 and 4.7, so 5.
    one, two, still_two = (seconds(128 * rows, 128 * 12, 16384) for rows in (11, 12, 13))
    assert two > 1.12 * one > 144 / 132 * one
    assert still_two < 156 / 144 * two


@pytest.mark.parametrize(
    ("of", "sizes", "least", "most"),
    [
        ("bf16", (4097, 4097, 4097), 4.0, 8.0),  # measured on an H200: 5.9 times 4096³
        ("bf16", (4096, 4096, 4097), 4.0, 8.0),  # rows of a
        ("bf16", (4096, 4097, 4096), 4.0, 8.0),  # rows of b and out
        ("bf16", (4097, 4096, 4096), 0.9, 1.2),  # no row is affected
        ("bf16", (4096, 4100, 4096), 1.1, 4.0),  # 8 bytes: four elements a load
        ("fp32", (4097, 4097, 4097), 0.95, 1.2),  # arithmetic is slow enough for single loads
        ("fp64", (4097, 4097, 4097), 0.95, 1.8),
    ],
)
def test_rows_that_are_not_aligned(of: str, sizes: tuple[int, int, int], least: float, most: float) -> None:
    assert least < seconds(*sizes, of=of) / seconds(4096, 4096, 4096, of=of) < most


def test_transposed_operands_are_aligned_by_their_own_rows() -> None:
    # A head over 50,257 words: weights stored (words, k), aligned; only rows of the result are not.
    head = tensor(768, 50257, of="bf16", strides=(1, 768))
    x, out = tensor(1024, 768, of="bf16"), tensor(1024, 50257, of="bf16")
    whole = tensor(1024, 50264, of="bf16")
    slow = timed_op("matmul", (x, head), (out,), {"k": 768}).kernels.time_s[0, 0]
    fast = timed_op("matmul", (x, tensor(768, 50264, of="bf16", strides=(1, 768))), (whole,), {"k": 768})
    # Measured on an H200: 96 against 715 TFLOP/s.
    assert 5 < slow / fast.kernels.time_s[0, 0] < 10


def test_k_is_split_where_units_would_idle() -> None:
    assert timed(64, 64, 8192).kernels.kernels[0, 0] == 2
    assert timed(64, 64, 256).kernels.kernels[0, 0] == 1  # too short to pay for the second kernel
    assert timed(4096, 4096, 4096).kernels.kernels[0, 0] == 1  # no unit idles


@pytest.mark.parametrize("m", [1, 4, 16])
@pytest.mark.parametrize("card", ["h200", "a100-sxm-80gb", "l40s", "b200"])
def test_skinny_products_stream_their_weights(m: int, card: str) -> None:
    # Public tables: between 0.65 and 0.88 of the memory's bandwidth from 128 MB on.
    device = device_of(rooflab.machine(card), cache="cold")
    found = timed(m, 8192, 28672, device=device)
    rate = 8192 * 28672 * 2 / found.kernels.time_s[0, 0]
    assert 0.62 < rate / device.memory_bytes_per_s < 0.9
    assert found.kernels.memory_s[0, 0] > found.kernels.compute_s[0, 0]


def test_a_warm_cache_helps_what_fits_into_it() -> None:
    assert seconds(4, 4096, 4096) < 0.9 * seconds(4, 4096, 4096, device=COLD)  # 34 of 60 MB
    assert seconds(4, 16384, 16384) == pytest.approx(seconds(4, 16384, 16384, device=COLD), rel=0.01)


def test_lasting_work_is_limited_by_power() -> None:
    burst, lasting = (device_of(H200, power=power) for power in ("burst", "sustained"))
    assert seconds(1024, 1024, 1024, device=lasting) > 1.02 * seconds(1024, 1024, 1024, device=burst)
    # A kernel of many milliseconds is no burst any more.
    assert seconds(20000, 20000, 20000, device=lasting) == pytest.approx(
        seconds(20000, 20000, 20000, device=burst), rel=0.05
    )
    # An L4's 72 W pay for about 0.37 of its peak, an RTX 4090's 450 W for all of it.
    for card, least, most in (("l4", 0.3, 0.45), ("rtx-4090", 0.8, 0.95)):
        device = device_of(rooflab.machine(card), power="sustained")
        found = timed(8192, 8192, 8192, device=device)
        assert least < found.floor_s[0, 0] / found.kernels.time_s[0, 0] < most


def test_fp4_takes_half_the_energy_of_fp8() -> None:
    # Lasting products that power alone limits: 20 W for 2 · 8192³ FLOP at 0.5 and 0.25 of 16 bits' energy.
    card = msgspec.structs.replace(rooflab.machine("b200"), tdp_w=20.0)
    device = device_of(card, power="sustained")
    joule = 2.0 * 8192.0**3 * device.constants("matmul.joule_per_flop")
    for of, share in (("fp8", 0.5), ("fp4", 0.25)):
        assert seconds(8192, 8192, 8192, of=of, device=device) == pytest.approx(joule * share / 20.0, rel=0.05)


# ── what is read off an operation ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("a", "b", "out", "attrs", "expected"),
    [
        (((64, 32),), ((32, 128),), (64, 128), {}, {"m": 64, "n": 128, "k": 32, "batch": 1, "aligned_bytes": 16}),
        # Rows of several matrices that meet one b are rows of one product.
        (((8, 64, 32),), ((32, 128),), (8, 64, 128), {}, {"m": 512, "n": 128, "batch": 1}),
        (((8, 64, 32),), ((8, 32, 128),), (8, 64, 128), {}, {"m": 64, "n": 128, "batch": 8}),
        # 33 elements of 2 bytes are 66: a multiple of 2.
        (((64, 33),), ((33, 128),), (64, 128), {"k": 33}, {"aligned_bytes": 2}),
        (((64, 36),), ((36, 128),), (64, 128), {"k": 36}, {"aligned_bytes": 8}),
        # b stored (n, k): along k, and its rows are k long.
        (((64, 32),), ((32, 127), (1, 32)), (64, 127), {}, {"b_along_k": 1, "aligned_bytes": 2}),
        (((64, 32), (1, 64)), ((32, 128),), (64, 128), {}, {"a_along_k": 0, "b_along_k": 0}),
        # A vector has no rows to align.
        (((64, 32),), ((32, 1),), (64, 1), {}, {"m": 64, "n": 1, "aligned_bytes": 16}),
        (((64, 32),), ((32,),), (64,), {}, {"m": 64, "n": 1, "aligned_bytes": 16}),
    ],
)
def test_features_are_the_sizes_and_layouts_of_the_operands(
    a: tuple, b: tuple, out: tuple, attrs: dict[str, int], expected: dict[str, float]
) -> None:
    specs = [tensor(*each[0], of="bf16", strides=each[1] if len(each) > 1 else None) for each in (a, b)]
    made = tensor(*out, of="bf16")
    op = Op(name="mm", kind="matmul", inputs=(0, 1), outputs=(2,), attrs={"k": 32, **attrs})
    found = matmul.features(op, tuple(specs), (made,), cost("matmul", tuple(specs), (made,), op.attrs))
    assert found is not None
    named = dict(zip(matmul.MECHANISM.columns, found, strict=True))
    assert {name: named[name] for name in expected} == expected


def test_experts_meet_the_rows_that_choose_them() -> None:
    # 64 rows, 8 matrices of which 4 are chosen: 16 rows each.
    a, b, out = tensor(64, 32, of="bf16"), tensor(8, 32, 128, of="bf16"), tensor(64, 128, of="bf16")
    op = Op(name="gmm", kind="grouped_matmul", inputs=(0, 1), outputs=(2,), attrs={"active": 4, "k": 32})
    found = matmul.features(op, (a, b), (out,), cost("grouped_matmul", (a, b), (out,), {"active": 4}))
    assert found is not None
    assert found[:4] == (16, 128, 32, 4)


@pytest.mark.parametrize("family", family_names())
def test_families_state_no_constant_that_nobody_reads(family: str) -> None:
    known = {name for name in load_family("any").values if name.startswith("matmul.")}
    assert {name for name in load_family(family).values if name.startswith("matmul.")} == known
    source = Path(matmul.__file__).read_text(encoding="utf-8")
    shares = {f"matmul.share_{pipe}" for pipe in matmul.PIPES}
    assert [name for name in known - shares if f'"{name}"' not in source] == []


# ── measured times ──────────────────────────────────────────────────────────────────────────────────────────


def test_groups_run_in_one_kernel_of_one_tile() -> None:
    a, b, out = tensor(8192, 2048, of="bf16"), tensor(8, 2048, 4096, of="bf16"), tensor(8192, 4096, of="bf16")
    alone = float(timed_op("matmul", *_grouped(a, b, out), {"k": 2048}).kernels.time_s[0, 0])
    attrs = {"active": 8, "k": 2048}
    together = float(timed_op("grouped_matmul", (a, b), (out,), attrs).kernels.time_s[0, 0])
    assert 1.3 * alone < together < 2 * alone


def _grouped(
    a: TensorSpec, b: TensorSpec, out: TensorSpec
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """The same products as a batch of equal ones."""
    batch = tensor(8, a.shape[0] // 8, a.shape[1], of="bf16")
    return (batch, b), (tensor(8, out.shape[0] // 8, out.shape[1], of="bf16"),)


def test_rows_that_are_not_aligned_are_stored_in_pieces_of_their_alignment() -> None:
    # Little arithmetic, much to store: two elements at once where rows start at a multiple of 4 bytes.
    single, pairs = (seconds(4096, n, 32) for n in (16385, 16386))
    assert 1.5 < single / pairs < 2.2


# Single figures of ai-dynamo/aiconfigurator's tables (Apache-2.0); `benchmarks/accuracy.py` judges by whole ones.
# m, n and k of bf16 products, ms: torch's linear on an H200 and on an A100.
PUBLISHED = [
    ("h200", 49, 7168, 5120, 0.02114),
    ("h200", 1025, 4096, 256, 0.006915),
    ("h200", 4353, 10240, 6144, 0.7938),
    ("a100-sxm-80gb", 256, 3584, 8192, 0.08755),
    ("a100-sxm-80gb", 96, 2560, 2560, 0.01659),
    ("a100-sxm-80gb", 2048, 1536, 4096, 0.1035),
]


@pytest.mark.parametrize(("card", "m", "n", "k", "measured_ms"), PUBLISHED)
def test_published_products_take_what_was_measured(card: str, m: int, n: int, k: int, measured_ms: float) -> None:
    # Timed in long loops over operands in turn.
    device = device_of(rooflab.machine(card), power="sustained", cache="cold")
    assert seconds(m, n, k, device=device) == pytest.approx(measured_ms / 1e3, rel=0.25)


PRODUCTS = [case for case in measured("operators") if case["op"] in ("matmul", "bmm")]


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: "x".join(map(str, case["tensors"][0]["shape"])))
def test_products_take_what_was_measured(case: dict[str, Any]) -> None:
    a, b = case["tensors"]
    *batch, m, k = a["shape"]
    predicted_s = seconds(m, b["shape"][-1], k, *batch, of=a["dtype"])
    assert predicted_s == pytest.approx(case["graph_ms"] / 1e3, rel=0.15)


def test_fp4_is_multiplied_by_the_newest_kernels_at_its_own_peak() -> None:
    device = device_of(rooflab.machine("b200"), cache="cold")
    times = {
        name: rooflab.op("matmul", (8192, 8192), (8192, 8192), dtype=name, machine="b200", mode="graph").time_s
        for name in ("bf16", "fp8", "fp4")
    }
    assert device.constants("matmul.spread_fp8") > device.constants("matmul.spread")
    # 2250, 4500 and 9000 TFLOP/s: each format is faster than the one before, by no more than its peak
    assert 1 < times["bf16"] / times["fp8"] < 2.2
    assert 1 < times["fp8"] / times["fp4"] < 2.2


def _products(rows: list[float], kernel: str, machine: str = "h100-sxm", *, groups: float = 1.0) -> np.ndarray:
    """Seconds of fp8 products of so many rows with 4096 x 1024 weights, by that library's kernels."""
    stored = weight_format("fp8")
    m = np.array(rows)
    if groups > 1.0:
        made = kernels.grouped("l", "p", 1.0, m, 1024.0, 4096.0, groups, stored, library=kernel)
    else:
        made = kernels.product("l", "p", 1.0, m, 1024.0, 4096.0, stored, library=kernel)
    return timing.timed([made], device_of(rooflab.machine(machine)), None, len(rows))[0].seconds


def test_a_library_that_goes_by_rows_alone_takes_as_long_for_all_rows_of_a_tile() -> None:
    # vLLM's CUTLASS on Hopper: tiles of 64 rows up to 128, of 128 beyond; 1024 columns never fill 132 units.
    seconds = _products([65.0, 128.0, 129.0, 256.0], "cutlass")
    assert seconds[1] == pytest.approx(seconds[0], rel=0.1)
    assert seconds[3] == pytest.approx(seconds[2], rel=0.1)
    assert seconds[2] > 1.15 * seconds[1]


def test_groups_of_any_size_fill_half_a_tile_more_than_their_rows() -> None:
    def tiles(m: float, tm: float, *, uneven: float) -> float:
        columns = {"m": np.array([[m]]), "uneven": np.array([[uneven]])}
        return float(matmul._tiles_down(columns, tm)[0, 0])  # type: ignore[arg-type]

    # Sizes that fall off exponentially: their ⌈rows / 128⌉ in the mean, drawn.
    drawn = np.random.default_rng(0).exponential(300.0, 200_000)
    assert tiles(300.0, 128.0, uneven=1.0) == pytest.approx(np.ceil(drawn / 128.0).mean(), rel=0.01)
    assert tiles(1280.0, 128.0, uneven=1.0) == pytest.approx(10.5, rel=0.01)
    assert tiles(1.0, 128.0, uneven=1.0) == 1.0
    assert tiles(129.0, 128.0, uneven=0.0) == 2.0
    # Half as uneven as those: halfway from one size to them
    whole = tiles(300.0, 128.0, uneven=1.0)
    assert tiles(300.0, 128.0, uneven=0.5) == pytest.approx((3.0 + whole) / 2)


def test_a_block_alone_on_a_unit_takes_as_long_as_two_that_share_it() -> None:
    def compute_s(alone: float, rows: float) -> float:
        device = device_of(rooflab.machine("h100-sxm"))
        known = dict(device.constants.values)
        given = {"alone_share": alone, "unit_elements": 2.0 * 128 * 128, "split_most": 1.0, "tiles": [128, 128]}
        known |= {f"matmul.{n}": msgspec.structs.replace(known[f"matmul.{n}"], value=v) for n, v in given.items()}
        device = dataclasses.replace(device, constants=msgspec.structs.replace(device.constants, values=known))
        made = kernels.product("l", "p", 1.0, rows, 128.0 * 132, 4096.0, weight_format("bf16"))
        return float(timing.timed([made], device, None, 1)[0].compute_s[0])

    # 132 tiles are one a unit, 264 two, 396 three.
    one, two, three = (compute_s(0.5, rows) for rows in (128.0, 256.0, 384.0))
    assert two == pytest.approx(one)
    assert three == pytest.approx(1.5 * two)
    assert compute_s(1.0, 128.0) == pytest.approx(one / 2)


def _with(given: dict[str, Any], machine: str = "h100-sxm") -> Device:
    """A machine with other numbers of the topic `matmul_flashinfer_fp8_groups`."""
    device = device_of(rooflab.machine(machine))
    known = dict(device.constants.values)
    head = "matmul_flashinfer_fp8_groups."
    known |= {head + n: msgspec.structs.replace(known["matmul.launch_s"], value=v) for n, v in given.items()}
    return dataclasses.replace(device, constants=msgspec.structs.replace(device.constants, values=known))


def test_rows_of_a_tile_beyond_its_group_are_fetched_where_tiles_are_whole() -> None:
    # 100 groups of one row, k of 4096 and 1600 columns in 100 tiles of 128 x 16: weights once, and each tile's
    # rows, one of them or all 128.
    made = kernels.grouped(
        "l", "p", 1.0, 100.0, 1600.0, 4096.0, 100.0, weight_format("fp8"), library="flashinfer_fp8_groups",
        uneven=0.0,
    )  # fmt: skip
    times, rate = [], 0.0
    for whole in (0.0, 1.0):
        device = _with({"whole_tiles": whole, "cache_share": 0.5, "cluster": 1.0})
        rate = 0.5 * float(device.cache_bytes_per_s)
        times.append(float(timing.timed([made], device, None, 1)[0].cache_s[0]))
    assert times[1] - times[0] == pytest.approx(100 * 100 * 127 * 4096 / rate, rel=1e-6)


def test_scales_of_blocks_are_multiplied_in_by_the_ordinary_cores_where_the_matrix_engine_takes_none() -> None:
    # Hopper: each result is scaled and added once for 128 of k, 0.0156 clocks of a unit; Blackwell: for nothing.
    def compute_s(stored: str, machine: str) -> float:
        made = kernels.product("l", "p", 1.0, 8192.0, 128.0 * 132, 4096.0, weight_format(stored))
        return float(timing.timed([made], device_of(rooflab.machine(machine)), None, 1)[0].compute_s[0])

    device = device_of(rooflab.machine("h100-sxm"))
    results = 8192 * 128 * 132 * 4096 / 128 / float(device.units)
    more = compute_s("fp8_block", "h100-sxm") - compute_s("fp8", "h100-sxm")
    assert more == pytest.approx(results * 0.0156 / float(device.clock_hz), rel=0.02)
    assert compute_s("fp8_block", "b200") == pytest.approx(compute_s("fp8", "b200"))


def test_a_tile_that_the_engine_chose_is_padded() -> None:
    # 64 groups of 8 rows on a B200: in tiles of 8 rows the weights bind, in tiles of 256 the matrix engine, which
    # multiplies 64 · 256 · 4096 · 4096 · 2 FLOP at less than 4.5e15 a second: 122 us at least.
    stored = weight_format("mxfp4_mxfp8")
    device = device_of(rooflab.machine("b200"))

    def seconds(rows: float) -> float:
        made = kernels.grouped(
            "l", "p", 1.0, 512.0, 4096.0, 4096.0, 64.0, stored, library="trtllm_gen_groups", tile_rows=rows
        )
        return float(timing.timed([made], device, None, 1)[0].seconds[0])

    assert seconds(256.0) > 122e-6
    assert seconds(256.0) > 1.5 * seconds(8.0)
    assert seconds(0.0) <= seconds(8.0)


def test_a_tile_of_shorter_steps_takes_more_of_them() -> None:
    # One tile of 64 x 64 alone waits for its loads step by step: 8192 numbers of 16 bits, 128 or 64 bytes in each.
    def seconds(step_bytes: float) -> float:
        given = {"tiles": [64.0, 64.0], "unit_elements": 4096.0, "tile_step_bytes": [step_bytes]}
        device = _with(given | {"step_clocks": 1000.0})
        made = kernels.grouped(
            "l", "p", 1.0, 64.0, 64.0, 8192.0, 1.0, weight_format("bf16"), library="flashinfer_fp8_groups"
        )
        return float(timing.timed([made], device, None, 1)[0].seconds[0])

    step_s = 1000.0 / 1.98e9
    assert seconds(64.0) - seconds(128.0) == pytest.approx(128 * step_s, rel=0.1)


def test_products_of_which_nothing_was_measured_are_less_sure() -> None:
    device, bf16 = device_of(rooflab.machine("l40s")), weight_format("bf16")
    c = device.constants

    def spread(library: str, share: float = 1.0) -> float:
        made = kernels.grouped("l", "p", 1.0, 64.0, 512.0, 512.0, 4.0, bf16, library=library, share=share)
        return float(timing.timed([made], device, None, 1)[0].spread[0])

    # PyTorch's own product for groups; an engine's of which only a share of that is known; a library's that no
    # family of the card's knows
    assert spread("") == c("matmul.spread")
    assert spread("", 0.5) == c("matmul.group_spread")
    assert "matmul_triton_block.spread" not in c.values
    assert spread("triton_block") == pytest.approx(np.hypot(c("matmul.spread"), APART["matmul"]))


def test_tiles_of_groups_cost_beside_what_they_multiply() -> None:
    device = device_of(rooflab.machine("h100-sxm"))
    known = device.constants.values
    free = {
        **known,
        "matmul_cutlass_groups.tile_clocks": msgspec.structs.replace(known["matmul.launch_s"], value=0.0),
    }
    without = dataclasses.replace(device, constants=msgspec.structs.replace(device.constants, values=free))
    made = kernels.grouped(
        "l", "p", 1.0, np.array([512.0]), 8192.0, 64.0, 256.0, weight_format("bf16"), library="cutlass_groups"
    )
    ours, cheaper = (timing.timed([made], each, None, 1)[0].seconds[0] for each in (device, without))
    # 256 groups of 8192 columns, at most 256 in a tile: 256 · 32 / 132 tiles a unit, of `tile_clocks` each.
    clocks = known["matmul_cutlass_groups.tile_clocks"].value
    assert ours - cheaper > 0.7 * 256 * 32 / 132 * clocks / float(device.clock_hz)


def test_one_row_in_fp32_is_a_pass_over_the_matrix() -> None:
    device = device_of(rooflab.machine("a100-sxm-80gb"), cache="cold")
    share = device.constants("matmul.memory_share")
    for m, n in ((1, 11008), (4096, 1)):
        passes = 4 * (m * 4096 + n * 4096 + m * n) / (device.memory_bytes_per_s * share)
        assert seconds(m, n, 4096, of="fp32", device=device) == pytest.approx(passes, rel=0.12)
    # Of two rows cuBLAS runs a product with tiles, whose blocks wait for their steps over k.
    assert seconds(2, 11008, 4096, of="fp32", device=device) > 1.1 * seconds(
        1, 11008, 4096, of="fp32", device=device
    )
