"""What crosses to the memory where the last cache keeps a part of larger data: by hand."""

from __future__ import annotations

import msgspec
import pytest

from rooflab.machines.served_share import Served
from rooflab.model.loop import kept
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Level, Machine, Source
from rooflab.types.simulation import Cache, LevelCounts, Simulation
from rooflab.units import MIB

CAPACITY = 16 * MIB
HERE = Source("measured", "a test")
MACHINE = Machine(
    name="m", kind="cpu", source=HERE, levels=(Level(name="L3", source=HERE, capacity_bytes=float(CAPACITY)),)
)
SERVED = Served("L3", (16.0 * MIB, 32.0 * MIB, 64.0 * MIB), (1.0, 0.5, 0.0), 1e9)


@pytest.fixture(autouse=True)
def measured(monkeypatch):
    monkeypatch.setattr(kept.served_share, "of_last_cache", lambda machine, scope="core": SERVED)


def level(name, capacity, hits, misses, written=0):
    return LevelCounts(
        name=name,
        cache=Cache(capacity, 8, name=name),
        hits=hits,
        misses=misses,
        evictions=0,
        writebacks=0,
        read_bytes=misses * 64,
        write_bytes=written,
    )


def report(footprint, hits=0, misses=0, written=0, capacity=CAPACITY, **more):
    asked = hits + misses
    levels = (level("L2", MIB, 0, asked, written), level("L3", capacity, hits, misses, written))
    return LoopReport(
        name="t",
        where="t.py:1",
        arguments={},
        flop_by=(),
        accesses=asked,
        accessed_bytes=asked * 8,
        stored_bytes=0,
        simulation=Simulation(name="t", levels=levels, accesses=asked),
        footprint_bytes=footprint,
        **more,
    )


def test_of_streams_gone_round_the_measured_share_is_kept():
    # 32 MiB once round: half a million lines, all of which the simulated cache misses; half of them are served
    lines = 32 * MIB // 64
    loop = report(32 * MIB, misses=lines, written=8 * MIB)
    share = kept.of_run(loop, MACHINE)
    assert share == kept.Kept(0.5, 0.0, 1.0)
    last = kept.expected(loop, share).simulation.levels[-1]
    assert (last.misses, last.read_bytes, last.write_bytes) == (lines // 2, 16 * MIB, 4 * MIB)


def test_what_is_picked_at_random_is_kept_by_as_much_of_it_as_the_cache_holds():
    # of 32 MiB the simulated cache hits half already, which is all that was measured to be kept
    loop = report(32 * MIB, hits=500, misses=500, gathered={"L2": 1000, "L3": 500})
    share = kept.of_run(loop, MACHINE)
    assert share.scattered == pytest.approx(0.0)
    assert kept.expected(loop, share).gathered == {"L2": 1000, "L3": 500}


def test_what_comes_round_late_finds_the_lines_of_neighbours():
    # 16 MiB once round in 16.8 ms: at 1 GB/s 16 MiB of theirs came between, and half is left
    loop = report(CAPACITY, hits=CAPACITY // 64)
    assert kept.of_run(loop, MACHINE).hit == 1.0
    share = kept.of_run(loop, MACHINE, 16 * MIB / 1e9)
    assert share.hit == pytest.approx(0.5)
    last = kept.expected(loop, share).simulation.levels[-1]
    assert last.misses == CAPACITY // 64 // 2
    assert last.read_bytes == CAPACITY // 2


def test_more_rounds_in_the_same_time_come_round_sooner():
    # sixteen rounds: 1 MiB of the neighbours' in each
    loop = report(CAPACITY, hits=16 * CAPACITY // 64)
    assert kept.of_run(loop, MACHINE, 16 * MIB / 1e9).hit == pytest.approx(SERVED.of(17 * MIB))


def test_what_data_pick_from_few_bytes_comes_round_often():
    # 16 MiB in order, half of them kept in so long a run; 1 MiB is gathered from 16 times, once in 1 ms
    lines = CAPACITY // 64
    loop = report(CAPACITY, hits=2 * lines, gathered={"L2": lines, "L3": 0}, scattered_bytes=MIB)
    share = kept.of_run(loop, MACHINE, 32 * MIB / 1e9)
    assert (share.hit, share.again) == (pytest.approx(0.5), 1.0)
    found = kept.expected(loop, share)
    assert found.gathered == {"L2": lines, "L3": 0}
    assert found.simulation.levels[-1].misses == lines // 2


@pytest.mark.parametrize("change", [{"footprint": 0}, {"capacity": 8 * MIB}])
def test_other_caches_than_those_measured_are_as_simulated(change):
    loop = report(**{"footprint": 32 * MIB, "misses": 1000, **change})
    assert kept.of_run(loop, MACHINE, 1.0) == kept.AS_SIMULATED
    assert kept.expected(loop, kept.AS_SIMULATED) is loop


def test_a_warm_run_is_what_is_asked_for():
    loop = report(32 * MIB, misses=1000)
    warm = report(32 * MIB, misses=400).simulation
    found = kept.expected(msgspec.structs.replace(loop, warm=warm), kept.Kept(0.5, 0.0, 1.0))
    assert found.warm is not None
    assert found.warm.levels[-1].misses == 200
