"""The roofline's arithmetic, and which roofs a machine gets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.model.roofline import roofline
from rooflab.types.machine import Level, Machine, Point, Rate, Source

SOURCE = Source(kind="assumed", ref="test")
positive = st.floats(1e-3, 1e18)


def bandwidth(value, what="read", scope="all", basis="attained"):
    return Rate(value=value, per_s="byte", what=what, scope=scope, basis=basis, source=SOURCE)


def peak(value, dtype="fp64", engine="vector", per_s="flop", basis="attained", **more):
    return Rate(
        value=value, per_s=per_s, what="fma", dtype=dtype, engine=engine, basis=basis, source=SOURCE, **more
    )


def machine(levels=(), peaks=(), **more):
    made = tuple(Level(name=name, source=SOURCE, rates=tuple(rates)) for name, rates in levels)
    return Machine(name="test", kind="cpu", source=SOURCE, levels=made, peaks=tuple(peaks), **more)


TWO = (("L1", [bandwidth(400e9)]), ("DRAM", [bandwidth(40e9)]))


@pytest.mark.parametrize(
    ("intensity", "expected"),
    [
        (0.5, 20e9),  # 0.5 FLOP/byte × 40 GB/s
        (2.5, 100e9),  # the ridge: 100 GFLOP/s / 40 GB/s
        (100, 100e9),  # the peak
    ],
)
def test_attainable_is_the_lower_of_both_roofs(intensity, expected):
    assert roofline.attainable(intensity, 100e9, 40e9) == expected


def test_attainable_of_an_array_is_that_of_each():
    out = roofline.attainable(np.array([0.5, 2.5, 100]), 100e9, 40e9)
    assert out.tolist() == [20e9, 100e9, 100e9]


@given(positive, positive, positive)
def test_attainable_never_beats_a_roof(intensity, peak_flop_per_s, bytes_per_s):
    out = roofline.attainable(intensity, peak_flop_per_s, bytes_per_s)
    assert out <= peak_flop_per_s
    assert out <= intensity * bytes_per_s


@given(positive, positive)
def test_roofs_meet_at_the_ridge(peak_flop_per_s, bytes_per_s):
    at = roofline.ridge(peak_flop_per_s, bytes_per_s)
    assert at * bytes_per_s == pytest.approx(peak_flop_per_s)


def test_a_level_takes_its_read_roof_then_what_it_has():
    found = roofline.roofs(
        machine(
            [
                ("registers", [bandwidth(9e12)]),  # not on the chart
                ("L1", [bandwidth(400e9), bandwidth(500e9, "write"), bandwidth(460e9, basis="theoretical")]),
                ("L2", [bandwidth(200e9, "triad"), bandwidth(90e9, scope="core")]),
                ("DRAM", [bandwidth(50e9, "any", basis="theoretical")]),
                ("disk", [bandwidth(2e9)]),  # not on the chart
                ("page cache", [bandwidth(9e9)]),
                ("files in memory", [bandwidth(9e9)]),
            ]
        )
    )
    assert [(roof.name, roof.value) for roof in found.bandwidths] == [("L1", 400e9), ("L2", 200e9), ("DRAM", 50e9)]
    assert found.bandwidths[0].theory is not None
    assert found.bandwidths[0].theory.value == 460e9
    assert found.bandwidths[2].theory is None


def test_a_scope_has_its_own_roofs():
    one = machine(
        [("DRAM", [bandwidth(50e9), bandwidth(20e9, scope="core")])], [peak(80e9), peak(40e9, scope="core")]
    )
    assert [roof.value for roof in roofline.roofs(one, "core").bandwidths] == [20e9]
    assert [roof.value for roof in roofline.roofs(one, "core").peaks] == [40e9]


def test_peaks_are_one_per_format_and_engine_slow_to_fast():
    found = roofline.roofs(
        machine(
            peaks=[
                peak(100e9),
                peak(120e9),  # a faster instruction mix of the same format
                peak(130e9, basis="theoretical"),
                peak(10e9, engine="scalar"),
                peak(20e9, "fp32", "scalar"),  # only fp64 has a scalar roof
                peak(900e9, "bf16", "matrix"),
                peak(330e12, "fp16", "matrix", accumulate="fp16"),
                peak(165e12, "fp16", "matrix", accumulate="fp32"),  # what frameworks use is preferred
                peak(5e12, "int8", per_s="op"),  # op/s are no FLOP/s
            ]
        )
    )
    assert [(roof.name, roof.value) for roof in found.peaks] == [
        ("fp64 scalar", 10e9),
        ("fp64", 120e9),
        ("bf16 matrix", 900e9),
        ("fp16 matrix", 165e12),
    ]
    assert found.peaks[1].theory is not None
    assert found.peaks[1].theory.value == 130e9


def test_integer_peaks_are_roofs_where_there_is_nothing_else():
    found = roofline.roofs(machine(peaks=[peak(92e12, "int8", "matrix", per_s="op")]))
    assert [roof.name for roof in found.peaks] == ["int8 matrix"]


def test_ridges_are_every_pair():
    found = roofline.roofs(machine(TWO, [peak(100e9), peak(200e9, "fp32")]))
    # 100/400, 200/400, 100/40, 200/40 FLOP/byte
    assert [each.intensity for each in roofline.ridges(found)] == [0.25, 0.5, 2.5, 5.0]
    assert [each.level for each in roofline.ridges(found)] == ["L1", "L1", "DRAM", "DRAM"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((400e9, 100e9, 40e9), ()),
        ((400e9, 39e9, 40e9), ("L2",)),  # an L2 roof below DRAM's
        ((40e9, 40e9, 40e9), ("L1", "L2")),  # equal roofs tell nothing apart
    ],
)
def test_a_near_roof_below_a_further_one_is_named(values, expected):
    levels = [(name, [bandwidth(value)]) for name, value in zip(("L1", "L2", "DRAM"), values, strict=True)]
    assert roofline.dominated(roofline.roofs(machine(levels))) == expected


@pytest.mark.parametrize(
    ("flop", "seconds", "level", "bound", "binds", "share"),
    [
        # 1 FLOP/byte under DRAM 40 GB/s: 40 GFLOP/s, of which 30 attained
        (1e9, 1 / 30, "DRAM", "memory-bound", "DRAM", 0.75),
        (1e9, 1 / 30, None, "memory-bound", "DRAM", 0.75),  # no level said: the main memory
        # 10 FLOP/byte: the peak of 100 GFLOP/s
        (1e10, 0.125, "DRAM", "compute-bound", "fp64", 0.8),
        # 2.4 FLOP/byte: 96 GFLOP/s of memory against 100 of compute
        (2.4e9, 0.05, "DRAM", "balanced", "DRAM", 0.5),
        # in L1, 1 FLOP/byte allows 400 GFLOP/s: compute binds; over the roof is not clipped
        (1e9, 0.005, "L1", "compute-bound", "fp64", 2.0),
    ],
)
def test_a_kernel_is_placed_under_the_roof_that_binds(flop, seconds, level, bound, binds, share):
    point = Point(name="k", flop=flop, bytes=1e9, time_s=seconds, level=level, dtype="fp64", source=SOURCE)
    found = roofline.place(point, machine(TWO, [peak(100e9)]))
    assert found is not None
    assert (found.bound, found.binds) == (bound, binds)
    assert found.share == pytest.approx(share)


def test_a_kernel_without_a_roof_has_no_place():
    unknown = Point(name="k", flop=1, bytes=1, time_s=1, level="L2", dtype="fp64", source=SOURCE)
    assert roofline.place(unknown, machine(TWO, [peak(100e9)])) is None  # no L2 roof: not DRAM's instead
    other = Point(name="k", flop=1, bytes=1, time_s=1, level="L1", dtype="fp32", source=SOURCE)
    assert roofline.place(other, machine(TWO, [peak(100e9)])) is None


# seconds of arithmetic, L2, HBM, overhead; what binds
VERDICTS = (
    ((8, 1, 4, 2), ("compute-bound", "engine")),
    ((4, 1, 8, 2), ("memory-bound", "HBM")),
    ((4, 8, 1, 2), ("memory-bound", "L2")),  # the slowest level
    ((4, 1, 2, 8), ("overhead-bound", "launch")),
    ((7.2, 8, 1, 0), ("balanced", "L2")),  # 0.9 of the largest
    ((7.1, 8, 1, 0), ("memory-bound", "L2")),
    ((0, 8, 7.9, 0), ("memory-bound", "L2")),  # two levels share no blame: both are memory
    ((1, 0, 0, 0.95), ("balanced", "engine")),
)


@pytest.mark.parametrize(("seconds", "said"), VERDICTS)
def test_what_binds_by_three_terms(seconds, said):
    compute, near, far, overhead = seconds
    assert roofline.verdict(compute, "engine", {"L2": near, "HBM": far}, overhead) == said
