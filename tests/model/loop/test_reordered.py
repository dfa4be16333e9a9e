"""Loops that the compiler runs in another order than the source: a miss at most for each compiled access."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rooflab.model.loop import reordered
from rooflab.types.loop import CoreLoop, LoopReport, Walk
from rooflab.types.simulation import Cache, LevelCounts, Simulation

L1, L2 = Cache(32768, 8, name="L1"), Cache(1 << 20, 8, name="L2")


def level(cache, misses):
    return LevelCounts(
        name=cache.name, cache=cache, hits=0, misses=misses, evictions=0, writebacks=0,
        read_bytes=64 * misses, write_bytes=16 * misses,
    )  # fmt: skip


def report(operations, misses=(8000, 900)):
    levels = tuple(level(cache, count) for cache, count in zip((L1, L2), misses, strict=True))
    return LoopReport(
        name="t",
        where="t.c:1",
        arguments={},
        flop_by=(),
        accesses=8000,
        accessed_bytes=64_000,
        stored_bytes=0,
        simulation=Simulation(name="t", levels=levels, accesses=8000),
        core_loops=(CoreLoop(line=1, passes=500, entries=1, operations=operations),),
        strided={"L1": 8000},
        walks=(Walk(line=1, text="f[q * n + i]", loop=0, stride_bytes=4096, misses=8000, kind="read"),),
    )


def test_a_vector_of_eight_trips_misses_a_line_once():
    # 8,000 accesses each to a line of its own, of which vectors load eight at once
    made = reordered.as_compiled(report({"load wide": 500.0, "store vector": 450.0, "store split": 50.0}))
    first, second = made.simulation.levels
    assert (first.misses, first.read_bytes, first.write_bytes) == (1000, 64_000, 16_000)
    assert second == level(L2, 900)
    assert made.strided == {}
    assert made.walks == ()


@pytest.mark.parametrize(
    "operations",
    [
        {"load": 6000.0, "store": 2000.0},  # as many as are missed
        {"load wide": 1000.0, "call memcpy": 1.0},  # what that accesses is not known
        {},
    ],
)
def test_all_other_loops_are_as_they_were_counted(operations):
    plain = report(operations)
    assert reordered.as_compiled(plain) is plain


def test_functions_of_the_maths_library_access_nothing():
    assert reordered.is_reordered(report({"load wide": 1000.0, "call exp fp64": 8000.0}))


def test_what_is_as_compiled_stays_so():
    once = reordered.as_compiled(report({"load wide": 1000.0}))
    assert reordered.as_compiled(once) is once
    assert reordered.accesses(replace(once, core_loops=())) == 0.0
