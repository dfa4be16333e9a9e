"""The plain roofline of rows: what binds them, on which unit, and why a bound is unknown."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.model.roofline.per_operation import bound_on, report_roofs
from rooflab.types.machine import Level, Machine, Rate, Source

SHEET = Source(kind="datasheet", ref="test")


def rate(value, per_s, what, **more):
    return Rate(value=value, per_s=per_s, what=what, **{"basis": "theoretical", "source": SHEET, **more})


def box(*peaks, bandwidth=1e12, **more):
    """A machine of 1 TB/s with these peaks: (TFLOP/s, dtype, engine, what)."""
    memory = Level(name="HBM", source=SHEET, rates=(rate(bandwidth, "byte", "any", **more),))
    made = tuple(
        rate(value * 1e12, "flop", what, dtype=dtype, engine=engine, **more)
        for value, dtype, engine, what in peaks
    )
    return Machine(name="box", kind="gpu", compute_units=100, source=SHEET, levels=(memory,), peaks=made)


BOX = box((100, "bf16", "matrix", "fma"), (10, "fp32", "vector", "fma"))


def on(machine, kind, *shapes, dtype="fp32", **attrs):
    return bound_on(rooflab.op(kind, *shapes, dtype=dtype, **attrs), machine)


def bound(machine, kind, *shapes, dtype="fp32", **attrs):
    row = on(machine, kind, *shapes, dtype=dtype, **attrs).rows[0]
    return row.bound, row.binds, row.ridge


def test_a_large_product_is_bound_by_its_matrix_unit():
    # 2·1024³/(3·2·1024²) = 341 FLOP/byte; the ridge is 100e12/1e12
    assert bound(BOX, "matmul", "1024x1024", "1024x1024", dtype="bf16") == ("compute-bound", "bf16 matrix", 100)


def test_a_vector_times_a_matrix_is_bound_by_memory():
    assert bound(BOX, "matmul", "1x1024", "1024x1024", dtype="bf16")[:2] == ("memory-bound", "HBM")


def test_nearly_equal_terms_share_the_blame():
    # 2n³/6n² = n/3 FLOP/byte: 96 for n = 288, 96 % of the ridge; 88 for n = 264, 88 %
    assert bound(BOX, "matmul", "288x288", "288x288", dtype="bf16")[:2] == ("balanced", "HBM")
    assert bound(BOX, "matmul", "264x264", "264x264", dtype="bf16")[0] == "memory-bound"
    assert bound(BOX, "matmul", "321x321", "321x321", dtype="bf16")[:2] == ("balanced", "bf16 matrix")


def test_without_a_matrix_unit_the_vector_unit_of_the_same_format_multiplies():
    assert bound(BOX, "matmul", "1024x1024", "1024x1024") == ("compute-bound", "fp32 vector", 10)


def test_never_another_formats_matrix_peak():
    row = on(BOX, "matmul", "8x8", "8x8", dtype="fp8").rows[0]
    assert (row.bound, row.binds, row.ridge) == (None, None, None)
    assert row.unbound == "box states no fp8 matrix peak"


def test_narrow_element_wise_work_runs_in_fp32_where_the_format_has_no_vector_peak():
    assert bound(BOX, "relu", "1000", dtype="bf16") == ("memory-bound", "HBM", 10)
    native = box((40, "bf16", "vector", "fma"), (10, "fp32", "vector", "fma"))
    assert bound(native, "relu", "1000", dtype="bf16")[2] == 40


def test_a_dot_product_instruction_multiplies_matrices_only():
    machine = box((40, "bf16", "vector", "dot"), (10, "fp32", "vector", "fma"))
    assert bound(machine, "matmul", "64x64", "64x64", dtype="bf16")[2] == 40
    assert bound(machine, "relu", "1000", dtype="bf16")[2] == 10


def test_special_functions_run_on_their_unit_where_it_is_known():
    machine = box((10, "fp32", "vector", "fma"), (2, "fp32", "special", "any"))
    assert bound(machine, "exp", "1000")[2] == pytest.approx(2)
    # gelu: 4 vector and 1 special: 5 FLOP in max(4/10, 1/2) of a picosecond: 10 TFLOP/s
    assert bound(machine, "gelu", "1000")[2] == pytest.approx(10)
    # On one unit they add up: 5 FLOP in 5/10.
    assert bound(BOX, "gelu", "1000")[2] == pytest.approx(10)


def test_minor_work_without_a_peak_is_left_out_and_said():
    tensor_only = box((100, "bf16", "matrix", "fma"))
    report = on(tensor_only, "matmul", "512x512", "512x512", dtype="bf16", bias=True)
    assert report.rows[0].bound == "compute-bound"
    assert "no bf16 vector peak known" in report.conventions[-1]
    assert on(tensor_only, "relu", "9", dtype="bf16").rows[0].bound is None


def test_what_moves_no_floating_point_numbers_is_bound_by_memory():
    assert bound(BOX, "copy", "1000") == ("memory-bound", "HBM", None)


def test_attained_rates_stand_in_and_are_named():
    report = on(box((10, "fp32", "vector", "fma"), basis="attained"), "relu", "1000")
    assert report.conventions[-1] == (
        "roofs of the bounds: box, memory 1.00 TB/s attained, fp32 vector 10.0 TFLOP/s"
    )


def test_without_a_bandwidth_there_is_no_bound():
    machine = Machine(name="box", kind="gpu", source=SHEET)
    report = on(machine, "relu", "1000")
    assert report.rows[0].unbound == "box states no memory bandwidth"
    assert report_roofs(report, machine) is None


def test_on_takes_a_name_and_replaces_an_earlier_machine():
    report = rooflab.op("relu", "1000")
    assert report.machine is None
    twice = report.on(BOX).on("h200")
    assert twice.machine.name == "NVIDIA H200 SXM 141GB"
    assert len([line for line in twice.conventions if line.startswith("floor: ")]) == 1
    with pytest.raises(UnknownNameError, match="h2000"):
        report.on("h2000")


# NVIDIA, GPU performance background user's guide, section 3, on a V100: 125 TFLOP/s, 900 GB/s, so 138.9
GUIDE = (
    ("linear", ["512x1024", "4096x1024"], {}, "compute-bound"),
    ("linear", ["1x1024", "4096x1024"], {}, "memory-bound"),
    ("max_pool2d", ["1x64x56x56"], {"kernel": 3, "stride": 1, "padding": "same"}, "memory-bound"),
    ("relu", ["1000000"], {}, "memory-bound"),
    ("layer_norm", ["512x1024"], {}, "memory-bound"),
)


@pytest.mark.parametrize(("kind", "shapes", "settings", "expected"), GUIDE)
def test_nvidias_guide_on_a_v100(kind, shapes, settings, expected):
    row = on(rooflab.machine("v100-sxm2-32gb"), kind, *shapes, dtype="fp16", **settings).rows[0]
    assert row.bound == expected
    if kind == "linear":
        assert row.ridge == pytest.approx(138.9, rel=0.01)


def test_a_bound_needs_a_machine():
    with pytest.raises(RooflabError, match="no machine, so no roofline"):
        rooflab.op("relu", "1000").save("never-written.svg")
