"""Attention on GPUs: bounds and monotony for any shape; counts by hand; measured times where they are at hand."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rooflab
from rooflab.model.device.device import Device, device_of
from rooflab.model.kernels.common import Columns
from rooflab.model.kernels.gpu import attention, attention_libraries
from rooflab.model.program import op_times
from rooflab.model.program.op_times import OpTimes
from rooflab.model.serving import kernels, row_kernels, timing
from rooflab.types.report import Report
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import counting
from support.model.measured import measured, operator

DEVICE = device_of(rooflab.machine("h200-sxm"))

SHAPES = {
    "sequences": st.sampled_from([1, 3, 16, 200]),
    "heads": st.sampled_from([(1, 1), (8, 1), (12, 12), (32, 8)]),
    "queries": st.sampled_from([1, 2, 17, 128, 1000, 4096]),
    "size": st.sampled_from([64, 80, 128, 256, 512]),
}


def attend(
    sequences: int,
    heads: tuple[int, int],
    queries: int,
    keys: int,
    size: int,
    *,
    dtype: str = "bf16",
    **attrs: Any,
) -> Report:
    of_keys = (sequences, heads[1], keys, size)
    return rooflab.op("attention", (sequences, heads[0], queries, size), of_keys, of_keys, dtype=dtype, **attrs)


def timed(report: Report, device: Device = DEVICE) -> OpTimes:
    return op_times.predict_times(op_times.prepare(report.graph, report.rows), device)


def seconds(report: Report, device: Device = DEVICE) -> float:
    return float(timed(report, device).kernels.time_s[0, 0])


@given(**SHAPES, causal=st.booleans(), card=st.sampled_from(["h200-sxm", "a100-sxm-80gb", "l40s"]))
def test_never_beats_the_floor(
    sequences: int, heads: tuple[int, int], queries: int, size: int, causal: bool, card: str
) -> None:
    device = device_of(rooflab.machine(card))
    found = timed(attend(sequences, heads, queries, queries, size, causal=causal), device)
    assert np.all(found.kernels.time_s >= found.floor_s * (1 - 1e-9))
    parts = (found.kernels.compute_s, found.kernels.cache_s, found.kernels.memory_s, found.kernels.overhead_s)
    assert all(np.all(np.isfinite(each)) and np.all(each >= 0) for each in parts)


@pytest.mark.slow
@given(**SHAPES)
def test_a_mask_never_costs_much_more_than_it_saves(
    sequences: int, heads: tuple[int, int], queries: int, size: int
) -> None:
    full = seconds(attend(sequences, heads, queries, queries, size))
    causal = seconds(attend(sequences, heads, queries, queries, size, causal=True))
    window = seconds(attend(sequences, heads, queries, queries, size, causal=True, window=128))
    assert causal <= full * (1 + 1e-9)
    # A window's edge is masked element by element: that can cost time where it saves none.
    edges = DEVICE.constants("attention.edge_clocks") / DEVICE.clock_hz
    tiles = np.ceil(sequences * heads[0] * np.ceil(queries / 128) / DEVICE.units)
    assert window <= causal * (1 + 1e-9) + tiles * edges


@pytest.mark.slow
@given(
    heads=SHAPES["heads"],
    size=SHAPES["size"],
    sequences=SHAPES["sequences"],
    keys=st.lists(st.integers(1, 200_000), min_size=2, max_size=2, unique=True).map(sorted),
)
def test_a_longer_cache_is_never_decoded_faster(
    heads: tuple[int, int], size: int, sequences: int, keys: list[int]
) -> None:
    short, long = (seconds(attend(sequences, heads, 1, each, size, causal=True)) for each in keys)
    assert long >= short * (1 - 1e-9)


def _columns_of(report: Report) -> Columns:
    row = report.rows[0]
    assert row.cost is not None
    tensors = report.graph.tensors
    inputs = tuple(tensors[index] for index in row.op.inputs)
    outputs = tuple(tensors[index] for index in row.op.outputs)
    features = attention.features(row.op, inputs, outputs, row.cost)
    assert features is not None
    matrix = sum(one.count for one in row.cost.flop if one.engine == "matrix")
    one = np.ones((1, 1))
    extra = dict(zip(attention.COLUMNS, [one * each for each in features], strict=True))
    made = Columns(**{each.name: one for each in fields(Columns) if each.name != "extra"}, extra=extra)
    made.matrix_flop, made.flop_floor_s = one * matrix, one * matrix / 989.4e12
    return made


@pytest.mark.parametrize(
    ("attrs", "queries", "keys", "expected"),
    [
        ({}, 1024, 1024, (8, 8)),  # 1024 / 128 keys
        ({"causal": True}, 1024, 1024, (4.5, 8)),  # tile i of 8 sees i + 1 blocks: (1 + … + 8) / 8
        ({"causal": True}, 128, 128, (1, 1)),  # one tile, one block
        ({"causal": True}, 1, 1024, (8, 8)),  # a decoded token sees all
        ({}, 1, 1025, (9, 9)),  # a block begun is a block
    ],
)
def test_blocks_that_a_tile_walks_over(
    attrs: dict[str, Any], queries: int, keys: int, expected: tuple[float, float]
) -> None:
    x = _columns_of(attend(1, (8, 8), queries, keys, 64, **attrs))
    _, rows = attention._tiles(x, 128, 1)
    mean, most, least = attention._blocks(x, rows, 128)
    assert (float(mean[0, 0]), float(most[0, 0])) == pytest.approx(expected)
    assert least[0, 0] <= mean[0, 0]


def test_query_heads_of_a_group_share_a_tile_in_a_serving_engine() -> None:
    # 16 queries × 8 heads to one of k: 128 rows, a tile; 4 sequences × 2 heads of k
    x = _columns_of(attend(4, (16, 2), 16, 16, 128, causal=True))
    tiles, positions = attention._tiles(x, 128, 1)
    assert (float(tiles[0, 0]), float(positions[0, 0])) == (8, 16)


def test_backward_takes_several_times_as_long_and_three_kernels() -> None:
    torch = pytest.importorskip("torch")
    q, k, v = (
        torch.empty(8, 12, 1024, 64, dtype=torch.bfloat16, device="meta", requires_grad=True) for _ in "qkv"
    )
    report = rooflab.analyze(
        lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), backward=True
    )
    work = op_times.prepare(report.graph, report.rows)
    found = op_times.predict_times(work, DEVICE).kernels
    kinds = [row.op.kind for row in work.rows]
    forward, backward = kinds.index("attention"), kinds.index("attention_backward")
    assert found.kernels[backward, 0] == 3  # Σ dO·O, the products, dq to bf16
    assert 2 < found.time_s[backward, 0] / found.time_s[forward, 0] < 4


def test_unfused_attention_is_not_this_kernel() -> None:
    row = attend(1, (8, 8), 128, 128, 64, fused=False).rows[0]
    assert row.cost is not None
    assert attention.features(row.op, (), (), row.cost) is None


# Single figures of ai-dynamo/aiconfigurator's tables (Apache-2.0); `benchmarks/accuracy.py` judges by whole ones.
# Sequences, heads of q and k, new tokens, tokens before, size of a head, window, ms: TensorRT-LLM on an H200.
SERVED = [
    (1, (24, 4), 512, 0, 64, 128, 0.01157),
    (32, (64, 8), 512, 0, 64, None, 0.3282),
    (16, (48, 1), 1, 32767, 64, None, 0.04264),
    (16, (4, 2), 1, 2047, 128, None, 0.01538),
]


@pytest.mark.parametrize(("sequences", "heads", "new", "before", "size", "window", "measured_ms"), SERVED)
def test_attention_of_a_serving_engine_takes_what_was_measured(
    sequences: int,
    heads: tuple[int, int],
    new: int,
    before: int,
    size: int,
    window: int | None,
    measured_ms: float,
) -> None:
    report = attend(sequences, heads, new, before + new, size, causal=True, window=window)
    assert seconds(report) == pytest.approx(measured_ms / 1e3, rel=0.3)


ATTENTION = [case for case in measured("operators") if case["op"] in ("sdpa", "attention_naive")]


@pytest.mark.parametrize("case", ATTENTION, ids=lambda case: case["op"])
def test_pytorchs_attention_takes_what_was_measured(case: dict[str, Any]) -> None:
    pytest.importorskip("torch")
    report = operator(case)
    predicted_s = timed(report).kernels.time_s.sum()
    assert predicted_s == pytest.approx(case["graph_ms"] / 1e3, rel=0.1)


def test_kernels_that_do_not_pack_heads_run_a_tile_for_each() -> None:
    # 16 query heads to each of 2 of k: packed, one tile holds the 16 rows of a group; alone, each its own
    report = attend(64, (32, 2), 1, 64, 128, causal=True)
    op = report.rows[0].op
    alone = msgspec.structs.replace(op, attrs={**op.attrs, "packs": 0})
    graph = msgspec.structs.replace(report.graph, ops=(alone,))
    assert seconds(counting.report(graph, "alone")) > 3 * seconds(report)


def test_blocks_that_share_a_unit_hide_each_others_start() -> None:
    report = attend(128, (16, 16), 1, 64, 128, causal=True)
    op = report.rows[0].op
    shared = msgspec.structs.replace(op, attrs={**op.attrs, "resident": 8})
    graph = msgspec.structs.replace(report.graph, ops=(shared,))
    assert seconds(counting.report(graph, "shared")) < seconds(report) / 1.5


def masked(row_elements: int) -> float:
    """Seconds of 64 heads of 128 × 128 under a mask whose rows are `row_elements` apart."""
    rows = TensorSpec((4, 16, 128, 64), "bf16", 4 * 16 * 128 * 64 * 2)
    mask = TensorSpec((4, 16, 128, 128), "bf16", 128 * 128 * 2, strides=(0, 0, row_elements, 1))
    op = Op(
        name="aten._scaled_dot_product_efficient_attention",
        kind="attention",
        inputs=(0, 0, 0, 1),
        outputs=(0,),
        attrs={"mask": True},
    )
    return seconds(counting.report(Graph(framework="torch", tensors=(rows, mask), ops=(op,)), "masked"))


def test_a_mask_is_loaded_pair_by_pair_where_its_rows_are_not_aligned() -> None:
    # a tile a head, one block of 128 × 128 pairs: 8 loads of 2 bytes in place of one of 16
    pairs_s = 128 * 128 / (DEVICE.constants("attention.mask_pairs_per_clock") * DEVICE.clock_hz)
    assert masked(130) - masked(128) == pytest.approx(7 * pairs_s, rel=0.05)


@pytest.mark.parametrize(("size", "computed"), [(72, 96), (40, 64), (96, 96), (257, 257)])
def test_head_sizes_between_those_of_the_kernels_are_padded(size: int, computed: int) -> None:
    columns = _columns_of(attend(2, (4, 4), 128, 128, size))
    assert columns["size"] == columns["values"] == computed


def test_a_librarys_kernel_takes_its_own_constants_and_no_other_row_does() -> None:
    x = _columns_of(attend(4, (16, 2), 64, 64, 128, causal=True))
    general = attention.time(x, DEVICE).time_s
    slower = "attention_vllm_flashinfer_prompts.launch_s"
    given = DEVICE.constants.values["attention.launch_s"]
    values = {**DEVICE.constants.values, slower: msgspec.structs.replace(given, value=1.0)}
    device = replace(DEVICE, constants=msgspec.structs.replace(DEVICE.constants, values=values))
    both = Columns(
        **{each.name: np.vstack([getattr(x, each.name)] * 2) for each in fields(Columns) if each.name != "extra"},
        extra={name: np.vstack([column] * 2) for name, column in x.extra.items()},
    )
    # Its tiles were planned before: of what starts it, `launch_s` alone is left.
    both.extra["planned"][:] = 1.0
    both.extra["kernel"][1] = attention_libraries.KERNELS.index("vllm_flashinfer_prompts")
    found = attention.time(both, device).time_s[:, 0]
    assert found[0] <= general[0, 0]
    assert found[1] - found[0] == pytest.approx(1.0 - DEVICE.constants("attention.launch_s"))


# Heads of keys times sequences, and their keys, on 132 units: XQA runs where 4 blocks of it meet a unit's share.
CHOICES = [
    ("h200-sxm", 8.0, 2.0, 32.0, 100.0, "masked_decode"),  # 32 blocks of 4 are fewer than 132
    ("h200-sxm", 8.0, 2.0, 33.0, 100.0, "trtllm_decode"),
    ("h200-sxm", 8.0, 2.0, 16.0, 300.0, "masked_decode"),  # 300 keys are two parts: 32
    ("h200-sxm", 8.0, 2.0, 16.0, 400.0, "trtllm_decode"),  # three: 48
    ("h200-sxm", 1.0, 2.0, 4096.0, 100.0, "masked_decode"),
    ("h200-sxm", 33.0, 2.0, 4096.0, 100.0, "masked_decode"),
    ("h200-sxm", 8.0, 1.0, 1.0, 100.0, "trtllm_narrow_decode"),
    ("h200-sxm", 1.0, 1.0, 1.0, 100.0, "masked_decode"),
    ("a100-sxm-80gb", 8.0, 1.0, 1.0, 100.0, "trtllm_decode"),
    ("a100-sxm-80gb", 8.0, 2.0, 27.0, 100.0, "trtllm_decode"),  # of 108
    ("b200", 1.0, 2.0, 1.0, 1.0, "trtllm_decode"),
    ("b200", 8.0, 1.0, 1.0, 1.0, "trtllm_decode"),
    ("b200", 64.0, 2.0, 4096.0, 100.0, "masked_decode"),
]


@pytest.mark.parametrize(("machine", "group", "item", "blocks", "keys", "expected"), CHOICES)
def test_tensorrt_llm_leaves_groups_that_do_not_pay_to_the_masked_kernel(
    machine: str, group: float, item: float, blocks: float, keys: float, expected: str
) -> None:
    code = np.array([[float(attention_libraries.KERNELS.index("trtllm_decode"))]])
    device = device_of(rooflab.machine(machine))
    found = attention_libraries.chosen(code, group, blocks, keys, item, device)
    assert attention_libraries.KERNELS[int(found[0, 0])] == expected


def test_flashinfer_decodes_small_groups_without_matrix_engines_where_that_kernel_is_known() -> None:
    code = np.array([[float(attention_libraries.KERNELS.index("flashinfer_decode"))]] * 3)
    group, item = np.array([[1.0], [4.0], [1.0]]), np.array([[2.0], [2.0], [1.0]])
    found = attention_libraries.chosen(code, group, 1.0, 1.0, item, device_of(rooflab.machine("l40s")))[:, 0]
    expected = ["flashinfer_plain_decode", "flashinfer_decode", "flashinfer_decode"]
    assert [attention_libraries.KERNELS[int(each)] for each in found] == expected


def _served(kernel: str, *, machine: str = "a100-sxm-80gb", **sizes: float) -> float:
    """Seconds of a serving engine's attention for single tokens."""
    given = {"sequences": 1.0, "before": 1000.0, "heads": 8.0, "kv_heads": 8.0, "window": 0} | sizes
    window = int(given.pop("window"))
    made = kernels.attention(
        "attention",
        "attend",
        1.0,
        new=1.0,
        size=128,
        values=128,
        planned=True,
        kernel=kernel,
        window=window,
        **given,
    )
    return float(timing.timed([made], device_of(rooflab.machine(machine)), None, 1)[0].seconds[0])


def test_the_masked_kernel_takes_a_wave_more_where_large_blocks_outnumber_the_units() -> None:
    # 108 units, 4 blocks of 256 threads each: 96 heads get blocks of 1024, one a unit; 128 need a second wave;
    # 160 get blocks of 512, two a unit, in one wave.
    few, many, more = (_served("trtllm_decode", heads=n, kv_heads=n, before=60.0) for n in (96.0, 128.0, 160.0))
    assert many > 1.5 * few
    assert more < 0.8 * many


def test_flashattention_2_splits_no_keys_of_ungrouped_heads() -> None:
    alone = _served("fa2_decode", before=64000.0)
    grouped = _served("fa2_decode", before=64000.0, heads=16.0)
    assert alone > 5.0 * grouped  # twice the heads, but all units have work


def test_flashattention_2_gives_each_head_a_tile_where_a_window_is_set() -> None:
    sizes = {"sequences": 512.0, "heads": 64.0, "before": 30.0}
    assert _served("fa2_decode", window=8192, **sizes) > 3.0 * _served("fa2_decode", **sizes)


def test_prompts_in_sglangs_triton_mask_all_keys_before_the_window() -> None:
    """Blocks before the window are masked whole, and not multiplied."""

    def prompt(window: int, skips: bool) -> float:
        made = kernels.attention(
            "attention", "attend", 1.0, sequences=4.0, new=8192.0, before=0.0, heads=16.0, kv_heads=4.0, size=128,
            values=128, planned=True, kernel="triton_prompts", window=window, skips=skips,
        )  # fmt: skip
        return float(timing.timed([made], device_of(rooflab.machine("l40s")), None, 1)[0].seconds[0])

    whole = prompt(0, True)
    assert 3 * prompt(128, True) < prompt(128, False) < 0.6 * whole
    assert prompt(128, True) < 0.2 * whole


def test_pytorchs_cast_from_8_bits_issues_more_than_it_moves() -> None:
    def cast(casts: bool) -> float:
        made = row_kernels.pointwise(
            "attention", "widen", 1.0, np.array([2.0**28]), reads=1.0, writes=2.0, casts=casts
        )
        return float(timing.timed([made], DEVICE, None, 1)[0].seconds[0])

    assert cast(True) > 1.5 * cast(False)


def test_libraries_of_one_format_multiply_8_bits_beside_such_a_cache() -> None:
    assert attention_libraries.narrows("vllm_fa_prompts", 1.0)
    assert attention_libraries.narrows("trtllm_gen_decode", 1.0)
    assert not attention_libraries.narrows("vllm_fa_prompts", 2.0)
    assert not attention_libraries.narrows("flashinfer_decode", 1.0)  # widens keys and values
