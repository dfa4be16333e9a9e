"""What NumPy takes element by element: what indices and masks pick, and what has no vector code, each by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
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


MILLION = 1_000_000


@pytest.mark.parametrize(
    ("kind", "inputs", "out", "attrs", "clocks"),
    [
        # 10 steps of a search in 1000 and one more, for each of a million numbers, whose order is unknown
        (
            "sort",
            (doubles(1000), doubles(MILLION), doubles(1000)),
            doubles(MILLION),
            {"function": "interp", "n": 1000},
            ("numpy.search_clocks", 10.97),
        ),
        ("cast", (tensor(MILLION, of="fp32"),), tensor(MILLION, of="fp16"), {}, ("numpy.half_clocks", 1)),
        (
            "copy",
            (tensor(MILLION, of="bool"),),
            tensor(500, of="int64"),
            {"whole": True},
            ("numpy.find_clocks", 1),
        ),
        (
            "reduction",
            (doubles(MILLION),),
            doubles(),
            {"function": "prod", "dims": (0,)},
            ("numpy.chain_clocks", 1),
        ),
        # of each element two real functions
        (
            "pointwise",
            (tensor(MILLION, of="complex128"),),
            tensor(MILLION, of="complex128"),
            {"function": "exp"},
            ("numpy.libm_clocks", 2),
        ),
        # columns of 1000 rows, each element by itself in its row of 8 kB
        (
            "gather",
            (doubles(1000, 1000), tensor(1000, of="int64")),
            doubles(1000, 1000),
            {"pieces": MILLION, "piece": 1, "within": 1000},
            ("numpy.element_clocks", 1),
        ),
    ],
)
def test_what_numpy_does_an_element_at_a_time(kind, inputs, out, attrs, clocks) -> None:
    name, times = clocks
    found = seconds(kind, inputs, (out,), **attrs)
    assert found == pytest.approx(MILLION * times * C(name) * CLOCK_S, rel=0.1)


def test_truths_are_counted_by_whole_vectors() -> None:
    truths = tensor(MILLION, of="bool")
    one = seconds("reduction", (truths,), (tensor(of="int64"),), function="count_nonzero", dims=(0,))
    assert one < MILLION / 32 * CLOCK_S * 2  # 32 bytes in two clocks at most


def test_a_table_of_bins_is_as_large_as_the_bins() -> None:
    # a million weights into 1000 bins: 8 kB, in L1, however many the indices are
    index, weights = tensor(MILLION, of="int64"), doubles(MILLION)
    found = seconds("scatter", (index, weights), (doubles(1000),), accumulate=True, elements=MILLION)
    assert found == pytest.approx(MILLION * C("numpy.tally_clocks") * CLOCK_S, rel=0.25)


def test_an_einsum_that_is_one_loop_is_not_at_the_peak() -> None:
    x = np.ones((300, 300))
    report = rooflab.analyze(lambda a, b: np.einsum("ij,jk->ik", a, b), x, x, machine=MACHINE)
    # 300³ multiply-adds
    assert report.time_s == pytest.approx(2 * 300**3 * C("numpy.einsum_clocks") * CLOCK_S, rel=0.1)
