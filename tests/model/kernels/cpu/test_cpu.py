"""Operations on a CPU's cores: levels, threads, calls, fresh pages, products; each against its arithmetic."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import numpy as np
import pytest

import rooflab
from rooflab.model.device.device import device_of
from rooflab.model.kernels.cpu import matmul as cpu_matmul
from rooflab.model.kernels.cpu import stream as cpu_stream
from rooflab.model.program import forecast
from rooflab.types.machine import Curve, Level, Machine, Rate, Runtime, Scope, Source
from rooflab.types.setting import Setting
from rooflab.work import counting
from rooflab.work.by_hand import own

MEASURED = Source("measured", "a test")


def rate(value: float, what: str = "read", scope: Scope = "core", **more: Any) -> Rate:
    return Rate(value=value, per_s="byte", what=what, basis="attained", source=MEASURED, scope=scope, **more)


def level(name, capacity, core, everyone, shared_by, latency_s, write=None):
    rates = [rate(core), rate(everyone, scope="all")]
    written: tuple[tuple[Scope, float], ...] = (
        ("core", write or core),
        ("all", (write or core) * everyone / core),
    )
    for scope, value in written:
        rates.append(rate(value, "write", scope, stores="ordinary"))
    return Level(
        name=name,
        source=MEASURED,
        capacity_bytes=capacity,
        shared_by=shared_by,
        latency_s=latency_s,
        rates=tuple(rates),
    )


def peak(value, dtype, scope):
    return Rate(
        value=value,
        per_s="flop",
        what="fma",
        basis="attained",
        source=MEASURED,
        dtype=dtype,
        engine="vector",
        scope=scope,
        clock_hz=3e9,
    )


def box(**changes):
    """4 cores of 3 GHz and 96 GFLOP/s fp32; 200, 100, 50 and 10 GB/s a core; an empty NumPy call of 200 ns."""
    machine = Machine(
        name="box",
        kind="cpu",
        source=MEASURED,
        compute_unit="core",
        compute_units=4,
        levels=(
            level("L1", 32e3, 200e9, 800e9, 1, 1e-9),
            level("L2", 1e6, 100e9, 400e9, 1, 4e-9),
            level("L3", 30e6, 50e9, 200e9, 4, 15e-9),
            level("DRAM", 64e9, 10e9, 30e9, None, 90e-9, write=5e9),
        ),
        peaks=tuple(
            peak(value * (4 if scope == "all" else 1), dtype, scope)
            for dtype, value in (("fp32", 96e9), ("fp64", 48e9))
            for scope in ("core", "all")
        ),
        runtimes=(Runtime(framework="numpy", source=MEASURED, dispatch_s=200e-9),),
    )
    return msgspec.structs.replace(machine, **changes)


BOX = box()
DEVICE = device_of(BOX)
C = DEVICE.constants


def seconds(kind, *shapes, framework="numpy", machine=BOX, what_if=None, **attrs):
    """Predicted seconds of one operation."""
    return prediction(kind, *shapes, framework=framework, machine=machine, what_if=what_if, **attrs).time_s


def prediction(kind, *shapes, framework="numpy", machine=BOX, what_if=None, **attrs):
    report = rooflab.op(kind, *shapes, **attrs)
    if framework == "torch":
        (row,) = report.rows
        op = msgspec.structs.replace(row.op, name=f"aten.{row.op.name}")
        graph = msgspec.structs.replace(report.graph, ops=(op,))
        report = msgspec.structs.replace(report, graph=graph, rows=(msgspec.structs.replace(row, op=op),))
    found = forecast.predict_on(report, machine, Setting(what_if=what_if or {})).prediction
    assert found is not None
    return found


def test_an_empty_call_is_what_a_small_operation_costs():
    # 4 elements: 48 bytes; nothing but NumPy's own call, a multiple of the empty one
    assert seconds("add", ["4", "4"][0]) == pytest.approx(200e-9 * C("numpy.ufunc_calls"), rel=0.01)
    slow = box(runtimes=(msgspec.structs.replace(BOX.runtimes[0], dispatch_s=400e-9),))
    assert seconds("add", 4, machine=slow) == pytest.approx(2 * seconds("add", 4), rel=0.01)
    assert seconds("add", 4, framework="torch") == pytest.approx(200e-9 * C("torch.op_calls"), rel=0.01)


# 3 streams of fp32: 12 bytes an element, 8 read and 4 written
@pytest.mark.parametrize(
    ("elements", "per_element_s"),
    [
        (2000, max(8 / 200e9, 4 / 200e9)),  # 24 kB in L1, which loads and stores at once
        (70_000, 12 / 100e9),  # 840 kB in L2
        (1_000_000, 12 / 50e9),  # 12 MB in L3
        # 96 MB in memory; the result of 32 MB (below 32 MiB) is no new memory
        (8_000_000, 8 / 10e9 + 4 / 5e9),
    ],
)
def test_a_stream_runs_at_the_rate_of_the_level_that_holds_it(elements, per_element_s):
    call = 200e-9 * C("numpy.ufunc_calls") + C("numpy.allocate_s")
    assert seconds("add", elements) == pytest.approx(call + elements * per_element_s, rel=0.01)


def test_what_binds_is_named_after_the_level():
    assert prediction("add", 70_000).binds == "L1/L2"
    assert prediction("add", 1_000_000).binds == "L3"
    assert prediction("add", 8_000_000).binds == "DRAM"
    assert prediction("exp", 1_000_000).bound == "compute-bound"


def test_numpy_uses_one_core_and_torch_one_for_each_grain():
    alone = seconds("exp", 1_000_000)
    assert alone == pytest.approx(1e6 * C("numpy.exp_flop") / 96e9, rel=0.01)
    start = 200e-9 * C("torch.op_calls") + C("cpu.team_s")
    for elements, cores in ((40_000, 2), (400_000, 4)):
        # 1.5 clocks of a core with 32 FLOP a clock: 48 FLOP at the peak
        expected = elements * 48 / 96e9 / cores + start
        assert seconds("silu", elements, framework="torch") == pytest.approx(expected, rel=0.01)


def test_double_precision_runs_at_its_own_peak():
    ratio = seconds("exp", 1_000_000, dtype="fp64") / seconds("exp", 1_000_000)
    assert ratio == pytest.approx(2, rel=0.01)


def test_a_large_result_is_new_memory_at_each_call():
    # 40 MB are above 32 MiB. PyTorch: a fault for each 4 KiB; NumPy: huge pages cleared at the rate of stores.
    size = 10_000_000
    kept = seconds("add", 8_000_000, framework="torch") / 8_000_000
    faults = seconds("add", size, framework="torch") - kept * size
    assert faults == pytest.approx(size * 4 / 4096 * C("torch.fault_s"), rel=0.01)
    cleared = seconds("add", size) - seconds("add", 8_000_000) / 8e6 * size
    assert cleared == pytest.approx(size * 4 / (5e9 * C("numpy.clear_share")), rel=0.01)


def test_a_sum_along_a_row_is_a_chain_and_down_the_rows_a_stream():
    along = seconds("sum", "1000x1000", dims=1)
    assert along == pytest.approx(
        (1e6 * C("numpy.reduce_clocks") + 1000 * C("numpy.start_clocks")) / 3e9, rel=0.02
    )
    # down: the rows from L3 (4 MB), the 1,000 running sums read and written in L1, and a loop started for each row
    down = 4e6 / 50e9 + 2 * 4e6 / 200e9 + 1000 * C("numpy.start_clocks") / 3e9
    assert seconds("sum", "1000x1000", dims=0) == pytest.approx(down, rel=0.03)


def test_a_running_sum_waits_for_its_last_element():
    assert seconds("cumsum", 1_000_000) == pytest.approx(1e6 * C("numpy.scan_clocks") / 3e9, rel=0.01)


def test_a_gather_waits_for_memory_with_several_accesses_under_way():
    # 1 M rows of 16 bytes in a table of 1.6 GB: each a random access, 90 ns, so many at a time
    found = seconds("embedding", "100000000x4", "1000000")
    assert found == pytest.approx(1e6 * 90e-9 / C("cpu.core_misses"), rel=0.3)
    near = seconds("embedding", "1000x4", "1000000")
    assert near < found / 1.3


def test_a_measured_latency_curve_is_read_where_there_is_one():
    curve = Curve(
        name="latency", x_unit="byte", y_unit="s", scope="core", x=(1e3, 1e10), best=(1e-9, 900e-9),
        median=(1e-9, 900e-9), source=MEASURED,
    )  # fmt: skip
    slow = seconds("embedding", "100000000x4", "1000000", machine=box(curves=(curve,)))
    assert slow > 3 * seconds("embedding", "100000000x4", "1000000")


@pytest.mark.parametrize(("size", "dtype", "core_peak"), [(1024, "fp32", 96e9), (1024, "fp64", 48e9)])
def test_a_large_product_nears_the_peak_of_all_cores(size, dtype, core_peak):
    found = seconds("matmul", f"{size}x{size}", f"{size}x{size}", dtype=dtype)
    share = 2 * size**3 / found / (4 * core_peak)
    limit = C("numpy.product_share") * C("cpu.team_share")
    assert 0.9 * limit < share < limit


def test_a_small_product_stays_on_one_core():
    found = seconds("matmul", "32x32", "32x32")
    # 65.5 kFLOP on one core; a team would cost more than it saves
    alone = 2 * 32**3 / (96e9 * C("numpy.product_share")) * (1 + C("cpu.product_edge") / 32) ** 3
    # 8 kB of operands are packed, read from L1 and 4 kB written there at the same time
    moved = 8192 * C("cpu.pack_passes") / 50e9 + 8192 / 200e9
    call = 200e-9 * C("numpy.matmul_calls") + C("numpy.allocate_s")
    assert found == pytest.approx(alone + moved + call, rel=0.001)


def test_a_matrix_times_a_vector_streams_the_matrix():
    # 144 MB of fp32 at the memory's rate, all cores; PyTorch on one
    assert seconds("matmul", "6000x6000", 6000) == pytest.approx(
        144e6 / (30e9 * C("numpy.matvec_share")), rel=0.02
    )
    assert seconds("matmul", "6000x6000", 6000, framework="torch") == pytest.approx(
        144e6 / (10e9 * C("torch.matvec_share")), rel=0.02
    )


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in ("core-i9-14900k", "ryzen-9-9950x", "epyc-7763", "graviton4", "xeon-8480plus")
        for dtype in ("fp64", "fp32", "bf16")
        if rooflab.machine(name).peak(dtype) is not None
    ],
)
@pytest.mark.parametrize(("n", "k"), [(4096, 4096), (8192, 2048), (700, 900), (64, 64)])
def test_one_row_takes_no_longer_than_two(name, dtype, n, k):
    machine = rooflab.machine(name)
    times = []
    for rows in (1, 2, 3, 5, 16, 200):
        prediction = rooflab.op("linear", (rows, k), (n, k), dtype=dtype, machine=machine).prediction
        assert prediction is not None
        times.append(prediction.time_s)
    # What fits in which cache changes with the rows too, by thousandths.
    assert all(more >= fewer * 0.999 for fewer, more in itertools.pairwise(times))


def test_numpy_starts_a_team_for_each_product_of_a_batch():
    once = seconds("matmul", "256x256", "256x256")
    assert seconds("matmul", "8x256x256", "8x256x256") == pytest.approx(8 * once, rel=0.15)


def test_a_convolution_is_the_product_that_it_is_and_a_depthwise_one_is_none():
    found = seconds("conv2d", "8x64x56x56", "64x64x3x3", padding=1, framework="torch")
    flop = 2 * 8 * 56 * 56 * 64 * 64 * 9
    limit = 4 * 96e9 * C("torch.conv_share") * C("cpu.team_share")
    assert 0.75 * limit < flop / found < limit
    depthwise = rooflab.op("conv2d", "8x64x56x56", "64x1x3x3", groups=64)
    row = depthwise.rows[0]
    specs = tuple(depthwise.graph.tensors)
    assert row.cost is not None
    assert cpu_matmul.features(row.op, specs[:2], specs[2:], row.cost) is None


def test_every_column_has_a_number():
    for kind, shapes in (
        ("add", "8 8"),
        ("sum", "8x8"),
        ("softmax", "8x8"),
        ("embedding", "8x8 8"),
        ("copy", "8"),
    ):
        report = rooflab.op(kind, *shapes.split())
        row, specs = report.rows[0], report.graph.tensors
        assert row.cost is not None
        inputs = tuple(specs[index] for index in row.op.inputs)
        outputs = tuple(specs[index] for index in row.op.outputs)
        found = cpu_stream.features(row.op, inputs, outputs, row.cost)
        assert len(found) == len(cpu_stream.COLUMNS)
        assert np.isfinite(found).all()


def test_more_of_anything_is_never_slower():
    for kind, shapes in (("add", [8_000_000]), ("exp", [1_000_000]), ("matmul", ["512x512", "512x512"])):
        base = seconds(kind, *shapes)
        for knob in ("bandwidth", "compute", "clock", "cache_bandwidth", "cache_capacity"):
            assert seconds(kind, *shapes, what_if={knob: 2.0}) <= base * (1 + 1e-9)
    twice = seconds("add", 8_000_000, what_if={"bandwidth": 2.0})
    assert twice == pytest.approx(seconds("add", 8_000_000) / 2, rel=0.01)


def test_many_settings_are_one_evaluation():
    from rooflab.model.program import op_times

    factors = np.array([0.5, 1.0, 2.0])
    for kind, shapes in (
        ("add", (8_000_000,)),
        ("matmul", ("300x300", "300x300")),
        ("embedding", ("9000x64", "500")),
    ):
        report = rooflab.op(kind, *shapes)
        work = op_times.prepare(report.graph, report.rows)
        knobs = {"bandwidth": factors, "compute": factors, "clock": factors, "cache_capacity": factors}
        together = op_times.predict_times(work, device_of(BOX, knobs=knobs)).kernels.time_s
        apart = [
            op_times.predict_times(work, device_of(BOX, knobs=dict.fromkeys(knobs, float(each)))).kernels.time_s[
                0, 0
            ]
            for each in factors
        ]
        np.testing.assert_allclose(together[0], apart, rtol=1e-12)


@pytest.mark.parametrize("name", ["epyc-9755", "epyc-7763", "xeon-8480plus", "grace", "raspberry-pi-5"])
def test_a_catalogue_cpu_is_predicted_from_its_theory(name):
    machine = rooflab.machine(name)
    for kind, shapes in (("add", "100000000"), ("matmul", "2048x2048 2048x2048"), ("softmax", "4096x4096")):
        found = rooflab.op(kind, *shapes.split(), machine=machine).prediction
        assert found is not None
        assert found.floor_s <= found.low_s <= found.time_s <= found.high_s
    # 1.2 GB through one core, which draws no more than all of them together
    memory = machine.level("memory").rate()
    assert memory is not None
    assert seconds("add", 100_000_000, machine=machine) > 1.2e9 / memory.value


def test_pytorchs_dispatch_is_in_the_operations_and_not_waited_for_again():
    report = rooflab.op("add", 1000)
    eager, graph = (forecast.predict_on(report, BOX, Setting(mode=mode)).prediction for mode in ("eager", "graph"))
    assert eager is not None
    assert graph is not None
    assert eager.time_s == pytest.approx(graph.time_s)


@pytest.mark.parametrize(("dtype", "gigaflops"), [("fp64", 4 * 48), ("fp32", 4 * 96)])
def test_flop_of_somebodys_own_take_at_least_their_time_at_the_peak(dtype, gigaflops):
    # 9.6 GFLOP on four cores; 1 MB takes far less than that
    found = forecast.predict_on(counting.report(own.given("mine", 9.6e9, 1e6, dtype), "mine"), BOX, Setting())
    assert found.prediction is not None
    assert found.prediction.compute_s == pytest.approx(9.6 / gigaflops)
    assert found.prediction.time_s == pytest.approx(9.6 / gigaflops, rel=0.02)
    assert found.prediction.bound == "compute-bound"


def test_a_convolution_of_two_signals_is_a_dot_product_for_each_result():
    def predicted(taps: int) -> float:
        report = rooflab.analyze(np.convolve, np.ones(5000), np.ones(taps), machine=BOX)
        assert report.time_s is not None
        return report.time_s

    sums = (5099 * 0.4 * C("numpy.start_clocks") + 5099 * 100 * 0.5 * C("numpy.reduce_clocks")) / 3e9
    assert predicted(100) == pytest.approx(sums, rel=0.05)
    assert predicted(8) < predicted(12) / 3  # one loop of few taps


def test_rows_of_a_broadcast_are_copied_through_a_buffer():
    x, column = np.ones((4000, 10)), np.ones((4000, 1))
    plain = rooflab.analyze(np.divide, x, x, machine=BOX).time_s
    rows = rooflab.analyze(np.divide, x, column, machine=BOX).time_s
    assert plain is not None
    assert rows is not None
    copied = (4000 * C("numpy.row_clocks") + 4000 * 10 * 8 * C("numpy.buffer_clocks")) / 3e9
    assert rows - plain == pytest.approx(copied, rel=0.1)


def test_a_sort_waits_for_compressed_stores_where_they_are_microcode():
    """Above what networks sort, each halving stores each vector of eight twice: 2 · 52 cycles on Zen 4."""
    n = 1 << 16
    usual, zen4 = (
        rooflab.analyze(np.sort, np.ones(n), machine=box(environment=environment)).time_s
        for environment in ({}, {"microarchitecture": "Zen 4"})
    )
    assert usual is not None
    assert zen4 is not None
    rounds = 16 + 3 - 10  # log2 of 8n bytes over 1,024
    assert zen4 - usual == pytest.approx(n * rounds * 2 * 52 / 8 / 3e9, rel=0.02)
