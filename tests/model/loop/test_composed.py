"""What a nest takes of its loops' core and data: shares by lines, loops in turn; by hand."""

from __future__ import annotations

import pytest

from rooflab.model.device.constants import load_family
from rooflab.model.loop import composed
from rooflab.model.loop.composed import Beside, Part
from rooflab.types.loop import LineCounts, LoopReport, LoopTime, Trips
from rooflab.types.simulation import Cache, LevelCounts, Simulation

HIDDEN = Beside(busy=0.0, streamed=0.0)


def report(loops, misses, lines=20):
    """`loops`: (line, depth); `misses`: of L1 by line."""
    level = LevelCounts(
        name="L1",
        cache=Cache(32 * 1024, 8, name="L1"),
        hits=0,
        misses=sum(misses.values()),
        evictions=0,
        writebacks=0,
        read_bytes=0,
        write_bytes=0,
    )
    return LoopReport(
        name="t",
        where="t.py:1",
        arguments={},
        flop_by=(),
        accesses=0,
        accessed_bytes=0,
        stored_bytes=0,
        simulation=Simulation(name="t", levels=(level,), accesses=0),
        loops=tuple(Trips(line=line, variable="i", trips=1, depth=depth) for line, depth in loops),
        lines=tuple(
            LineCounts(line=line, text="", flop=0, accesses=number, misses={"L1": number})
            for line, number in misses.items()
        ),
        source=tuple((number, "") for number in range(1, lines + 1)),
    )


def core(**by_line):
    return [
        LoopTime(line=int(line[1:]), time_s=time_s, busiest="loads", ports_s=time_s, chain="", chain_s=0.0)
        for line, time_s in by_line.items()
    ]


def test_loops_that_follow_each_other_take_their_own_longer_one_each():
    # the first computes 3 s and moves 1, the second computes 1 and moves 5
    parts = (Part(3 / 4, (3 / 4, 1 / 6)), Part(1 / 4, (1 / 4, 5 / 6)))
    assert composed.of(4.0, [0.0, 6.0], HIDDEN, parts).time_s == pytest.approx(3.0 + 5.0)
    # as one loop: 6 s, beside which 4 are computed
    assert composed.of(4.0, [0.0, 6.0], HIDDEN, ()).time_s == pytest.approx(6.0)


def test_a_share_of_the_shorter_is_added_in_each_loop():
    share = load_family("cpu")("loop.beside_data")
    parts = (Part(3 / 4, (3 / 4, 1 / 6)), Part(1 / 4, (1 / 4, 5 / 6)))
    made = composed.of(4.0, [0.0, 6.0], Beside(busy=1.0, streamed=1.0), parts)
    assert made.beside_s == pytest.approx(share * (1.0 + 1.0))
    assert made.time_s == pytest.approx(3.0 + 5.0 + made.beside_s)


def test_walks_of_page_tables_go_with_the_misses():
    parts = (Part(0.5, (0.5, 0.25)), Part(0.5, (0.5, 0.75)))
    assert composed.of(0.0, [0.0, 0.0], HIDDEN._replace(walks_s=8.0), parts).time_s == pytest.approx(8.0)


def test_beside_rows_that_nobody_foresaw_nothing_goes_on():
    parts = (Part(0.5, (0.5, 0.25)), Part(0.5, (0.5, 0.75)))
    assert composed.of(4.0, [0.0, 0.0], HIDDEN._replace(jumps_s=8.0), parts).time_s == pytest.approx(12.0)


def test_while_the_core_waits_for_what_data_pick_streams_come_in():
    beside = Beside(busy=1.0, streamed=1.0, picked_s=5.0)
    # all of the 3 s that are moved come in meanwhile: nothing is added to 4 s of the core and 5 of waits
    assert composed.of(4.0, [0.0, 3.0], beside, ()).time_s == pytest.approx(9.0)


def test_shares_are_those_of_the_lines_of_each_innermost_loop():
    # for i (2): for j (3): line 4; for k (5): line 6
    loops = [(2, 0), (3, 1), (5, 1)]
    parts = composed.parts_of(report(loops, {4: 300, 6: 100}), core(L3=1.0, L5=3.0))
    assert [each.core for each in parts] == [0.25, 0.75]
    assert [each.levels[1] for each in parts] == [0.75, 0.25]


def test_what_is_around_loops_goes_with_the_first_inside():
    loops = [(2, 0), (3, 1), (5, 1)]
    parts = composed.parts_of(report(loops, {4: 300, 6: 100}), core(L2=1.0, L3=1.0, L5=2.0))
    assert [each.core for each in parts] == [0.5, 0.5]


@pytest.mark.parametrize(
    "loops",
    [
        [(2, 0), (3, 1)],  # one innermost loop
        [],
    ],
)
def test_one_loop_is_not_divided(loops):
    assert composed.parts_of(report(loops, {4: 300}), core(L3=1.0)) == ()


def test_lines_of_other_files_do_not_tell():
    loops = [(2, 0), (3, 1), (5, 1)]
    assert composed.parts_of(report(loops, {4: 300, 6: 100}), core(L3=1.0, L500=3.0)) == ()
