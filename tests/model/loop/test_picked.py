"""What accesses at places that data decide take: which steps they are, by hand-derived limits, by loop."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab.model.device.constants import load_family
from rooflab.model.loop import in_core, picked
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import CoreLoop, FlowStep, LineCounts, LoopReport, Trips
from rooflab.types.simulation import Cache, LevelCounts, Simulation

NAMES = ("L1", "L2", "L3")
AT_ONCE = load_family("cpu")("loop.misses_at_once")
TIMING = CoreTiming(cycle_s=0.25e-9, latency={}, throughput={}, missed_branch=20.0, window=320.0, scheduler=64.0)
INDEXED = (
    FlowStep("load integer", 1.0),
    FlowStep("integer shift", 1.0, ((0, 0),)),
    FlowStep("load", 1.0, ((1, 0),)),
    FlowStep("fp add", 1.0, ((2, 0),)),
)


@pytest.fixture(scope="module")
def guest(root):
    # in small pages that are all at hand
    machine = rooflab.machine(root / "examples" / "zen4-guest.toml")
    return msgspec.structs.replace(machine, curves=())


def misses(count):
    return dict.fromkeys(NAMES, count)


def line(number, **more):
    known = {"gathered": misses(0), "chased": misses(0), "scattered": misses(0), **more}
    return LineCounts(line=number, text="", flop=0, accesses=1000, misses=misses(1000), **known)


def report(*lines, loops=(), **more):
    levels = tuple(
        LevelCounts(
            name=name,
            cache=Cache(1 << 15, 8, name=name),
            hits=0,
            misses=2000,
            evictions=0,
            writebacks=0,
            read_bytes=128_000,
            write_bytes=0,
        )
        for name in NAMES
    )

    def total(kind):
        return misses(sum(getattr(each, kind)["L3"] for each in lines))

    return LoopReport(
        name="t",
        where="t.py:1",
        arguments={},
        flop_by=(),
        accesses=2000,
        accessed_bytes=16_000,
        stored_bytes=0,
        simulation=Simulation(name="t", levels=levels, accesses=2000),
        lines=lines,
        loops=loops,
        gathered=total("gathered"),
        chased=total("chased"),
        source=tuple((n, "") for n in range(1, 20)),
        **more,
    )


def waits_s(made, guest, cycles=()):
    return picked.waits(made, guest, cycles, TIMING).seconds


def beyond_l1_s(guest):
    return guest.level("memory").latency_s - guest.level("L1").latency_s


def test_loads_are_picked_whose_place_a_load_found():
    assert picked.steps_of(INDEXED) == (2,)


def test_a_load_whose_place_is_counted_is_not_picked():
    assert picked.steps_of([FlowStep("integer", 1.0, ((0, 1),)), FlowStep("load", 1.0, ((0, 0),))]) == ()


def test_a_load_whose_place_the_pass_before_found_is_picked():
    assert picked.steps_of([FlowStep("load integer", 1.0, ((0, 1),))]) == (0,)


def test_what_was_stored_a_moment_before_is_no_load_of_a_row():
    steps = [
        FlowStep("load", 1.0),
        FlowStep("load", 1.0, (), (2, 1), "store forward"),
        FlowStep("store", 1.0, ((1, 0),)),
    ]
    assert picked.loads_of(steps) == (0,)


def test_misses_at_picked_places_wait_as_many_at_once_as_there_are_buffers(guest):
    made = report(line(5, gathered=misses(1000)))
    assert waits_s(made, guest) == pytest.approx(1000 * beyond_l1_s(guest) / AT_ONCE, rel=0.02)


def test_misses_in_a_chain_wait_one_after_the_other(guest):
    made = report(line(5, chased=misses(1000)))
    assert waits_s(made, guest) == pytest.approx(1000 * beyond_l1_s(guest), rel=0.02)


def test_what_follows_in_a_row_comes_from_the_second_cache(guest):
    # rows of ten lines: two are missed, eight are fetched ahead
    made = report(line(5, gathered=misses(1000), begun=0.1))
    second_s = guest.level("L2").latency_s - guest.level("L1").latency_s
    expected = (200 * beyond_l1_s(guest) + 800 * second_s) / AT_ONCE
    assert waits_s(made, guest) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(("kind", "wide"), [("load wide", 1.0), ("gather wide", 0.0), ("load", 0.0)])
def test_a_gather_loads_no_whole_lines_though_its_places_are_loaded_so(kind, wide):
    flow = (FlowStep("load wide", 1.0), FlowStep(kind, 8.0, ((0, 0),)), FlowStep("fp add wide", 1.0, ((1, 0),)))
    loop = CoreLoop(line=1, passes=100, entries=1, operations={"slot": 300.0}, flow=flow)
    cycles = [in_core.LoopCycles(loop, 100.0, "loads", 0.0, {}, 0.0)]
    none = {}
    assert picked._wide(picked._Group(none, none, none, none, cycles)) == wide


def test_stores_hold_up_nothing_that_the_core_does_meanwhile(guest):
    # as long as all of them under way at once
    busy = 2 * 1000 * beyond_l1_s(guest) / AT_ONCE / TIMING.cycle_s
    loop = CoreLoop(line=5, passes=1000, entries=1, operations={"slot": 1e6})
    cycles = (in_core.LoopCycles(loop, busy, "loads", 0.0, {}, 0.0),)
    stored = report(line(5, gathered=misses(1000), scattered=misses(1000)))
    loaded = report(line(5, gathered=misses(1000)))
    assert waits_s(stored, guest, cycles) == 0.0
    # a thousand instructions between two loads: each waits alone
    assert waits_s(loaded, guest, cycles) > 500 * beyond_l1_s(guest)


def test_a_loop_that_waits_hides_nothing_of_another(guest):
    loops = (Trips(line=2, variable="i", trips=1000, depth=0), Trips(line=8, variable="j", trips=1000, depth=0))
    made = report(line(3, gathered=misses(1000)), line(9), loops=loops)
    # the second loop takes long, the first one nothing
    codes = [CoreLoop(line=n, passes=1000, entries=1, operations={"slot": 1000.0}) for n in (2, 8)]
    cycles = (
        in_core.LoopCycles(codes[0], 0.0, "loads", 0.0, {}, 0.0),
        in_core.LoopCycles(codes[1], 1e9, "loads", 0.0, {}, 0.0),
    )
    assert waits_s(made, guest, cycles) == pytest.approx(1000 * beyond_l1_s(guest) / AT_ONCE, rel=0.02)


def test_without_what_data_pick_their_lines_do_not_cross():
    left = picked.without(report(line(5, gathered=misses(1500))))
    assert [(each.misses, each.read_bytes) for each in left.simulation.levels] == [(500, 32_000)] * 3
    assert left.gathered == {}
    assert left.lines[0].misses == misses(0)


def test_nothing_is_waited_for_where_nothing_is_picked(guest):
    made = report(line(5))
    assert waits_s(made, guest) == 0.0
    assert picked.without(made) is made
