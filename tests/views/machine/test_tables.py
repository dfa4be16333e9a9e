"""What tables say of a machine: theory as a product, ridge points of one convention, stores, capacities."""

from __future__ import annotations

from pathlib import Path

import pytest

import rooflab
from rooflab.views.machine import tables, theory


def test_theory_is_shown_as_the_product_of_the_machines_own_fields():
    rows = {row[0]: row[1:] for row in theory.factors(rooflab.machine("m1-pro"), tables.instruction).rows}
    # 6.4 Gbit/s × 256 bit ÷ 8 = 204.8 GB/s
    assert rows["DRAM"] == ("6.4 Gbit/s a pin × 256 bit ÷ 8", "205 GB/s", "205 GB/s")
    rows = {row[0]: row[1:] for row in theory.factors(rooflab.machine("h200-sxm"), tables.instruction).rows}
    # 132 × 4096 × 1.83e9 = 989.4e12
    assert rows["bf16 fma matrix, sum in fp32"] == (
        "132 SMs × 4,096 FLOP a clock × 1.83 GHz",
        "989 TFLOP/s",
        "989 TFLOP/s",
    )


def test_ridge_points_are_of_one_convention():
    said = tables.ridge_sentence(rooflab.machine("h200-sxm"))
    # Theory over theory: 989.4 TFLOP/s / 4.8 TB/s = 206; attained fp64 33.0 TFLOP/s / 4.30 TB/s = 7.68.
    assert "bf16 matrix 206," in said
    assert "fp64 7.68," in said


def test_non_temporal_stores_have_no_number_at_a_cache(measured_zen):
    table = tables.stores(measured_zen, "all")
    column = table.columns.index("copy NT")
    by_level = {row[0]: row[column] for row in table.rows}
    assert by_level["DRAM"] != "–"
    assert {by_level[name] for name in ("L1", "L2", "L3")} == {"–"}


def test_what_a_driver_reports_is_not_the_systems_of_a_machine_that_is_not_here(measured_zen):
    assert "usable" in tables.levels(rooflab.machine("h200-sxm")).columns
    assert "OS says" in tables.levels(measured_zen).columns


@pytest.fixture(scope="module")
def measured_zen():
    return rooflab.machine(Path(__file__).parents[3] / "examples" / "zen4-guest.toml")
