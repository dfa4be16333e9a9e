"""The curves: plateaus, capacities, scaling."""

from __future__ import annotations

import itertools

import msgspec

from rooflab.views.common import labels
from rooflab.views.machine import curves


def rows(drawn):
    return [row for layer in drawn.to_dict()["layer"] for row in layer["data"]["values"]]


def test_bandwidth_shows_curves_plateaus_and_capacities(measured):
    found = rows(curves.bandwidth(measured))
    assert {row["who"] for row in found if "who" in row} == {"one core", "all 2 threads"}
    assert [row["level"] for row in found if "level" in row] == ["L1", "L2", "L3", "DRAM"] * 2
    assert [row["capacity"] for row in found if "capacity" in row] == [
        "L1 32 KiB",
        "L2 960 KiB",  # 1 MiB reported is near enough to be one rule
        "L3 11 MiB found",
        "L3 32 MiB reported",
    ]
    assert len(found) < 5000  # altair's limit


def test_plateau_and_capacity_labels_are_apart(measured):
    for unit, width in (("byte/s", 720), ("byte/s", 262), ("s", 720), ("s", 262)):
        ours = curves.over_size(measured, unit)
        placed, _ = curves.layout(measured, ours, curves.plane_of(ours, width, 300))
        assert {label.text.split()[0] for label in placed} == {"L1", "L2", "L3", "DRAM"}
        assert not any(labels.overlap(a.box, b.box) for a, b in itertools.combinations(placed, 2))


def test_latency_is_written_in_nanoseconds(measured):
    found = rows(curves.latency(measured))
    assert "DRAM 108 ns" in {row["text"] for row in found if "text" in row}


def test_scaling_names_the_best(measured):
    found = rows(curves.scaling(measured))
    assert "38.0 GB/s with 2" in {row["text"] for row in found if "text" in row}


def test_nothing_measured_is_nothing_drawn(accelerator, measured):
    assert curves.bandwidth(accelerator) is None
    assert curves.latency(accelerator) is None
    assert curves.scaling(accelerator) is None
    one = next(curve for curve in measured.curves if curve.x_unit == "thread")
    single = msgspec.structs.replace(one, x=(1,), best=(25e9,), median=(25e9,))
    assert curves.scaling(msgspec.structs.replace(measured, curves=(single,))) is None
