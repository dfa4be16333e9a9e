"""Caches that cannot be, and what a simulation adds up to."""

from __future__ import annotations

import pytest

from rooflab import Cache, Simulation, simulate, streams
from rooflab.errors import RooflabError

LEVELS = [Cache(1024, 2), Cache(8192, 4)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"capacity_bytes": 0}, "capacity_bytes is 0, expected a whole number above zero"),
        ({"capacity_bytes": 32_000}, "capacity_bytes is 32,000, not a whole number of sets of 8 × 64 bytes"),
        ({"capacity_bytes": 32_000}, "31,744 or 32,256 bytes are"),
        ({"capacity_bytes": 4096, "ways": 0}, "ways is 0, expected"),
        ({"capacity_bytes": 4800, "ways": 1, "line_bytes": 48}, "line_bytes is 48, expected a power of two"),
        ({"capacity_bytes": 4096, "sector_bytes": 128}, "expected 1 to 32 sectors a line"),
        ({"capacity_bytes": 4096, "policy": "mru"}, "unknown policy of cache 'mru'"),
        ({"capacity_bytes": 12 * 64, "ways": 12, "policy": "plru"}, "12 ways, expected a power of two up to 64"),
        ({"capacity_bytes": 4096, "policy": "qlru_h00_m1_r0_u2"}, "may find no line to replace"),
        (
            {"capacity_bytes": 4096, "prefetch": ("next",)},
            "unknown prefetch of cache 'next'; did you mean next-line",
        ),
    ],
)
def test_a_cache_that_cannot_be(fields, message):
    with pytest.raises(RooflabError, match=message):
        Cache(**fields)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "levels is empty"),
        ([Cache(1024, 2, inclusion="inclusive")], "L1: inclusion is 'inclusive', but there is no nearer level"),
        ([Cache(1024, 2, 128), Cache(8192, 4, 64)], "L2: reads 64 bytes at a time, expected at least the 128"),
        ([Cache(1024, 2), Cache(8192, 4, 128, inclusion="exclusive")], "expected the nearer level's line length"),
    ],
)
def test_levels_that_do_not_fit(levels, message):
    with pytest.raises(RooflabError, match=message):
        simulate(streams.sequential(4096), levels=levels)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: streams.sequential(0), "sequential: nbytes is 0, expected a whole number above zero"),
        (lambda: streams.matmul(8, order="iij"), "unknown order of matmul 'iij'"),
        (lambda: streams.stencil2d(2), "have no interior"),
        (lambda: streams.spmv_csr([0, 2], [1]), "indptr ends in 2, expected the 1 of indices"),
    ],
)
def test_a_stream_that_cannot_be(make, message):
    with pytest.raises(RooflabError, match=message):
        make()


def test_a_simulation_survives_its_dictionary():
    found = simulate(streams.matmul(16), levels=LEVELS, classify=True)
    assert Simulation.from_dict(found.to_dict()) == found
    with pytest.raises(RooflabError, match="not a simulation"):
        Simulation.from_dict({"name": "x"})


def test_parts_add_up_to_the_whole():
    found = simulate(streams.matmul(32), levels=LEVELS, classify=True)
    for level in found.levels:
        assert level.requests == sum(each.requests for each in level.references)
        assert level.misses == sum(each.misses for each in level.arrays)
        assert level.misses == level.compulsory + level.capacity + level.conflict
    near, far = found.levels
    # requests of L2 are what L1 missed and wrote back, but for what was dirty at the end, which asks nothing
    at_the_end = sum(each.writebacks for each in near.references if each.name.endswith("dirty at the end"))
    assert far.requests == near.misses + near.writebacks - at_the_end
    # Line l is in set l mod 8 and rows are 4 lines: A[31] and C[31] lie in sets 4 to 7. 8 columns of B are line g
    # of each row, in sets g and g + 4, and sweep both 16 times each: nothing older stays. Once they are done, set
    # g + 4 is asked for its lines of A[31] and C[31] alone, which its 2 ways hold: the 4 lines of C[31] are left.
    assert at_the_end == 4
    assert found.memory_read_bytes == found.level("l2").read_bytes
    assert [each.level for each in found.traffic] == ["L2", "memory"]
    assert {each.basis for each in found.traffic} == {"simulated"}


def test_a_machine_gives_its_caches_and_times():
    found = simulate(streams.triad(10_000), machine="epyc-7763")
    assert [level.cache.capacity_bytes for level in found.levels[:2]] == [32 << 10, 512 << 10]
    assert found.assumptions
    memory = found.times[-1]
    assert memory.nbytes == found.memory_read_bytes + found.memory_write_bytes
    assert memory.time_s == pytest.approx(memory.nbytes / memory.bytes_per_s)
