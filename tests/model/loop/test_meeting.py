"""What lines take that meet in few sets of L1: against sets counted one by one, and times by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rooflab.model.loop import meeting
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import LoopReport, Walk
from rooflab.types.simulation import Cache, LevelCounts, Simulation

L1 = Cache(32 * 1024, 8, name="L1")  # 64 sets
LATENCY_S = 4e-9
# a cycle of 1 ns; half as far apart, half as long
CYCLES = {
    "read": {512: 2.0, 1024: 4.0, 2048: 8.0, 4096: 10.0},
    "changed": {512: 4.0, 1024: 12.0, 2048: 30.0, 4096: 60.0},
    "stored": {512: 3.0, 1024: 5.0, 2048: 9.0, 4096: 18.0},
}
TIMING = CoreTiming(
    cycle_s=1e-9,
    latency={},
    throughput={
        f"L2 line {kind}, {apart} apart": cycles for kind, each in CYCLES.items() for apart, cycles in each.items()
    },
    missed_branch=20.0,
)


def line_of(*walks, timing=TIMING):
    """`walks`: (loop, stride, misses, kind) each, and where it stands unless each is at a place of its own."""
    level = LevelCounts(
        name="L1", cache=L1, hits=0, misses=1000, evictions=0, writebacks=0, read_bytes=64_000, write_bytes=0
    )
    made = (
        Walk(line=1, text=text, loop=loop, stride_bytes=stride, misses=misses, kind=kind)
        for at, (loop, stride, misses, kind, *given) in enumerate(walks)
        for text in (given or [f"A[k, {at}]"])
    )
    return of_walks(level, *made, timing=timing)


def of_walks(level, *walks, timing=TIMING):
    report = LoopReport(
        name="t",
        where="t.py:1",
        arguments={},
        flop_by=(),
        accesses=1000,
        accessed_bytes=8000,
        stored_bytes=0,
        simulation=Simulation(name="t", levels=(level,), accesses=1000),
        walks=walks,
    )
    return meeting.line_of(report, LATENCY_S, timing)


@pytest.mark.parametrize("stride", [0, 64, 1024, 1600, 4096, 5792, 8192 + 64])
def test_sets_that_a_stride_falls_into(stride):
    lines = {place * stride // 64 % 64 for place in range(4096)} if stride else set(range(64))
    assert meeting.sets(L1, stride) == len(lines)


@pytest.mark.parametrize("kind", ["read", "changed", "stored"])
@pytest.mark.parametrize("stride", [512, 1024, 2048, 4096])
def test_a_walk_alone_takes_what_was_measured_of_its_stride(kind, stride):
    assert line_of((0, stride, 1000, kind)).seconds == pytest.approx(CYCLES[kind][stride] * 1e-9)


@pytest.mark.parametrize(
    ("stride", "as_of"),
    [
        (8192, 4096),  # one set as well
        (1024 + 2048, 1024),  # 4 sets: 3 is odd
        (10240, 2048),  # 5 · 2048
    ],
)
def test_what_counts_is_the_number_of_sets(stride, as_of):
    assert line_of((0, stride, 1000, "read")).seconds == line_of((0, as_of, 1000, "read")).seconds


def test_lines_in_many_sets_do_not_meet():
    assert line_of((0, 256, 1000, "read")).seconds == 0.0  # 16 of 64
    assert line_of().seconds == 0.0


def test_two_walks_of_a_loop_go_on_side_by_side():
    # 4 sets each, 8 together, through which a line comes every 2 cycles: 4 for both, as for one of them alone
    both = line_of((0, 1024, 1000, "read"), (0, 1024, 1000, "read"))
    assert both.seconds == pytest.approx(2e-9)
    # in one set each: both through two, 8 cycles a line, longer than 10 for one of them
    assert line_of((0, 4096, 1000, "read"), (0, 4096, 1000, "read")).seconds == pytest.approx(8e-9)
    # a changed one takes 12 cycles a line by itself, both 2 + 4 through 8 sets: 9 for a line of each
    assert line_of((0, 1024, 1000, "changed"), (0, 1024, 1000, "read")).seconds == pytest.approx(4.5e-9)


def test_the_same_place_of_two_arrays_lies_in_the_same_sets():
    # one set for both: each line of both takes what one alone does
    both = line_of((0, 4096, 1000, "read", "A[k, j]"), (0, 4096, 1000, "read", "B[k, j]"))
    assert both.seconds == pytest.approx(10e-9)
    # 4 sets, a changed line in 12 cycles and one read in 4
    changed = line_of((0, 1024, 1000, "changed", "A[k, j]"), (0, 1024, 1000, "read", "B[k, j]"))
    assert changed.seconds == pytest.approx(8e-9)


def test_walks_of_loops_that_follow_each_other_add_up():
    apart = line_of((0, 1024, 1000, "read"), (1, 1024, 3000, "changed"))
    assert apart.seconds == pytest.approx((1000 * 4e-9 + 3000 * 12e-9) / 4000)
    assert apart.written == pytest.approx(0.75)


def test_where_nothing_was_measured_a_set_has_a_few_under_way():
    # 2.5 for each set (cpu.toml)
    assert line_of((0, 1024, 1000, "read"), timing=None).seconds == pytest.approx(LATENCY_S / (2.5 * 4))


def test_stages_of_a_run_follow_each_other():
    # half of the lines step by 4096, which one set takes: 10 cycles; half by 1024, beside nothing else: 4
    first = Walk(line=1, text="A[k]", loop=0, stride_bytes=4096, misses=500, kind="read", stage=7)
    then = replace(first, stride_bytes=1024, stage=5)
    level = LevelCounts(
        name="L1", cache=L1, hits=0, misses=1000, evictions=0, writebacks=0, read_bytes=64_000, write_bytes=0
    )
    assert of_walks(level, first, then).seconds == pytest.approx(7e-9)
