"""What misses wait for: walks of page tables; by hand."""

from __future__ import annotations

import msgspec
import pytest

from rooflab.model.device.constants import load_family
from rooflab.model.loop import waiting
from rooflab.types.loop import Code, LoopReport, Static
from rooflab.types.machine import Curve, Level, Machine, Source
from rooflab.types.measured import Tlb
from rooflab.types.simulation import Cache, LevelCounts, Simulation
from rooflab.units import MIB

HERE = Source("measured", "a test")

AT_ONCE = load_family("cpu")("loop.walks_at_once")


def report(stride=0, trips=0, entries=1, **more):
    level = LevelCounts(
        name="L1",
        cache=Cache(32 * 1024, 8, name="L1"),
        hits=0,
        misses=1000,
        evictions=0,
        writebacks=0,
        read_bytes=64_000,
        write_bytes=0,
    )
    code = Code(lanes=1, loads=1, stores=0, flop=0, read_bytes=None, write_bytes=None, why_not=None)
    return LoopReport(
        name="t",
        where="t.py:1",
        arguments={},
        flop_by=(),
        accesses=1000,
        accessed_bytes=8000,
        stored_bytes=0,
        simulation=Simulation(name="t", levels=(level,), accesses=1000),
        static=Static(stride_bytes=stride),
        code=msgspec.structs.replace(code, trips=trips, entries=entries),
        **more,
    )


def machine(huge="never", steps=True):
    """Loads of more than 64 pages wait 2 ns, of 2,048 as well, of 4,096 14 ns; spread in huge pages 8 ns."""
    names = {"4 KiB pages": (0.0, 2e-9, 2e-9, 14e-9)}
    if steps:
        names["4 KiB steps in 2 MiB pages"] = (0.0, 2e-9, 2e-9, 8e-9)
    curves = tuple(
        Curve(
            name=f"translation wait, {name}",
            x_unit="page",
            y_unit="s",
            scope="core",
            x=(64.0, 128.0, 2048.0, 4096.0),
            best=waits,
            median=waits,
            source=HERE,
        )
        for name, waits in names.items()
    )
    return Machine(
        name="m",
        kind="cpu",
        source=HERE,
        curves=curves,
        tlbs=(Tlb(page_bytes=4096, source=HERE, entries=(64, 2048), miss_s=(2e-9, 14e-9)),),
        environment={"huge_pages": huge},
    )


def test_gathers_walk_several_tables_at_once():
    # 16 MiB are 4,096 pages: 1,000 gathers wait 12 ns more than for the first buffer's misses, some at once
    loop = report(gathered={"L1": 1000}, scattered_bytes=16 * MIB)
    assert waiting.walks_s(loop, machine()) == pytest.approx(1000 * 12e-9 / AT_ONCE)


def test_of_more_pages_than_were_measured_those_miss_that_are_not_held():
    # 14 ns where half of 4,096 pages are held; of 16,384 an eighth is
    loop = report(gathered={"L1": 1000}, scattered_bytes=64 * MIB)
    each_s = 14e-9 * (7 / 8) / (1 / 2) - 2e-9
    assert waiting.walks_s(loop, machine()) == pytest.approx(1000 * each_s / AT_ONCE)


def test_loads_of_whole_lines_walk_fewer_tables_at_once():
    wide = load_family("cpu")("loop.walks_at_once_wide")
    assert waiting.walks_at_once(1.0) == pytest.approx(wide)
    assert waiting.walks_at_once(0.5) == pytest.approx(2 / (1 / wide + 1 / AT_ONCE))


@pytest.mark.parametrize(("huge", "steps", "each_s"), [("madvise", True, 6e-9), ("madvise", False, 0.0)])
def test_in_huge_pages_it_is_what_was_measured_there(huge, steps, each_s):
    loop = report(gathered={"L1": 1000}, scattered_bytes=16 * MIB)
    assert waiting.walks_s(loop, machine(huge, steps)) == pytest.approx(1000 * each_s / AT_ONCE)


def test_a_column_over_more_pages_than_are_held_walks_for_each_access():
    # 4,096 rows of 8 KiB: each access of a column lies in a page of its own
    loop = report(8192 + 64, trips=10 * 4096, entries=10, strided={"L1": 1000})
    assert waiting.walks_s(loop, machine()) == pytest.approx(1000 * 12e-9 / AT_ONCE)
    # 2,048 rows are held
    shorter = report(8192 + 64, trips=10 * 2048, entries=10, strided={"L1": 1000})
    assert waiting.walks_s(shorter, machine()) == 0.0


def test_a_chain_waits_for_what_its_latency_over_dense_memory_has_not():
    # touched are 8 MiB, 2,048 pages, but spread over 16 MiB: each load waits 12 ns more
    loop = report(chased={"L1": 1000}, scattered_bytes=16 * MIB, footprint_bytes=8 * MIB)
    assert waiting.walks_s(loop, machine()) == pytest.approx(1000 * 12e-9)


def test_rows_elsewhere_wait_for_their_first_lines_but_not_for_what_the_core_has_begun():
    guest = msgspec.structs.replace(
        machine(), levels=(Level(name="DRAM", source=HERE, capacity_bytes=1e12, latency_s=100e-9),)
    )
    loop = report(jumps={"L1": 1000})
    # two lines miss before the third is fetched ahead
    assert waiting.jumps_s(loop, guest, 50e-9) == pytest.approx(1000 * 150e-9)
    assert waiting.jumps_s(loop, guest, 300e-9) == 0.0
    assert waiting.jumps_s(report(), guest, 0.0) == 0.0


def test_a_machine_without_measured_walks_has_none():
    loop = report(gathered={"L1": 1000}, scattered_bytes=16 * MIB)
    assert waiting.walks_s(loop, msgspec.structs.replace(machine(), curves=())) == 0.0


def test_one_disturbed_point_of_the_sweep_makes_no_chain_slower():
    # 2 MiB: 12 ns at 1 MiB, 14 at 4; a neighbour came in between
    curve = Curve(
        name="latency",
        x_unit="byte",
        y_unit="s",
        scope="core",
        x=(1.0 * MIB, 2.0 * MIB, 4.0 * MIB),
        best=(12e-9, 60e-9, 14e-9),
        median=(12e-9, 60e-9, 14e-9),
        source=HERE,
    )
    memory = Level(name="DRAM", source=HERE, latency_s=10e-9)
    chased = report(chased={"L1": 1000}, scattered_bytes=2 * MIB)
    guest = msgspec.structs.replace(machine(), curves=(curve,), levels=(memory,))
    assert waiting.chased_slower(chased, guest) == pytest.approx(1.4)
