"""Counted kernels under all roofs of a machine: shares by hand, and the walls of a real file."""

from __future__ import annotations

from pathlib import Path

import pytest

import rooflab
from rooflab.model.roofline.counted import place
from rooflab.observe.importers.counters import nsight_compute
from rooflab.types.counted import Access, Counted
from rooflab.types.kernel_names import short_name
from rooflab.types.work import Flop, Traffic

H200 = rooflab.machine("h200-sxm")
KERNELS = Path(__file__).parents[3] / "examples" / "h200-kernels.csv.gz"


def test_each_level_and_engine_by_hand():
    one = Counted(
        name="stream",
        time_s=1e-3,
        flop=(Flop("vector", "fp32", 6.69e9),),
        traffic=(Traffic("L2", 2e9, 1e9, "counted"), Traffic("DRAM", 1.2e9, 1.2e9, "counted")),
        instructions=1e8,
    )
    placed = place(one, H200)
    # HBM: 2.4e9 / 1e-3 of 4.8e12; fp32: 6.69e12 of 132 SMs x 128 x 2 x 1.98e9; instructions: 1e11 of 132 x 4 x
    # 1.98e9.
    assert placed is not None
    shares = {roof.name: roof.share for roof in placed.roofs}
    assert shares["HBM"] == pytest.approx(0.5)
    assert shares["fp32 vector"] == pytest.approx(6.69e12 / (132 * 256 * 1.98e9), rel=1e-3)
    assert shares["instructions"] == pytest.approx(1e11 / (132 * 4 * 1.98e9))
    memory = placed.of("HBM")
    assert memory is not None
    assert memory.intensity == pytest.approx(6.69 / 2.4)
    assert (placed.bound, placed.binds) == ("memory-bound", "HBM")


def test_without_flop_a_bound_is_said_only_where_arithmetic_cannot_be_it():
    traffic = (Traffic("DRAM", 2e9, 0.0, "counted"),)
    unknown = place(Counted(name="k", time_s=1e-3, traffic=traffic), H200)
    assert unknown is not None
    assert unknown.bound is None
    assert unknown.missing == ("FLOP were not counted",)
    # The tool says how busy its busiest pipe was: 20 % cannot be what binds where memory has 42 %.
    access = Access(pipes={"busiest": 0.2})
    known = place(Counted(name="k", time_s=1e-3, traffic=traffic, access=access), H200)
    assert known is not None
    assert (known.bound, known.binds) == ("memory-bound", "HBM")
    busy = place(Counted(name="k", time_s=1e-3, traffic=traffic, access=Access(pipes={"busiest": 0.9})), H200)
    assert busy is not None
    assert (busy.bound, busy.binds) == ("compute-bound", "SM pipes")


def test_no_flop_at_all_keeps_a_place():
    placed = place(
        Counted(name="copy", time_s=1e-3, flop=(), traffic=(Traffic("DRAM", 2e9, 2e9, "counted"),)), H200
    )
    assert placed is not None
    assert (placed.bound, placed.binds) == ("memory-bound", "HBM")
    assert placed.roofs[0].intensity == 0


def test_naive_product_is_bound_by_load_store_units():
    """Case C09, Nsight Compute on an RTX 5070: 537,001,984 loads and stores in 9.589 ms, 48 SMs of 16 units.

    537,001,984 x 32 / (16 x 48 x 2.625e9) = 8.52 ms, 89 % of the time; DRAM 80,808,960 bytes, 1.3 % of 672 GB/s.
    """
    machine = rooflab.machine("rtx-5070")
    one = Counted(
        name="gemm_naive_kernel",
        time_s=9.589248e-3,
        traffic=(
            Traffic("L1", 1_342_177_280 * 32, 524_288 * 32, "counted"),
            Traffic("DRAM", 54_207_744, 26_601_216, "counted"),
        ),
        access=Access(load_store_inst=537_001_984, pipes={"busiest": 0.9732}),
    )
    placed = place(one, machine, "12.0")
    assert placed is not None
    assert (placed.bound, placed.binds) == ("memory-bound", "load/store units")
    assert placed.roofs[-1].share == pytest.approx(0.889, abs=1e-3)
    memory = placed.of("DRAM")
    assert memory is not None
    assert memory.share == pytest.approx(80_808_960 / 9.589248e-3 / 672e9, rel=1e-3)


@pytest.fixture(scope="module")
def real():
    counters = nsight_compute.load(KERNELS)
    return {short_name(one.name): place(one, H200, "9.0") for one in counters.rows}


@pytest.mark.parametrize(
    ("kernel", "bound", "binds"),
    [
        ("reduce_kernel[sum_functor]", "memory-bound", "HBM"),
        ("cunn_SoftMaxForwardReg", "compute-bound", "instructions"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "compute-bound", "bf16 matrix"),
        ("nvjet_sm90_tst_64x8_64x16_2x1_v_bz_NNT", "memory-bound", "HBM"),  # one token's weights
        ("csrmv_v3_kernel", "memory-bound", "L2"),  # gathers of 4 of 32 bytes
    ],
)
def test_real_kernels_of_an_h200(real, kernel, bound, binds):
    placed = real[kernel]
    assert (placed.bound, placed.binds) == (bound, binds)
    assert all(roof.share <= 1.02 for roof in placed.roofs)


def test_the_walls_of_a_strided_copy(real):
    """A transposing copy: loads of 4 bytes 32 apart (1/32), stores side by side (1/4): between the walls."""
    placed = real["elementwise_kernel[direct_copy_kernel_cuda]"].instruction
    assert placed.global_pattern == "between stride 1 and stride 8"
    assert 0.9 < placed.predication < 1
    assert placed.binds == "HBM"


def test_without_bytes_a_little_arithmetic_binds_nothing():
    """2 GFLOP of 33.5 TFLOP/s are 0.06 ms of a millisecond; 32 TFLOP a second fill it."""
    some = place(Counted(name="k", time_s=1e-3, flop=(Flop("vector", "fp64", 2e9),)), H200)
    assert (some.bound, some.binds) == (None, None)
    much = place(Counted(name="k", time_s=1e-3, flop=(Flop("vector", "fp64", 32e9),)), H200)
    assert much.bound == "compute-bound"
