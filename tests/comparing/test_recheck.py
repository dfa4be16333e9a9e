"""Earlier advice rechecked: made or not, predicted against obtained, nothing made up."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab.comparing.recheck import recheck
from rooflab.types.advice import Advice, Advices
from rooflab.types.comparison import Amount, Difference, Value
from rooflab.types.profile import Profile
from rooflab.types.timeline import DeviceTime, Timeline
from rooflab.views.comparison.sheet import followed


def advice(rule, before_s=10e-3, after_s=4e-3):
    return Advice(
        rule=rule,
        change=rule,
        evidence=(),
        before_s=before_s,
        after_s=after_s,
        gain_low_s=5e-3,
        gain_high_s=7e-3,
        effort="line",
    )


def run(span_s, *each, **more):
    held = {name: 0.0 for name in DeviceTime.__struct_fields__ if name.endswith("_s")} | {"span_s": span_s}
    timeline = Timeline(devices=(DeviceTime(device=0, kernels=1, idle=(), **held),))
    return Profile(name="run", source="by hand", rows=(), timeline=timeline, advice=Advices(each=each, **more))


def span(before_s, after_s):
    return Amount(metric="span", unit="s", base=Value(value=before_s), other=Value(value=after_s), verdict="less")


def test_what_is_advised_no_more_was_made_and_saved_what_the_run_saved():
    (one,) = recheck(run(10e-3, advice("graph")), run(4.5e-3), span(10e-3, 4.5e-3))
    assert one.status == "made"
    assert one.predicted_share == pytest.approx(0.6)
    assert one.obtained_share == pytest.approx(0.55)


def test_a_share_of_what_another_change_leaves_says_so():
    base = run(
        10e-3, advice("graph"), trades=(msgspec.structs.replace(advice("half", 4e-3, 1e-3), after=("graph",)),)
    )
    graph, half = recheck(base, run(9e-3, advice("graph")), span(10e-3, 9e-3))
    assert (graph.after, half.after) == ((), ("graph",))
    table = followed(Difference(other=1, amounts=(), followed=(graph, half)))
    assert [row[2] for row in table.rows] == ["6.00 ms, 60 %", "3.00 ms, 75 % once graph is done"]


def test_what_is_advised_still_was_not_made():
    (one,) = recheck(run(10e-3, advice("graph")), run(9e-3, advice("graph")), span(10e-3, 9e-3))
    assert (one.status, one.obtained_share) == ("not made", None)


def test_of_several_changes_it_is_not_known_which_saved_how_much():
    base = run(
        10e-3, advice("graph"), advice("copies", after_s=8e-3), together=("graph", "copies"), together_s=3e-3
    )
    graph, copies, both = recheck(base, run(3.5e-3), span(10e-3, 3.5e-3))
    assert graph.obtained_share is copies.obtained_share is None
    assert (both.rule, both.predicted_s) == ("graph + copies", pytest.approx(7e-3))
    assert both.obtained_share == pytest.approx(0.65)


def test_what_was_not_asked_is_unknown():
    base = run(10e-3, advice("graph"))
    assert recheck(base, msgspec.structs.replace(run(9e-3), advice=None), None)[0].status == "unknown"
    unasked = run(9e-3, unasked=("graph: its launches are not recorded",))
    assert recheck(base, unasked, None)[0].status == "unknown"
    assert recheck(base, base, None)[0].status == "not made"
    assert recheck(unasked, base, None) == ()


def test_a_mode_says_whether_a_graph_was_recorded():
    eager = rooflab.op("relu", (64,), dtype="bf16", machine="h200-sxm", mode="eager")
    eager = msgspec.structs.replace(eager, advice=Advices(each=(advice("cuda-graph"),)))
    graph = eager.on("h200-sxm", mode="graph")
    (difference,) = rooflab.compare(eager, graph, names=["eager", "graph"]).differences
    assert [each.status for each in difference.followed] == ["made"]
    assert difference.followed[0].obtained_share == pytest.approx(1 - graph.time_s / eager.time_s)


def test_a_profile_is_held_to_its_time_from_begin_to_end(root):
    trace = rooflab.load(root / "examples" / "gpt2-h200-trace.json.gz")
    (difference,) = rooflab.compare(trace, trace, names=["a", "b"]).differences
    assert [each.status for each in difference.followed] == ["not made"]
