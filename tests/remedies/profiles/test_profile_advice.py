"""Advice for profiles: gaps taken out, wastes taken out of roofs; nothing where nothing is wasted."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.model.roofline.counted import place
from rooflab.remedies.profiles import kernels, rules, waiting
from rooflab.types.counted import Access, Counted
from rooflab.types.loop import LoopReport
from rooflab.types.profile import KernelTime, Observation, Profile, ProfileRow
from rooflab.types.timeline import DeviceTime, Idle, Timeline
from rooflab.types.work import Flop, Traffic

TRUTH = Path(__file__).resolve().parents[4] / "shared" / "truth"
US, MB = 1e-6, 1e6


@pytest.fixture(scope="module")
def h200():
    return rooflab.machine("h200-sxm")


def row(machine, counted, executions=1):
    seen = Observation(
        time_s=counted.time_s * executions,
        low_s=counted.time_s,
        high_s=counted.time_s,
        kernels=(KernelTime(name=counted.name, runs=executions, time_s=counted.time_s * executions),),
    )
    return ProfileRow(
        name=counted.name,
        kind=None,
        shapes="",
        dtype="fp32",
        executions=executions,
        observation=seen,
        counted=counted,
        placement=place(counted, machine),
    )


def profile(machine, *rows, timeline=Timeline(devices=())):  # noqa: B008
    return Profile(name="run", source="by hand", rows=rows, machine=machine, timeline=timeline)


def moving(time_s, hbm_mb, l2_mb, **access):
    return Counted(
        name="mover",
        time_s=time_s,
        flop=(Flop("vector", "fp32", 1000),),
        traffic=(
            Traffic("L2", l2_mb * MB, 0.0, "counted"),
            Traffic("HBM", hbm_mb * MB, 0.0, "counted"),
        ),
        access=Access(**access),
    )


def found(one):
    return {each.rule: each for each in (*one.each, *one.trades)}


def test_sectors_that_are_used_save_what_their_rest_took(h200):
    # Half of each sector is used. L2 moves 200 MB for it, HBM all of them: half of both goes, so half of the time.
    one = row(h200, moving(100 * US, 200, 200, load_use=0.5, requests=1e6, sectors=8e6), executions=3)
    before = {roof.name: roof.seconds for roof in one.placement.roofs}
    assert max(before, key=before.get) == "HBM"
    advice = rules.advise(profile(h200, one))
    gain = found(advice)["coalesce"]
    assert gain.before_s == pytest.approx(300 * US)
    assert gain.gain_s == pytest.approx(150 * US)
    assert gain.gain_low_s == pytest.approx(3 * before["HBM"] / 2)  # what the waste took at the attained rate
    assert gain.rows == (0,)
    assert "8 sectors a request" in gain.evidence[0]


def test_the_next_roof_decides_what_is_left(h200):
    # L2 moves 1,000 MB at an eighth used: 125 are asked for. HBM moves 100 MB all the same, and binds then.
    one = row(h200, moving(400 * US, 100, 1000, load_use=0.125))
    before = {roof.name: roof.seconds for roof in one.placement.roofs}
    gain = found(rules.advise(profile(h200, one)))["coalesce"]
    left = max(before["HBM"], before["L2"] / 8)
    assert gain.after_s == pytest.approx(400 * US * left / before["L2"])
    assert gain.gain_s < gain.gain_high_s


def test_kernels_near_a_roof_or_without_a_waste_get_none(h200):
    hbm = h200.level("HBM").rate(basis="attained") or h200.level("HBM").rate()
    near = row(h200, moving(1.1 * 200 * MB / hbm.value, 200, 200, load_use=1.0, occupancy=0.3))
    assert rules.advise(profile(h200, near)).each == ()
    # Half used at L2, but HBM moves no more than is asked for, and is at 90 % of its roof.
    held = row(h200, moving(1.1 * 200 * MB / hbm.value, 200, 400, load_use=0.5))
    assert rules.advise(profile(h200, held)).each == ()


def test_passes_through_shared_memory_lose_their_conflicts(h200):
    # 132 multiprocessors at 1 GHz: 1.32e8 passes take 1 ms; three quarters of them are conflicts.
    counted = Counted(
        name="tile",
        time_s=1.25e-3,
        flop=(Flop("vector", "fp32", 1000),),
        traffic=(Traffic("HBM", 10 * MB, 0.0, "counted"),),
        access=Access(shared_wavefronts=1.32e8, shared_conflicts=0.99e8, clock_hz=1e9),
    )
    assert h200.compute_units == 132
    gain = found(rules.advise(profile(h200, row(h200, counted))))["bank-conflicts"]
    assert gain.gain_s == pytest.approx(0.75 * 1.25e-3)
    assert gain.gain_low_s == pytest.approx(0.75e-3)


def test_twice_the_warps_are_twice_as_fast_until_a_roof(h200):
    slow = row(h200, moving(400 * US, 100, 100, load_use=1.0, occupancy=0.25, limited_by="registers"))
    floor = slow.placement.highest.seconds
    gain = found(rules.advise(profile(h200, slow)))["occupancy"]
    assert gain.after_s == pytest.approx(200 * US)  # twice of a quarter
    assert gain.gain_high_s == pytest.approx(400 * US - max(floor, 100 * US))
    assert gain.gain_low_s == 0
    assert "limited by registers" in gain.evidence[0]


def test_products_on_ordinary_units_are_told_of_the_matrix_engines(h200):
    counted = Counted(
        name="sgemm",
        time_s=343 * US,
        flop=(Flop("vector", "fp32", 17.2e9),),
        traffic=(Traffic("HBM", 50 * MB, 0.0, "counted"),),
    )
    advice = rules.advise(profile(h200, row(h200, counted)))
    assert [each.rule for each in advice.trades] == ["tensor-cores"]
    assert advice.trades[0].price == "numbers"
    mixed = Counted(name="hgemm", time_s=343 * US, flop=(Flop("matrix", "bf16", 17.2e9),), traffic=counted.traffic)
    assert rules.advise(profile(h200, row(h200, mixed))).trades == ()


def timeline(*idle, span_s=10e-3, **more):
    busy = span_s - sum(one.seconds for one in idle)
    held = {
        "busy_s": busy,
        "kernels_s": busy,
        "kernels": 100,
        "compute_s": busy,
        "copy_s": 0.0,
        "collective_s": 0.0,
        "exposed_copy_s": 0.0,
        "exposed_collective_s": 0.0,
    }
    return Timeline(devices=(DeviceTime(device=0, span_s=span_s, idle=idle, **(held | more)),))


def gap(cause, seconds, gaps=100):
    return Idle(cause=cause, seconds=seconds, gaps=gaps, longest_s=seconds / 2, at_s=0.0, before="next")


def test_gaps_of_launches_go_but_for_a_pause_each():
    idle = gap("launches", 4e-3)
    advice = rules.advise(profile(None, timeline=timeline(idle)))
    graph = found(advice)["graph"]
    assert graph.after_s == pytest.approx(10e-3 - 4e-3 + 100 * waiting._PAUSE_S)
    assert (graph.gain_low_s, graph.gain_high_s) == pytest.approx((4e-3 - 200 * waiting._PAUSE_S, 4e-3))


def test_copies_can_hide_no_longer_than_kernels_run():
    # 8 ms of copies, 1 ms of kernels: beside each other they take 8 ms, 1 less than one after the other.
    held = {"compute_s": 1e-3, "copy_s": 8e-3, "exposed_copy_s": 8e-3, "busy_s": 9e-3}
    advice = rules.advise(profile(None, timeline=timeline(span_s=9e-3, **held)))
    gain = found(advice)["overlap-copies"]
    assert gain.gain_s == pytest.approx(1e-3)
    assert gain.gain_low_s == 0


def test_all_gaps_together_leave_what_computes():
    idle = (gap("launches", 3e-3), gap("synchronisation", 2e-3), gap("data loader", 1e-3))
    advice = rules.advise(profile(None, timeline=timeline(*idle)))
    assert advice.together == ("graph", "synchronise-less", "prefetch-data")
    assert advice.together_s == pytest.approx(4e-3 + 300 * waiting._PAUSE_S)


def test_a_busy_device_gets_none():
    advice = rules.advise(profile(None, timeline=timeline(gap("launches", 1e-4))))
    assert advice.each == ()
    assert advice.unasked == ("kernels: no machine is known, so no roofs to put them under; give --machine",)


def test_each_rule_has_the_name_that_it_gives(h200):
    assert len({rule.name for rule in rules.RULES}) == len(rules.RULES)
    assert kernels.coalesce in [rule.ask for rule in rules.RULES]


@pytest.mark.skipif(not TRUTH.exists(), reason="no measurements beside the repository")
@pytest.mark.parametrize(
    ("trace", "measured_s"),
    # the same programs as CUDA graphs, h200.json
    [("gpt2-b1-t128", 0.69651e-3), ("llama8b-b8-t1-c1024", 7.68902e-3)],
)
def test_the_time_left_is_that_of_a_measured_graph(trace, measured_s):
    advice = rooflab.load(TRUTH / f"h200_trace_{trace}.json.gz").advice
    assert advice.each[0].rule == "graph"
    assert advice.each[0].after_s == pytest.approx(measured_s, rel=0.06)


def test_a_loaded_profile_has_it_and_keeps_it(root, tmp_path):
    loaded = rooflab.load(root / "examples" / "gpt2-h200-trace.json.gz")
    assert loaded.advice.each[0].rule == "graph"
    loaded.save(tmp_path / "profile.json")
    assert rooflab.load(tmp_path / "profile.json").advice == loaded.advice


def test_advice_is_given_by_the_public_function_for_profiles_and_not_for_loops_without_theirs(root):
    loaded = rooflab.load(root / "examples" / "gpt2-h200-trace.json.gz")
    bare = msgspec.structs.replace(loaded, advice=None)
    assert rooflab.advise(bare) == loaded
    raw = json.loads((root / "tests" / "samples" / "loop" / "stencil.json").read_text("utf-8"))
    loop = LoopReport.from_dict(raw)
    with pytest.raises(RooflabError, match=r"a loop's report, expected one with advice.*rooflab\.loop"):
        rooflab.advise(loop)
