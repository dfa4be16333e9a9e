"""Kernels of many small blocks: rounds of latency counted by hand, traffic where it binds."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.model.device.device import device_of
from rooflab.model.program import op_times
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import counting

H100 = device_of(rooflab.machine("h100-sxm"), cache="cold")


def seconds(tokens: int, row_bytes: int, threads: int, turns: int = 0, converted: float = 0.0) -> float:
    spec = TensorSpec((tokens, row_bytes // 2), "bf16", tokens * row_bytes)
    attrs = {"blocks": tokens, "threads": threads, "turns": turns, "converted": converted}
    op = Op(name="write cache", kind="kernel", inputs=(0,), outputs=(1,), attrs=attrs)
    report = counting.report(Graph(framework="hand", tensors=(spec, spec), ops=(op,)), "write")
    work = op_times.prepare(report.graph, report.rows)
    return float(op_times.predict_times(work, H100).kernels.time_s[0, 0])


def test_few_blocks_take_one_latency() -> None:
    block_s, launch_s = (H100.constants(name) for name in ("blocks.block_s", "passes.launch_s"))
    assert seconds(16, 512, 128) == pytest.approx(launch_s + block_s, rel=0.02)


def test_rounds_of_large_blocks_take_their_latency() -> None:
    # 2048 threads a unit: 4 blocks of 512, 132 units: 20 rounds of 20 × 528 blocks; their bytes take far less
    rounds = seconds(20 * 4 * 132, 64, 512) - H100.constants("passes.launch_s")
    assert rounds == pytest.approx(20 * H100.constants("blocks.block_s"), rel=0.02)
    assert seconds(20 * 4 * 132, 64, 64) < seconds(20 * 4 * 132, 64, 512) / 4


def test_wide_rows_take_their_bytes() -> None:
    # 2 × 16384 × 64 KiB at the share of 3.35 TB/s; 124 rounds of 132 blocks of 1024 threads are hidden
    expected = 2 * 16384 * 65536 / (3.35e12 * H100.constants("blocks.memory_share"))
    assert seconds(16384, 65536, 256) == pytest.approx(expected, rel=0.1)


def test_blocks_that_go_back_for_more_of_their_rows_wait_again() -> None:
    # One unit's worth of blocks of 1024 threads that walk over 3 pieces of a row: two more turns.
    more = seconds(132, 64, 1024, turns=2) - seconds(132, 64, 1024)
    assert more == pytest.approx(2 * H100.constants("blocks.turn_s"), rel=0.01)


def test_numbers_that_are_converted_take_clocks_of_all_units() -> None:
    numbers = 16384 * 2048.0
    more = seconds(16384, 64, 64, converted=numbers) - seconds(16384, 64, 64)
    expected = numbers * H100.constants("blocks.convert_clocks") / (132 * H100.clock_hz)
    assert more == pytest.approx(expected, rel=0.02)
