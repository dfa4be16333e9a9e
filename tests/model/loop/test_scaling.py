"""Several threads on a machine of many cores: never slower but by what is named, and no more than is shared."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rooflab
from rooflab.model.loop import teams, times
from rooflab.types.loop import CoreLoop, LineCounts, LoopReport, Region
from rooflab.types.machine import is_main_memory
from rooflab.types.simulation import Cache, LevelCounts, Simulation
from rooflab.types.team_timing import TeamTiming

CORES = 64
TEAM = TeamTiming(layer="omp", threads=(2, CORES), pinned_s=(2e-6, 8e-6))
APART = ("fork and join", "pieces handed out", "lines taken from one another")  # what more threads take more of
TIMES = {"L1": 64, "L2": 64, "L3": 24, "DRAM": 6}  # what all cores attain ÷ what one does


@pytest.fixture(scope="module")
def large(root):
    """The guest's core 64 times, with memory that six of them saturate."""
    guest = rooflab.machine(root / "examples" / "zen4-guest.toml")
    levels = []
    for level in guest.levels:
        ones = {(rate.what, rate.basis): rate.value for rate in level.rates if rate.scope == "core"}
        rates = tuple(
            msgspec.structs.replace(rate, value=TIMES[level.name] * ones[rate.what, rate.basis], threads=CORES)
            if rate.scope == "all" and (rate.what, rate.basis) in ones
            else rate
            for rate in level.rates
        )
        levels.append(msgspec.structs.replace(level, rates=rates if level.name in TIMES else level.rates))
    kinds = {each: (each.dtype, each.engine, each.what, each.basis) for each in guest.peaks}
    ones = {kinds[each]: each.value for each in guest.peaks if each.scope == "core"}
    peaks = tuple(
        msgspec.structs.replace(each, value=CORES * ones[kind], threads=CORES)
        if each.scope == "all" and (kind := kinds[each]) in ones
        else each
        for each in guest.peaks
    )
    return msgspec.structs.replace(
        guest, levels=tuple(levels), peaks=peaks, compute_units=CORES, curves=(), team=TEAM, checks=()
    )


def report(adds, read, inside=1.0, largest=0.0, entries=1):
    """Additions and bytes from the memory in line 3, a share of them not `inside` of prange in line 9."""
    levels = tuple(
        LevelCounts(
            name=name, cache=Cache(capacity, 8, name=name), hits=0, misses=read // 64, evictions=0, writebacks=0,
            read_bytes=read, write_bytes=0,
        )
        for name, capacity in (("L1", 1 << 15), ("L2", 1 << 20), ("L3", 1 << 24))
    )  # fmt: skip
    near = dict.fromkeys(("L1", "L2", "L3"), 1000)
    shares = (2, 4, 8, 16, 32, 64)
    return LoopReport(
        name="t", where="t.py:1", arguments={}, flop_by=(), accesses=read // 8, accessed_bytes=read,
        stored_bytes=0,
        simulation=Simulation(name="t", levels=levels, accesses=read // 8),
        lines=tuple(
            LineCounts(line=line, text="", flop=0, accesses=round(1000 * share),
                       misses={name: round(each * share) for name, each in near.items()})
            for line, share in ((3, inside), (9, 1 - inside))
        ),
        core_loops=tuple(
            CoreLoop(line=line, passes=10**6, entries=1, operations={"fp add": adds * share})
            for line, share in ((3, inside), (9, 1 - inside)) if share
        ),
        regions=(Region(line=2, last_line=4, variable="i", entries=entries, trips=640 * entries, threads=shares,
                        shares=tuple(max(1 / n, largest) for n in shares)),),
    )  # fmt: skip


def test_what_is_shared_is_no_faster_than_all_attain(large):
    made = report(adds=1e6, read=1 << 30)
    found = {each.threads: each for each in teams.scaling(made, large, lambda n: times.predict(made, large, n))}
    # L3 gives all of them 24 times what it gives one, the memory six times: it is the longer way by far
    assert 5 < found[CORES].speedup <= 24
    assert found[CORES].speedup == pytest.approx(found[32].speedup, rel=0.05)
    assert found[CORES].limit == "DRAM"
    assert any(is_main_memory(level) for level in large.levels)


def test_what_each_core_has_for_itself_goes_on_dividing(large):
    made = report(adds=1e9, read=0)
    found = teams.scaling(made, large, lambda n: times.predict(made, large, n))
    assert [each.threads for each in found] == [1, 2, 4, 8, 16, 32, 64]
    for each in found:
        assert each.speedup == pytest.approx(each.threads, rel=0.05)


@given(
    adds=st.floats(1e3, 1e10),
    read=st.integers(0, 1 << 34),
    inside=st.sampled_from((0.25, 0.5, 0.9, 1.0)),
    largest=st.sampled_from((0.0, 0.1, 0.5)),
    entries=st.integers(1, 10_000),
)
@settings(max_examples=60, deadline=None)
def test_more_threads_take_longer_only_by_what_is_named(large, adds, read, inside, largest, entries):
    made = report(adds, read, inside, largest, entries)
    before = None
    for threads in (1, 2, 3, 4, 7, 8, 16, 40, 64):
        found = times.predict(made, large, threads)
        own_s = found.time_s - sum(found.lost_s.get(name, 0.0) for name in APART)
        assert all(seconds >= -1e-12 for seconds in found.lost_s.values())
        if before is not None:
            assert own_s <= before * (1 + 1e-9)
        before = own_s
