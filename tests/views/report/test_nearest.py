"""How near work comes to the roofs of its machine, beside what the reader can work out with two divisions."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.views.report import tables
from rooflab.views.report.nearest import nearest


def test_a_product_is_held_against_its_arithmetic_roof():
    report = rooflab.op("matmul", (4096, 4096), (4096, 4096), dtype="bf16", machine="h200-sxm")
    assert report.prediction is not None
    name, share = nearest(report) or ("", 0.0)
    # 2 n³ FLOP at 989.5 TFLOP/s dense
    assert (name, share) == (
        "bf16 matrix",
        pytest.approx(2 * 4096**3 / 989.5e12 / report.prediction.time_s, rel=1e-3),
    )
    assert dict(tables.facts(report))["roof"].endswith(" of bf16 matrix, the nearest")


def test_bytes_that_a_cache_serves_may_pass_the_roof_of_memory_and_the_line_says_so():
    report = rooflab.op("relu", 1_000_000, dtype="fp32", machine="h200-sxm", cache="warm")
    name, share = nearest(report) or ("", 0.0)
    said = dict(tables.facts(report))["roof"]
    assert name == "HBM"
    assert said.endswith("a cache serves it") == (share > 1)


def test_without_a_prediction_there_is_no_roof():
    report = rooflab.op("relu", 1_000_000)
    assert nearest(report) is None
    assert "roof" not in dict(tables.facts(report))
