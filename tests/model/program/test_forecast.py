"""Predictions of rows and of whole programs: sums, bars, what binds, floors; held against measured models."""

from __future__ import annotations

import io
import math
import re
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rooflab
from rooflab import views
from rooflab.model.roofline import per_operation
from rooflab.types.report import Report
from rooflab.types.setting import Mode
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.units import duration
from rooflab.views.report import html, tables
from rooflab.work import counting
from support.model.measured import measured

MODES: tuple[Mode, ...] = ("eager", "graph", "compiled")


def program(*sizes: int, views: int = 0) -> Report:
    """A chain of element-wise operations on vectors of `sizes` fp32 elements, `views` views before each."""
    tensors, ops = [], []
    for size in sizes:
        first = len(tensors)
        tensors += [TensorSpec((size,), "fp32", 4.0 * size, storage=first + n, role="input") for n in range(2)]
        ops += [Op(name="aten.view", kind="view", inputs=(first,), outputs=(first,))] * views
        attrs = {"function": "add"}
        ops.append(Op(name="aten.add", kind="pointwise", inputs=(first,), outputs=(first + 1,), attrs=attrs))
    return counting.report(Graph(framework="torch", tensors=tuple(tensors), ops=tuple(ops)), "chain")


def seconds(report: Report) -> float:
    """What is predicted for the whole program."""
    assert report.time_s is not None
    return report.time_s


def width(report: Report) -> float:
    """The program's bar: high over low."""
    assert report.prediction is not None
    return report.prediction.high_s / report.prediction.low_s


def test_a_program_is_the_sum_of_its_rows() -> None:
    """Times, floors, levels, kernels; the bar's ends hold the time."""
    report = program(1 << 20, 1 << 24, 1 << 26).on("h200", mode="graph")
    rows = [row.prediction for row in report.rows]
    whole = report.prediction
    assert whole is not None
    assert whole.time_s == pytest.approx(sum(row.time_s for row in rows if row))
    assert whole.floor_s >= sum(row.floor_s for row in rows if row)  # and what no cache can keep between them
    assert whole.kernels == 3
    assert whole.low_s < whole.time_s < whole.high_s
    assert (report.time_s, report.low_s, report.high_s) == (whole.time_s, whole.low_s, whole.high_s)


def test_rows_wrong_the_same_way_keep_the_width_of_their_bars() -> None:
    """Equal rows: the program's bar is as wide as a row's, in ln(time)."""
    report = program(1 << 26, 1 << 26, 1 << 26).on("h200", mode="graph", cache="cold")
    row, whole = report.rows[0].prediction, report.prediction
    assert row is not None
    assert whole is not None
    assert math.log(whole.high_s / whole.time_s) == pytest.approx(math.log(row.high_s / row.time_s))


def test_small_kernels_wait_for_the_host() -> None:
    """A hundred adds of 4 KB: the host's 14.4 µs each (0.72 × 20 µs), and the last kernel behind them."""
    report = program(*[1024] * 100).on("h200", mode="eager")
    graph = program(*[1024] * 100).on("h200", mode="graph")
    last = graph.rows[-1].prediction
    assert last is not None
    assert report.time_s == pytest.approx(100 * 14.4e-6 + last.time_s)
    assert (report.bound, report.binds) == ("overhead-bound", "host")
    assert graph.binds == "launch"


def test_views_cost_the_host_time() -> None:
    """Two views before each add: 2 × 3.6 µs more of the host, on a row that launches."""
    plain, viewed = (program(*[1024] * 10, views=n).on("h200", mode="eager") for n in (0, 2))
    assert seconds(viewed) - seconds(plain) == pytest.approx(10 * 2 * 0.72 * 5e-6)
    assert viewed.prediction is not None
    assert viewed.prediction.host_s == pytest.approx(10 * (14.4e-6 + 7.2e-6))


def test_long_kernels_hide_the_host() -> None:
    """Kernels of 0.1 ms: only the first call is waited for."""
    eager, graph = (program(*[1 << 26] * 5).on("h200", mode=mode) for mode in MODES[:2])
    assert seconds(eager) == pytest.approx(seconds(graph) + 14.4e-6)


def test_compiled_is_never_slower_and_moves_no_more() -> None:
    """A chain through one tensor becomes one kernel."""
    torch = pytest.importorskip("torch")
    x = torch.empty((4096, 4096), device="meta", dtype=torch.bfloat16)
    report = rooflab.analyze(lambda x: torch.relu(x * 2).exp() + 1, x)
    graph, compiled = report.on("h200", mode="graph"), report.on("h200", mode="compiled")
    assert len(compiled.rows) == 1
    assert compiled.nbytes < graph.nbytes
    assert seconds(compiled) < seconds(graph) / 2


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 1 << 28), min_size=1, max_size=6),
    st.sampled_from(MODES),
    st.sampled_from(["h200", "a100-sxm-80gb", "mi300x", "tpu-v5e", "epyc-9654"]),
    st.sampled_from(["warm", "cold"]),
)
def test_no_prediction_beats_theory(sizes: list[int], mode: Any, machine: str, cache: Any) -> None:
    """Every row and every program, in every mode, on machines of every kind: low ≥ floor, low ≤ time ≤ high."""
    report = program(*sizes).on(machine, mode=mode, cache=cache)
    found = [row.prediction for row in report.rows if row.prediction] + [report.prediction]
    for each in found:
        assert each is not None
        assert each.floor_s <= each.low_s <= each.time_s <= each.high_s
        terms = [each.compute_s, *each.memory_s.values(), each.overhead_s]
        assert min(terms) >= 0
        assert each.bound in ("memory-bound", "compute-bound", "overhead-bound", "balanced")


def test_an_empty_program_has_no_prediction() -> None:
    """Nothing to time is unknown, not zero."""
    report = counting.report(Graph(framework="hand", tensors=(), ops=()), "empty").on("h200")
    assert report.prediction is None
    assert report.time_s is None


def test_an_unknown_host_widens_what_it_binds_and_nothing_else() -> None:
    """A hundred tiny calls with the host given and not; the same as a graph, where no host is in the way."""
    hosts: list[dict[str, Any]] = [{}, {"dispatch_s": 14.9e-6}]
    tiny = program(*[1024] * 100)
    unknown, known = (tiny.on("h100-sxm", mode="eager", **host) for host in hosts)
    assert unknown.time_s == pytest.approx(known.time_s)
    assert width(unknown) > 1.3 * width(known)
    assert ["host: not known" in " ".join(each.conventions) for each in (unknown, known)] == [True, False]
    graph, given_graph = (tiny.on("h100-sxm", mode="graph", **host) for host in hosts)
    assert graph.prediction == given_graph.prediction


# ── measured models ──────────────────────────────────────────────────────────────────────────────────────


def _errors(record: dict[str, Any]) -> list[tuple[Mode, float, bool]]:
    """By mode that was timed: predicted / measured - 1, and whether the time lies within the bars."""
    from support.model.torch_models import build

    module, inputs = build(record["name"])
    with pytest.importorskip("torch").no_grad():
        report = rooflab.analyze(module, *inputs)
    keys: dict[Mode, str] = {"eager": "eager_ms", "graph": "graph_ms"}
    if "compiled" in record["mode"]:
        keys = {"compiled": "kernel_sum_ms"}
    errors = []
    for mode, key in keys.items():
        host: dict[str, Any] = (
            {"dispatch_s": 14.9e-6} if mode == "eager" else {}
        )  # of one eager add on the host that ran them
        predicted, measured_s = report.on("h200", mode=mode, **host), record[key] / 1e3
        assert predicted.time_s is not None
        inside = predicted.low_s <= measured_s <= predicted.high_s
        errors.append((mode, predicted.time_s / measured_s - 1, inside))
    return errors


def test_a_measured_model_takes_what_was_measured() -> None:
    """GPT-2 of 8 × 1024 tokens on an H200: launched from Python and replayed as a graph."""
    pytest.importorskip("torch")
    (gpt,) = [each for each in measured("models") if each["name"] == "gpt2-b8-t1024" and each["mode"] == "forward"]
    errors = {mode: error for mode, error, _ in _errors(gpt)}
    assert abs(errors["graph"]) <= 0.05
    assert abs(errors["eager"]) <= 0.1


@pytest.mark.slow
def test_measured_models_of_an_h200() -> None:
    """Medians of |error|: graph ≤ 3 % (worst ≤ 8 %), compiled kernels ≤ 10 %, eager ≤ 10 %; bars hold ≥ 70 %."""
    pytest.importorskip("torch")
    every = [each for record in measured("models") for each in _errors(record)]
    errors = {mode: [abs(error) for each, error, _ in every if each == mode] for mode in MODES}
    assert np.median(errors["graph"]) <= 0.03
    assert max(errors["graph"]) <= 0.08
    assert np.median(errors["compiled"]) <= 0.1
    assert np.median(errors["eager"]) <= 0.1
    assert np.mean([inside for _, _, inside in every]) >= 0.7


def test_a_total_with_a_part_missing_is_no_total_anywhere() -> None:
    """The second of three operations is not counted: no time, bound or bar, but "more than" in every place."""
    report = program(1 << 20, 1 << 22, 1 << 24)
    first, second, third = report.rows
    report = msgspec.structs.replace(report, rows=(first, msgspec.structs.replace(second, cost=None), third))
    report = report.on("h200", mode="graph")
    assert [row.op.name for row in report.unpredicted] == ["aten.add"]
    assert (report.prediction, report.time_s, report.low_s, report.high_s, report.bound, report.binds) == (
        None,
    ) * 6
    part = report.predicted_part
    assert part is not None
    assert report.time_at_least_s == part.time_s
    totals = report.to_dict()["totals"]
    assert (totals["time_s"], totals["bound"], totals["time_at_least_s"]) == (None, None, part.time_s)
    shown = duration(part.time_s)
    terminal_text, page_text = io.StringIO(), html(report).replace("&gt;", ">")
    views.show(report, terminal_text)
    both = rooflab.variants(report, ["h200", "l4"], mode="graph")
    for text in (terminal_text.getvalue(), page_text, repr(report), repr(both)):
        places = [found.start() for found in re.finditer(re.escape(shown), text)]
        assert places
        assert all(text[:place].endswith("> ") for place in places)


@pytest.mark.parametrize("whole", [True, False])
def test_counts_that_leave_something_out_are_said_to(whole: bool) -> None:
    """JSON names the totals that are lower bounds; the terminal puts "more than" before them."""
    report = program(1 << 20, 1 << 22)
    if not whole:
        graph = report.graph
        ops = (graph.ops[0], msgspec.structs.replace(graph.ops[1], kind=None))
        report = counting.report(msgspec.structs.replace(graph, ops=ops), "part")
    assert ("flop" in report.to_dict()["totals"]["lower_bounds"]) is not whole
    facts = dict(tables.facts(report))
    assert [facts[name].startswith("> ") for name in ("FLOP", "bytes", "accessed")] == [not whole] * 3
    assert (facts["intensity"] == "–") is not whole


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in ("tpu-v5e", "h200", "l40s", "epyc-9654", "mi300x")
        for dtype in ("int8", "bf16", "fp32")
        if rooflab.machine(name).peak(dtype) is not None
    ],
)
def test_the_ridge_printed_is_that_of_the_verdict(name: str, dtype: str) -> None:
    """Above it arithmetic takes longer than any level, below it some level does; both at attained rates."""
    machine = rooflab.machine(name)
    for rows in (1, 16, 150, 255, 300, 1000, 8192):
        row = rooflab.op("matmul", (5000, 3072), (3072, rows), dtype=dtype, machine=machine, mode="graph").rows[0]
        assert row.ridge is not None
        assert row.intensity is not None
        if row.bound == "compute-bound":
            assert row.intensity > row.ridge
        if row.bound == "memory-bound":
            assert row.intensity < row.ridge


def test_without_a_prediction_the_ridge_is_theory() -> None:
    """TPU v5e, int8: 394 TOP/s over 819 GB/s are 481 operations a byte; predicted, both rates are lower."""
    machine = rooflab.machine("tpu-v5e")
    report = rooflab.op("matmul", (16384, 4096), (4096, 255), dtype="int8")
    assert per_operation.bound_on(report, machine).rows[0].ridge == pytest.approx(394e12 / 819e9, rel=1e-3)
