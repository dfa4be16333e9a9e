"""What would explain a measured time: each suspect is the prediction of the changed program, and held to it."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab.model.suspects.one_core import one_core
from rooflab.model.suspects.rules import LAST, RULES, own_time
from rooflab.model.suspects.slower import first_calls
from rooflab.types.machine import Link, Source

SQUARE = ("4096x4096", "4096x4096")


def judged(report, seconds):
    return own_time(report, report.name, range(len(report.rows)), seconds)


def named(own, rule):
    return next(one for one in own.suspects if one.rule == rule)


@pytest.fixture(scope="module")
def product():
    return rooflab.op("matmul", *SQUARE, dtype="bf16", machine="h200-sxm", advice=False)


@pytest.mark.parametrize(
    ("rule", "changes", "dtype"),
    [
        ("dispatch", {"mode": "eager"}, "bf16"),
        ("power limit", {"power": "sustained"}, "bf16"),
        ("fp32 instead of bf16", {"what_if": {"dtype": "fp32"}}, "bf16"),
    ],
)
def test_a_suspect_is_the_prediction_of_that_change(product, rule, changes, dtype):
    changed = product.on("h200-sxm", **changes)
    own = judged(product, changed.time_s if changed.time_s > product.high_s else product.high_s * 1.01)
    one = named(own, rule)
    assert (one.time_s, one.low_s, one.high_s) == (changed.time_s, changed.low_s, changed.high_s)
    assert one.holds
    assert own.explained_by[: sum(each.holds for each in own.suspects)] == own.suspects[: len(own.explained_by)]


def test_a_time_inside_its_bar_has_no_suspects(product):
    own = judged(product, product.time_s)
    assert (own.verdict, own.suspects, own.of_prediction) == ("inside", (), 1.0)
    # The nearest roof is that of bf16: 2 × 4096³ FLOP at 989.4 TFLOP/s take 138.9 µs
    assert own.roof == "bf16 matrix"
    assert own.of_roof == pytest.approx(2 * 4096**3 / 989.4e12 / product.time_s)


def test_cold_caches_explain_what_lies_between_warm_and_cold():
    warm = rooflab.op("add", "1000000", "1000000", machine="h200-sxm", cache="warm", advice=False)
    cold = warm.on("h200-sxm", cache="cold")
    assert warm.high_s < cold.time_s
    assert named(judged(warm, cold.time_s), "cold caches").holds
    assert named(judged(warm, (warm.high_s + cold.low_s) / 2), "cold caches").holds
    assert not named(judged(warm, cold.high_s * 1.5), "cold caches").holds
    own = judged(cold, warm.time_s)
    assert own.verdict in ("faster", "below floor")
    assert named(own, "data in a cache").holds


def test_a_clock_that_stops_at_the_launch_is_known_by_the_hosts_time(product):
    # 12–15 µs were measured of bare eager calls on the host of an H200.
    for seconds in (12e-6, 15e-6, 30e-6):
        own = judged(product, seconds)
        assert own.verdict == "below floor"
        assert [one.rule for one in own.explained_by] == ["no synchronisation"]
    assert not judged(rooflab.op("matmul", *SQUARE, machine="epyc-9654", advice=False), 12e-6).explained_by


def test_copies_from_the_host_add_their_bytes_over_the_link(product):
    link = next(link for link in rooflab.machine("h200-sxm").links if link.to == "host")
    # Two inputs of 4096² bf16: 67.1 MB
    copy_s = 2 * 4096**2 * 2 / link.pageable_bytes_per_s
    one = named(judged(product, product.time_s + copy_s), "copies from pageable memory")
    assert one.holds
    assert one.time_s == pytest.approx(product.time_s + copy_s)
    assert (one.low_s, one.high_s) == pytest.approx(
        (product.low_s + copy_s / 1.25, product.high_s + copy_s * 1.25)
    )


@pytest.mark.parametrize(
    ("factor", "word"), [(1000, "microseconds were taken for"), (1e-3, "milliseconds were taken for")]
)
def test_a_unit_that_is_wrong_by_a_thousand(product, factor, word):
    one = named(judged(product, product.time_s * factor), "other unit")
    assert one.holds
    assert word in one.says
    assert one.time_s == pytest.approx(product.time_s * factor)


@pytest.mark.parametrize("calls", [10, 100])
def test_calls_that_were_timed_together(product, calls):
    assert named(judged(product, product.time_s * calls), f"{calls} calls").holds


def test_one_core_has_its_share_of_what_all_have():
    whole = rooflab.machine("epyc-9654")
    one = one_core(whole)
    assert one.compute_units == 1
    for mine, all_of_them in zip(one.peaks, whole.peaks, strict=True):
        assert mine.value == pytest.approx(all_of_them.value / 96)
    report = rooflab.op("matmul", *SQUARE, machine=whole, advice=False)
    # 2 × 4096³ FLOP at 7.3728 TFLOP/s / 96 = 76.8 GFLOP/s take 1.79 s at least
    own = judged(report, 1.9)
    assert named(own, "one thread").holds
    assert named(own, "one thread").low_s >= 2 * 4096**3 / 76.8e9 * 0.999


def test_a_low_clock_says_which():
    report = rooflab.op("matmul", *SQUARE, dtype="bf16", machine="h200-sxm", advice=False)
    own = judged(report, report.time_s * 1.5)
    one = named(own, "low clock")
    assert one.holds
    assert one.time_s == pytest.approx(own.time_s, rel=0.01)
    assert "instead of 1.98 GHz" in one.says
    # Below half of the clock that is no longer what explains it.
    assert not [each for each in judged(report, report.time_s * 4).suspects if each.rule == "low clock"]


def test_remote_memory_is_a_suspect_where_it_was_measured():
    source = Source("measured", "a test")

    def link(to, rate):
        return Link(name=to, to=to, source=source, each_way_bytes_per_s=rate)

    whole = rooflab.machine("epyc-9654")
    two = msgspec.structs.replace(whole, links=(link("local memory", 20e9), link("remote memory", 10e9)))
    report = rooflab.op("add", "100000000", "100000000", machine=two, advice=False)
    half = report.on(two, what_if={"bandwidth": 0.5})
    assert named(judged(report, half.time_s), "remote memory").time_s == half.time_s
    alone = rooflab.op("add", "100000000", "100000000", machine=whole, advice=False)
    assert not [one for one in judged(alone, half.time_s).suspects if one.rule == "remote memory"]


def test_a_causal_mask_explains_attention_that_is_too_fast():
    full = rooflab.op("attention", "8x32x4096x128", dtype="bf16", machine="h200-sxm", advice=False)
    masked = rooflab.op("attention", "8x32x4096x128", dtype="bf16", machine="h200-sxm", causal=True, advice=False)
    one = named(judged(full, masked.time_s), "causal mask")
    assert one.holds
    assert one.time_s == masked.time_s
    assert not [each for each in judged(masked, masked.time_s / 2).suspects if each.rule == "causal mask"]


def test_tf32_explains_fp32_products_that_are_too_fast():
    report = rooflab.op("matmul", *SQUARE, dtype="fp32", machine="h200-sxm", advice=False)
    assert any(one.rule == "tf32 instead of fp32" and one.holds for one in judged(report, 4.5e-4).suspects)


def test_every_suspect_that_holds_has_the_time_in_its_bar_and_every_rule_a_name(product):
    every = (*RULES, *LAST)
    assert len({rule.name for rule in every}) == len(every)
    for seconds in (1e-9, 1e-6, 1e-5, 5e-5, 3e-4, 1e-3, 1e-2, 0.1, 1.0, 100.0):
        own = judged(product, seconds)
        for one in own.suspects:
            assert one.holds == (one.low_s <= seconds <= one.high_s)
            assert one.low_s <= one.time_s <= one.high_s
            assert one.says
            assert one.hint


def test_first_calls_have_a_range_and_a_source():
    for one in first_calls():
        assert 0 < one.low_s < one.high_s
        assert one.source


def test_two_at_once_are_asked_where_none_explains_it_alone():
    report = rooflab.op("add", 1_000_000, 1_000_000, machine="h200-sxm", cache="warm", advice=False)
    both = report.on("h200-sxm", cache="cold", mode="eager")
    alone = [report.on("h200-sxm", **one) for one in ({"cache": "cold"}, {"mode": "eager"})]
    seconds = both.high_s * 0.999
    assert all(one.high_s < seconds for one in alone)
    one = named(judged(report, seconds), "cold and eager")
    assert one.holds
    assert one.time_s == both.time_s


def test_suspects_find_what_was_wrong_with_times_of_an_h200():
    """Operators timed on an H200: the launch alone timed for them (13 µs), milliseconds read as microseconds."""
    pytest.importorskip("torch")
    from support.model.measured import measured, operator

    launched, units = [], []
    for case in measured("operators"):
        report = operator(case).on("h200-sxm", mode="graph", cache="cold")
        wrong = judged(report, case["cold_ms"] / 1e6)
        units.append([one.rule for one in wrong.explained_by] == ["other unit"])
        if report.prediction.floor_s > 15e-6:  # what takes less could be true
            rules = [one.rule for one in judged(report, 13e-6).explained_by]
            launched.append(rules[:1] == ["no synchronisation"])
    # Where they do not, the prediction itself, or the time of the call, is outside its bar.
    assert sum(units) >= 0.85 * len(units)
    assert sum(launched) >= 0.8 * len(launched)
    assert len(launched) > 25


def test_products_take_operands_in_either_order():
    rules = {rule for seconds in (2e-4, 3e-4, 1e-3) for rule in _rules_of("matmul", SQUARE, seconds)}
    assert "other layout" not in rules
    add = rooflab.op("add", *SQUARE, dtype="bf16", machine="h200-sxm", advice=False)
    copy = rooflab.op("transpose", "4096x4096", dtype="bf16", machine="h200-sxm", advice=False)
    one = named(judged(add, add.time_s + 2 * copy.time_s), "other layout")
    assert one.holds
    assert one.low_s == pytest.approx(add.low_s + 2 * copy.low_s)


def _rules_of(kind, shapes, seconds):
    report = rooflab.op(kind, *shapes, dtype="bf16", machine="h200-sxm", advice=False)
    return [one.rule for one in judged(report, seconds).suspects]
