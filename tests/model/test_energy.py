"""Energy: predicted time at the power that a device may draw at most; nothing where that bounds nothing."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.model.energy import least_flop_per_joule, most_joules, power_limit_w
from rooflab.views.report import tables


def test_joules_are_time_times_the_limit():
    report = rooflab.op("matmul", "4096x4096", "4096x4096", machine="h200-sxm")
    assert most_joules(report) == pytest.approx(700 * report.time_s)  # W, by the datasheet
    assert least_flop_per_joule(report) == pytest.approx(2 * 4096**3 / (700 * report.time_s))
    said = dict(tables.facts(report))["energy"]
    assert said.endswith("a bound, at the device's limit of 700 W")
    assert f"{700 * report.time_s:.3g} J or less" in said


@pytest.mark.parametrize("machine", ["epyc-9654", "core-i9-14900k", "tpu-v5e"])
def test_none_where_no_limit_is_stated(machine):
    # The first two state what their cooler must carry away, the last states nothing.
    assert power_limit_w(rooflab.machine(machine)) is None
    report = rooflab.op("relu", 4096, machine=machine)
    assert most_joules(report) is None
    assert "energy" not in dict(tables.facts(report))


def test_none_on_a_machine_that_is_not_there():
    report = rooflab.op("relu", 4096, machine="h200-sxm", what_if="bandwidth=2x")
    assert most_joules(report) is None


def test_none_without_a_time():
    assert most_joules(rooflab.op("relu", 4096)) is None
