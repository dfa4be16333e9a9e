"""A loop over prange on several cores: what divides, what does not, and what comes on top."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rooflab
from rooflab.model.loop import placement, teams, times
from rooflab.types.loop import CoreLoop, LineCounts, LoopReport, LoopShare, Region, Timed
from rooflab.types.machine import Check
from rooflab.types.shared_lines import SharedLines
from rooflab.types.simulation import Cache, LevelCounts, Simulation
from rooflab.types.team_timing import TeamTiming

TEAM = TeamTiming(layer="omp", threads=(2, 4), pinned_s=(2e-6, 3e-6))


@pytest.fixture(scope="module")
def guest(root):
    return rooflab.machine(root / "examples" / "zen4-guest.toml")


def report(regions=(), *, adds=4e8, read=0, inside=1.0):
    """A loop of additions in line 3, and as much of them as is not `inside` in line 9; bytes of line 3 alone."""
    levels = tuple(
        LevelCounts(
            name=name,
            cache=Cache(capacity, 8, name=name),
            hits=0,
            misses=read // 64,
            evictions=0,
            writebacks=0,
            read_bytes=read,
            write_bytes=0,
        )
        for name, capacity in (("L1", 1 << 15), ("L2", 1 << 20), ("L3", 1 << 24))
    )

    def loop(line, share):
        return CoreLoop(line=line, passes=10**7, entries=1, operations={"fp add": adds * share})

    return LoopReport(
        name="t",
        where="t.py:1",
        arguments={},
        flop_by=(),
        accesses=read // 8,
        accessed_bytes=read,
        stored_bytes=0,
        simulation=Simulation(name="t", levels=levels, accesses=read // 8),
        lines=(LineCounts(line=3, text="", flop=0, accesses=1, misses=dict.fromkeys(("L1", "L2", "L3"), 1)),),
        core_loops=(loop(3, inside), *([loop(9, 1 - inside)] if inside < 1 else [])),
        regions=regions,
        runs=(
            Timed(threads=1, cache="warm", best_s=0.01, median_s=0.01, spread=0.0, runs=5),
            Timed(threads=2, cache="warm", best_s=0.005, median_s=0.005, spread=0.0, runs=5),
        ),
    )


def region(entries=1, shares=(0.5, 0.25)):
    return Region(line=2, last_line=4, variable="i", entries=entries, trips=100, threads=(2, 4), shares=shares)


def times_on(made, guest, threads=2):
    return times.predict(made, guest, threads, team=TEAM).time_s


def test_each_entry_starts_a_team(guest):
    one = times.predict(report(), guest).time_s
    crowd = teams.crowding(guest, 2)
    # alike trips, all in prange: half of the time each, and 2 us an entry
    assert times_on(report((region(),)), guest) == pytest.approx(one / 2 * crowd + 2e-6)
    assert times_on(report((region(entries=1000),)), guest) == pytest.approx(one / 2 * crowd + 2e-3)


def test_a_team_runs_code_of_its_own(guest):
    alone = report((region(),), adds=8e8)
    made = msgspec.structs.replace(report((region(),)), team_loops=alone.core_loops)
    one, several = times.predict(made, guest), times.predict(made, guest, 2, team=TEAM)
    assert one == times.predict(report((region(),)), guest)
    assert several.time_s == pytest.approx(times_on(alone, guest))
    # twice as many additions: half of one core's time is lost to that on each of two threads
    assert several.lost_s["code for prange"] == pytest.approx(one.time_s / 2, rel=1e-3)
    # and what takes less time is no loss
    quick = msgspec.structs.replace(report((region(),)), team_loops=report(adds=1e8).core_loops)
    assert "code for prange" not in times.predict(quick, guest, 2, team=TEAM).lost_s


def test_one_thread_of_code_for_a_team_starts_its_loops_too(guest):
    plain = report()
    (loop,) = plain.core_loops
    starting = msgspec.structs.replace(loop, operations={**loop.operations, "call numba_parallel_for": 1000.0})
    started = msgspec.structs.replace(plain, core_loops=(starting,))
    timed = msgspec.structs.replace(TEAM, alone_s=2e-6)
    one, alone = (times.predict(each, guest, team=timed) for each in (plain, started))
    assert alone.team_s == pytest.approx(2e-3)
    assert alone.time_s == pytest.approx(one.time_s + 2e-3, rel=1e-3)  # and 1,000 jumps
    # several threads: their start is all of it
    assert times.predict(started, guest, 2, team=timed).team_s == teams.of_core(started, (), 2).entries * 2e-6
    # where it was not measured, what is usual
    assert 1e-7 < teams.alone_s(started, msgspec.structs.replace(guest, team=None), TEAM) / 1000 < 1e-5
    # short work, and loops that start again and again: that is what takes the time
    short = msgspec.structs.replace(started, core_loops=(msgspec.structs.replace(starting, operations={
        "fp add": 100.0, "call numba_parallel_for": 1000.0}),))  # fmt: skip
    found = times.predict(short, guest, team=timed)
    assert (found.bound, found.binds) == ("overhead-bound", "fork and join")


def test_what_lies_outside_stays_on_one_core(guest):
    one = times.predict(report(inside=0.75), guest).time_s
    crowd = teams.crowding(guest, 2)
    found = times_on(report((region(),), inside=0.75), guest)
    assert found == pytest.approx(one * (0.25 + 0.75 / 2 * crowd) + 2e-6)


def test_the_longest_share_decides(guest):
    one = times.predict(report(), guest).time_s
    crowd = teams.crowding(guest, 2)
    assert times_on(report((region(shares=(0.75, 0.5)),)), guest) == pytest.approx(one * 0.75 * crowd + 2e-6)


def test_a_loop_inside_divides_by_its_own_passes(guest):
    one = times.predict(report(), guest).time_s
    uneven = region(shares=(0.5, 0.25))
    inner = LoopShare(line=3, last_line=4, shares=(0.9, 0.6))
    own = msgspec.structs.replace(uneven, loops=(inner,))
    # all of the core's time is in the loop of line 3, of which the thread with the most has nine tenths
    crowd = teams.crowding(guest, 2)
    assert times_on(report((own,)), guest) == pytest.approx(0.9 * one * crowd + 2e-6)
    # of line 2 alone that does not hold
    elsewhere = msgspec.structs.replace(own, loops=(msgspec.structs.replace(inner, line=4),))
    assert times_on(report((elsewhere,)), guest) == pytest.approx(0.5 * one * crowd + 2e-6)


def test_memory_gives_all_what_all_attain(guest):
    # 960 MB of reads: as the file's rate of all threads
    memory = guest.level("memory")
    every = memory.rate("read", scope="all", basis="attained", stores=None).value
    found = times_on(report((region(),), adds=1.0, read=960_000_000), guest)
    assert found == pytest.approx(960e6 / every + 2e-6, rel=0.25)  # and what nearer levels add


@given(
    one=st.floats(1e9, 1e12),
    every=st.floats(1e8, 1e13),
    threads=st.integers(2, 64),
    name=st.sampled_from(("L3", "memory")),
)
def test_threads_that_share_a_level_attain_no_less_than_one_and_no_more_than_each_for_itself(
    guest, one, every, threads, name
):
    attained = teams.rate_of(guest.level(name), guest, threads, one, every)
    assert one <= attained <= max(one * threads, every)


def test_a_machine_whose_file_lacks_rates_says_so_where_threads_are_asked_for():
    epyc = rooflab.machine("epyc-9654")
    made = placement.place_on(report((region(),), read=1 << 20), epyc)
    assert made.scaling == ()
    said = next(each for each in made.warnings if each.startswith("no times over the 96 cores"))
    assert "L1" in said
    assert "rooflab measure" in said
    alone = placement.place_on(report((), read=1 << 20), epyc)
    assert not any("no times over" in each for each in alone.warnings)
    assert any(each.startswith("no time predicted on one core of AMD EPYC 9654") for each in alone.warnings)


def test_curves_say_what_is_lost_and_to_what(guest):
    made = placement.place_on(report((region(entries=10_000),)), guest, None, TEAM)
    one, two = made.scaling
    assert (one.threads, one.speedup, two.threads) == (1, 1.0, 2)
    assert two.limit == "fork and join"
    assert two.lost_s["fork and join"] == pytest.approx(0.02)
    assert two.measured_s == 0.005
    uneven = placement.place_on(report((region(shares=(0.9, 0.8)),)), guest, None, TEAM).scaling[-1]
    assert uneven.limit == "uneven shares"


def test_a_barrier_hands_a_line_to_each_further_thread(guest):
    # measured up to 4; beyond, 1e-7 s each
    alone = msgspec.structs.replace(guest, links=(), team=None)
    wanted = pytest.approx([0, 2e-6, 2.5e-6, 3e-6, 3.4e-6])
    assert [teams.fork_s(alone, n, TEAM) for n in (1, 2, 3, 4, 8)] == wanted
    # what the machine's file says stands in where nothing was measured now
    filed = msgspec.structs.replace(alone, team=TEAM)
    assert [teams.fork_s(filed, n, None) for n in (1, 2, 3, 4, 8)] == wanted
    slower = TeamTiming(layer="omp", threads=(2,), pinned_s=(9e-6,))
    assert teams.fork_s(filed, 2, slower) == 9e-6


def test_siblings_of_one_core_are_found_by_their_peaks(guest):
    def halved(each):
        if each.scope != "all" or each.what != "fma" or each.engine != "vector":
            return each
        return msgspec.structs.replace(each, value=each.value / 2)

    # two threads attain together what one does: each takes twice as long
    shared = msgspec.structs.replace(guest, peaks=tuple(halved(each) for each in guest.peaks))
    assert teams.crowding(shared, 2) == pytest.approx(2 * teams.crowding(guest, 2), rel=0.1)
    assert teams.crowding(guest, 1) == 1.0


def test_threads_that_wait_for_the_scheduler_are_told_of(guest):
    slow = msgspec.structs.replace(TEAM, free_s=8e-3)
    said = placement.place_on(report((region(),)), guest, None, slow).warnings
    assert any("8.00 ms" in each and "OMP_PROC_BIND" in each for each in said)
    assert not any(
        "scheduler" in each for each in placement.place_on(report((region(),)), guest, None, TEAM).warnings
    )


def test_each_thread_asks_for_its_pieces_of_a_loop_that_is_handed_out(guest):
    asked = msgspec.structs.replace(TEAM, piece_s=2e-8)
    one = report((msgspec.structs.replace(region(), chunks=1000),))
    assert teams.handed_out_s(one, 2, asked) == pytest.approx(500 * 2e-8)
    assert teams.handed_out_s(one, 2, TEAM) == pytest.approx(500 * 1e-8)
    assert teams.handed_out_s(one, 1, asked) == 0.0
    plain, dealt = (times.predict(each, guest, 2, team=asked) for each in (report((region(),)), one))
    assert dealt.time_s - plain.time_s == pytest.approx(500 * 2e-8)
    assert dealt.lost_s["pieces handed out"] == pytest.approx(500 * 2e-8)


def test_a_machine_whose_check_of_threads_failed_predicts_several_between_all_and_nothing(guest):
    failed = Check(name="thread scaling", ok=False, message="On 2 cores, triad at L1 0.6 ×.")
    doubted = msgspec.structs.replace(guest, checks=(failed,))
    placed = placement.place_on(report((region(),)), doubted, team=TEAM)
    one, two = placed.predictions
    assert two.low_s == pytest.approx(min(two.time_s, one.time_s / 2))
    assert two.high_s == pytest.approx(max(two.time_s, one.time_s))
    assert (
        "several threads: between perfect scaling and none, as the self-check 'thread scaling'"
        in placed.warnings[0]
    )
    trusted = placement.place_on(report((region(),)), msgspec.structs.replace(guest, checks=()), team=TEAM)
    assert not two.errors
    assert trusted.predictions[1].errors
    assert not any("several threads" in each for each in trusted.warnings)


def storing(made, stores):
    """The same with so many stores in its first loop."""
    first, *others = made.core_loops
    first = msgspec.structs.replace(first, operations={**first.operations, "store integer": stores})
    return msgspec.structs.replace(made, core_loops=(first, *others))


def test_a_line_is_taken_no_more_often_than_the_compiled_loop_stores(guest):
    (alone,) = [each.latency_s for each in guest.links if each.name == "core to core"]
    shared = SharedLines(line=3, array="a", cache_lines=1, threads=2, taken=900, falsely=900, in_turn=1000)
    made = msgspec.structs.replace(report((region(),)), shared_lines=(shared,))
    # a sum that numba keeps in a register is stored once a trip: 100 times, there and back
    assert teams.shared_lines_s(storing(made, 100), guest, 2) == pytest.approx(200 * alone)
    assert teams.shared_lines_s(made, guest, 2) == 0.0
    # what OpenMP's threads were followed to do is what they do
    followed = msgspec.structs.replace(made, parallel="OpenMP, 2 threads")
    assert teams.shared_lines_s(followed, guest, 2) == pytest.approx(1000 * alone)


def test_lines_that_threads_take_from_one_another_are_handed_over_in_turn(guest):
    (alone,) = [each.latency_s for each in guest.links if each.name == "core to core"]
    shared = SharedLines(line=3, array="a", cache_lines=1, threads=2, taken=900, falsely=900, in_turn=1000)
    plain = storing(report((region(),)), 1e6)
    taken = msgspec.structs.replace(plain, shared_lines=(shared,))
    assert teams.shared_lines_s(taken, guest, 2) == pytest.approx(1000 * alone)
    assert teams.shared_lines_s(taken, guest, 1) == 0.0
    two, other = (times.predict(each, guest, 2, team=TEAM) for each in (taken, plain))
    assert two.time_s - other.time_s == pytest.approx(1000 * alone)
    assert two.lost_s["lines taken from one another"] == pytest.approx(1000 * alone)
