"""`rooflab.compare` on reports, profiles, loops, machines: matched, per sample, bars, gates, bad input."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import msgspec
import pytest

import rooflab
from rooflab.comparing import conditions, intervals
from rooflab.comparing.intervals import Bar
from rooflab.errors import FileError, RooflabError, UnknownNameError
from rooflab.types.comparison import Measure, Value

EXAMPLES = Path(__file__).parents[2] / "examples"


@functools.cache
def matmul(n: int = 1024, dtype: str = "bf16", machine: str | None = "h200-sxm"):
    return rooflab.op("matmul", f"1024x{n}", f"{n}x1024", dtype=dtype, machine=machine)


def only(*results, **how):
    (difference,) = rooflab.compare(*results, **how).differences
    return difference


def test_the_same_twice_is_no_difference():
    difference = only(matmul(), matmul(), names=["a", "b"])
    assert {amount.verdict for amount in difference.amounts} == {"same"}
    assert difference.terms == ()
    assert difference.count("matched") == 1


def test_twice_the_work_is_told_by_cause_and_adds_up():
    difference = only(matmul(), matmul(2048))
    flop = difference.amount("flop")
    assert flop is not None
    assert (flop.base, flop.other) == (Value(value=2 * 1024**3), Value(value=4 * 1024**3))
    assert (flop.relative, flop.verdict) == (1.0, "more")
    change = difference.rows[0].change_s
    assert change == pytest.approx(matmul(2048).time_s - matmul().time_s)
    assert math.fsum(term.seconds for term in difference.terms) == pytest.approx(change, rel=1e-12)


def test_predictions_of_one_model_err_together():
    # The product of twice the depth takes longer whatever factor the model is off by.
    time = only(matmul(), matmul(1280)).amount("time")
    assert matmul(1280).low_s < matmul().high_s  # though the bars of both overlap
    assert time.verdict == "more"
    assert 0 < time.low < time.change < time.high


def test_on_another_machine_each_errs_on_its_own():
    time = only(matmul(), matmul(machine="h100-sxm")).amount("time")
    assert time.verdict == "same"
    assert time.why == "no change beyond the error bars"
    assert time.low < 0 < time.high


def test_a_format_changes_roofs_and_bytes():
    difference = only(matmul(), matmul(dtype="fp32"))
    causes = {term.cause: term.seconds for term in difference.terms}
    assert difference.amount("bytes").relative == pytest.approx(1.0)
    assert causes["roofs"] > 0


def batch(size: int):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with torch.device("meta"):
        layer = torch.nn.Linear(512, 512)
        return rooflab.analyze(layer, torch.empty(size, 512), machine="h200-sxm", mode="graph")


def test_per_sample_where_batches_differ():
    difference = only(batch(1), batch(8))
    assert (difference.divided, difference.base_divisor, difference.other_divisor) == ("sample", 1, 8)
    flop = difference.amount("flop")
    # A sample asks for the same, whatever the batch: 2·512·512 of the product and, where counted, the bias.
    assert flop.base.value == pytest.approx(flop.other.value)
    assert flop.per_sample
    assert not difference.amount("memory").per_sample
    whole = only(batch(1), batch(8), per_sample=False)
    assert whole.amount("flop").relative == pytest.approx(7.0)


def test_fused_operations_stand_against_those_they_replace():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = torch.empty(4096, 4096, device="meta")
    report = rooflab.analyze(lambda x: torch.relu(x + 1) * 2, x, machine="h200-sxm", mode="graph")
    difference = only(report, report.on("h200-sxm", mode="compiled"))
    assert difference.count("fused") == 1
    (row,) = difference.rows
    # Three operations that each read and write 67 MB become one.
    assert row.other.nbytes == pytest.approx(row.base.nbytes / 3, rel=1e-6)
    assert difference.terms[0].cause == "bytes"


def test_kernels_that_a_compiler_leaves_alone_have_no_bar():
    report = matmul()
    difference = only(report, report.on("h200-sxm", mode="compiled", cache="cold"))
    (row,) = difference.rows
    assert (row.status, row.change_s, row.low_s, row.high_s) == ("matched", 0.0, 0.0, 0.0)
    # In eager mode the host is in the way, and its error is its own.
    eager = only(report, report.on("h200-sxm", mode="eager", cache="cold"))
    assert eager.rows[0].low_s < eager.rows[0].change_s < eager.rows[0].high_s


def test_two_ranks_of_measured_times():
    profile = rooflab.load(EXAMPLES / "gpt2-h200-trace.json.gz")
    difference = only(profile, profile, names=["rank 0", "rank 1"])
    assert difference.amount("time").verdict == "same"
    assert difference.count("matched") == len(profile.rows)
    slower = msgspec.structs.replace(
        profile,
        rows=tuple(
            msgspec.structs.replace(
                row,
                observation=msgspec.structs.replace(
                    row.observation,
                    time_s=2 * row.observation.time_s,
                    low_s=2 * row.observation.low_s,
                    high_s=2 * row.observation.high_s,
                ),
            )
            for row in profile.rows
        ),
    )
    time = only(profile, slower).amount("time")
    assert (time.verdict, time.relative) == ("more", pytest.approx(1.0))


def test_several_runs_of_a_profile_are_divided():
    profile = rooflab.load(EXAMPLES / "gpt2-h200-trace.json.gz")
    rows = tuple(
        msgspec.structs.replace(
            row,
            executions=3 * row.executions,
            observation=msgspec.structs.replace(row.observation, time_s=3 * row.observation.time_s),
        )
        for row in profile.rows
    )
    difference = only(profile, msgspec.structs.replace(profile, rows=rows))
    assert (difference.divided, difference.other_divisor) == ("run", 3)
    assert difference.amount("time").verdict == "same"


def test_beside_a_profile_an_eager_report_is_taken_without_its_waits():
    profile = rooflab.load(EXAMPLES / "gpt2-h200-trace.json.gz")
    row = next(row for row in profile.rows if row.shapes == "128x768 · 768x50257")
    report = rooflab.op("matmul", "128x768", "768x50257", dtype="bf16", machine="h200-sxm")
    named = msgspec.structs.replace(report.rows[0], op=msgspec.structs.replace(report.rows[0].op, name=row.name))
    graph = msgspec.structs.replace(
        report, rows=(named,), graph=msgspec.structs.replace(report.graph, ops=(named.op,))
    )
    eager = graph.on("h200-sxm", mode="eager", dispatch_s=1e-3)
    alone = msgspec.structs.replace(profile, rows=(row,))
    assert eager.time_s > 1e-3  # waits for the host
    for result in (graph.on("h200-sxm", mode="graph"), eager):
        difference = only(result, alone)
        assert difference.amount("time").base.value < 0.3e-3
        assert difference.amount("overhead").base is None
    assert any("taken as a graph" in note for note in difference.notes)


def test_without_a_machine_counts_are_compared():
    difference = only(matmul(machine=None), matmul(2048, machine=None))
    assert difference.amount("time") is None
    assert difference.amount("flop").relative == 1.0
    assert difference.terms == ()


def test_machines_and_variants():
    difference = only("h200-sxm", "a100-sxm-80gb")
    assert difference.amount("HBM bandwidth, theoretical").verdict == "less"
    assert difference.amount("power").change == 400 - 700  # W, by their datasheets
    variants = rooflab.variants(matmul(), ["h200-sxm", "h100-sxm", "l4"])
    assert [one.other for one in rooflab.compare(variants).differences] == [1, 2]


def test_a_lower_bound_is_not_compared_as_a_whole():
    report = matmul()
    partial = msgspec.structs.replace(report, prediction=None, predicted_part=report.prediction)
    found = rooflab.compare(report, partial, fail_if=["time>+5%", "time>1s", "time>1ns"])
    time = found.differences[0].amount("time")
    assert (time.verdict, time.change) == ("unknown", None)
    # Whether it is more cannot be told; that even a part is over a nanosecond can.
    assert [gate.outcome for gate in found.gates] == ["unknown", "unknown", "failed"]
    assert not found.ok


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [
        ("time>+5%", "failed"),
        ("time > +500 %", "passed"),
        ("flop>+99%", "failed"),
        ("flop>+100%", "passed"),  # exactly twice is not more than twice
        ("flop>=+100%", "failed"),
        ("flop<-1%", "passed"),
        ("bytes>+1kB", "failed"),
        ("memory>80GB", "passed"),
        ("coverage<100%", "passed"),
        ("launches>+0", "passed"),
        ("op:matmul flop>+5%", "failed"),
        ("op:mat* time>1s", "passed"),
        ("energy>1000J", "passed"),
        ("share of roof<100%", "failed"),
    ],
)
def test_conditions(condition, outcome):
    (gate,) = rooflab.compare(matmul(), matmul(2048), fail_if=condition).gates
    assert gate.outcome == outcome, gate.says


def test_a_change_within_the_error_bars_does_not_fail():
    # Slower by the best guess, on a machine whose bars overlap.
    slow, fast = sorted((matmul(), matmul(machine="h100-sxm")), key=lambda report: -report.time_s)
    (gate,) = rooflab.compare(fast, slow, fail_if="time>+0%").gates
    assert gate.outcome == "within error"


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("tme>+5%", "did you mean time"),
        ("time", "expected METRIC"),
        ("time>5%", "of what"),
        ("time>+5GB", "is in byte, expected s"),
        ("time>3", "no unit"),
        ("time>+x%", "expected METRIC"),
        ("op:matmull time>+5%", "did you mean matmul"),
        ("op:matmul memory>+5%", "unknown metric of an operation"),
        ("share<5s", "not a number"),
    ],
)
def test_bad_conditions(condition, said):
    with pytest.raises(RooflabError, match=said):
        rooflab.compare(matmul(), matmul(2048), fail_if=condition)


def test_bad_input(tmp_path):
    with pytest.raises(RooflabError, match="expected two results at least"):
        rooflab.compare(matmul())
    with pytest.raises(RooflabError, match=r"nothing in common: .* matmul.* relu"):
        rooflab.compare(matmul(), rooflab.op("relu", 4096, machine="h200-sxm"), names=["a", "b"])
    with pytest.raises(RooflabError, match="is a Machine"):
        rooflab.compare(matmul(), "h200-sxm")
    curve = rooflab.miss_curve(rooflab.streams.sequential(64))
    with pytest.raises(RooflabError, match="a MissCurve is not compared"):
        rooflab.compare(curve, curve)
    with pytest.raises(UnknownNameError, match="did you mean H200 SXM"):
        rooflab.compare("h20O-sxm", "h200-sxm")
    path = tmp_path / "newer.json"
    path.write_text('{"type": "Report", "schema": 99}', encoding="utf-8")
    with pytest.raises(FileError, match="newer"):
        rooflab.compare(path, path)
    broken = msgspec.structs.replace(
        matmul(), prediction=msgspec.structs.replace(matmul().prediction, time_s=math.nan)
    )
    with pytest.raises(RooflabError, match="time is nan"):
        rooflab.compare(matmul(), broken)
    with pytest.raises(RooflabError, match="2 names and 3 results"):
        rooflab.compare(matmul(), matmul(), matmul(), names=["a", "b"])


def test_members_of_a_file(tmp_path):
    path = tmp_path / "variants.json"
    rooflab.variants(matmul(), ["h200-sxm", "l4"]).save(path)
    found = rooflab.compare(f"{path}#h200-sxm", f"{path}#l4")
    assert [side.name for side in found.sides] == ["h200-sxm", "l4"]
    with pytest.raises(UnknownNameError, match="l4"):
        rooflab.compare(f"{path}#l44", path)


def test_bars():
    # 10 ± 1 and 14 ± 2: the difference is 4, and √(1² + 2²) = 2.24 either way.
    bar = intervals.between(Value(value=10, low=9, high=11), Value(value=14, low=12, high=16))
    assert bar == pytest.approx((4, 4 - 5**0.5, 4 + 5**0.5))
    one, two = (Measure(time_s=t, low_s=0.5 * t, high_s=2 * t) for t in (4.0, 6.0))
    # One factor of 0.5 to 2 on both: the difference of 2 is 1 to 4.
    assert intervals.of_rows(one, two, shared=True) == Bar(2.0, 1.0, 4.0)
    assert intervals.of_rows(one, one, shared=True) == Bar(0.0, 0.0, 0.0)
    assert intervals.of_rows(two, None, shared=False) == Bar(-6.0, -12.0, -3.0)
    assert intervals.verdict(Bar(1.0, None, None), 2.0)[0] == "unsure"


def test_a_condition_is_read():
    read = conditions.parse(" op:aten.mm  Time >= -1.5e3 us ")
    assert (read.where, read.name, read.metric, read.op) == ("op", "aten.mm", "time", ">=")
    assert (read.basis, read.value, read.sign) == ("change", "1.5e3 us", -1.0)


def test_idle_time_is_told_beside_the_operations_and_all_adds_up():
    """1 ms more idle for launches on the other side; operations as they were: the wall time has 1 ms more."""
    profile = rooflab.load(EXAMPLES / "gpt2-h200-trace.json.gz")
    (device,) = profile.timeline.devices
    first = device.idle[0]
    longer = msgspec.structs.replace(first, seconds=first.seconds + 1e-3)
    slower = msgspec.structs.replace(device, span_s=device.span_s + 1e-3, idle=(longer, *device.idle[1:]))
    other = msgspec.structs.replace(profile, timeline=msgspec.structs.replace(profile.timeline, devices=(slower,)))
    difference = only(profile, other)
    assert [term.cause for term in difference.idle] == [f"idle: {first.cause}"]
    assert math.fsum(term.seconds for term in (*difference.terms, *difference.idle)) == pytest.approx(1e-3)
    # Operations that took 2 ms longer, 1 ms of it beside each other: "at once" takes off what the wall has not.
    row = profile.rows[0]
    seen = msgspec.structs.replace(row.observation, time_s=row.time_s + 2e-3)
    rows = (msgspec.structs.replace(row, observation=seen), *profile.rows[1:])
    difference = only(profile, msgspec.structs.replace(other, rows=rows))
    assert {term.cause: term.seconds for term in difference.idle}["at once"] == pytest.approx(-2e-3)
    assert math.fsum(term.seconds for term in (*difference.terms, *difference.idle)) == pytest.approx(1e-3)


def test_programs_that_share_little_are_said_to():
    """One operation of both is the same; of the others each has its own."""
    from rooflab.views.comparison.sheet import sentences

    profile = rooflab.load(EXAMPLES / "gpt2-h200-trace.json.gz")
    last = profile.rows[-1]
    strange = tuple(
        msgspec.structs.replace(row, name=f"other{n}", shapes=f"{n}", kind=None)
        for n, row in enumerate(profile.rows)
    )
    compared = rooflab.compare(profile, msgspec.structs.replace(profile, rows=(*strange[:-1], last)))
    shares = compared.differences[0].shared()
    # The last row alone is the same.
    assert shares == pytest.approx((last.time_s / profile.time_s,) * 2)
    assert any("They share little" in line for line in sentences(compared))
    alike = rooflab.compare(profile, profile)
    assert alike.differences[0].shared() == (1.0, 1.0)
    assert not any("They share little" in line for line in sentences(alike))
