"""What NumPy takes to pick elements, rows and runs of a mask, each by hand from the machine and the constants."""

from __future__ import annotations

from typing import Any

import pytest

import rooflab
from rooflab.model.device.device import device_of
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import counting
from support.model.one_op import tensor

MACHINE = rooflab.machine("examples/zen4-guest.toml")
DEVICE = device_of(MACHINE)
CLOCK_S = 1 / DEVICE.clock_hz
C = DEVICE.constants


def seconds(kind: str, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], **attrs: Any) -> float:
    """Warm time of one of NumPy's calls on the machine."""
    name = attrs.pop("name", "numpy.call")
    places = tuple(range(len(inputs) + len(outputs)))
    op = Op(name=name, kind=kind, inputs=places[: len(inputs)], outputs=places[len(inputs) :], attrs=attrs)
    graph = Graph(framework="numpy", tensors=(*inputs, *outputs), ops=(op,))
    found = counting.report(graph, "picks").on(MACHINE).time_s
    assert found is not None
    return found


def doubles(*shape: int) -> TensorSpec:
    return tensor(*shape, of="fp64")


def test_single_elements_are_as_many_under_way_as_a_core_has_buffers_for() -> None:
    # 1e6 of 400 MB: each waits for DRAM, of which 109 ns are in the file
    index = tensor(1_000_000, of="int64")
    found = seconds("gather", (doubles(50_000_000), index), (doubles(1_000_000),))
    waits = 1e6 * MACHINE.levels[3].latency_s / C("loop.gathered_in_flight")
    assert found == pytest.approx(waits, rel=0.1)


def test_a_mask_takes_its_runs_and_no_random_access() -> None:
    mask = tensor(1_000_000, of="bool")
    runs = 250_000
    found = seconds("gather", (doubles(1_000_000), mask), (doubles(500_000),), runs=runs)
    assert found == pytest.approx(runs * C("numpy.run_clocks") * CLOCK_S, rel=0.05)
    all_of_it = seconds("gather", (doubles(1_000_000), mask), (doubles(1_000_000),), runs=1)
    assert all_of_it < found / 10  # a copy: 17 MB of L3


def test_ufuncs_at_has_an_indexed_loop_in_one_dimension_alone() -> None:
    attrs = {"accumulate": True, "in_place": True, "base": True, "elements": 1_000_000, "name": "numpy.add.at"}
    flat, rows = doubles(1000), doubles(1000, 10)
    one = seconds("scatter", (flat, tensor(1_000_000, of="int64")), (flat,), **attrs)
    two = seconds("scatter", (rows, tensor(100_000, of="int64")), (rows,), **attrs)
    assert one == pytest.approx(1e6 * C("numpy.tally_clocks") * CLOCK_S, rel=0.1)
    assert two == pytest.approx(1e6 * C("numpy.at_clocks") * CLOCK_S, rel=0.1)
